#!/usr/bin/env python3
"""Tests of compare_counters.py with a program in place of ncu and one in place of a lab. No GPU, nothing built."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import compare_counters
import counters

METRICS = [metrics[0] for metrics in counters.COUNTERS.values()]
NAMES = ["void gemm<Tile<(int)8, (bool)1>>(const float *, float *)", "other(int)"]


def ncu_csv(launches: list[tuple]) -> str:
    """What ncu prints for launches of (kernel, the six counters)."""
    lines = ["==PROF== Connected", '"ID","Kernel Name","' + '","'.join(METRICS) + '"', '"","","' + '","'.join([""] * 6) + '"']
    for number, (name, *values) in enumerate(launches):
        lines.append(f'"{number}","{name}",' + ",".join(f'"{value:,}"' for value in values))
    return "\n".join(lines)


def lab_row(rung: str, kernel: str, launches: int, values: list[int], checked: bool = True) -> dict:
    ld, sectors, st, st_sectors, waves, st_waves = values
    return {"rung": rung, "shape": "8×8", "checked": checked, "counts": {"kernels": [{
        "kernel": kernel, "launches": launches,
        "global": {"load": {"requests": ld, "sectors": sectors}, "store": {"requests": st, "sectors": st_sectors}},
        "shared": {"load": {"wavefronts": waves}, "store": {"wavefronts": st_waves}}}]}}


ROWS = [lab_row("one", "gemm<Tile<8, true> >", 2, [20, 80, 2, 8, 64, 32]), lab_row("two", "gemm<Tile<8, true> >", 1, [5] * 6)]
LAUNCHES = [(NAMES[0], 10, 40, 1, 4, 32, 16), (NAMES[1], 1, 1, 1, 1, 1, 1), (NAMES[0], 10, 40, 1, 4, 32, 16),
            (NAMES[0], 5, 5, 5, 5, 5, 5)]


class Names(unittest.TestCase):
    def test_both_demanglers_agree(self):
        for ncu, lab in [
            ("void gemm<Tile<(int)8, (bool)1>>(const float *, int)", "gemm<Tile<8, true> >"),
            ("rope<__nv_bfloat16, (int)4, (bool)0>(Heads<__nv_bfloat16>)", "rope<__nv_bfloat16, 4, false>"),
            ("void k<(unsigned int)8, (Pairing)1, (int)-1>(int)", "k<8u, (Pairing)1, -1>"),
            ("void <unnamed>::copy<float>(T1 *)", "(anonymous namespace)::copy<float>"),
            ("simple(const float *)", "simple"),
        ]:
            self.assertEqual(counters.plain_name(ncu), counters.plain_name(lab))
        self.assertNotEqual(counters.plain_name("k<8>"), counters.plain_name("k<9>"))
        self.assertEqual(counters.kernel_function("a::gemm<Tile<8,true>>"), "gemm")


class Pairing(unittest.TestCase):
    def test_launches_are_taken_in_order_and_summed(self):
        kernels = counters.lab_kernels(ROWS)
        kernels, problems = counters.pair(kernels, counters.parse_ncu(ncu_csv(LAUNCHES[:1] + LAUNCHES[2:])))
        self.assertEqual(problems, [])
        self.assertEqual(counters.explain([{"kernels": kernels}]), 0)
        self.assertEqual(kernels[0]["ncu"]["shared.load.wavefronts"], 64)
        self.assertEqual(kernels[1]["ncu"]["global.load.requests"], 5)

    def test_too_few_or_too_many_launches_are_told_and_the_rest_is_paired(self):
        for launches, pairs, word in [(LAUNCHES[:3], 1, "0 launches are left"), (LAUNCHES + LAUNCHES[-1:], 2, "1 times more")]:
            paired, problems = counters.pair(counters.lab_kernels(ROWS), counters.parse_ncu(ncu_csv(launches)))
            self.assertEqual(len(paired), pairs)
            self.assertIn(word, problems[0])

    def test_a_metric_without_a_number_is_told(self):
        text = ncu_csv(LAUNCHES).replace('"5","5","5","5","5","5"', '"5","n/a","5","5","5","5"')
        paired, problems = counters.pair(counters.lab_kernels(ROWS), counters.parse_ncu(text))
        self.assertEqual(len(paired), 1)
        self.assertRegex(problems[0], "no number for l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")

    def test_a_wrong_result_of_the_lab_is_trouble(self):
        with self.assertRaisesRegex(counters.Trouble, "wrong"):
            counters.lab_kernels([lab_row("one", "k", 1, [1] * 6, checked=False)])

    def test_asynchronous_copies_add_to_the_stores_to_shared_memory(self):  # ncu's loads hold them already
        kernel = {"metrics": {metric: 1 for metrics in counters.COUNTERS.values() for metric in metrics}}
        self.assertEqual([counters.hardware(kernel, c) for c in counters.COUNTERS], [1, 1, 1, 1, 1, 2])


class Programs(unittest.TestCase):
    """The whole command, with scripts as ncu, step01 and lab01."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        (self.folder / "bin").mkdir()
        self.plan, compare_counters.PLAN = compare_counters.PLAN, [("01", ["--shape", "8x8"])]
        self.explained, counters.EXPLAINED = counters.EXPLAINED, []
        self.script("bin/step01", "")
        self.lab(ROWS)
        (self.folder / "ncu.csv").write_text(ncu_csv(LAUNCHES[:1] + LAUNCHES[2:]))
        self.script("ncu", f'''
if "--query-metrics" in sys.argv:
    print("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts  Counter  description")
else:
    assert "regex:^(gemm)$" in sys.argv and "ldgsts.sum" in sys.argv[sys.argv.index("--metrics") + 1], sys.argv
    assert "cache_bypass" not in sys.argv[sys.argv.index("--metrics") + 1]
    print(open("{self.folder}/ncu.csv").read())
    json.dump({{"machine": {{"name": "NVIDIA H200"}}, "rows": []}}, open(sys.argv[-1], "w"))''')

    def tearDown(self):
        compare_counters.PLAN, counters.EXPLAINED = self.plan, self.explained

    def script(self, name: str, text: str):
        file = self.folder / name
        file.write_text(f"#!/usr/bin/env python3\nimport json, sys\n{text}\n")
        file.chmod(0o755)

    def lab(self, rows: list[dict]):
        self.script("bin/lab01", f'json.dump({{"machine": {{}}, "rows": {rows!r}}}, open(sys.argv[-1], "w"))')

    def compare(self, *words) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = compare_counters.main(["--no-make", "--build", str(self.folder), *map(str, words)])
        return status, out.getvalue()

    def measured(self) -> Path:
        file = self.folder / "counters.json"
        status, text = self.compare("--ncu", self.folder / "ncu", "--out", file)
        self.assertEqual(status, 0, text)
        return file

    def test_equal_counters_are_written_and_checked(self):
        file = self.measured()
        saved = json.loads(file.read_text())
        self.assertEqual(saved["machine"]["name"], "NVIDIA H200")
        self.assertEqual(saved["programs"][0]["kernels"][0]["ncu"], saved["programs"][0]["kernels"][0]["lab"])
        self.assertNotIn(str(self.folder), file.read_text())
        status, text = self.compare("--check", file)
        self.assertEqual(status, 0, text)
        self.assertIn("2 kernels, 12 counters: 12 equal, 0 not", text)

    def test_a_lab_that_counts_otherwise_fails_and_is_named(self):
        file = self.measured()
        before = file.read_text()
        self.lab([lab_row("one", "gemm<Tile<8, true> >", 2, [20, 81, 2, 8, 64, 32]), ROWS[1]])
        status, text = self.compare("--check", file)
        self.assertEqual(status, 1)
        self.assertIn("80 (lab 81)", text)
        self.assertIn("one at 8×8, ld sectors: +1. NO REASON YET", text)
        self.assertEqual(file.read_text(), before)

    def test_a_reason_holds_only_for_the_count_it_was_given_for(self):
        file = self.measured()
        counters.EXPLAINED = [("^gemm<", "global.load.sectors", "the compiler merges two loads")]
        rows = [lab_row("one", "gemm<Tile<8, true> >", 2, [20, 81, 2, 8, 64, 32]), ROWS[1]]
        self.lab(rows)
        self.assertEqual(self.compare("--from-json", file)[0], 1)
        status, text = self.compare("--check", file)
        self.assertEqual(status, 0, text)
        self.assertIn("+1. the compiler merges two loads", text)
        rows[0]["counts"]["kernels"][0]["global"]["load"]["sectors"] = 82
        self.lab(rows)
        self.assertEqual(self.compare("--check", file)[0], 1)

    def test_other_kernels_than_in_the_file_and_failing_programs_are_trouble(self):
        file = self.measured()
        self.lab(ROWS[:1])
        self.assertRegex(self.compare("--check", file)[1], "two at 8×8: gemm<.*> ran 0 times in the lab; the file has 1")
        self.lab([])
        self.assertRegex(self.compare("--check", file)[1], "lab01 counted no kernel")
        self.script("bin/lab01", "sys.exit('error: no memory')")
        self.assertRegex(self.compare("--check", file)[1], "status 1\nerror: no memory")
        (self.folder / "bin/step01").unlink()
        self.assertEqual(self.compare("--ncu", self.folder / "ncu")[0], 77)

    def test_a_failing_step_leaves_the_others_and_what_ncu_left_is_read_again(self):
        compare_counters.PLAN.append(("02", ["--shape", "8x8"]))
        file = self.folder / "counters.json"
        status, text = self.compare("--ncu", self.folder / "ncu", "--out", file)
        self.assertEqual(status, 1)
        self.assertIn("error: step 02: ", text)
        self.assertEqual(len(json.loads(file.read_text())["programs"]), 1)
        compare_counters.PLAN.pop()
        before = file.read_text()
        file.unlink()
        self.assertEqual(self.compare("--again", "--out", file)[0], 0)
        self.assertEqual(file.read_text(), before)


if __name__ == "__main__":
    unittest.main()
