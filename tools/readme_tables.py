"""The tables of the READMEs in Markdown: results, counters, and the instructions of main loops."""

import json
import re
from pathlib import Path

from results import CANDIDATE, NUMBERS, main_shape, rate, table_cells, times

NO_TABLE = "Not measured yet: `make gpu-check` on a machine with a GPU fills this table.\n"
NO_COUNTERS = "Not counted yet: `make counters` on a machine with a GPU and free counters fills this table.\n"
NO_PEERS = "Not measured yet: `make peers` on a machine with a GPU and PyTorch fills this table.\n"
NO_LOOPS = "Not counted yet: `make loops` fills this table wherever the CUDA Toolkit is, without a GPU.\n"
HEADER = ["rung", "shape", "ms", "rate", "vs before", "vs peer", "of peak"]


class Wrong(Exception):
    """What a marker asks for does not exist, or is not true."""


def best_rows(rows: list[dict]) -> list[dict]:
    best = []
    for number in NUMBERS:
        timed = [r for r in rows if r["step"] == number and "ms" in r and r["checked"]
                 and r["rung"] not in (r.get("peer"), r.get("baseline"))
                 and not r["rung"].startswith(CANDIDATE)]
        if timed:
            shape = main_shape(timed, number)
            best.append(max((r for r in timed if r["shape"] == shape), key=lambda r: rate(r)[0]))
    return best


def markdown(header: list[str], lines: list[list[str]], first_number: str) -> str:
    rule = [" ---: " if i >= header.index(first_number) else " --- " for i in range(len(header))]
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "|".join(rule) + "|",
                      *("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in lines)])


def heading(result: dict) -> str:
    machine = result["machine"]
    return (f"{machine['name']} · driver {machine['driver']} · CUDA {machine['cuda']} · commit {result['commit']} · "
            f"`{result['command']}`\n\n")


def results_table(which: str, results: list[dict]) -> str:
    which, _, only = (word.strip() for word in which.partition(";"))
    if which != "best" and which not in NUMBERS:
        raise Wrong(f"results:{which}: neither a step nor best")
    texts = []
    for result in results:
        rows = best_rows(result["rows"]) if which == "best" else [r for r in result["rows"] if r["step"] == which]
        rows = [r for r in rows if not only or only in (r["shape"], r["rung"])]
        if not rows:
            continue
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
        texts.append(f"{heading(result)}{markdown(header, lines, 'ms')}\n")
    if results and only and not texts:
        raise Wrong(f"results:{which}: no row of '{only}' in results/")
    return "\n".join(texts) or NO_TABLE


COUNTED = {  # column: key of a row of a counters file, format
    "time µs": ("time_us", "{:,.1f}"),
    "SM %": ("sm", "{:.0f}"),
    "L1 %": ("l1", "{:.0f}"),
    "DRAM %": ("dram", "{:.0f}"),
    "warps %": ("warps", "{:.0f}"),
    "registers": ("registers", "{:.0f}"),
    "sectors/load": ("sectors_per_load", "{:.2f}"),
    "sectors/store": ("sectors_per_store", "{:.2f}"),
    "wavefronts/load": ("wavefronts_per_load", "{:.2f}"),
    "wavefronts/store": ("wavefronts_per_store", "{:.2f}"),
}


def counters_table(which: str, counters: list[dict]) -> str:
    if which not in NUMBERS:
        raise Wrong(f"counters:{which}: not a step")
    texts = []
    for result in counters:
        rows = [r for r in result["rows"] if r["step"] == which]
        if rows:
            lines = [[row["rung"], row["shape"], *(form.format(row[key]) if row.get(key) is not None else "–"
                                                   for key, form in COUNTED.values()), row.get("verdict", "–")] for row in rows]
            texts.append(f"{heading(result)}{markdown(['rung', 'shape', *COUNTED, 'bound'], lines, 'time µs')}\n")
    return "\n".join(texts) or NO_COUNTERS


def peers_table(which: str, results: list[dict], peers: list[dict]) -> str:
    """The peers of a step, and beside each our fastest rung for that shape on the same card."""
    if which not in NUMBERS:
        raise Wrong(f"peers:{which}: not a step")
    texts = []
    for result in peers:
        of_card = [r for other in results if other["machine"]["name"] == result["machine"]["name"] for r in other["rows"]]
        lines = []
        for row in (r for r in result["rows"] if r["step"] == which):
            where = (row["step"], row["shape"], row["dtype"])
            mine = [r for r in of_card if (r["step"], r["shape"], r["dtype"]) == where and "ms" in r and r["checked"]]
            best = min(mine, key=lambda r: r["ms"], default=None)
            cells = table_cells(row)
            if "wrong" in row:
                cells[2] = "wrong: " + row["wrong"]
            ours = [best["rung"], f"{best['ms']:.4g}", times(row["ms"] / best["ms"]) if "ms" in row else ""] if best else [""] * 3
            lines.append([cells[0], cells[1], cells[2], cells[3], *ours])
        if lines:
            header = ["peer", "shape", "ms", "rate", "our fastest", "its ms", "faster by"]
            texts.append(f"{heading(result)}{markdown(header, lines, 'ms')}\n")
    return "\n".join(texts) or NO_PEERS


def loops_table(words: str, folder: Path) -> str:
    which, _, only = (word.strip() for word in words.partition(";"))
    file = folder / "loops.json"
    if not file.exists():
        return NO_LOOPS
    loops = json.loads(file.read_text())
    rows = sorted((r for r in loops["rows"] if r["step"] == which and re.search(only, r["kernel"])), key=lambda r: r["fma_share"])
    if not rows:
        raise Wrong(f"loops:{words}: no such kernel in results/loops.json")
    columns = {"instructions": "instructions", "FMA": "fma", "share": "fma_share", "shared loads": "shared_loads",
               "of 16 bytes": "wide", "register conflicts": "bank_conflicts", "registers": "registers"}
    if which < "04":  # the step that speaks of them
        del columns["register conflicts"]
    columns = {name: key for name, key in columns.items() if any(r[key] for r in rows)}
    lines = [[f"`{r['kernel']}`", *(f"{r[key]:.2f}" if key == "fma_share" else str(r[key]) for key in columns.values())]
             for r in rows]
    return (f"{loops['compiler']} · {loops['arch']} · commit {loops['commit']} · `make loops`\n\n"
            f"{markdown(['kernel', *columns], lines, 'instructions')}\n")
