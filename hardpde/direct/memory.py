"""What a least-squares problem takes of the memory, said before it is taken."""

import math

from hardpde.direct.tall import BLOCK
from hardpde.support.hardware import available_memory, cores

SHARE = 0.8  # of the memory that is available
NUMBER = 8  # bytes
TRIANGLES = 4  # n × n arrays beside the matrix: R, R with scaled columns, the ridge under it, and what they are made of


def memory_needed(rows: int, unknowns: int, kept: bool = True) -> int:
    """Bytes that `least_squares` takes, the matrix included; with kept=False those of `least_squares_by_rows`."""
    triangles = TRIANGLES + (0 if kept else cores())
    small = cores() * 2 * BLOCK * (unknowns + BLOCK) + 4 * rows
    return NUMBER * ((rows * unknowns if kept else 0) + triangles * unknowns**2 + small)


def largest_system(ratio: float, kept: bool = True, memory: float | None = None) -> int:
    """How many unknowns fit, with `ratio` rows for each, into so many bytes; without them, into SHARE of what there is.
    """
    memory = SHARE * available_memory() if memory is None else memory
    low, high = 0, 1 + math.isqrt(int(memory))
    while high - low > 1:
        middle = (low + high) // 2
        fits = memory_needed(math.ceil(ratio * middle), middle, kept) <= memory
        low, high = (middle, high) if fits else (low, middle)
    return low


def check_memory(rows: int, unknowns: int, kept: bool = True) -> None:
    """Refuse a system that does not fit, and say what would."""
    needed, there = memory_needed(rows, unknowns, kept), available_memory()
    if needed > SHARE * there:
        fits = largest_system(rows / unknowns, kept)
        raise ValueError(f"{unknowns} unknowns with {rows} rows need {needed / 1e9:.1f} GB of memory and "
                         f"{there / 1e9:.1f} GB are available; {fits} unknowns fit")
