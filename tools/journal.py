#!/usr/bin/env python3
"""make journal: prints results/journal.csv, to which every `make profileNN` adds a line per rung.

A line is version (commit; + where files differ from it), step, rung, shape, change, SM %, DRAM %, time. The change is what
CHANGE="…" said, else the subject of the commit. Behind the time stands how it differs from the same rung's line before.
"""

import csv
import subprocess
import sys
from pathlib import Path

from results import ROOT, commit

FILE = ROOT / "results/journal.csv"
COLUMNS = ["version", "step", "rung", "shape", "change", "sm_percent", "dram_percent", "time_us"]


def append(rows: list[dict], change: str) -> None:
    version = commit()
    if not change:
        change = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%s"], capture_output=True, text=True).stdout.strip()
        change += ", and uncommitted edits" if version.endswith("+") else ""
    FILE.parent.mkdir(exist_ok=True)
    new = not FILE.exists()
    with FILE.open("a", newline="") as stream:
        writer = csv.writer(stream)
        if new:
            writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([version, row["step"], row["rung"], row["shape"], change, f"{row['sm']:.1f}", f"{row['dram']:.1f}",
                             f"{row['time_us']:.2f}"])


def lines(file: Path) -> list[str]:
    out = [f"{'version':<10}{'rung':<40}{'shape':<18}{'SM %':>6}{'DRAM %':>8}{'time µs':>12}{'':>9}  change"]
    before: dict[tuple, float] = {}
    with file.open(newline="") as stream:
        for row in csv.DictReader(stream):
            key, time = (row["step"], row["rung"], row["shape"]), float(row["time_us"])
            step = f"{100 * (time / before[key] - 1):+.1f} %" if before.get(key) else ""
            before[key] = time
            out.append(f"{row['version']:<10}{row['rung'][:39]:<40}{row['shape']:<18}{row['sm_percent']:>6}{row['dram_percent']:>8}"
                       f"{time:>12.1f}{step:>9}  {row['change']}")
    return out


def main() -> int:
    if not FILE.exists():
        print("The journal is empty: `make profile03 CHANGE=\"what I changed\"` adds to it, on a GPU with free counters.")
        return 0
    print("\n".join(lines(FILE)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
