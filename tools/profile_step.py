#!/usr/bin/env python3
"""make profileNN: what Nsight Compute counts for each rung of a step, and what bounds it.

  SM %, DRAM %   how busy the busiest part of the multiprocessors is, and the memory: % of what it could sustain
  L1 %           the same of the unit that holds L1 and shared memory
  warps %        warps resident on a multiprocessor, % of the most there can be (achieved occupancy); regs: of a thread
  conflicts      wavefronts that shared memory took beyond the least, of loads and stores
  sect/ld st     32-byte sectors a request to global memory touches;  wave/ld st: wavefronts a shared-memory request takes

A unit at 60 % or more of its peak is the bound; where none is, the kernel waits for latency. Each run adds a line per rung
to results/journal.csv (make journal); CHANGE="…" says what was changed. Where the counters are closed, or there is no GPU, one
line says why and the executor's counts are shown instead.

    tools/profile_step.py NN… [--shape S] [--rung TEXT] [--save]

--save (make counters) puts the rows into results/<card>-counters.json, which the lessons show. Exit status: 0; 1 ncu failed;
else that of the executor's program.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import journal
from results import ROOT, card_name, commit

ARTICLE = {
    "gpu__time_duration.sum": "time_us",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "conflicts",
}
MORE = {
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed": "l1",
    "launch__registers_per_thread": "registers",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "global_loads",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_load_sectors",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "global_stores",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_store_sectors",
    "smsp__sass_inst_executed_op_shared_ld.sum": "shared_loads",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared_load_wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "load_conflicts",
    "smsp__sass_inst_executed_op_shared_st.sum": "shared_stores",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "shared_store_wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "store_conflicts",
}
MICROSECONDS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1, "us": 1, "msecond": 1e3, "ms": 1e3, "second": 1e6, "s": 1e6}
BUSY = 60.0  # % of peak from which a unit is said to be the bound: what is left is ramp-up, tail and latency
MAIN_SHAPES = {"01": ["4096x4096x4096"], "02": ["4096x4096x4096"], "03": ["4096x4096x4096", "8192x8192"],
               "04": ["4096x4096x4096"]}  # of the steps that run many: one tells what bounds a rung
CLOSED = """The driver keeps the hardware counters for administrators (ERR_NVGPUCTRPERM). To open them:
  bare metal   run as root, or let everybody:
               echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/ncu.conf
               and restart
  WSL2         in Windows: NVIDIA Control Panel > Desktop > Enable Developer Settings, then
               Manage GPU Performance Counters > Allow access to all users
  container    start it with --cap-add SYS_ADMIN; on a rented machine only its owner can do that"""


def find_ncu() -> str | None:
    places = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/ncu")]
    return shutil.which("ncu") or next((str(p) for p in sorted(places, reverse=True) if p.exists()), None)


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:  # "n/a", or nothing
        return None


def parse(text: str) -> list[dict]:
    """One entry a launch, in order, from ncu's `--csv --page raw`; a counter that ncu does not have is None."""
    kernels, units = [], {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        if not row.get("ID"):  # the second line holds the units
            units = row
            continue
        name = row["Kernel Name"].removeprefix("void ").split("(")[0]
        if "reference" in name or "poison" in name:  # of the check, not of a rung
            continue
        k = {"kernel": name, **{short: number(row.get(metric) or "") for metric, short in {**ARTICLE, **MORE}.items()}}
        k["time_us"] = (k["time_us"] or 0) * MICROSECONDS[units["gpu__time_duration.sum"]]
        for which, above, below in (("sectors_per_load", "global_load_sectors", "global_loads"),
                                    ("sectors_per_store", "global_store_sectors", "global_stores"),
                                    ("wavefronts_per_load", "shared_load_wavefronts", "shared_loads"),
                                    ("wavefronts_per_store", "shared_store_wavefronts", "shared_stores")):
            k[which] = k[above] / k[below] if k[above] is not None and k[below] else None
        kernels.append(k)
    return kernels


def verdict(k: dict) -> tuple[str, str]:
    """What bounds a kernel, and the counter that says so."""
    l1 = k["l1"] or 0
    said = f"SM {k['sm']:.0f} %, L1 and shared memory {l1:.0f} %, DRAM {k['dram']:.0f} % of peak"
    if max(k["sm"], l1, k["dram"]) < BUSY:
        why = f"no unit is at {BUSY:.0f} %: {said}; {k['warps']:.0f} % of the warps are resident"
        return "latency-bound", why + causes(k)
    if k["dram"] >= max(k["sm"], l1):
        return "memory-bound", f"DRAM is the busiest unit: {said}"
    if l1 >= k["sm"]:
        return "memory-bound", f"L1 and shared memory are the busiest unit: {said}" + causes(k)
    return "compute-bound", f"the SM is the busiest unit: {said}"


def causes(k: dict) -> str:
    """Requests that take more than they must; 4 sectors and 4 wavefronts are the least of 16-byte lanes."""
    found = []
    for what in ("load", "store"):
        if (k[f"sectors_per_{what}"] or 0) > 16:
            found.append(f"a global {what} touches {k[f'sectors_per_{what}']:.1f} sectors")
        if k[f"{what}_conflicts"] and k[f"{what}_conflicts"] > 0.25 * k[f"shared_{what}_wavefronts"]:
            found.append(f"{100 * k[f'{what}_conflicts'] / k[f'shared_{what}_wavefronts']:.0f} % of the wavefronts of shared "
                         f"{what}s are conflicts")
    return "; " + "; ".join(found) if found else ""


def cell(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def print_rung(rung: str, shape: str, kernels: list[dict]) -> None:
    for k in kernels:
        label = f"{rung} · {shape}" if len(kernels) == 1 else f"{rung} · {k['kernel']}"
        print(f"{label[:51]:<52}{k['time_us']:>10.1f}{cell(k['sm'], '.1f'):>7}{cell(k['l1'], '.1f'):>7}"
              f"{cell(k['dram'], '.1f'):>8}{cell(k['warps'], '.1f'):>9}{cell(k['registers'], '.0f'):>6}"
              f"{cell(k['conflicts'], ',.0f'):>15}{cell(k['sectors_per_load'], '.1f'):>9}{cell(k['sectors_per_store'], '.1f'):>6}"
              f"{cell(k['wavefronts_per_load'], '.2f'):>9}{cell(k['wavefronts_per_store'], '.2f'):>7}")
        print("    {}: {}".format(*verdict(k)))


def counted(ncu: str, program: str, arguments: list[str]) -> tuple[list[dict], dict, str]:
    """The kernels of one run, the rows it wrote, and what ncu said where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.json")
        for metrics in ([*ARTICLE, *MORE], list(ARTICLE)):  # an old ncu may lack some of the second group
            command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(metrics), program,
                       *arguments, *([] if program.endswith("09") else ["--json", str(rows)])]
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            output = run.stdout + run.stderr
            if "Failed to find metric" not in output:
                break
        kernels = parse(run.stdout)
        failed = output if run.returncode or "ERR_NVGPUCTRPERM" in output else ""
        return kernels, json.loads(rows.read_text()) if rows.exists() else {}, failed


def instead(step: str, why: str) -> int:
    print(f"{why}\nThe CPU executor's counts instead (make lab{step} LINES=1):\n", flush=True)
    return subprocess.run(["make", "--no-print-directory", f"lab{step}", "LINES=1", "ARGS="], cwd=ROOT).returncode


def save(new: list[dict], machine: dict) -> None:
    """Puts rows into the card's counters file, in place of those of the same rung and shape."""
    file = ROOT / "results" / f"{card_name(machine)}-counters.json"
    old = json.loads(file.read_text())["rows"] if file.exists() else []
    keys = {(r["step"], r["rung"], r["shape"]) for r in new}
    rows = sorted([r for r in old if (r["step"], r["rung"], r["shape"]) not in keys] + new, key=lambda r: r["step"])
    content = {"kind": "counters", "machine": machine, "commit": commit(), "command": "make counters", "rows": rows}
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def runs_of(step: str, program: str, options: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """The rungs of a step, and the options with which its program starts each one once: ncu itself repeats the kernels."""
    if step == "09":
        return [("one token", ["--no-graph", "--max-new-tokens", "2"])]
    listing = subprocess.run([program, "--list"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        raise RuntimeError(listing.stderr.strip())
    rungs = [line.split("  (")[0] for line in listing.stdout.splitlines() if options.rung in line and "CPU" not in line]
    shapes = [word for shape in options.shape or MAIN_SHAPES.get(step, []) for word in ("--shape", shape)]
    return [(rung, ["--check-only", "--rung", rung, *shapes]) for rung in dict.fromkeys(rungs)]


def profile(step: str, options: argparse.Namespace) -> int:
    if why := (ROOT / "build/why_no_cuda.txt").read_text():
        return instead(step, f"No CUDA program for step {step}: {why}.")
    ncu = find_ncu()
    if not ncu:
        return instead(step, "Nsight Compute (ncu) was not found; it comes with the CUDA Toolkit (nsight-compute-<version>).")
    subprocess.run(["tools/build.sh", "build", f"step{step}"], cwd=ROOT, check=True)
    program = f"build/bin/step{step}"
    try:
        runs = runs_of(step, program, options)
    except RuntimeError as no_device:
        return instead(step, str(no_device))
    print(f"{'rung':<52}{'µs':>10}{'SM %':>7}{'L1 %':>7}{'DRAM %':>8}{'warps %':>9}{'regs':>6}{'conflicts':>15}{'sect/ld':>9}"
          f"{'st':>6}{'wave/ld':>9}{'st':>7}")
    found, machine = [], {}
    for rung, arguments in runs:
        kernels, written, failed = counted(ncu, program, arguments)
        if "ERR_NVGPUCTRPERM" in failed:
            return instead(step, CLOSED)
        if failed:
            print("ncu failed:\n" + failed[-2000:])
            return 1
        if not kernels:
            print(f"{rung[:51]:<52} starts no kernel")
            continue
        machine = written.get("machine", machine)
        shapes = [row["shape"] for row in written.get("rows", []) if row["rung"] == rung]
        shape = shapes[0] if len(shapes) == 1 else f"{len(shapes)} shapes" if shapes else "decode"
        print_rung(rung, shape, kernels)
        longest = max(kernels, key=lambda k: k["time_us"])  # of a rung of several kernels
        found.append({"step": step, "rung": rung, "shape": shape, **longest, "verdict": verdict(longest)[0]})
    journal.append(found, os.environ.get("CHANGE", ""))
    if options.save and machine:
        save(found, machine)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="+")
    parser.add_argument("--shape", action="append", help="may be repeated; default: the step's main one")
    parser.add_argument("--rung", default="", help="only rungs whose name contains this")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    return max(profile(step, options) for step in options.steps)


if __name__ == "__main__":
    sys.exit(main())
