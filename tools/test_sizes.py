"""tools/sizes.py: rungs that cannot finish are left out, and no other."""

import contextlib
import io
import unittest

import sizes


class Sizes(unittest.TestCase):
    def test_slow_rungs_end_where_their_time_passes_the_limit(self):
        flops = {"fast": 50e12, "slow": 0.5e12, "on the host": None}  # at 4096³ 30 runs of the slow one take 8 s
        asked = {}

        def run(size, rungs):
            asked[size] = rungs
            rows = [{"rung": name} if rate is None else {"rung": name, "ms": 1e3 * 2 * size**3 / rate}
                    for name, rate in flops.items() if rungs is None or name in rungs]
            return 0, rows

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.assertEqual(sizes.run_sizes("01", run), 0)
        self.assertEqual(list(asked), sizes.SIZES)
        self.assertIn("slow", asked[2048])
        self.assertNotIn("slow", asked[3072])
        self.assertIn("fast", asked[8192])
        self.assertEqual(said.getvalue().count("'slow' left out from 3072³ on"), 1)

    def test_a_failing_program_ends_the_run(self):
        self.assertEqual(sizes.run_sizes("01", lambda size, rungs: (3, [])), 3)


if __name__ == "__main__":
    unittest.main()
