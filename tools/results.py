"""Runs the steps' programs for their JSON rows, puts such rows into a results file, and reads results files.

A results file is {"machine": {…}, "commit": "…", "command": "…", "rows": […]}; the rows are those of `stepNN --json`. With
"kind": "sizes" it holds the fp32 GEMMs over many sizes (make sizes), with "kind": "counters" what Nsight Compute counted
(make counters), with "peers" what PyTorch and its backends need (make peers); without a kind it is the run of make gpu-check, which the tables show.
"""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE_CARD = "h200"  # whose figures the lessons quote, where results of several cards are there
MAIN_SHAPES = {"01": "4096×4096×4096"}  # where it is not the first that a step lists
CANDIDATE = "04 tile "  # rungs measured for the choice of a tile, which is a rung of its own
NUMBERS = [f"{n:02d}" for n in range(1, 10)]


def program_arguments(number: str) -> list[str]:
    return ["--ladder"] if number == "09" else []


def commit() -> str:
    """The commit of the work tree, with a + where files differ from it; "unknown" outside a repository."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "") or "unknown"


def card_name(machine: dict) -> str:
    """The file name for a card: NVIDIA H200 -> h200, NVIDIA GeForce RTX 4060 Ti -> rtx-4060-ti."""
    name = re.sub(r"nvidia|geforce|tesla|quadro", "", machine["name"].lower())
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-")


def merge(files: list[Path], commit_name: str, command: str) -> dict:
    parts = [json.loads(file.read_text()) for file in files]
    rows = [{key: value for key, value in row.items() if key != "machine"} for part in parts for row in part["rows"]]
    return {"machine": parts[0]["machine"], "commit": commit_name, "command": command, "rows": rows}


def load(folder: Path, kind: str = "") -> list[dict]:
    """All results files of a kind, the reference card's first; other JSON files are passed over."""
    files = sorted(folder.glob("*.json"), key=lambda file: (not file.stem.startswith(REFERENCE_CARD), file.name))
    results = [json.loads(file.read_text()) for file in files]
    return [r for r in results if isinstance(r, dict) and r.get("kind", "") == kind
            and {"rows", "machine", "commit"} <= r.keys() and all("rung" in row for row in r["rows"])]


def main_shape(rows: list[dict], step: str) -> str:
    shapes = [r["shape"] for r in rows if r["step"] == step]
    return MAIN_SHAPES.get(step) if MAIN_SHAPES.get(step) in shapes else shapes[0]


def rate(row: dict) -> tuple[float, str]:
    """The number that a row is judged by, with its unit."""
    if "tokens_per_s" in row:
        return row["tokens_per_s"], "tokens/s"
    return (row["gbps"], "GB/s") if row.get("memory_bound") else (row["gflops"], "GFLOPS")


def times(value: float) -> str:
    return f"{value:.2f}×"


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def table_cells(row: dict) -> list[str]:
    """rung, shape, ms, rate, vs before, vs peer, of peak (of the weight-read floor in step 09)"""
    if "ms" not in row:
        why = "skipped: " + row["skipped"] if row.get("skipped") else "ok" if row["checked"] else "WRONG, so no time"
        return [row["rung"], row["shape"], why, "", "", "", ""]
    number, unit = rate(row)
    return [
        row["rung"],
        row["shape"] + (" bf16" if row.get("dtype") == "bf16" and row["step"] != "09" else ""),
        f"{row['ms']:.4g}",
        f"{number:,.0f} {unit}",
        times(row["vs_baseline"]) if "vs_baseline" in row else "",
        percent(row["vs_peer"]) if "vs_peer" in row else "",
        percent(row.get("of_peak", row.get("of_floor", 0))),
    ]
