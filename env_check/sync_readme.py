#!/usr/bin/env python3
"""Fills the table between <!-- toolkits --> and <!-- /toolkits --> in env_check/README.md from env_check/data/*.json.

With --check nothing is written; the exit status is 1 if the table differs from the data.
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"


def data(name: str) -> dict:
    return json.loads((FOLDER / "data" / f"{name}.json").read_text())


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def newest_row(rows: list[dict], key: str, toolkit: str) -> dict:
    """The newest row that is not newer than the toolkit, as tables.cpp takes it."""
    return max((r for r in rows if number(r[key]) <= number(toolkit)), key=lambda r: number(r[key]))


def table() -> str:
    drivers, archs, gcc = data("driver_per_toolkit"), data("arch_per_nvcc")["rows"], data("gcc_per_nvcc")["rows"]
    start = {row["major"]: row["linux"] for row in drivers["majors"]}
    lines = ["|toolkit|starts with driver|all of it with|PTX|gcc up to|compiles for sm_|", "|---|---|---|---|---|---|"]
    for row in drivers["toolkits"]:
        toolkit = row["cuda"]
        ptx = [p["ptx"] for p in data("ptx_isa")["rows"] if number(p["cuda"]) <= number(toolkit)][-1]
        plain = [int(a) for a in newest_row(archs, "nvcc", toolkit)["archs"] if a.isdigit()]
        lines.append(f"|{toolkit}|{start[number(toolkit)[0]]}|{row['linux']}|{ptx}|"
                     f"{newest_row(gcc, 'nvcc', toolkit)['gcc']}|{min(plain)}–{max(plain)}|")
    return "\n".join(lines) + "\n"


def main() -> int:
    old = README.read_text()
    new, found = re.subn(r"(<!-- toolkits -->\n).*?(<!-- /toolkits -->)", lambda m: m[1] + table() + m[2], old, flags=re.S)
    if found != 1:
        print(f"{README.name}: expected one table between <!-- toolkits --> and <!-- /toolkits -->, found {found}")
        return 1
    if new == old:
        return 0
    if "--check" in sys.argv[1:]:
        print("env_check/README.md: its table differs from env_check/data; run env_check/sync_readme.py")
        return 1
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
