"""python3 -m unittest discover -s tools"""

import math
import unittest

import pictures
import plot_angles
from plot_angles import FORMATS, worst_error


class Errors(unittest.TestCase):
    def test_formats(self):
        self.assertEqual([plot_angles.bf16(v) for v in (257.0, 259.0, 256.5)], [256.0, 260.0, 256.0])
        self.assertEqual([plot_angles.fp16(v) for v in (2049.0, 65504.0, 65520.0)], [2048.0, 65504.0, math.inf])
        self.assertEqual(plot_angles.fp32(16777217.0), 16777216.0)

    def test_what_the_program_prints(self):
        """The table that `make lab07` prints, to its two digits."""
        table = {"fp16": ["9.7e-02", "1.4e+00", "2.0e+00", "nan"], "bf16": ["7.9e-01", "2.0e+00", "2.0e+00", "2.0e+00"],
                 "fp32": ["1.1e-05", "1.7e-04", "2.2e-03", "1.4e-02"], "two floats, reduced": ["3.3e-07", "2.9e-07", "2.9e-07", "2.9e-07"]}
        for name, wanted in table.items():
            self.assertEqual([f"{worst_error(FORMATS[name], p):.1e}" for p in (255, 4095, 40959, 262143)], wanted, name)

    @unittest.skipUnless(pictures.matplotlib, "matplotlib is not installed")
    def test_drawing(self):
        figure = plot_angles.draw()
        self.assertEqual(len(figure.axes[0].get_legend().get_texts()), 4)
        pictures.plt.close(figure)


if __name__ == "__main__":
    unittest.main()
