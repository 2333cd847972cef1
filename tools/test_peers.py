"""python3 -m unittest discover -s tools"""

import contextlib
import io
import json
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import peers
from readme_tables import NO_PEERS, Wrong, peers_table
from results import ROOT, load


def stub_torch(gpu=True):
    """What main() itself asks of PyTorch."""
    card = types.SimpleNamespace(name="Card", major=9, minor=0, multi_processor_count=2, total_memory=1, L2_cache_size=50e6)
    cuda = types.SimpleNamespace(is_available=lambda: gpu, get_device_properties=lambda _: card)
    backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True)))
    return types.SimpleNamespace(cuda=cuda, backends=backends, manual_seed=lambda _: None, __version__="0",
                                 inference_mode=contextlib.nullcontext, version=types.SimpleNamespace(cuda="1"))


def run(words, torch, parts=None):
    """Exit status and what was said."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), mock.patch.dict(sys.modules, {"torch": torch}), \
            mock.patch.object(peers, "PARTS", parts or peers.PARTS):
        try:
            status = peers.main(words)
        except SystemExit as stop:
            status = stop.code
    return status, out.getvalue()


class Shapes(unittest.TestCase):
    def test_self_attention_and_decode(self):
        causal = peers.parse_attention("1×8×2×4×64 causal")
        self.assertEqual((causal.heads, causal.kv_heads, causal.queries, causal.keys, causal.causal), (8, 2, 4, 4, True))
        self.assertEqual(causal.flop(), 4 * 8 * 64 * 10)  # 1 + 2 + 3 + 4 pairs
        one = peers.parse_attention("8×2×512×128 decode")
        self.assertEqual((one.queries, one.keys, one.head_dim, one.causal), (1, 512, 128, False))
        self.assertEqual(one.bytes(2), 2 * 128 * (2 * 8 + 2 * 2 * 512))
        for wrong in ("8×2×512×128", "1×8×2×4×64 decode", "1×8×2×4×64 padded", "8"):
            with self.assertRaises(ValueError):
                peers.parse_attention(wrong)

    def test_every_shape_of_our_own_results_has_its_peers(self):
        ours = {(r["step"], r["dtype"], r["shape"]) for result in load(ROOT / "results") for r in result["rows"] if r["step"] in ("05", "06")}
        known = {("05", "fp32", s) for s in peers.SOFTMAX} | {("06", d, s) for d, shapes in peers.ATTENTION.items() for s in shapes}
        self.assertEqual(ours - known, set())
        for _, _, shape in known:
            (peers.parse_softmax if shape in peers.SOFTMAX else peers.parse_attention)(shape)


class Runs(unittest.TestCase):
    def test_says_in_a_line_what_is_missing(self):
        status, said = run([], None)  # None: importing it fails
        self.assertEqual((status, said.count("\n")), (3, 1))
        self.assertIn("pip install torch", said)
        status, said = run([], stub_torch(gpu=False))
        self.assertEqual((status, said.count("\n")), (3, 1))
        self.assertIn("env_check", said)

    def test_usage(self):
        self.assertEqual(run(["gemm"], stub_torch())[0], 2)
        self.assertEqual(run(["--samples", "0"], stub_torch())[0], 2)

    def test_a_refusal_is_a_skipped_row_and_a_wrong_peer_gets_no_time(self):
        measure = peers.Measure(stub_torch(), 1)

        def refuses(_):
            raise RuntimeError("No available kernel.\nmore")

        measure.time = lambda call, copies: {"ms": 0.5, "spread": 0.0}
        self.assertEqual(measure.run(refuses, 1, None, 1), {"skipped": "No available kernel."})
        self.assertIn("wrong", measure.run(lambda i: 2.0, 1, lambda y: y, 1))
        self.assertIn("wrong", measure.run(lambda i: float("nan"), 1, lambda y: y, 1))
        self.assertEqual(measure.run(lambda i: 0.25, 1, lambda y: y, 1)["max_abs"], 0.25)
        self.assertEqual(measure.copies(1e6), 200)
        self.assertEqual(measure.copies(1e9), 1)

    def test_rows_go_to_a_results_file_and_into_the_table_beside_ours(self):
        rows = [peers.row("05", "PyTorch", "2×3", "fp32", 1e6, 4e6, True, {"ms": 2.0, "spread": 0.1, "max_abs": 0.0}),
                peers.row("05", "cuDNN", "2×3", "fp32", 1e6, 4e6, True, {"skipped": "no"}),
                peers.row("05", "torch.compile", "2×3", "fp32", 1e6, 4e6, True, {"wrong": "differs"})]
        with tempfile.TemporaryDirectory() as name:
            status, said = run(["part", "--json", f"{name}/card-peers.json"], stub_torch(), {"part": lambda _: rows})
            self.assertEqual(status, 1)
            self.assertIn("WRONG", said)
            mine = {"step": "05", "rung": "ours", "shape": "2×3", "dtype": "fp32", "ms": 0.5, "checked": True}
            machine = {"name": "Card", "driver": "", "cuda": "1"}
            (Path(name) / "card.json").write_text(json.dumps(
                {"machine": machine, "commit": "a", "command": "b", "rows": [mine, {**mine, "rung": "slow", "ms": 0.7}]}))
            table = peers_table("05", load(Path(name)), load(Path(name), "peers"))
        self.assertIn("| PyTorch | 2×3 | 2 | 2 GB/s | ours | 0.5 | 4.00× |", table)
        self.assertIn("| cuDNN | 2×3 | skipped: no |  | ours | 0.5 |  |", table)
        self.assertIn("wrong: differs", table)
        self.assertEqual(peers_table("06", [], []), NO_PEERS)
        with self.assertRaises(Wrong):
            peers_table("99", [], [])


if __name__ == "__main__":
    unittest.main()
