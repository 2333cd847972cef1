"""python3 -m unittest discover -s tools"""

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import sync_readme

SHAPE = "64×64×64"
ROWS = [
    {"step": "03", "rung": "plain", "shape": SHAPE, "ms": 2.0, "gflops": 1500.4, "gbps": 3.0, "checked": True,
     "of_peak": 0.25, "baseline": "plain", "vs_baseline": 1.0, "peer": "cuBLAS", "vs_peer": 0.5},
    {"step": "03", "rung": "+4: rows of 132", "shape": SHAPE, "ms": 1.6, "gflops": 1875.5, "gbps": 4.0, "checked": True,
     "of_peak": 0.3, "baseline": "plain", "vs_baseline": 1.25, "peer": "cuBLAS", "vs_peer": 0.625},
    {"step": "03", "rung": "wrong", "shape": SHAPE, "checked": False},
]
RESULT = {"machine": {"name": "Card", "driver": "1", "cuda": "2"}, "commit": "abc", "command": "run", "rows": ROWS}
COUNTERS = {**RESULT, "kind": "counters",
            "rows": [{"step": "03", "rung": "plain", "shape": SHAPE, "time_us": 2000.0, "sectors_per_load": 4.0,
                      "verdict": "latency-bound"}]}


class Filled(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = mock.patch.object(sync_readme, "ROOT", self.folder)
        patch.start()
        self.addCleanup(patch.stop)
        (self.folder / "kernel.cuh").write_text(
            "// [outer]\nvoid f() {\n  // [inner]\n#pragma unroll\n  g();\n\n    h();\n  // [/inner]\n}\n// [/outer]\n// [open]\n")

    def measured(self):
        (self.folder / "h200.json").write_text(json.dumps(RESULT))
        (self.folder / "h200-counters.json").write_text(json.dumps(COUNTERS))
        (self.folder / "other.json").write_text("[1, 2]")  # somebody else's file

    def fill(self, text):
        return sync_readme.filled(text, self.folder)

    def value(self, words):
        text, wrong = self.fill(f"a <!-- value:{words} -->old<!-- /value --> b")
        return text.split("-->")[1].split("<!--")[0], wrong

    def test_code_is_cut_at_its_anchors_dedented_and_without_inner_anchors(self):
        text, wrong = self.fill("<!-- code:kernel.cuh#inner -->\nold\n<!-- /code -->\nend")
        self.assertEqual(wrong, [])
        self.assertEqual(text, "<!-- code:kernel.cuh#inner -->\n```cpp\n#pragma unroll\ng();\n\n  h();\n```\n<!-- /code -->\nend")
        text, _ = self.fill("<!-- code:kernel.cuh#outer -->\n<!-- /code -->")
        self.assertIn("void f() {\n#pragma unroll\n  g();\n", text)
        self.assertNotIn("[inner]", text)

    def test_filling_twice_changes_nothing(self):
        self.measured()
        text = ("<!-- results:03 -->\n<!-- /results:03 -->\n<!-- code:kernel.cuh#inner --><!-- /code -->"
                f"<!-- value:03; plain; {SHAPE}; ms --><!-- /value --><!-- counters:03 --><!-- /counters:03 -->"
                "<!-- plot:p A plot. --><!-- /plot -->")
        once, wrong = self.fill(text)
        self.assertEqual(wrong, [])
        self.assertEqual(self.fill(once), (once, []))

    def test_unknown_anchor_file_and_anchor_without_end(self):
        for where in ("kernel.cuh#no", "no.cuh#inner", "kernel.cuh#open", "kernel.cuh"):
            self.assertTrue(self.fill(f"<!-- code:{where} -->x<!-- /code -->")[1], where)

    def test_unbalanced_markers(self):
        for text in ("<!-- code:kernel.cuh#inner -->", "<!-- /value -->", "<!-- results:03 --><!-- /results:04 -->",
                     "<!-- code:kernel.cuh#inner --><!-- results:03 --><!-- /results:03 --><!-- /code -->",
                     "<!-- value:03; plain --><!-- /code -->", f"<!-- results:03 --><!-- holds:03; {SHAPE}; a > b -->"):
            filled, wrong = self.fill(text)
            self.assertTrue(wrong, text)
            self.assertEqual(filled, text)

    def test_values_with_their_units(self):
        self.measured()
        for field, wanted in (("ms", "1.6 ms"), ("us", "1600.0 µs"), ("GFLOPS", "1,876 GFLOPS"), ("TFLOPS", "1.9 TFLOPS"),
                              ("gain", "+25.0 %"), ("of peer", "62.5%"), ("vs before", "1.25×"), ("vs rung plain", "1.25×")):
            self.assertEqual(self.value(f"03; +4: rows of 132; {SHAPE}; {field}"), (wanted, []), field)

    def test_values_that_do_not_exist(self):
        self.measured()
        for words in (f"03; no; {SHAPE}; ms", "03; plain; 1×1×1; ms", f"03; plain; {SHAPE}; speed", f"03; wrong; {SHAPE}; ms",
                      f"03; plain; {SHAPE}; tokens/s", f"03; plain; {SHAPE}; vs rung no", "03; plain; ms"):
            shown, wrong = self.value(words)
            self.assertEqual((shown, len(wrong)), ("old", 1), words)

    def test_a_value_must_not_begin_a_line(self):
        self.assertTrue(self.fill(f"a\n<!-- value:03; plain; {SHAPE}; ms --><!-- /value -->")[1])

    def test_nothing_measured(self):
        self.assertEqual(self.value(f"03; plain; {SHAPE}; ms"), (sync_readme.NOT_MEASURED, []))
        self.assertTrue(self.value(f"03; plain; {SHAPE}; speed")[1])  # an unknown field is named all the same
        self.assertEqual(self.fill(f"<!-- holds:03; {SHAPE}; plain > +4: rows of 132 -->")[1], [])
        self.assertIn("Not measured yet", self.fill("<!-- results:03 --><!-- /results:03 -->")[0])

    def test_claims(self):
        self.measured()
        self.assertEqual(self.fill(f"<!-- holds:03; {SHAPE}; +4: rows of 132 > plain -->")[1], [])
        self.assertIn("not so", self.fill(f"<!-- holds:03; {SHAPE}; plain > +4: rows of 132 -->")[1][0])
        self.assertTrue(self.fill(f"<!-- holds:03; {SHAPE}; plain -->")[1])

    def test_tables(self):
        self.measured()
        text, _ = self.fill("<!-- results:03 --><!-- /results:03 -->")
        self.assertIn("| +4: rows of 132 | 64×64×64 | 1.6 | 1,876 GFLOPS | 1.25× | 62.5% | 30.0% |", text)
        self.assertIn("WRONG, so no time", text)
        text, _ = self.fill("<!-- counters:03 --><!-- /counters:03 -->")
        self.assertIn("| plain | 64×64×64 | 2,000.0 | – | – | – | – | – | 4.00 | – | – | – | latency-bound |", text)
        text, wrong = self.fill("<!-- results:03; plain --><!-- /results -->")
        self.assertEqual((wrong, text.count("| plain |"), text.count("rows of 132")), ([], 1, 0))
        self.assertTrue(self.fill("<!-- results:03; no such rung --><!-- /results -->")[1])
        text, _ = self.fill("<!-- results:best --><!-- /results -->")  # not the baseline, not the wrong one
        self.assertEqual((text.count("| 03 |"), text.count("rows of 132")), (1, 1))
        for words in ("results:99", "counters:99"):
            self.assertTrue(self.fill(f"<!-- {words} --><!-- /{words} -->")[1])

    def test_loops(self):
        self.assertIn("make loops", self.fill("<!-- loops:03 --><!-- /loops -->")[0])
        row = {"step": "03", "kernel": "f<true>", "instructions": 744, "fma": 512, "fma_share": 0.688, "shared_loads": 128,
               "wide": 0, "bank_conflicts": 282, "registers": 94}
        (self.folder / "loops.json").write_text(json.dumps(
            {"kind": "loops", "compiler": "nvcc 13.0", "arch": "sm_90", "commit": "abc", "rows": [row, {**row, "kernel": "g"}]}))
        text, wrong = self.fill("<!-- loops:03; ^f --><!-- /loops -->")
        self.assertEqual(wrong, [])
        self.assertIn("| `f<true>` | 744 | 512 | 0.69 | 128 | 94 |", text)  # a column of zeros says nothing
        self.assertNotIn("`g`", text)
        self.assertTrue(self.fill("<!-- loops:03; h --><!-- /loops -->")[1])

    def test_plot_needs_both_shades(self):
        marker = "<!-- plot:roof The roofline. --><!-- /plot -->"
        self.assertIn("make plots", self.fill(marker)[0])
        (self.folder / "results/plots").mkdir(parents=True)
        for shade in ("light", "dark"):
            (self.folder / f"results/plots/roof.{shade}.svg").write_text("<svg/>")
        self.assertIn('<img alt="The roofline." src="../results/plots/roof.light.svg">', self.fill(marker)[0])


if __name__ == "__main__":
    unittest.main()
