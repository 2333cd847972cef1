"""What one warp request costs, from its addresses: the rule of common/simt/request_cost.hpp, for plots and tests in Python."""


def parts(addresses: list[int], width: int, load: bool) -> list[range]:
    """The groups of lanes that shared memory serves one after the other. Addresses in bytes, -1: inactive lane."""

    def paired(flip: int) -> bool:
        return all(-1 in (a, addresses[lane ^ flip]) or a == addresses[lane ^ flip] for lane, a in enumerate(addresses))

    lanes = 32 if width <= 4 else 128 // width
    if load and lanes < 32 and (paired(1) or paired(2)):
        lanes *= 2
    return [range(first, first + lanes) for first in range(0, 32, lanes)]


def words_per_bank(addresses: list[int], width: int, lanes: range) -> list[set[int]]:
    """The distinct 32-bit words that these lanes want of each of the 32 banks."""
    banks: list[set[int]] = [set() for _ in range(32)]
    for lane in lanes:
        if addresses[lane] >= 0:
            for word in range(addresses[lane] // 4, (addresses[lane] + width - 1) // 4 + 1):
                banks[word % 32].add(word)
    return banks


def wavefronts(addresses: list[int], width: int = 4, load: bool = True) -> int:
    return sum(max(map(len, words_per_bank(addresses, width, lanes))) for lanes in parts(addresses, width, load))


def sectors(addresses: list[int], width: int = 4) -> int:
    return len({byte // 32 for a in addresses if a >= 0 for byte in range(a, a + width)})
