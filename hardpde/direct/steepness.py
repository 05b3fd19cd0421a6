"""How steep features are in each group of inputs: searched on small systems by the residual on held-out points."""

from collections.abc import Callable

import numpy as np

FIRST = 1.5
LEAST, MOST = 0.2, 64.0


def groups(inputs: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A number for each input, (f,), from jets (f, slots, n): coordinates of space share a scale, and so do that of
    time, parameters, other functions of the place, and other functions of time; and which groups are coordinates."""
    slopes = inputs[:, 1:]
    moves = np.abs(slopes).max(axis=2) > 0
    straight = (np.ptp(slopes, axis=2) <= 1e-9 * (1 + np.abs(slopes).max(axis=2))).all(axis=1)
    space, time = moves[:, :dim].any(axis=1), moves[:, dim:].any(axis=1)
    kind = np.select([space & straight, time & straight, ~(space | time), space], [0, 1, 2, 3], 4)
    found, group = np.unique(kind, return_inverse=True)
    return group, found < 3


def searched(score: Callable[[np.ndarray], float], group: np.ndarray, coordinate: np.ndarray) -> np.ndarray:
    """The scale of each input (f,) with the least score found by doubling and halving those of one group at a time;
    a group that is no coordinate may be left out, scale 0."""
    scales = np.full(len(coordinate), FIRST)
    known: dict[tuple[float, ...], float] = {}

    def of(scales: np.ndarray) -> float:
        key = tuple(scales)
        if key not in known:
            known[key] = score(scales[group])
        return known[key]

    def changed(g: int, scale: float) -> np.ndarray:
        return np.where(np.arange(len(scales)) == g, scale, scales)

    for factors in ((2.0, 0.5), (2.0, 0.5), (2.0**0.5, 0.5**0.5)):
        for g in range(len(scales)):
            if not coordinate[g] and of(changed(g, 0.0)) < of(scales):
                scales = changed(g, 0.0)
            elif not coordinate[g] and scales[g] == 0 and of(changed(g, FIRST)) < of(scales):
                scales = changed(g, FIRST)
            for factor in factors:
                while LEAST <= scales[g] * factor <= MOST and of(changed(g, scales[g] * factor)) < of(scales):
                    scales = changed(g, scales[g] * factor)
    return scales[group]
