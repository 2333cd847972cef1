#!/usr/bin/env python3
"""make loops: compiles the steps' kernels and counts the instructions of each one's main loop, from the machine code.

Needs nvcc and cuobjdump, and no GPU. The main loop is the backward branch around the most FMAs (a loop that the compiler did not
unroll counts its body once). Register bank conflicts follow a model: registers lie in two banks, even and odd, each of which
gives one operand a clock; an operand marked .reuse by the instruction before, in the same place, is there already.

    tools/loops.py [--arch sm_90] [STEP…]      writes results/loops.json, which the lessons show; 77 where a tool is missing
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from results import ROOT, commit

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;")
REGISTER = re.compile(r"^[-|]*R(\d+)\b")


def find_tool(name: str) -> str | None:
    beside = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", name)
    return shutil.which(name) or (str(beside) if beside.exists() else None)


def operands(instruction: str) -> list[str]:
    """The sources of an FFMA in their places."""
    return [part.strip() for part in instruction.split(None, 1)[1].split(",")][1:]


def register(operand: str) -> int | None:
    found = REGISTER.match(operand)
    return int(found[1]) if found else None


def bank_conflicts(loop: list[str]) -> int:
    """Extra clocks of the FMAs of a loop: operands that have to come from the same bank."""
    conflicts, kept = 0, {}  # kept: place -> register that the instruction before left there
    for instruction in loop:
        if not instruction.startswith("FFMA"):
            kept = {}
            continue
        sources = operands(instruction)
        fetched = {register(o) for place, o in enumerate(sources) if register(o) is not None and kept.get(place) != register(o)}
        even = sum(r % 2 == 0 for r in fetched)
        conflicts += max(0, max(even, len(fetched) - even) - 1)
        kept = {place: register(o) for place, o in enumerate(sources) if ".reuse" in o}
    return conflicts


def main_loop(code: str) -> list[str]:
    instructions = [(int(at, 16), text) for at, text in INSTRUCTION.findall(code)]
    best: list[str] = []
    for at, text in instructions:
        target = re.match(r"BRA.*?\b0x([0-9a-f]+)", text)
        if target and int(target[1], 16) < at:
            body = [t for a, t in instructions if int(target[1], 16) <= a <= at]
            if sum(t.startswith("FFMA") for t in body) > sum(t.startswith("FFMA") for t in best):
                best = body
    return best


def count(sass: str) -> list[dict]:
    """One entry for each kernel of `cuobjdump -sass -res-usage` output that has a loop with FMAs."""
    registers = dict(re.findall(r"Function (\S+):\s*\n\s*REG:(\d+)", sass))
    rows = []
    for part in re.split(r"\n\s*Function : ", sass)[1:]:
        name, loop = part.split("\n")[0].strip(), main_loop(part)

        def of(pattern: str) -> int:
            return sum(bool(re.match(pattern, text)) for text in loop)

        if of("FFMA"):
            rows.append({"kernel": name, "instructions": len(loop), "fma": of("FFMA"), "fma_share": of("FFMA") / len(loop),
                         "shared_loads": of(r"LDS\b"), "wide": of(r"LDS\.128"), "shared_stores": of(r"STS\b"),
                         "global_loads": of(r"LDG\b"), "async_copies": of(r"LDGSTS\b"), "barriers": of(r"BAR\b"),
                         "bank_conflicts": bank_conflicts(loop), "registers": int(registers.get(name, 0))})
    return rows


def short(name: str) -> str:
    """gemm_padded_kernel<Plain<8, 128>>, without return type, arguments and casts of the demangled name."""
    name = re.sub(r"\((?:bool|int)\)|^void ", "", name)
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:i]
            break
    return name.replace("> >", ">>")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", default=["01", "02", "03", "04"])
    parser.add_argument("--arch", default="sm_90")
    options = parser.parse_args()
    tools = {name: find_tool(name) for name in ("nvcc", "cuobjdump")}
    if missing := [name for name, path in tools.items() if not path]:
        print(f"make loops needs {' and '.join(missing)} of the CUDA Toolkit.")
        return 77
    rows, seen = [], set()
    (ROOT / "build").mkdir(exist_ok=True)
    for step in options.steps:
        source, = ROOT.glob(f"{step}_*/main.cu")
        cubin = ROOT / f"build/loops{step}.cubin"
        subprocess.run([tools["nvcc"], "-std=c++17", "-I.", "-diag-suppress=20050", f"-arch={options.arch}", "-cubin", "-o", cubin,
                        source], cwd=ROOT, check=True)
        sass = subprocess.run([tools["cuobjdump"], "-sass", "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
        counted = count(sass)
        names = "\n".join(row["kernel"] for row in counted)
        readable = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True).stdout
        for row, name in reversed(list(zip(counted, readable.splitlines()))):  # the last kernel of a file comes first
            if (name := short(name)) not in seen:  # a step's main.cu has the baseline's kernels too
                seen.add(name)
                rows.append({"step": step, **row, "kernel": name})
    version = re.search(r"release (\S+),", subprocess.run([tools["nvcc"], "--version"], capture_output=True, text=True).stdout)[1]
    (ROOT / "results").mkdir(exist_ok=True)
    (ROOT / "results/loops.json").write_text(json.dumps(
        {"kind": "loops", "compiler": f"nvcc {version}", "arch": options.arch, "commit": commit(), "rows": rows}, indent=1) + "\n")
    for row in rows:
        print(f"{row['step']}  {row['kernel'][:70]:<70}{row['instructions']:>6}{row['fma']:>6}{row['fma_share']:>6.2f}"
              f"{row['registers']:>5} registers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
