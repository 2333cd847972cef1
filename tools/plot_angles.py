#!/usr/bin/env python3
"""make plot07: the error of sin and cos over the position, for an angle kept in fp16, bf16, fp32 and in two floats.

Draws results/plots/angle_error.png. Nothing is measured: the formats are rounded to here as in
07_positional_encoding/angle_errors.hpp, whose table `make lab07` prints.

Exit status: 0; 77 matplotlib is not installed.
"""

import math
import struct
import sys

from pictures import COLOURS, SHADES, matplotlib, style
from results import ROOT

WIDTH, BASE, LIMIT = 1024, 10000.0, 1e-4  # columns of the sinusoidal table; what counts as exact in step 07
LAST = 262143
PATH = ROOT / "results/plots/angle_error.png"


def fp32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def fp16(value: float) -> float:
    try:
        return struct.unpack("e", struct.pack("e", fp32(value)))[0]
    except OverflowError:  # 65 520 and more
        return math.inf


def bf16(value: float) -> float:
    bits = struct.unpack("I", struct.pack("f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)  # to nearest, ties to even
    return struct.unpack("f", struct.pack("I", bits & 0xFFFF0000))[0]


def two_floats(position: int, frequency: float) -> float:
    turns = frequency / math.tau
    high = fp32(turns)
    low = fp32(turns - high)
    whole = round(fp32(position * high))
    return fp32(fp32(position * low + fp32(position * high - whole)) * fp32(math.tau))


def product_in(rounded):
    return lambda position, frequency: rounded(rounded(position) * rounded(frequency))


FORMATS = {"fp16": product_in(fp16), "bf16": product_in(bf16), "fp32": product_in(fp32), "two floats, reduced": two_floats}


def worst_error(angle_of, position: int, width: int = WIDTH) -> float:
    """The largest |error| of sin or cos over the frequencies; NaN where the format has no such position."""
    worst = 0.0
    for i in range(width // 2):
        frequency = BASE ** (-2 * i / width)
        truth, angle = position * frequency, angle_of(position, frequency)
        if not math.isfinite(angle):
            return math.nan
        worst = max(worst, abs(math.sin(angle) - math.sin(truth)), abs(math.cos(angle) - math.cos(truth)))
    return worst


def positions(count: int = 120) -> list[int]:
    return sorted({round(LAST ** (i / (count - 1))) for i in range(count)} | {255, 4095, 40959, LAST})


def draw():
    import matplotlib.pyplot as plt

    style("light")
    figure, axis = plt.subplots(figsize=(8, 4.5))
    for colour, (name, angle_of) in zip(COLOURS, FORMATS.items()):
        axis.plot(positions(), [worst_error(angle_of, p) for p in positions()], label=name, color=colour, linewidth=1.2)
    axis.axhline(LIMIT, color=SHADES["light"]["ink"], linestyle="--", linewidth=0.8)
    axis.text(1e5, LIMIT * 1.2, "1e-4", fontsize=7)
    for position in (4095, 40959, LAST):
        axis.axvline(position, color=SHADES["light"]["faint"], linewidth=0.8)
        axis.text(position, 3, f"{position:,}".replace(",", " "), fontsize=7, ha="right")
    axis.set(xscale="log", yscale="log", xlabel="position", ylabel="largest error of sin or cos", ylim=(1e-8, 6))
    axis.set_title(f"an angle of the sinusoidal table, d = {WIDTH}, against float64", fontsize=8, loc="right")
    axis.legend(fontsize=7, loc="upper left")
    return figure


def main() -> int:
    if not matplotlib:
        print("plot07: matplotlib is not installed: python3 -m pip install matplotlib")
        return 77
    PATH.parent.mkdir(parents=True, exist_ok=True)
    draw().savefig(PATH, dpi=120, metadata={"Software": None}, bbox_inches="tight")
    print(f"{PATH.relative_to(ROOT)}: {PATH.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
