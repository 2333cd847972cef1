"""Pictures that need no measurement: lane -> bank by the rule of what a request costs, and the time line of two buffers."""

import request_rule

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    matplotlib = None

SHADES = {"light": {"ink": "#1f2328", "faint": "#d0d7de", "page": "#ffffff"},
          "dark": {"ink": "#e6edf3", "faint": "#3d444d", "page": "#0d1117"}}
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#b8a200", "#999999"]

# Byte addresses of the 32 lanes. Layouts as in 03_bank_conflict_padding/tile_layout.hpp.


def plain(columns: int, pad: int = 0):
    return lambda row, column: row * (columns + pad) + column


def swizzled(columns: int, step: int):
    return lambda row, column: row * columns + (column ^ (row * step & 31))


def store_of_a(at) -> list[int]:
    """A warp of the register tile stores 4 rows × 8 k of A's tile, k running fastest."""
    return [4 * at(lane % 8, lane // 8) for lane in range(32)]


def column(at) -> list[int]:
    """The transpose reads a column of its tile."""
    return [4 * at(lane, 0) for lane in range(32)]


def column_of_float4(floats_a_row: int) -> list[int]:
    return [4 * floats_a_row * lane for lane in range(32)]


STORES = [("rows of 128 floats", store_of_a(plain(128))), ("+1: rows of 129", store_of_a(plain(128, 1))),
          ("+4: rows of 132", store_of_a(plain(128, 4))), ("XOR swizzle: rows of 128", store_of_a(swizzled(128, 4)))]
COLUMNS = [("rows of 32 floats", column(plain(32))), ("+1: rows of 33", column(plain(32, 1))),
           ("XOR swizzle: rows of 32", column(swizzled(32, 1)))]


def style(shade: str) -> None:
    ink, faint = SHADES[shade]["ink"], SHADES[shade]["faint"]
    plt.rcdefaults()
    plt.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "lesson", "savefig.transparent": True, "font.family": "sans-serif",
        "font.sans-serif": ["Arial", "Helvetica", "DejaVu Sans"], "font.size": 9, "text.color": ink, "axes.labelcolor": ink,
        "axes.edgecolor": faint, "xtick.color": ink, "ytick.color": ink, "grid.color": faint, "grid.linewidth": 0.5,
        "axes.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False})


def box(axis, x: float, y: float, width: int, colour: str, lane: int, font: float, page: str) -> None:
    axis.add_patch(plt.Rectangle((x, y), width, 1, facecolor=colour, edgecolor=page, linewidth=0.6))
    axis.text(x + width / 2, y + 0.45, str(lane), ha="center", va="center", fontsize=font, color="white")


def banks(shade: str, requests: list, load: bool, groups: int, key: str):
    """Each lane is a square over its bank; the height of the pile is the number of wavefronts. groups: lanes of one colour."""
    style(shade)
    across = 2 if len(requests) == 4 else len(requests)
    figure, axes = plt.subplots(len(requests) // across, across, figsize=(8, 3.2), squeeze=False, sharey=True)
    highest = max(request_rule.wavefronts(addresses, 4, load) for _, addresses in requests)
    for axis, (title, addresses) in zip(axes.flat, requests):
        cost = request_rule.wavefronts(addresses, 4, load)
        pile = [0] * 32
        for lane, address in enumerate(addresses):
            bank = address // 4 % 32
            colour = COLOURS[lane % groups if groups > 1 else 0]
            box(axis, bank, pile[bank], 1, colour, lane, 4.5 if highest < 16 else 3, SHADES[shade]["page"])
            pile[bank] += 1
        axis.set(xlim=(-0.2, 32.2), ylim=(0, highest), title=f"{title}: {cost} wavefront{'s' * (cost > 1)}", aspect="equal")
        axis.set_xticks([0.5, 8.5, 16.5, 24.5, 31.5], [0, 8, 16, 24, 31])
        axis.set_yticks([0, highest // 2, highest])
        axis.tick_params(labelsize=7, length=2)
        axis.set_title(axis.get_title(), fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("bank", fontsize=8)
    axes[0][0].set_ylabel(key, fontsize=8)
    figure.tight_layout()
    return figure


def quarters(shade: str):
    """16 bytes a lane: every lane covers four banks, and the warp is served a quarter after the other."""
    style(shade)
    figure, axes = plt.subplots(2, 1, figsize=(6.5, 4.2))
    for axis, floats in zip(axes, (32, 36)):
        addresses = column_of_float4(floats)
        base = 0
        for number, lanes in enumerate(request_rule.parts(addresses, 16, True)):
            pile = [0] * 32
            for lane in lanes:
                bank = addresses[lane] // 4 % 32  # the first of four
                box(axis, bank, base + pile[bank], 4, COLOURS[number], lane, 7 if floats > 32 else 3, SHADES[shade]["page"])
                pile[bank] += 1
            base += max(pile)
        axis.set(xlim=(-0.2, 32.2), ylim=(0, base), yticks=[0, base])
        axis.set_xticks([0.5, 8.5, 16.5, 24.5, 31.5], [0, 8, 16, 24, 31])
        axis.set_title(f"a column of float4, rows of {floats} floats: {base} wavefronts", fontsize=9)
    axes[1].set_xlabel("bank")
    axes[0].set_ylabel("wavefront")
    figure.tight_layout()
    return figure


def time_line(shade: str):
    """Units are not seconds: a copy is drawn 2 long, the arithmetic of a tile 3, a barrier as a line."""
    style(shade)
    ink = SHADES[shade]["ink"]
    figure, axes = plt.subplots(2, 1, figsize=(7.5, 2.6), sharex=True)
    copy, compute = 2, 3

    def bar(axis, row, begin, length, text, colour):
        axis.barh(row, length, left=begin, height=0.7, color=colour, edgecolor=SHADES[shade]["page"])
        axis.text(begin + length / 2, row, text, ha="center", va="center", fontsize=7, color="white")

    for tile in range(4):
        begin = tile * (copy + compute)
        bar(axes[0], 1, begin, copy, f"copy {tile}", COLOURS[1])
        bar(axes[0], 0, begin + copy, compute, f"compute {tile}", COLOURS[0])
        axes[0].vlines([begin + copy, begin + copy + compute], -0.5, 1.5, color=ink, linewidth=1)
        start = copy + tile * compute
        if tile < 3:
            bar(axes[1], 1, start, copy, f"copy {tile + 1}", COLOURS[1])
        bar(axes[1], 0, start, compute, f"compute {tile}", COLOURS[0])
        axes[1].vlines(start, -0.5, 1.5, color=ink, linewidth=1)
    bar(axes[1], 1, 0, copy, "copy 0", COLOURS[1])
    for axis, title in zip(axes, ("one buffer: two barriers a tile, the arithmetic waits for every copy",
                                  "two buffers: one barrier a tile, copies run beside the arithmetic")):
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_yticks([])
        axis.set_xticks([])
        axis.spines[:].set_visible(False)
    axes[1].set_xlabel("time →", loc="left", fontsize=8)
    figure.tight_layout()
    return figure
