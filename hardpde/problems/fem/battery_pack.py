"""The reference of the paper's battery pack: 2-D heat with eleven warm cells and six cooling pipes.

T_t = k lap T,  k n.grad T = h (T_b - T) on the box, the cells and the pipes,  T(0) = 0.1,  0 <= t <= 1.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from hardpde.problem.reference import Reference
from hardpde.problems.fem.base import check_level, versions, with_level_below
from hardpde.problems.fem.heat import Disc, heat_robin, triangulate

BOX = ((-8.0, -12.0), (8.0, 12.0))
CELLS = [*product((-4.0, 4.0), (-9.0, -3.0, 3.0, 9.0)), *product((0.0,), (-6.0, 0.0, 6.0))]
PIPES = list(product((-3.2, 3.2), (-6.0, 0.0, 6.0)))
DISCS: list[Disc] = [(*c, 1.0, "cell") for c in CELLS] + [(*c, 0.4, "pipe") for c in PIPES]
ROBIN = {"box": (1.0, 1.0, 0.1), "cell": (1.0, 1.0, 5.0), "pipe": (1.0, 1.0, 1.0)}
TIMES = np.linspace(0, 1, 11).round(1)
NODES = {"maxh": 0.172, "near": 0.12, "grading": 0.5}
LEVELS: list[dict[str, Any]] = [
    {"maxh": 1.0, "near": 0.3, "order": 4, "steps": 2, "halvings": 8},
    {"maxh": 0.8, "near": 0.3, "order": 5, "steps": 3, "halvings": 8},
    {"maxh": 0.6, "near": 0.25, "order": 6, "steps": 4, "halvings": 8},
    {"maxh": 0.5, "near": 0.22, "order": 7, "steps": 5, "halvings": 9},
    {"maxh": 0.4, "near": 0.2, "order": 8, "steps": 7, "halvings": 11},
]


def pack_reference(level: int = 4) -> Reference:
    """The field "T" at t = 0, 0.1, …, 1 on the nodes of a linear mesh of about 13,000 nodes.

    `about` records how far it is from the solution one level coarser in h, order and time step; T is rounded
    to float32 (6e-8 relative), the nodes keep float64 so that those on a circle are on it.
    """
    check_level(level, LEVELS, 1)
    x, cells = triangulate(BOX, DISCS, **NODES)
    coarser, finer, seconds = with_level_below(partial(pack_temperature, x), level)
    about = {
        "problem": "battery-pack",
        "level": level,
        "settings": LEVELS[level],
        "nodes": NODES,
        "max_difference_to_level_below": float(np.abs(finer - coarser).max()),
        "mean": {f"{t:g}": round(float(T.mean()), 6) for t, T in zip(TIMES, finer)},
        "seconds": seconds,
        "versions": versions(),
    }
    return Reference(x, {"T": finer.astype(np.float32)}, TIMES, cells, about)


def pack_temperature(points: np.ndarray, level: int = 2) -> np.ndarray:
    """Temperatures (11, n) of the pack at `points` (n, 2) and t = 0, 0.1, …, 1, solved at one of LEVELS."""
    check_level(level, LEVELS)
    return heat_robin(BOX, DISCS, ROBIN, points, TIMES, initial=0.1, **LEVELS[level])
