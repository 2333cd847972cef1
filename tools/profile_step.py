#!/usr/bin/env python3
"""make profileNN: four counters of Nsight Compute for each kernel of a step, and what bounds it.

  sm__throughput      how busy the busiest part of the multiprocessors is, % of the peak it could sustain
  dram__throughput    the same of the memory
  sm__warps_active    warps resident on a multiprocessor, % of the most there can be (occupancy)
  bank conflicts      extra wavefronts in shared memory, loads and stores

Verdict: memory-bound or compute-bound where that unit is at 60 % or more of its peak; latency-bound where neither is.
Exit status: 0; 1 ncu failed; 77 no ncu, or no CUDA program to look at.
"""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

from results import ROOT

METRICS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "conflicts",
    "gpu__time_duration.sum": "time",
}
BUSY = 60.0  # % of peak from which a unit is said to be the bound: what is left is ramp-up, tail and latency


def find_ncu() -> str | None:
    places = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/ncu")]
    return shutil.which("ncu") or next((str(p) for p in sorted(places, reverse=True) if p.exists()), None)


def verdict(compute: float, memory: float) -> str:
    if max(compute, memory) < BUSY:
        return "latency-bound"
    return "memory-bound" if memory > compute else "compute-bound"


def parse(text: str) -> list[dict]:
    """One entry a kernel, the longest of its launches, in order of appearance, from ncu's `--csv --page raw`."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    kernels: dict[str, dict] = {}
    for row in csv.DictReader(lines):
        if not row.get("ID"):  # the second line holds the units
            units = row
            continue
        entry = {short: float(row[metric].replace(",", "") or 0) for metric, short in METRICS.items()}
        unit = units["gpu__time_duration.sum"]
        entry["time"] *= {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1, "us": 1, "msecond": 1e3, "ms": 1e3}.get(unit, 1e6)
        name = row["Kernel Name"].removeprefix("void ").split("(")[0]
        if name not in kernels or entry["time"] > kernels[name]["time"]:
            kernels[name] = {"name": name, **entry}
    return list(kernels.values())


def main() -> int:
    number, arguments = sys.argv[1], sys.argv[2:]
    if why := (ROOT / "build/why_no_cuda.txt").read_text():
        print(f"profile{number} needs the CUDA program, which is left out: {why}. `make lab{number}` counts on the CPU.")
        return 77
    ncu = find_ncu()
    if not ncu:
        print("Nsight Compute (ncu) was not found: it comes with the CUDA Toolkit (package nsight-compute-<version>).")
        return 77
    subprocess.run(["tools/build.sh", "build", f"step{number}"], cwd=ROOT, check=True)
    # ncu replays every kernel itself: the program need only run each rung once. The clocks stay as they are.
    if not arguments:
        arguments = ["--no-graph", "--max-new-tokens", "2"] if number == "09" else ["--check-only"]
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS),
               f"build/bin/step{number}", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    output = run.stdout + run.stderr
    if "ERR_NVGPUCTRPERM" in output:
        print("The driver keeps the hardware counters for administrators (ERR_NVGPUCTRPERM). Run as root, or let everybody:\n"
              "  echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/ncu.conf\n"
              "  and restart. On WSL2: NVIDIA Control Panel of Windows, Desktop > Enable Developer Settings, then\n"
              "  Manage GPU Performance Counters > Allow access to all users. In a container: --cap-add SYS_ADMIN.")
        return 1
    kernels = parse(run.stdout)
    if run.returncode or not kernels:
        print("ncu failed:\n" + output[-2000:])
        return 1
    print(f"{'kernel':<48}{'µs':>10}{'SM %':>8}{'DRAM %':>8}{'warps %':>9}{'conflicts':>12}  verdict")
    for k in kernels:
        print(f"{k['name'][:47]:<48}{k['time']:>10.1f}{k['compute']:>8.1f}{k['memory']:>8.1f}{k['warps']:>9.1f}"
              f"{k['conflicts']:>12.0f}  {verdict(k['compute'], k['memory'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
