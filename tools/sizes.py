#!/usr/bin/env python3
"""make sizes: every GEMM rung of steps 01 to 04, and cuBLAS, over sizes from 256 to 8192; `make plots` draws them.

From the smallest size up: a rung that would take more than MOST_SECONDS at the next size, by its time at this one, is left out
from there on, and that is said. Writes results/<card>-sizes.json, a results file of kind "sizes". Exit status: 0; 77 no GPU;
else that of the program that failed.
"""

import json
import subprocess
import sys

from results import ROOT, card_name, commit, merge

SIZES = [256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192]
MOST_SECONDS = 2.0
RUNS = 25 + 5  # the samples of a rung, and what comes before them: the check, warm-ups and one run to see how long it takes


def too_slow(rows: list[dict], size: int, next_size: int) -> dict[str, float]:
    """The rungs among the rows of one size that would take too long at the next, with the seconds: the work grows with size³."""
    seconds = {row["rung"]: RUNS * 1e-3 * row.get("ms", 0.0) * (next_size / size) ** 3 for row in rows}
    return {rung: time for rung, time in seconds.items() if time > MOST_SECONDS}


def run_sizes(number: str, run) -> int:
    """Calls run(size, rungs) -> (status, rows) for one size after the other; rungs is None for all. Returns the last status."""
    rungs = None
    for size, next_size in zip(SIZES, SIZES[1:] + [SIZES[-1]]):
        status, rows = run(size, rungs)
        if status:
            return status
        slow = too_slow(rows, size, next_size) if next_size > size else {}
        for rung, seconds in slow.items():
            print(f"step{number}: '{rung}' left out from {next_size}³ on: {seconds:.0f} s, most {MOST_SECONDS:.0f} s")
        rungs = [row["rung"] for row in rows if row["rung"] not in slow]
        if not rungs:
            break
    return 0


def main() -> int:
    if why := (ROOT / "build/why_no_cuda.txt").read_text():
        print(f"make sizes needs the CUDA programs, and they are left out: {why}.")
        return 77
    steps = ["01", "02", "03", "04"]
    subprocess.run(["tools/build.sh", "build", *(f"step{n}" for n in steps)], cwd=ROOT, check=True)
    files = []
    for n in steps:

        def run(size: int, rungs: list[str] | None) -> tuple[int, list[dict]]:
            file = ROOT / f"build/sizes{n}-{size}.json"
            options = [word for rung in rungs or [] for word in ("--rung", rung)]
            status = subprocess.run([f"build/bin/step{n}", "--shape", f"{size}x{size}x{size}", *options, "--json", file],
                                    cwd=ROOT).returncode
            if status:
                return status, []
            files.append(file)
            return 0, json.loads(file.read_text())["rows"]

        if status := run_sizes(n, run):
            return status
    result = {"kind": "sizes", **merge(files, commit(), "make sizes")}
    path = ROOT / "results" / f"{card_name(result['machine'])}-sizes.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(f"{path.relative_to(ROOT)} written: {len(result['rows'])} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
