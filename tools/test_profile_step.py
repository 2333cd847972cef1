"""python3 -m unittest discover -s tools"""

import io
import json
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import journal
import profile_step

CSV = (Path(__file__).parent / "test_data/ncu_raw.csv").read_text()  # in ncu's form; the counts are made up


class Parse(unittest.TestCase):
    def setUp(self):
        self.kernels = profile_step.parse(CSV)

    def test_names_units_and_kernels_of_the_check(self):
        self.assertEqual([k["kernel"] for k in self.kernels],
                         ["gemm_padded_kernel<Plain<8, 128>>", "transpose_naive_kernel", "old_ncu_kernel"])
        self.assertAlmostEqual(self.kernels[0]["time_us"], 4580)  # msecond in the file
        self.assertEqual(self.kernels[0]["conflicts"], 117440512)

    def test_requests(self):
        gemm, transpose, old = self.kernels
        self.assertEqual((gemm["sectors_per_load"], gemm["wavefronts_per_load"], gemm["wavefronts_per_store"]), (4, 1, 4.5))
        self.assertEqual((transpose["sectors_per_store"], transpose["wavefronts_per_load"]), (32, None))  # no request
        self.assertIsNone(old["l1"])  # n/a in the file

    def test_verdicts_give_their_reason(self):
        gemm, transpose, old = (profile_step.verdict(k) for k in self.kernels)
        self.assertEqual((gemm[0], transpose[0], old[0]), ("compute-bound", "memory-bound", "latency-bound"))
        self.assertIn("SM 66 %", gemm[1])
        self.assertIn("DRAM is the busiest", transpose[1])
        self.assertIn("10 % of the warps", old[1])

    def test_causes(self):
        self.assertIn("78 % of the wavefronts of shared stores are conflicts", profile_step.causes(self.kernels[0]))
        self.assertIn("a global store touches 32.0 sectors", profile_step.causes(self.kernels[1]))
        self.assertEqual(profile_step.causes(self.kernels[2]), "")

    def test_shared_memory_can_be_the_bound(self):
        word, why = profile_step.verdict({**self.kernels[0], "l1": 95.0})
        self.assertEqual(word, "memory-bound")
        self.assertIn("L1 and shared memory are the busiest", why)


class Run(unittest.TestCase):
    """The whole command with a stand-in for ncu."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "build/bin").mkdir(parents=True)
        (self.root / "tools").mkdir()
        (self.root / "build/why_no_cuda.txt").write_text("")
        self.program("tools/build.sh", "exit 0")
        (self.root / "Makefile").write_text("lab03:\n\t@true\n")
        self.program("build/bin/step03", "echo 'first  (baseline)'; echo second")
        (self.root / "ncu.csv").write_text(CSV)
        rows = json.dumps({"machine": {"name": "NVIDIA H200"}, "rows": []})
        self.program("ncu", f"cat {self.root}/ncu.csv; for file; do :; done; echo '{rows}' >$file")  # the last argument
        for module in (profile_step, journal):
            patch = mock.patch.object(module, "ROOT", self.root)
            patch.start()
            self.addCleanup(patch.stop)
        for patch in (mock.patch.object(journal, "FILE", self.root / "results/journal.csv"),
                      mock.patch.object(profile_step, "find_ncu", lambda: str(self.root / "ncu"))):
            patch.start()
            self.addCleanup(patch.stop)

    def program(self, name, body):
        (self.root / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.root / name).chmod(0o755)

    def profile(self, *arguments):
        out = io.StringIO()
        with redirect_stdout(out), mock.patch("sys.argv", ["profile_step.py", "03", *arguments]):
            status = profile_step.main()
        return status, out.getvalue()

    def test_a_line_per_rung_and_the_journal(self):
        with mock.patch.dict("os.environ", {"CHANGE": "pad by 4"}):
            status, out = self.profile("--save")
            self.profile("--rung", "second")
        self.assertEqual(status, 0)
        self.assertIn("first · gemm_padded_kernel", out)
        rows = json.loads((self.root / "results/h200-counters.json").read_text())["rows"]
        self.assertEqual([(r["rung"], r["verdict"]) for r in rows], [("first", "compute-bound"), ("second", "compute-bound")])
        lines = journal.lines(self.root / "results/journal.csv")
        self.assertEqual(len(lines), 4)
        self.assertIn("pad by 4", lines[3])
        self.assertIn("+0.0 %", lines[3])

    def test_closed_counters_are_explained_and_the_executor_counts(self):
        self.program("ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - no permission' >&2; exit 1")
        with mock.patch.object(profile_step.subprocess, "run", wraps=profile_step.subprocess.run) as run:
            status, out = self.profile()
        self.assertEqual(status, 0)
        for word in ("WSL2", "container", "bare metal", "executor's counts"):
            self.assertIn(word, out)
        self.assertEqual(run.call_args.args[0], ["make", "--no-print-directory", "lab03", "LINES=1", "ARGS="])
        self.assertFalse((self.root / "results/journal.csv").exists())

    def test_ncu_that_fails(self):
        self.program("ncu", "echo broken >&2; exit 3")
        status, out = self.profile()
        self.assertEqual(status, 1)
        self.assertIn("broken", out)

    def test_an_old_ncu_without_some_counters(self):
        self.program("ncu", f"case \"$*\" in *smsp__sass*) echo 'Failed to find metric x'; exit 1;; esac; cat {self.root}/ncu.csv")
        self.assertEqual(self.profile()[0], 0)


if __name__ == "__main__":
    unittest.main()
