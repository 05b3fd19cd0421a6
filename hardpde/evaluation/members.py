"""A family at values all over the ranges of its parameters: what sliders of a report move through."""

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hardpde.evaluation.base import Solved
from hardpde.geometry import at_times
from hardpde.problem.parameters import Parameter

MOST_VALUES = 400_000  # of a component: members × times × nodes
STEPS = (11, 9, 7, 5, 3, 2)  # values of a parameter: odd, so that the middle is one, or the ends alone
MOST = (11, 5, 3)  # where there are one, two or more parameters


class Members(NamedTuple):
    """Values of each parameter by name; times, or None; what fields are there, {name: (members, times, n, *shape)} with
    the last parameter changing the fastest, and what is known of them, {} unless the solution of all is."""

    parameters: dict[str, np.ndarray]
    times: np.ndarray | None
    predicted: dict[str, np.ndarray]
    known: dict[str, np.ndarray]

    @property
    def typical(self) -> int | None:
        """The number of the member in the middle of all ranges."""
        count = next(iter(self.predicted.values())).shape[0]
        return count // 2 if count % 2 else None


def members(solution: Solved, x: np.ndarray, times: np.ndarray | None) -> Members | None:
    """A family at nodes (n, d) and some of these times; None where there is no family, the nodes would move with its
    parameters, or there is too much to show."""
    problem = solution.problem
    if not problem.parameters or problem.mapping is not None:
        return None
    stated = _values(problem.parameters, MOST_VALUES // len(x))
    if stated is None:
        return None
    rows = [dict(zip(stated, row)) for row in product(*stated.values())]
    if times is not None:
        fit = int(max(2, min(len(times), MOST_VALUES // (len(rows) * len(x)))))
        times = times[np.unique(np.linspace(0, len(times) - 1, fit).round().astype(int))]
    instants = [None] if times is None else list(times)
    found = [[solution.anywhere(x, t, **row) for t in instants] for row in rows]
    known: list[list[dict[str, Any]]] = []
    if problem.exact is not None:
        known = [[problem.known_everywhere(_point(x, t, row)) for t in instants] for row in rows]
    return Members(stated, times, _stacked(found), {name: problem.masked({name: values}, x)[name]
                                                    for name, values in _stacked(known).items()})


def _values(known: Sequence[Parameter], most: int) -> dict[str, np.ndarray] | None:
    """Values of each parameter, an odd number with the middle among them, or its ends; so many members at most."""
    wished = MOST[min(len(known), len(MOST)) - 1]
    for steps in STEPS:
        if steps <= wished and steps ** len(known) <= most:
            return {p.name: np.linspace(p.low, p.high, steps) for p in known}
    return None


def _point(x: np.ndarray, t: float | None, row: dict[str, float]) -> np.ndarray:
    """Nodes (n, d) as points (n, c)."""
    points = x if t is None else np.asarray(at_times(x, t))
    return np.concatenate([points, np.broadcast_to(list(row.values()), (len(x), len(row)))], axis=1)


def _stacked(found: list[list[dict[str, Any]]]) -> dict[str, np.ndarray]:
    if not found:
        return {}
    return {name: np.stack([[np.asarray(one[name]) for one in row] for row in found]) for name in found[0][0]}
