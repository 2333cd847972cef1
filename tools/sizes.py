#!/usr/bin/env python3
"""make sizes: every GEMM rung of steps 01 to 04, and cuBLAS, over sizes from 256 to 8192; `make plots` draws them.

Writes results/<card>-sizes.json, a results file of kind "sizes". Exit status: 0; 77 no GPU; else that of the program that failed.
"""

import json
import subprocess
import sys

from results import ROOT, card_name, commit, merge

SIZES = [256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192]
MOST = {"01": 4096}  # a naive product of 8192³ takes seconds


def main() -> int:
    if why := (ROOT / "build/why_no_cuda.txt").read_text():
        print(f"make sizes needs the CUDA programs, and they are left out: {why}.")
        return 77
    steps = ["01", "02", "03", "04"]
    subprocess.run(["tools/build.sh", "build", *(f"step{n}" for n in steps)], cwd=ROOT, check=True)
    files = []
    for n in steps:
        files.append(ROOT / f"build/sizes{n}.json")
        shapes = [word for size in SIZES if size <= MOST.get(n, size) for word in ("--shape", f"{size}x{size}x{size}")]
        status = subprocess.run([f"build/bin/step{n}", *shapes, "--json", files[-1]], cwd=ROOT).returncode
        if status:
            return status
    result = {"kind": "sizes", **merge(files, commit(), "make sizes")}
    path = ROOT / "results" / f"{card_name(result['machine'])}-sizes.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"{path.relative_to(ROOT)} written: {len(result['rows'])} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
