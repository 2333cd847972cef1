"""Counters of memory requests: read from ncu's CSV and from the lab's JSON, paired launch by launch, and compared.

ncu's names of what the lab counts are COUNTERS; a difference is explained in EXPLAINED or has no reason yet.
"""

import csv
import re
from collections import defaultdict, deque

# Counter of the lab: the metrics of ncu that add up to it. Asynchronous copies (ldgsts) are loads and stores to the lab; ncu's
# global loads hold them too, its stores to shared memory do not.
L1 = "l1tex__"
COUNTERS = {
    "global.load.requests": [L1 + "t_requests_pipe_lsu_mem_global_op_ld.sum"],
    "global.load.sectors": [L1 + "t_sectors_pipe_lsu_mem_global_op_ld.sum"],
    "global.store.requests": [L1 + "t_requests_pipe_lsu_mem_global_op_st.sum"],
    "global.store.sectors": [L1 + "t_sectors_pipe_lsu_mem_global_op_st.sum"],
    "shared.load.wavefronts": [L1 + "data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"],
    "shared.store.wavefronts": [L1 + "data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
                                L1 + "data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"],
}
HEADINGS = ["ld requests", "ld sectors", "st requests", "st sectors", "ld wavefronts", "st wavefronts"]

# Why a counter may differ: (pattern of the kernel's name, counter, reason).
EXPLAINED: list[tuple[str, str, str]] = []


class Trouble(Exception):
    """One line for the user; `status` is the exit status."""

    def __init__(self, text: str, status: int = 1):
        super().__init__(text)
        self.status = status


def plain_name(name: str) -> str:
    """A kernel's name as both demanglers would write it: no return type, no arguments, no casts, no spaces."""
    name = re.sub(r"\(anonymous namespace\)|<unnamed>", "{anonymous}", name.removeprefix("void "))
    name = re.sub(r"\btrue\b", "1", re.sub(r"\bfalse\b", "0", name))
    name = re.sub(r"\(\w[\w: ]*\)(?=-?\w)", "", name)  # (int)8, (Pairing)1
    name = re.sub(r"(?<=\d)(u|l|ul)\b", "", name)  # 8u
    depth = 0
    for at, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            name = name[:at]
            break
    return re.sub(r"\s+", "", name)


def kernel_function(name: str) -> str:
    """The function's own name: no namespace, no template arguments."""
    return name.split("<")[0].split("::")[-1]


def parse_ncu(text: str) -> list[dict]:
    """The launches in order, {"kernel", "metrics"}, from ncu's `--csv --page raw`."""
    launches = []
    for row in csv.DictReader([line for line in text.splitlines() if line.startswith('"')]):
        if not row.get("ID"):  # the line of units
            continue
        metrics = {key: float(value.replace(",", "")) for key, value in row.items()
                   if key and key.endswith(".sum") and re.fullmatch(r"[\d.,]+", value)}  # not "n/a"
        launches.append({"kernel": plain_name(row["Kernel Name"]), "metrics": metrics})
    return launches


def lab_kernels(rows: list[dict]) -> list[dict]:
    """The kernels of a lab's JSON rows in the order they ran: {"rung", "shape", "kernel", "launches", "lab"}."""
    kernels = []
    for row in rows:
        if not row["checked"] and "skipped" not in row:
            raise Trouble(f"{row['rung']} at {row['shape']}: the lab's result is wrong")
        for kernel in row.get("counts", {}).get("kernels", []):
            lab = {}
            for counter in COUNTERS:
                space, direction, what = counter.split(".")
                lab[counter] = kernel[space][direction][what]
            kernels.append({"rung": row["rung"], "shape": row["shape"], "kernel": plain_name(kernel["kernel"]),
                            "launches": kernel["launches"], "lab": lab})
    return kernels


def pair(kernels: list[dict], launches: list[dict]) -> tuple[list[dict], list[str]]:
    """Those of the lab's kernels that ran on the GPU too, with the metrics of their launches; and what did not fit."""
    queues = defaultdict(deque)
    for launch in launches:
        queues[launch["kernel"]].append(launch["metrics"])
    paired, problems = [], []
    for kernel in kernels:
        queue = queues[kernel["kernel"]]
        if len(queue) < kernel["launches"]:
            problems.append(f"{kernel['rung']} at {kernel['shape']}: {kernel['kernel']} ran {kernel['launches']} times in the "
                            f"lab, {len(queue)} launches are left of the GPU's")
            continue
        total = defaultdict(float)
        for _ in range(kernel["launches"]):
            for metric, value in queue.popleft().items():
                total[metric] += value
        if missing := [metrics[0] for metrics in COUNTERS.values() if metrics[0] not in total]:
            problems.append(f"{kernel['kernel']}: ncu has no number for {', '.join(missing)}")
            continue
        paired.append({**kernel, "metrics": {metric: int(value) for metric, value in total.items()}})
    problems += [f"{name} ran {len(queue)} times more on the GPU than in the lab" for name, queue in queues.items() if queue]
    return paired, problems


def hardware(kernel: dict, counter: str) -> int:
    return sum(kernel["metrics"].get(metric, 0) for metric in COUNTERS[counter])


def reason(kernel: dict, counter: str) -> str:
    return next((why for name, of, why in EXPLAINED if of == counter and re.search(name, kernel["kernel"])), "")


def explain(programs: list[dict]) -> int:
    """Writes ncu's sums and the reasons beside the differences; returns how many have none. A reason holds for the
    count it was given for: where the lab's has changed since, there is none."""
    without = 0
    for kernel in (k for program in programs for k in program["kernels"]):
        before = kernel.pop("lab_before", kernel["lab"])
        kernel["ncu"] = {counter: hardware(kernel, counter) for counter in COUNTERS}
        kernel["why"] = {counter: reason(kernel, counter) if before[counter] == kernel["lab"][counter] else ""
                         for counter in COUNTERS if kernel["ncu"][counter] != kernel["lab"][counter]}
        without += sum(not why for why in kernel["why"].values())
    return without


def markdown(programs: list[dict]) -> str:
    lines = ["| rung | shape | kernel | " + " | ".join(HEADINGS) + " |", "| --- | --- | --- |" + " ---: |" * len(HEADINGS)]
    notes, kernels, equal = [], 0, 0
    for kernel in (k for program in programs for k in program["kernels"]):
        cells = []
        for counter, heading in zip(COUNTERS, HEADINGS):
            ncu, lab = kernel["ncu"][counter], kernel["lab"][counter]
            cells.append(f"{ncu:,}" if ncu == lab else f"{ncu:,} (lab {lab:,})")
            equal += ncu == lab
            if ncu != lab:
                where = f"{kernel['rung']} at {kernel['shape']}, {heading}: {lab - ncu:+,}"
                notes.append(f"- {where}. {kernel['why'].get(counter) or 'NO REASON YET'}")
        name = kernel["kernel"].replace("|", "\\|")
        lines.append(f"| {kernel['rung']} | {kernel['shape']} | `{name}` | " + " | ".join(cells) + " |")
        kernels += 1
    total = kernels * len(COUNTERS)
    summary = f"{kernels} kernels, {total} counters: {equal} equal, {total - equal} not."
    return "\n".join([*lines, "", summary, *(["", "Differences (lab − ncu):", ""] if notes else []), *notes])
