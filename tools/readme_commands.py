#!/usr/bin/env python3
"""Checks that the READMEs speak of things that exist: links, files, make targets, and options of the programs.

    tools/readme_commands.py [BIN_FOLDER]

With a folder of executor programs, the options behind each `make stepNN ARGS="…"` and `build/bin/stepNN …` are given to labNN as
well, with --list, so that nothing runs; of step 09 they are looked up in its --help.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from results import ROOT
from sync_readme import readmes

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
FILE = re.compile(r"^[\w./-]+\.(?:cuh|cu|hpp|cpp|py|sh|json|md)$")
LATER = re.compile(r"^(build/|results/|my\.|config\.json|model\.safetensors|tokenizer\w*\.json|generation_config\.json)")  # made by a run, or not ours


def targets() -> set[str]:
    """Of the Makefile; a pattern stands for its nine numbers."""
    found = set()
    for line in (ROOT / "Makefile").read_text().splitlines():
        if match := re.match(r"^(?:\$\((\w+)_TARGETS\): )?([\w%-]+):(?!=)", line):
            numbers = [f"{n:02d}" for n in range(1, 10)] if "%" in match[2] else [""]
            found |= {match[2].replace("%", number) for number in numbers}
    return found


def code_of(text: str) -> list[str]:
    """Lines of code blocks that are no program text, and code within sentences."""
    blocks = [block for language, block in BLOCK.findall(text) if not language]
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return lines + re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))


def commands(text: str) -> list[list[str]]:
    """Every make or build/bin command, as words; ARGS="…" is split into its own."""
    found = []
    for line in code_of(text):
        for part in re.split(r"&&|\|", line):
            if not re.match(r"\s*(make|build/bin/\w+)(\s|$)", part) or "…" in part and "make" not in part.split()[0]:
                continue
            try:
                found.append(shlex.split(part))
            except ValueError:
                found.append(["", part])  # a quote without its end
    return found


def static_faults(readme: Path, known: set[str]) -> list[str]:
    text = re.sub(r"<!--.*?-->", "", readme.read_text(), flags=re.S)
    faults = []
    for link in re.findall(r"\]\(([^)#]+)\)|src(?:set)?=\"([^\"]+)\"", BLOCK.sub("", text)):
        target = link[0] or link[1]
        if "://" not in target and not (readme.parent / target).exists():
            faults.append(f"link to {target}, which does not exist")
    names = {path.name for path in ROOT.rglob("*") if path.is_file() and "build" not in path.parts[len(ROOT.parts)]}
    for word in code_of(text):
        if FILE.match(word) and not LATER.match(word) and not any((folder / word).exists() for folder in (readme.parent, ROOT)) \
                and Path(word).name not in names:
            faults.append(f"`{word}`: no such file")
    for words in commands(text):
        if words[0] == "":
            faults.append(f"{words[1]}: a quote without its end")
        elif words[0] == "make" and len(words) > 1 and "NN" not in words[1] and "=" not in words[1] and words[1] not in known:
            faults.append(f"make {words[1]}: no such target")
    return faults


def option_faults(readme: Path, folder: Path) -> list[str]:
    faults = []
    for words in commands(re.sub(r"<!--.*?-->", "", readme.read_text(), flags=re.S)):
        arguments = next((shlex.split(w.removeprefix("ARGS=")) for w in words if w.startswith("ARGS=")), None)
        if words[0] != "make":
            arguments = words[1:]
        program = re.search(r"(?:step|lab)(\d\d)$", words[1] if words[0] == "make" and len(words) > 1 else words[0])
        if not program or not arguments or not (folder / f"lab{program[1]}").exists():
            continue
        if program[1] == "09":
            known = subprocess.run([folder / "lab09", "--help"], capture_output=True, text=True).stdout
            faults += [f"{' '.join(words)}: lab09 has no {w}" for w in arguments if w.startswith("--") and w not in known]
            continue
        run = subprocess.run([folder / f"lab{program[1]}", *arguments, "--list"], capture_output=True, text=True)
        if run.returncode:
            faults.append(f"{' '.join(words)}: {run.stderr.strip()}")
    return faults


def main() -> int:
    status = 0
    for readme in readmes():
        faults = static_faults(readme, targets())
        if len(sys.argv) > 1:
            faults += option_faults(readme, Path(sys.argv[1]))
        for fault in faults:
            print(f"{readme.relative_to(ROOT)}: {fault}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
