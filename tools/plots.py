#!/usr/bin/env python3
"""make plots: draws the lessons' pictures as SVG, each in a light and a dark form, into results/plots/.

  banks_store, banks_column, banks_float4   lane -> bank, from the rule of what a request costs; no measurement
  double_buffer                             the time line of one and of two buffers; no measurement
  gemm_sizes                                TFLOPS over size for every GEMM rung and cuBLAS   from results/*.json
  roofline                                  every rung of every step under the card's ceilings, likewise

Exit status: 0; 1 a drawing is over 100 kB; 77 matplotlib is not installed.
"""

import sys

from pictures import COLOURS, COLUMNS, SHADES, STORES, banks, matplotlib, quarters, style, time_line
from results import CANDIDATE, ROOT, load, main_shape

if matplotlib:
    import matplotlib.pyplot as plt

FOLDER = ROOT / "results/plots"
MOST_BYTES = 100_000


def save(figure, name: str, shade: str) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.{shade}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size // 1000} kB" + (", too large" if size > MOST_BYTES else ""))
    return size > MOST_BYTES


def own_rungs(rows: list[dict]) -> list[dict]:
    """Timed fp32 rows without repeated baselines and without rungs that are only candidates for a choice."""
    return [r for r in rows if "ms" in r and r.get("gflops") and not r["rung"].startswith(CANDIDATE)
            and (r["rung"] == r.get("peer") or r["rung"].startswith(r["step"]))]


def sizes_of(rows: list[dict]) -> dict[str, dict[int, float]]:
    """{rung: {size: TFLOPS}} of square fp32 GEMMs of steps 01 to 04; cuBLAS by its best row."""
    lines: dict[str, dict[int, float]] = {}
    for row in own_rungs(rows):
        size = row["shape"].split("×")
        if row["step"] <= "04" and len(size) == 3 and len(set(size)) == 1 and "CPU" not in row["rung"]:
            line = lines.setdefault(row["rung"], {})
            line[int(size[0])] = max(line.get(int(size[0]), 0), row["gflops"] / 1e3)
    return lines


def gemm_sizes(shade: str, result: dict):
    style(shade)
    figure, axis = plt.subplots(figsize=(8, 4.5))
    lines = sizes_of(result["rows"])
    marks = "osv^D*xP"
    peers = [name for name in lines if not name[0].isdigit()]
    rungs = [name for name in lines if name not in peers]  # in the order of the ladder
    for i, name in enumerate([*rungs, *peers]):
        points = sorted(lines[name].items())
        look = {"color": SHADES[shade]["ink"], "linestyle": "--", "linewidth": 1.6} if name in peers else {
            "color": plt.cm.turbo(0.05 + 0.9 * i / max(1, len(rungs) - 1)), "marker": marks[i % len(marks)],
            "markersize": 4, "linewidth": 1}
        axis.plot(*zip(*points), label=name, **look)
    gemms = [r for r in own_rungs(result["rows"]) if r["step"] <= "04" and not r["memory_bound"]]
    ceiling = max(r["gflops"] / r["of_peak"] for r in gemms) / 1e3
    axis.axhline(ceiling, color=SHADES[shade]["faint"], linewidth=1)
    axis.text(axis.get_xlim()[0], ceiling, " fp32 peak", va="bottom", fontsize=7)
    axis.set_xscale("log", base=2)
    ticks = sorted({size for line in lines.values() for size in line})
    axis.set_xticks(ticks, ticks, fontsize=7)
    axis.minorticks_off()
    axis.set(xlabel="M = N = K", ylabel="TFLOPS, fp32", ylim=(0, None))
    axis.set_title(f"{result['machine']['name']} · commit {result['commit']}", fontsize=8, loc="right")
    axis.grid(axis="y")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def roofline(shade: str, result: dict):
    """A rung stands at FLOP per byte that must move (inputs once, outputs once) and the FLOP rate it reached."""
    style(shade)
    figure, axis = plt.subplots(figsize=(8, 4.8))
    rows = result["rows"]
    timed = [r for r in rows if "ms" in r and r.get("gflops") and r.get("gbps")]
    mine = [r for r in timed if r["shape"] == main_shape([t for t in timed if t["rung"] == r["rung"]], r["step"])]
    flops = {kind: max((r["gflops"] / r["of_peak"] for r in mine
                        if not r["memory_bound"] and r["of_peak"] and r["dtype"] == kind), default=0) for kind in ("fp32", "bf16")}
    copy = max((r["gbps"] / r["of_peak"] for r in rows if r.get("memory_bound") and r.get("of_peak")), default=0)
    x = [0.05, 5000]
    for kind, peak in flops.items():
        if peak and copy:
            ridge = peak / copy
            axis.plot([x[0], ridge, x[1]], [x[0] * copy, peak, peak], color=SHADES[shade]["ink"], linewidth=1)
            axis.text(x[1], peak * 1.08, f"{kind} peak", ha="right", fontsize=7)
    axis.text(0.06, 0.06 * copy * 1.5, "copy, measured", rotation=27, fontsize=7)
    for step in sorted({r["step"] for r in mine}):
        for peer, mark in ((False, "o"), (True, "x")):
            points = [(r["gflops"] / r["gbps"], r["gflops"]) for r in mine
                      if r["step"] == step and (r["rung"] == r.get("peer")) == peer]
            if points:
                axis.scatter(*zip(*points), s=14, marker=mark, color=COLOURS[int(step) - 1], linewidths=1,
                             label=f"step {step}, library" if peer else f"step {step}")
    axis.set(xscale="log", yscale="log", xlabel="FLOP per byte that must move", ylabel="GFLOPS", xlim=x)
    axis.set_title(f"{result['machine']['name']} · commit {result['commit']}", fontsize=8, loc="right")
    axis.grid(which="major")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def main() -> int:
    if not matplotlib:
        print("make plots needs matplotlib, which is not installed (python3 -m pip install matplotlib).")
        return 77
    too_large = 0
    bench, sizes = load(ROOT / "results"), load(ROOT / "results", "sizes")
    for shade in SHADES:
        pictures = {
            "banks_store": banks(shade, STORES, False, 8, "lanes; colour: k"),
            "banks_column": banks(shade, COLUMNS, True, 1, "lanes"),
            "banks_float4": quarters(shade),
            "double_buffer": time_line(shade)}
        if bench or sizes:
            pictures["gemm_sizes"] = gemm_sizes(shade, (sizes or bench)[0])
        if bench:
            pictures["roofline"] = roofline(shade, bench[0])
        for name, figure in pictures.items():
            style(shade)
            too_large |= save(figure, name, shade)
    if not bench:
        print("No measured picture: results/ holds no run yet (make gpu-check and make sizes on a machine with a GPU).")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
