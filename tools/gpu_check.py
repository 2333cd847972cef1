#!/usr/bin/env python3
"""make gpu-check: build, every test, compute-sanitizer and every bench on this GPU, in one go.

One log per command goes into build/gpu_check/. If every bench of every step is right, results/<card>.json is written.
Exit status: 0 only if everything passed; 1 something failed; 77 no CUDA program can be built or run here.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ladder import print_table
from results import NUMBERS, ROOT, card_name, commit, merge, program_arguments

BUILD = ROOT / "build"
LOGS = BUILD / "gpu_check"
outcome: list[tuple[str, str, float]] = []  # name, "ok" or what went wrong, seconds


def run(name: str, command: list, limit: float, environment: dict | None = None) -> bool:
    """Runs one command into its own log; a command past its limit (seconds) has failed, and all that it started is ended.

    A sanitizer's own end leaves the program under it running on the GPU, where it would slow every later bench.
    """
    begin = time.monotonic()
    log = LOGS / f"{name.replace(' ', '_')}.log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        try:
            status = process.wait(limit)
            what = "ok" if status == 0 else f"status {status}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            what = f"not finished after {limit:.0f} s"
    seconds = time.monotonic() - begin
    outcome.append((name, what, seconds))
    print(f"{name:<28}{seconds:7.1f} s  {what}", flush=True)
    if what != "ok":
        print("    " + "\n    ".join(log.read_text(errors="replace").splitlines()[-15:]), flush=True)
    return what == "ok"


def sanitize(tests: list[str], limit: float) -> bool:
    """memcheck and racecheck over each test program, on thinned sizes; test cases tagged [slow] are left out."""
    tool = shutil.which("compute-sanitizer") or f"{os.environ.get('CUDA_HOME', '/usr/local/cuda')}/bin/compute-sanitizer"
    if not Path(tool).exists():
        outcome.append(("sanitizers", "compute-sanitizer is not installed", 0))
        return False
    # Tests provoke refused launches on purpose. Every such error is an exception in this code, so that an unwanted one
    # fails its test; the report of API errors would only repeat the wanted ones.
    checks = (("racecheck", [], 4), ("memcheck", ["--report-api-errors", "no"], 1))  # the long one first, and in parts
    jobs = [(f"{check} {test}" + (f" {part + 1} of {parts}" if parts > 1 else ""),
             ["stdbuf", "-oL", tool, "--tool", check, "--error-exitcode", "9", *extra, f"build/bin/{test}", "~[slow]",
              "--durations", "yes", "--shard-count", str(parts), "--shard-index", str(part), "--allow-running-no-tests"])
            for check, extra, parts in checks for test in reversed(tests) for part in range(parts)]
    memory = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                            capture_output=True, text=True).stdout.split()
    workers = 8 if memory and int(memory[0]) > 40000 else 1
    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(lambda job: run(job[0], job[1], limit, {"THIN_TESTS": "1"}), jobs)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="build,test,bench,sanitize", help="a part of: %(default)s")
    parser.add_argument("--steps", default=",".join(NUMBERS), help="sanitize and bench only these")
    parser.add_argument("--commit", default="", help="what the results file says, where git is not at hand")
    parser.add_argument("--sanitizer-limit", type=float, default=150, help="seconds for one sanitizer run")
    options = parser.parse_args()
    begin = time.monotonic()
    only, steps = options.only.split(","), options.steps.split(",")
    LOGS.mkdir(parents=True, exist_ok=True)

    if not run("set-up", ["tools/setup.sh", "build", *os.environ.get("CMAKE_ARGS", "").split()], 300):
        return 1
    if why := (BUILD / "why_no_cuda.txt").read_text():
        print(f"make gpu-check needs the CUDA programs, and they are left out: {why}.")
        return 77
    if "build" in only and not run("build", ["tools/build.sh", "build", "all"], 420):
        return 1
    if "test" in only:
        run("tests", ["tools/test.sh"], 420)
        print("    " + (LOGS / "tests.log").read_text(errors="replace").splitlines()[-1])
    if "bench" in only:
        rows = {n: LOGS / f"step{n}.json" for n in steps}
        for file in rows.values():
            file.unlink(missing_ok=True)
        good = [run(f"bench step{n}", [f"build/bin/step{n}", *program_arguments(n), "--json", file], 180)
                for n, file in rows.items()]
        if written := [file for file in rows.values() if file.exists()]:
            result = merge(written, options.commit or commit(), "make gpu-check")
            print_table(result)
            path = LOGS / "results.json"
            if all(good) and steps == NUMBERS:  # only a whole and right run is published
                path = ROOT / "results" / f"{card_name(result['machine'])}.json"
                path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
            print(f"{path.relative_to(ROOT)} written: {len(result['rows'])} rows")
    if "sanitize" in only:  # last: nothing of it may run beside a bench
        tests = ["common_gpu_test"] if steps == NUMBERS else []
        sanitize(tests + [f"step{n}_test" for n in steps], options.sanitizer_limit)

    bad = [(name, what) for name, what, _ in outcome if what != "ok"]
    print(f"\nmake gpu-check: {len(outcome)} runs, {len(bad)} failed, {time.monotonic() - begin:.0f} s")
    for name, what in bad:
        print(f"  {name}: {what} (build/gpu_check/{name.replace(' ', '_')}.log)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
