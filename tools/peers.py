#!/usr/bin/env python3
"""Measures what a reader would use in place of steps 05 and 06, in one run: PyTorch, torch.compile, FlashAttention-2, cuDNN.

    tools/peers.py [softmax] [attention] [--json FILE] [--samples N]

Writes a results file of the kind "peers" (tools/results.py), results/CARD-peers.json unless told otherwise; the marker
peers:NN puts its rows beside ours (tools/sync_readme.py). Rows have the shapes of our own programs. Run it right behind
`make gpu-check`, on the same card.

As in common/bench.hpp: inputs rotate over so many copies that none is found in the L2, calls stand in one CUDA Graph so that
no launch is waited for, the median of the samples counts, and a peer whose result is wrong gets no time. FlashAttention-2 and
cuDNN are the backends of PyTorch's scaled_dot_product_attention; its memory-efficient backend multiplies fp32 as 3×TF32 on
tensor cores, which ours does not.

Exit status: 0; 1 a peer was wrong; 2 wrong usage; 3 PyTorch or a GPU is missing.
"""

import argparse
import json
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from results import ROOT, card_name, commit

SOFTMAX = ["8192×1024", "8192×4096", "4096×32768", "1024×151936", "1×151936"]
ATTENTION = {
    "fp32": [f"1×8×8×{length}×64{mask}" for length in (4096, 1024) for mask in ("", " causal")],
    "bf16": ["1×8×2×8192×128 causal", "1×8×2×2048×128 causal", "1×16×16×8192×128 causal", "1×16×16×4096×64 causal",
             "8×2×32768×128 decode", "8×2×8192×128 decode", "8×2×512×128 decode", "14×2×8192×64 decode"],
}
BACKENDS = {  # of scaled_dot_product_attention
    "bf16": {"FlashAttention-2": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION"},
    "fp32": {"PyTorch, memory-efficient (3×TF32)": "EFFICIENT_ATTENTION", "PyTorch, math": "MATH"},
}
TOLERANCE = {"fp32": 2e-3, "bf16": 3e-2}  # of attention, absolute; values are of the size 1. 3×TF32 keeps 21 bits
L2_COPIES = 4  # the inputs of all copies are this often the L2


@dataclass
class AttentionShape:
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    causal: bool

    def flop(self) -> float:
        pairs = self.queries * (self.queries + 1) / 2 if self.causal else self.queries * self.keys
        return 4.0 * self.batch * self.heads * self.head_dim * pairs

    def bytes(self, element: int) -> float:
        rows = 2 * self.heads * self.queries + 2 * self.kv_heads * self.keys
        return float(element) * self.batch * self.head_dim * rows


def parse_softmax(text: str) -> tuple[int, int]:
    rows, cols = (int(n) for n in text.split("×"))
    return rows, cols


def parse_attention(text: str) -> AttentionShape:
    """"B×H×G×L×D", with " causal" or without, is self-attention; "H×G×L×D decode" is one query against L keys."""
    sizes, _, mode = text.partition(" ")
    numbers = [int(n) for n in sizes.split("×")]
    if mode == "decode" and len(numbers) == 4:
        heads, kv_heads, keys, head_dim = numbers
        return AttentionShape(1, heads, kv_heads, 1, keys, head_dim, False)
    if mode in ("", "causal") and len(numbers) == 5:
        batch, heads, kv_heads, length, head_dim = numbers
        return AttentionShape(batch, heads, kv_heads, length, length, head_dim, mode == "causal")
    raise ValueError(f"'{text}': expected B×H×G×L×D, B×H×G×L×D causal or H×G×L×D decode")


def row(step: str, peer: str, shape: str, dtype: str, flop: float, moved: float, memory_bound: bool, result: dict) -> dict:
    """A row of a results file. `result`: {"ms", "spread", "max_abs"}, or {"skipped": why}, or {"wrong": why}."""
    made = {"step": step, "rung": peer, "shape": shape, "dtype": dtype, "memory_bound": memory_bound,
            "checked": "ms" in result}
    if "ms" not in result:
        return {**made, **result}
    seconds = result["ms"] / 1e3
    return {**made, **result, "gflops": flop / seconds / 1e9, "gbps": moved / seconds / 1e9}


class Measure:
    """Times and checks on the GPU that PyTorch sees."""

    def __init__(self, torch, samples: int):
        self.torch, self.samples = torch, samples
        self.l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size

    def copies(self, bytes_of_one: float) -> int:
        return max(1, min(256, math.ceil(L2_COPIES * self.l2_bytes / bytes_of_one)))

    def time(self, call, copies: int) -> dict:
        """ms of call(i), i = 0 … copies − 1 in turn, out of a captured graph."""
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(3):
                call(i % copies)
        torch.cuda.synchronize()
        graph, calls = torch.cuda.CUDAGraph(), max(copies, 20)
        with torch.cuda.graph(graph):
            for i in range(calls):
                call(i % copies)
        times = []
        for _ in range(self.samples + 2):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / calls)
        times = sorted(times[2:])  # the first two warm up
        median = statistics.median(times)
        return {"ms": median, "spread": (times[-1] - times[0]) / median}

    def run(self, call, copies: int, error, tolerance: float) -> dict:
        """error(result of call(0)) is its largest difference from a reference in float64."""
        try:
            difference = float(error(call(0)))
            if not difference <= tolerance:
                return {"wrong": f"differs by {difference:.3g}, allowed are {tolerance:.3g}"}
            return {**self.time(call, copies), "max_abs": difference}
        except RuntimeError as refused:  # a backend that does not take the shape, or no memory left
            return {"skipped": str(refused).splitlines()[0][:120]}


def softmax(measure: Measure) -> list[dict]:
    torch = measure.torch
    peers = {"PyTorch": lambda x: torch.softmax(x, -1), "torch.compile": torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)}
    found = []
    for shape in SOFTMAX:
        rows, cols = parse_softmax(shape)
        moved = 8.0 * rows * cols
        x = [10 * torch.rand(rows, cols, device="cuda") for _ in range(measure.copies(moved))]
        want = torch.softmax(x[0][:64].double(), -1)
        for peer, call in peers.items():
            result = measure.run(lambda i: call(x[i]), len(x), lambda y: (y[:64].double() - want).abs().max(), 1e-5)
            found.append(row("05", peer, shape, "fp32", 5.0 * rows * cols, moved, True, result))
    return found


def attention(measure: Measure) -> list[dict]:
    torch = measure.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    found = []
    for dtype, shapes in ATTENTION.items():
        kind = torch.float32 if dtype == "fp32" else torch.bfloat16
        for shape in shapes:
            s = parse_attention(shape)
            moved, one_query = s.bytes(4 if dtype == "fp32" else 2), s.queries == 1
            # self-attention is bound by arithmetic: as in our own program one copy is enough
            inputs = [[torch.randn(s.batch, heads, length, s.head_dim, device="cuda").to(kind)
                       for heads, length in ((s.heads, s.queries), (s.kv_heads, s.keys), (s.kv_heads, s.keys))]
                      for _ in range(measure.copies(moved) if one_query else 1)]

            def call(i):
                return torch.nn.functional.scaled_dot_product_attention(
                    *inputs[i], is_causal=s.causal, enable_gqa=s.heads != s.kv_heads)

            last = min(16, s.queries)  # the last queries see the most keys
            q, k, v = (t.double() for t in inputs[0])
            k, v = (t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v))
            scores = q[:, :, -last:] @ k.transpose(-1, -2) / math.sqrt(s.head_dim)
            if s.causal:
                hidden = torch.ones(last, s.keys, device="cuda", dtype=torch.bool).triu(s.keys - last + 1)
                scores.masked_fill_(hidden, -math.inf)
            want = torch.softmax(scores, -1) @ v
            for peer, backend in BACKENDS[dtype].items():
                with sdpa_kernel([getattr(SDPBackend, backend)]):
                    result = measure.run(call, len(inputs), lambda y: (y[:, :, -last:].double() - want).abs().max(),
                                         TOLERANCE[dtype])
                found.append(row("06", peer, shape, dtype, s.flop(), moved, one_query, result))
    return found


PARTS = {"softmax": softmax, "attention": attention}


def torch_with_gpu():
    """The module torch; SystemExit(3) with one line that says what is missing and what to do."""
    try:
        import torch
    except ImportError as missing:
        print(f"peers: PyTorch is not there ({missing}): python3 -m pip install torch", file=sys.stderr)
        raise SystemExit(3) from None
    if not torch.cuda.is_available():
        print(f"peers: PyTorch {torch.__version__} sees no GPU; `make env_check` says why", file=sys.stderr)
        raise SystemExit(3)
    return torch


def machine_of(torch) -> dict:
    card = torch.cuda.get_device_properties(0)
    return {"name": card.name, "sm": 10 * card.major + card.minor, "multiprocessors": card.multi_processor_count,
            "memory_bytes": card.total_memory, "driver": "", "cuda": torch.version.cuda, "torch": torch.__version__}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="softmax, attention; both without one")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--samples", type=int, default=30)
    options = parser.parse_args(words)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"'{unknown[0]}' is none of {', '.join(PARTS)}")
    if options.samples < 1:
        parser.error(f"--samples {options.samples}: expected at least 1")
    torch = torch_with_gpu()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    measure, rows = Measure(torch, options.samples), []
    with torch.inference_mode():
        for part in options.parts or PARTS:
            rows += PARTS[part](measure)
    machine = machine_of(torch)
    path = options.json or ROOT / "results" / f"{card_name(machine)}-peers.json"
    command = " ".join(["tools/peers.py", *options.parts])
    result = {"kind": "peers", "machine": machine, "commit": commit(), "command": command, "rows": rows}
    path.write_text(json.dumps(result, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    for r in rows:
        said = f"{r['ms']:.4g} ms" if "ms" in r else r.get("skipped") or "WRONG: " + r["wrong"]
        print(f"{r['step']} {r['shape']:28} {r['rung']:36} {said}")
    print(f"{len(rows)} rows in {path}; tools/sync_readme.py puts them into the lessons")
    return 1 if any("wrong" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
