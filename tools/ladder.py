#!/usr/bin/env python3
"""make ladder: runs every step and puts the rungs into one table, and into build/ladder.png where matplotlib is installed.

Without a GPU the executor's programs run: each rung is checked, and the table has no times.
"""

import argparse
import subprocess
import sys
import unicodedata

from results import NUMBERS, ROOT, commit, merge, program_arguments, rate, table_cells

BUILD = ROOT / "build"
HEADER = ["rung", "shape", "ms", "rate", "vs before", "vs peer", "of peak"]


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) == "W" else 1 for c in text)


def print_table(result: dict) -> None:
    rows = [(row["step"], table_cells(row)) for row in result["rows"]]
    widths = [max(width(cells[i]) for cells in [HEADER, *(c for _, c in rows)] if i != 2 or len(cells[2]) < 12)
              for i in range(len(HEADER))]
    print("\n" + result["machine"]["name"] + f" · commit {result['commit']}")
    step = None
    for number, cells in [("", HEADER), *rows]:
        if step not in (None, number):
            print()
        step = number
        pads = [" " * max(0, w - width(c)) for w, c in zip(widths, cells)]
        print(("  ".join(c + p if i < 2 else p + c for i, (c, p) in enumerate(zip(cells, pads)))).rstrip())


def plot(result: dict) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in result["rows"] if "ms" in row]
    steps = sorted({row["step"] for row in rows})
    figure, axes = plt.subplots(len(steps), 1, figsize=(9, 2 * len(steps)), squeeze=False)
    for axis, step in zip(axes[:, 0], steps):
        mine = [row for row in rows if row["step"] == step]
        axis.barh([f"{row['rung']}  {row['shape']}" for row in mine], [rate(row)[0] for row in mine])
        axis.invert_yaxis()
        axis.tick_params(labelsize=6)
        axis.set_title(f"step {step}, {rate(mine[0])[1]}", fontsize=8)
    figure.tight_layout()
    figure.savefig(BUILD / "ladder.png", dpi=130)
    print("plot: build/ladder.png")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=",".join(NUMBERS))
    steps = parser.parse_args().steps.split(",")
    why = (BUILD / "why_no_cuda.txt").read_text()
    machine = "lab" if why else "step"
    if why:
        print(f"No times: {why}. The kernels run on the CPU executor and are checked there.")
    subprocess.run(["tools/build.sh", "build", *(machine + n for n in steps)], cwd=ROOT, check=True)
    files, status = [], 0
    for n in steps:
        file = BUILD / "ladder" / f"{n}.json"
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        code = subprocess.run([BUILD / "bin" / (machine + n), *program_arguments(n), "--json", file], cwd=ROOT).returncode
        status = status or code
        if file.exists():
            files.append(file)
    if files:
        result = merge(files, commit(), "make ladder")
        print_table(result)
        if not why:
            plot(result)
    return status


if __name__ == "__main__":
    sys.exit(main())
