#!/usr/bin/env python3
"""Asks the shipped model questions of its glossary: each must be answered in the glossary's words.

    tools/check_answers.py PROGRAM [HOW_MANY]        PROGRAM: build/bin/lab09 or build/bin/step09; 3 questions by default
"""

import json
import subprocess
import sys

from results import ROOT


def main() -> int:
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    glossary = json.loads((ROOT / "tools/glossary.json").read_text())
    count = min(count, len(glossary))
    wrong = 0
    for i in range(count):  # spread over the whole file: English and Chinese
        entry = glossary[i * (len(glossary) - 1) // max(1, count - 1)]
        run = subprocess.run([program, "--prompt", entry["question"]], capture_output=True, text=True)
        right = run.returncode == 0 and entry["answer"] in run.stdout
        wrong += not right
        print(("ok     " if right else "WRONG  ") + entry["question"])
        if not right:
            print(f"    wanted: {entry['answer']}\n    got:    {run.stdout.strip()} {run.stderr.strip()}")
    print(f"answers: {count - wrong} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
