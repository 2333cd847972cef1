#!/usr/bin/env python3
"""Gives every program wrong command lines and broken files: each must end with one clear line and the right status.

    tools/check_command_lines.py BIN_FOLDER [lab|step]

Right means: the status asked for below, exactly one line on stderr, and that line names the thing that is wrong.
"""

import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from results import NUMBERS, ROOT

BAD_INPUT, ENVIRONMENT = 2, 3
MODEL = ROOT / "09_cuda_graph_decode/tiny_qwen"
passed, failures = 0, []


def expect(program: Path, arguments: list, statuses: tuple, word: str) -> None:
    global passed
    run = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, errors="replace")
    lines = run.stderr.splitlines()
    if run.returncode in statuses and len(lines) == 1 and word in lines[0]:
        passed += 1
        return
    said = f"status {run.returncode}, {len(lines)} lines: " + " / ".join(lines[-2:])
    failures.append(f"{program.name} {' '.join(map(str, arguments))}\n    wanted {statuses} and '{word}'; {said}")


def steps(folder: Path, machine: str) -> None:
    for number in NUMBERS[:-1]:
        program = folder / f"{machine}{number}"
        expect(program, ["--shape", "0x1x1"], (BAD_INPUT,), "0x1x1")
        expect(program, ["--shape", "axb"], (BAD_INPUT,), "axb")
        expect(program, ["--shape", "-4"], (BAD_INPUT,), "-4")
        expect(program, ["--shape", ""], (BAD_INPUT,), "--shape")
        expect(program, ["--no-such-option"], (BAD_INPUT,), "--no-such-option")
        expect(program, ["--samples", "0"], (BAD_INPUT,), "--samples")
        expect(program, ["--rung", "no such rung", "--check-only"], (BAD_INPUT,), "--rung")
        if machine == "lab":
            expect(program, ["--card", "no such card"], (BAD_INPUT,), "no such card")
            expect(program, ["--html", "/no/such/folder/page.html"], (BAD_INPUT,), "--html")
    for number in NUMBERS[:4]:
        expect(folder / f"{machine}{number}", ["--shape", "2000000000x2000000000x2000000000"], (ENVIRONMENT,), "--shape")


def edited_model(folder: Path, name: str, edit) -> Path:
    """A copy of the shipped model in folder/name, changed by edit(copy)."""
    copy = folder / name
    shutil.copytree(MODEL, copy)
    edit(copy)
    return copy


def edit_json(file: str, change):
    def edit(model: Path) -> None:
        content = json.loads((model / file).read_text())
        change(content)
        (model / file).write_text(json.dumps(content))

    return edit


def edit_header(change):
    """Rewrites the header of model.safetensors, keeping the data."""

    def edit(model: Path) -> None:
        file = model / "model.safetensors"
        data = file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        change(header)
        text = json.dumps(header).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])

    return edit


def cut(file: str, keep: int):
    return lambda model: (model / file).write_bytes((model / file).read_bytes()[:keep])


def overlap(header: dict) -> None:
    a, b = [name for name in header if name != "__metadata__"][:2]
    header[b]["data_offsets"] = header[a]["data_offsets"]


def without_theta(config: dict) -> None:
    for place in (config, config.get("rope_parameters") or {}, config.get("rope_scaling") or {}):
        place.pop("rope_theta", None)


def long_header(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 1 << 40) + file.read_bytes()[8:])


NORM = "model.norm.weight"
BROKEN_MODELS = {  # what is broken: the edit, and the word the message must hold
    "empty file": (cut("model.safetensors", 0), "model.safetensors"),
    "truncated file": (cut("model.safetensors", 100_000), "model.safetensors"),
    "header past the file": (long_header, "model.safetensors"),
    "overlapping offsets": (edit_header(overlap), "model.safetensors"),
    "missing tensor": (edit_header(lambda h: h.update(other=h.pop(NORM))), NORM),
    "wrong shape": (edit_header(lambda h: h[NORM].update(shape=[1, *h[NORM]["shape"]])), NORM),
    "wrong dtype": (edit_header(lambda h: h[NORM].update(dtype="I16")), NORM),
    "no rope theta": (edit_json("config.json", without_theta), "rope_theta"),
    "unknown family": (edit_json("config.json", lambda c: c.update(model_type="mamba", architectures=["M"])), "mamba"),
    "malformed config": (cut("config.json", 20), "config.json"),
    "no merges": (edit_json("tokenizer.json", lambda t: t["model"].pop("merges")), "merges"),
    "no config": (lambda model: (model / "config.json").unlink(), "config.json"),
    "no tokenizer": (lambda model: (model / "tokenizer.json").unlink(), "tokenizer.json"),
}


def decoder(program: Path) -> None:
    expect(program, ["--no-such-option"], (BAD_INPUT,), "--no-such-option")
    expect(program, ["--model", "/no/such/folder", "--prompt", "x"], (BAD_INPUT,), "/no/such/folder")
    expect(program, ["--max-new-tokens", "0"], (BAD_INPUT,), "--max-new-tokens")
    expect(program, ["--top-p", "1.5"], (BAD_INPUT,), "--top-p")
    expect(program, ["--gemm", "05"], (BAD_INPUT,), "--gemm")
    expect(program, ["--tokens", "1,999999999"], (BAD_INPUT,), "999999999")
    expect(program, ["--prompt-file", "/no/such/file"], (BAD_INPUT,), "/no/such/file")
    expect(program, ["--prompt", "warp " * 20_000], (BAD_INPUT,), "context")
    expect(program, ["--random", "other"], (BAD_INPUT,), "--random")
    with tempfile.TemporaryDirectory() as folder:
        for name, (edit, word) in BROKEN_MODELS.items():
            model = edited_model(Path(folder), name.replace(" ", "_"), edit)
            expect(program, ["--model", model, "--prompt", "What is a warp?"], (BAD_INPUT,), word)


def main() -> int:
    folder = Path(sys.argv[1])
    machine = sys.argv[2] if len(sys.argv) > 2 else "lab"
    steps(folder, machine)
    decoder(folder / f"{machine}09")
    for failure in failures:
        print(failure)
    print(f"command lines: {passed} refused as they should be, {len(failures)} not")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
