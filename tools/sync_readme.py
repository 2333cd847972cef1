#!/usr/bin/env python3
"""Fills the tables between <!-- results:NN --> and <!-- /results:NN --> in the READMEs from results/*.json.

NN is a step, or `best`: the fastest right rung of every step. With --check nothing is written, and a README that differs
from what the results files say is named; the exit status is then 1.
"""

import json
import re
import sys

from results import NUMBERS, ROOT, rate, table_cells

BLOCK = re.compile(r"(<!-- results:(\d\d|best) -->\n).*?(<!-- /results:\2 -->)", re.S)
HEADER = ["rung", "shape", "ms", "rate", "vs before", "vs peer", "of peak"]


def best_rows(rows: list[dict]) -> list[dict]:
    best = []
    for number in NUMBERS:
        timed = [r for r in rows if r["step"] == number and "ms" in r and r["checked"]
                 and r["rung"] not in (r.get("peer"), r.get("baseline"))]
        if timed:
            shape = timed[0]["shape"]  # a step lists its main shape first
            best.append(max((r for r in timed if r["shape"] == shape), key=lambda r: rate(r)[0]))
    return best


def markdown(header: list[str], lines: list[list[str]]) -> str:
    rule = [" ---: " if i >= header.index("ms") else " --- " for i in range(len(header))]
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "|".join(rule) + "|",
                      *("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in lines)])


def block(which: str, results: list[dict]) -> str:
    texts = []
    for result in results:
        rows = best_rows(result["rows"]) if which == "best" else [r for r in result["rows"] if r["step"] == which]
        if not rows:
            continue
        machine = result["machine"]
        header = ["step", *HEADER] if which == "best" else list(HEADER)
        if which == "09":
            header[3:] = ["rate", "launches per token", "", "of floor"]
        lines = []
        for row in rows:
            cells = table_cells(row)
            if which == "09":
                cells[4] = str(row.get("launches", "") or "")
            lines.append([row["step"], *cells] if which == "best" else cells)
        if which == "09":  # its rows have no peer
            header, lines = header[:5] + header[6:], [cells[:5] + cells[6:] for cells in lines]
        texts.append(f"{machine['name']} · driver {machine['driver']} · CUDA {machine['cuda']} · commit "
                     f"{result['commit']} · `{result['command']}`\n\n{markdown(header, lines)}\n")
    return "\n".join(texts) if texts else "Not measured yet: `make gpu-check` on a machine with a GPU fills this table.\n"


def main() -> int:
    check = "--check" in sys.argv[1:]
    files = [json.loads(file.read_text()) for file in sorted((ROOT / "results").glob("*.json"))]
    results = [result for result in files if "rows" in result]  # results/counters.json has none
    status = 0
    for readme in sorted([ROOT / "README.md", *ROOT.glob("0[1-9]_*/README.md")]):
        old = readme.read_text() if readme.exists() else ""
        new = BLOCK.sub(lambda m: m[1] + block(m[2], results) + m[3], old)
        if old.count("<!-- results:") != len(BLOCK.findall(old)):
            print(f"{readme.relative_to(ROOT)}: a results marker without its end, or with an unknown name")
            status = 1
        if new == old:
            continue
        if check:
            print(f"{readme.relative_to(ROOT)}: its table differs from results/; run tools/sync_readme.py")
            status = 1
        else:
            readme.write_text(new)
    return status


if __name__ == "__main__":
    sys.exit(main())
