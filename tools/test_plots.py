"""python3 -m unittest discover -s tools"""

import unittest

import pictures
import plots
import request_rule


class Requests(unittest.TestCase):
    """What is drawn is what the lesson's tests assert of the kernels' layouts."""

    def test_wavefronts(self):
        self.assertEqual([request_rule.wavefronts(a, 4, False) for _, a in pictures.STORES], [8, 4, 1, 1])
        self.assertEqual([request_rule.wavefronts(a, 4, True) for _, a in pictures.COLUMNS], [32, 1, 1])
        self.assertEqual([request_rule.wavefronts(pictures.column_of_float4(n), 16, True) for n in (32, 36)], [32, 4])


class Rows(unittest.TestCase):
    def test_sizes_leave_out_baselines_candidates_and_other_shapes(self):
        row = {"step": "04", "gflops": 2000.0, "ms": 1.0, "peer": "cuBLAS", "shape": "64×64×64"}
        rows = [{**row, "rung": "03 padded"}, {**row, "rung": "04 tuned"}, {**row, "rung": "04 tile 64×64"},
                {**row, "rung": "04 tuned", "shape": "64×64×32"}, {**row, "rung": "cuBLAS"},
                {**row, "rung": "cuBLAS", "gflops": 3000.0}, {"step": "04", "rung": "04 wrong", "shape": "64×64×64"}]
        self.assertEqual(plots.sizes_of(rows), {"04 tuned": {64: 2.0}, "cuBLAS": {64: 3.0}})


@unittest.skipUnless(pictures.matplotlib, "matplotlib is not installed")
class Drawing(unittest.TestCase):
    def test_every_picture_that_needs_no_run(self):
        for shade in pictures.SHADES:
            for figure in (pictures.banks(shade, pictures.STORES, False, 8, "lanes"), pictures.quarters(shade),
                           pictures.time_line(shade)):
                self.assertTrue(figure.axes)
                pictures.plt.close(figure)


if __name__ == "__main__":
    unittest.main()
