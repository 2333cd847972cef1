#!/usr/bin/env python3
"""The lab's counts beside the hardware's: sectors, requests and wavefronts of every kernel, by ncu and by the executor.

    tools/compare_counters.py                     on a GPU: ncu and lab run, results/counters.json is written
    tools/compare_counters.py --again             the same from what the last run of ncu left in build/counters
    tools/compare_counters.py --from-json FILE    no GPU: the hardware's numbers from the file, the lab's anew
    tools/compare_counters.py --check FILE        so too, but nothing is written

One ncu run a step program with the shapes of PLAN; the lab runs the same command line. The i-th launch of a kernel there is
the i-th launch here: both run the rungs in one order, and names are compared without arguments. A Markdown table goes
to stdout: what ncu counted, and behind it the lab's number where that differs.

Read from `labNN --json`, in each row that ran a kernel:
  counts.barriers_per_block
  counts.global.load, .store    {requests, sectors, l1_lines, bytes}: of warps; 32-byte sectors; 128-byte lines; of lanes
  counts.shared.load, .store    {requests, wavefronts, least_wavefronts, bytes}
  counts.kernels[]              {kernel, launches, blocks, threads, barriers, flops (where declared), global, shared, lines}
  counts.kernels[].lines[]      {file, line, space, load, bytes_per_lane, requests, lanes, and sectors and l1_lines, or
                                wavefronts and least_wavefronts}
  counts.kernels[].barrier_lines[]  {file, line, of_warp, count}: blocks, or warps, that passed it
Written: {machine, commit, command, programs: [{program, arguments, kernels: [{rung, shape, kernel, launches,
metrics: {of ncu}, ncu: {counter: sum of its metrics}, lab: {counter: count}, why: {counter: reason}}]}]}.
Exit status: 0; 1 differences without a reason, or a program failed; 2 usage; 77 no ncu or no CUDA program.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from counters import COUNTERS, Trouble, explain, kernel_function, lab_kernels, markdown, pair, parse_ncu
from profile_step import find_ncu
from results import ROOT, commit

# Program, command line. Left out are rungs whose kernel or grid follows the number of multiprocessors.
PLAN = [
    ("01", ["--shape", "192x160x136", "--shape", "65x33x17", "--rung", "coalesced"]),  # both: "uncoalesced" has it inside
    ("02", ["--shape", "192x160x136", "--shape", "65x33x17", "--rung", "02 "]),
    ("03", ["--shape", "192x160x136", "--shape", "65x33x17", "--shape", "320x224", "--shape", "65x33", "--rung", "03 ",
            "--rung", "02 register"]),
    ("04", ["--shape", "192x160x136", "--shape", "65x33x17", "--rung", "04 float4", "--rung", "04 +"]),
    ("05", ["--shape", "48x1000", "--shape", "2x40000", "--rung", "passes", "--rung", "one pass", "--rung", "several"]),
    ("06", ["--shape", "1x2x1x150x64", "--rung", "06 fused, CUDA cores"]),
    ("07", ["--shape", "40x10x64", "--shape", "7x5x18", "--rung", "RoPE"]),
    ("08", ["--shape", "1x13", "--shape", "5x9", "--rung", "rms_norm", "--rung", "residual_add", "--rung", "act_mul",
            "--rung", "qk_score", "--rung", "causal_mask_softmax", "--rung", "pv_matmul", "--rung", "kv_cache_store"]),
]
SAME_SHAPE = {"LAYER": "small"}  # step 08 on a GPU: the layer that the executor has

def run(command: list, **more) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **more)
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        raise Trouble("the driver keeps the counters for administrators (ERR_NVGPUCTRPERM); make profile01 says what helps")
    if done.returncode:
        raise Trouble(f"{' '.join(map(str, command))}: status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def run_json(command: list, **more) -> tuple[str, dict]:
    """Runs a step's program with --json; returns what it printed and the JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        text = run([*command, "--json", file], **more)
        return text, json.loads(file.read_text())


def run_lab(folder: Path, program: str, arguments: list[str]) -> list[dict]:
    kernels = lab_kernels(run_json([folder / f"lab{program}", "--check-only", *arguments])[1]["rows"])
    if not kernels:
        raise Trouble(f"lab{program} counted no kernel: {' '.join(arguments)}")
    return kernels


def known_metrics(ncu: str) -> list[str]:
    """Those of COUNTERS that this ncu has for this GPU; the first of each counter has to be."""
    known = set(re.findall(r"^(\w+__\w+)", run([ncu, "--query-metrics"]), re.M))
    return [m for metrics in COUNTERS.values() for m in metrics if m == metrics[0] or m.removesuffix(".sum") in known]


def run_ncu(folder: Path, ncu: str, metrics: list[str], program: str, arguments: list[str], functions: list[str]) -> None:
    """Leaves ncu's table and the program's JSON in folder/../counters."""
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(metrics),
               "--kernel-name", f"regex:^({'|'.join(functions)})$", folder / f"step{program}", "--check-only", *arguments]
    text, rows = run_json(command, env={**os.environ, **SAME_SHAPE})
    raw = folder.parent / "counters"
    raw.mkdir(exist_ok=True)
    (raw / f"{program}.csv").write_text(text)
    (raw / f"{program}.json").write_text(json.dumps(rows))


def measure(folder: Path, ncu: str | None) -> tuple[dict, list[str]]:
    """Both sides of every program of PLAN, and what went wrong; without ncu from what its last run left."""
    metrics, machine, programs, problems = known_metrics(ncu) if ncu else [], {}, [], []
    for program, arguments in PLAN:
        print(f"step {program}: {' '.join(arguments)}", file=sys.stderr)
        try:
            kernels = run_lab(folder, program, arguments)
            if ncu:
                run_ncu(folder, ncu, metrics, program, arguments, sorted({kernel_function(k["kernel"]) for k in kernels}))
            raw = folder.parent / "counters"
            machine = json.loads((raw / f"{program}.json").read_text())["machine"]
            paired, unpaired = pair(kernels, parse_ncu((raw / f"{program}.csv").read_text()))
        except (Trouble, OSError) as trouble:  # the others are still worth the GPU's time
            problems.append(f"step {program}: {trouble}")
            continue
        problems += unpaired
        programs.append({"program": program, "arguments": arguments, "kernels": paired})
    return {"machine": machine, "commit": commit(), "command": "tools/compare_counters.py", "programs": programs}, problems


def recount(saved: dict, folder: Path) -> None:
    """Puts today's counts of the lab into `saved`, beside the hardware's."""
    for program in saved["programs"]:
        kernels = {(k["rung"], k["shape"], k["kernel"]): k for k in run_lab(folder, program["program"], program["arguments"])}
        for old in program["kernels"]:
            new = kernels.get((old["rung"], old["shape"], old["kernel"]), {"launches": 0})
            if new["launches"] != old["launches"]:
                raise Trouble(f"{old['rung']} at {old['shape']}: {old['kernel']} ran {new['launches']} times in the lab; the "
                              f"file has {old['launches']}")
            old["lab_before"], old["lab"] = old["lab"], new["lab"]


def compare(arguments: argparse.Namespace) -> int:
    saved_file, folder = arguments.check or arguments.from_json, ROOT / arguments.build / "bin"
    if arguments.make:
        names = ["lab" + n for n, _ in PLAN] + ([] if saved_file or arguments.again else ["step" + n for n, _ in PLAN])
        subprocess.run(["tools/build.sh", arguments.build, *names], cwd=ROOT, check=True, stdout=sys.stderr)
    problems = []
    if saved_file:
        result = json.loads(saved_file.read_text())
        recount(result, folder)
    else:
        ncu = None if arguments.again else arguments.ncu or find_ncu()
        if not arguments.again and not (ncu and (folder / "step01").exists()):
            raise Trouble("needs ncu (Nsight Compute) and the CUDA programs; --from-json FILE needs neither", 77)
        result, problems = measure(folder, ncu)
    without = explain(result["programs"])
    print(markdown(result["programs"]))
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not arguments.check:
        file = saved_file or arguments.out
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return 1 if without or problems else 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=Path, help="compare a file's counters with the lab, write nothing")
    parser.add_argument("--from-json", type=Path, help="compare a file's counters with the lab, and update the file")
    parser.add_argument("--again", action="store_true", help="from what the last run of ncu left in BUILD/counters")
    parser.add_argument("--out", type=Path, default=ROOT / "results/counters.json")
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--ncu", help="path of ncu")
    parser.add_argument("--no-make", dest="make", action="store_false", help="the programs are built already")
    try:
        return compare(parser.parse_args(words))
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return trouble.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
