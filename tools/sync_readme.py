#!/usr/bin/env python3
"""Writes into the READMEs what must not be typed: code, tables, figures and plots. Each stands between two markers.

    <!-- results:NN -->…<!-- /results:NN -->   the table of step NN from results/; `best`: the fastest rung of every step
    <!-- results:NN; TEXT -->…<!-- /results -->  its rows whose shape or rung is TEXT
    <!-- counters:NN -->…<!-- /counters:NN --> what Nsight Compute counted for the rungs of step NN
    <!-- peers:NN -->…<!-- /peers:NN -->       what tools/peers.py measured for step NN, beside our fastest rungs
    <!-- loops:NN; REGEX -->…<!-- /loops -->     the instructions of the main loops of step NN whose kernel matches
    <!-- code:PATH#NAME -->…<!-- /code -->     the lines between // [NAME] and // [/NAME] of a compiled file
    <!-- plot:NAME TEXT -->…<!-- /plot -->     results/plots/NAME.light.svg and .dark.svg; TEXT says what one sees
    <!-- value:STEP; RUNG; SHAPE; FIELD -->…<!-- /value -->   one figure with its unit; FIELDS below
    <!-- holds:STEP; SHAPE; RUNG > RUNG -->  writes nothing: the first rung must be the faster one in results/

A value or claim is taken from the reference card's file. Without one, a value reads "(not measured)" and claims are not
looked at.

    tools/sync_readme.py [--check] [--results FOLDER]

With --check nothing is written. A README that differs from what it should be, an unknown name, a marker without its end
and a claim that the results contradict are named, and the exit status is 1.
"""

import argparse
import re
import sys
from pathlib import Path

from readme_tables import Wrong, counters_table, loops_table, peers_table, results_table
from results import ROOT, load, percent, times

MARKER = re.compile(r"<!-- (/?)(results|counters|peers|loops|code|plot|value|holds)\b:?(.*?)-->", re.S)
NOT_MEASURED = "(not measured)"
ANCHOR = re.compile(r"^\s*// \[(/?)([^\]]+)\]\s*$")

FIELDS = {  # name: text of a row
    "ms": lambda row: f"{row['ms']:.3g} ms",
    "us": lambda row: f"{1e3 * row['ms']:.1f} µs",
    "GFLOPS": lambda row: f"{row['gflops']:,.0f} GFLOPS",
    "TFLOPS": lambda row: f"{row['gflops'] / 1e3:.1f} TFLOPS",
    "GB/s": lambda row: f"{row['gbps']:,.0f} GB/s",
    "tokens/s": lambda row: f"{row['tokens_per_s']:,.0f} tokens/s",
    "vs before": lambda row: times(row["vs_baseline"]),
    "gain": lambda row: f"{100 * (row['vs_baseline'] - 1):+.1f} %".replace("-", "−"),
    "of peer": lambda row: percent(row["vs_peer"]),
    "of peak": lambda row: percent(row["of_peak"]),
    "of floor": lambda row: percent(row["of_floor"]),
    "of tolerance": lambda row: percent(row["of_tolerance"]),
    "note": lambda row: row["note"],
}


class Bench:
    """The rows that values and claims are taken from: those of the reference card, or none."""

    def __init__(self, results: list[dict]):
        self.rows = results[0]["rows"] if results else []

    def row(self, step: str, rung: str, shape: str) -> dict:
        found = [r for r in self.rows if (r["step"], r["rung"], r["shape"]) == (step, rung, shape)]
        if not found:
            raise Wrong(f"no row of step {step}, rung '{rung}', shape {shape} in results/")
        if "ms" not in found[0]:
            raise Wrong(f"rung '{rung}' of step {step}, shape {shape}, has no time in results/")
        return found[0]

    def value(self, text: str) -> str:
        words = [word.strip() for word in text.split(";")]
        if len(words) != 4:
            raise Wrong(f"value:{text}: wanted STEP; RUNG; SHAPE; FIELD")
        step, rung, shape, field = words
        if field not in FIELDS and not field.startswith("vs rung "):
            raise Wrong(f"value:{text}: '{field}' is none of {', '.join(FIELDS)}, vs rung NAME")
        if not self.rows:
            return NOT_MEASURED
        row = self.row(step, rung, shape)
        if field.startswith("vs rung "):
            return times(self.row(step, field.removeprefix("vs rung ").strip(), shape)["ms"] / row["ms"])
        try:
            return FIELDS[field](row)
        except KeyError as key:
            raise Wrong(f"value:{text}: the row has no {key}") from None

    def must_hold(self, text: str) -> None:
        words = [word.strip() for word in text.split(";")]
        if len(words) != 3 or " > " not in words[2]:
            raise Wrong(f"holds:{text}: wanted STEP; SHAPE; RUNG > RUNG")
        if not self.rows:
            return
        step, shape, claim = words
        fast, slow = (self.row(step, rung.strip(), shape) for rung in claim.split(" > "))
        if fast["ms"] >= slow["ms"]:
            raise Wrong(f"holds:{text}: not so, {fast['ms']:.4g} ms against {slow['ms']:.4g} ms")


def code(where: str) -> str:
    path, _, name = where.partition("#")
    if not (ROOT / path).is_file():
        raise Wrong(f"code:{where}: no such file")
    lines, inside, found, open_names = [], False, 0, set()
    for line in (ROOT / path).read_text().splitlines():
        if anchor := ANCHOR.match(line):
            if anchor[1] and anchor[2] not in open_names:
                raise Wrong(f"code:{where}: [/{anchor[2]}] without its beginning in {path}")
            open_names.symmetric_difference_update({anchor[2]})
            if anchor[2] == name:
                inside, found = not anchor[1], found + 1
        elif inside:
            lines.append(line)
    if found != 2 or not lines:
        raise Wrong(f"code:{where}: {path} has no region between // [{name}] and // [/{name}]")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.startswith("#"))
    text = "\n".join(line if line.startswith("#") else line[indent:] for line in lines)
    return f"```cpp\n{text.strip(chr(10))}\n```\n"


def plot(words: str, up: str) -> str:
    name, _, text = words.partition(" ")
    light, dark = (f"results/plots/{name}.{shade}.svg" for shade in ("light", "dark"))
    if not text:
        raise Wrong(f"plot:{words}: wanted a name and what one sees")
    if not (ROOT / light).is_file() or not (ROOT / dark).is_file():
        return f"*(No plot yet: `make plots` draws {name}.)*\n"
    return (f'<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="{up}{dark}">\n'
            f'  <img alt="{text}" src="{up}{light}">\n</picture>\n')


def filled(text: str, folder: Path, up: str = "../") -> tuple[str, list[str]]:
    """The text with all its markers filled, and what is wrong with it."""
    results, counters = load(folder), load(folder, "counters")
    bench = Bench(results)
    writers = {"results": lambda words: "\n" + results_table(words, results),
               "counters": lambda words: "\n" + counters_table(words, counters),
               "peers": lambda words: "\n" + peers_table(words, results, load(folder, "peers")),
               "loops": lambda words: "\n" + loops_table(words, folder),
               "code": lambda words: "\n" + code(words),
               "plot": lambda words: "\n" + plot(words, up),
               "value": bench.value}
    wrong, out, at, begin = [], [], 0, None
    for marker in MARKER.finditer(text):
        closing, kind, words = marker[1] == "/", marker[2], " ".join(marker[3].split())
        if begin and not (closing and kind == begin[2] and words in ("", " ".join(begin[3].split()))):
            return text, [*wrong, f"{begin[0]} has no end before {marker[0]}"]
        if closing and not begin:
            return text, [*wrong, f"{marker[0]} has no beginning"]
        if kind == "value" and not closing and text[:marker.start()].endswith("\n"):
            wrong.append(f"{marker[0]} begins a line, which Markdown would take for HTML")
        try:
            if kind == "holds":
                bench.must_hold(words)
            elif closing:
                content = writers[kind](" ".join(begin[3].split()))
                out += [text[at:begin.end()], content]
                at = marker.start()
        except Wrong as error:
            wrong.append(str(error))
        begin = None if closing or kind == "holds" else marker
    if begin:
        return text, [*wrong, f"{begin[0]} has no end"]
    return "".join([*out, text[at:]]), wrong


def readmes() -> list[Path]:
    return [ROOT / "README.md", *sorted(f for pattern in ("*/README.md", "common/*/README.md") for f in ROOT.glob(pattern)
                                        if not f.relative_to(ROOT).parts[0].startswith(("build", ".")))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    options = parser.parse_args()
    status = 0
    for readme in readmes():
        old = readme.read_text()
        new, wrong = filled(old, options.results, "../" * (len(readme.relative_to(ROOT).parts) - 1))
        for line in wrong:
            print(f"{readme.relative_to(ROOT)}: {line}")
        if new != old and options.check:
            print(f"{readme.relative_to(ROOT)}: differs from the code or from results/; run tools/sync_readme.py")
        if wrong or (new != old and options.check):
            status = 1
        if new != old and not options.check:
            readme.write_text(new)
    return status


if __name__ == "__main__":
    sys.exit(main())
