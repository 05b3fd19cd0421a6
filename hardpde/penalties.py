"""Penalties: conditions that are asked for by the loss, where no ansatz builds them in."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jax import Array

from hardpde.problem import Problem
from hardpde.sampling import paired

SPARSE = 16  # points inside the domain for each place that is penalised


@dataclass(frozen=True, eq=False)
class Penalty:
    """weight × mean over places of Σ rows². A place is one point, or a few points whose states are compared.

    draw(key, n): n places (k, n, c) of k points each. rows(x, jet): what should be zero at one place, (r,), from
    its points (k, c) and the jets of the state there (k, m, slots).
    """

    draw: Callable[[Array, int], Array]
    rows: Callable[[Array, Array], Array]
    weight: float
    places: int
    points: int = 1  # k


def periodic_penalties(problem: Problem, points: int, chunks: int, default: float | None = None) -> tuple[Penalty, ...]:
    """The soft periodic conditions; with a default weight, also those that are stated without one."""
    found = []
    places = max(1, round(points / SPARSE / chunks)) * chunks  # every part of a batch gets as many
    for period in problem.periods:
        weight = default if period.hard else period.condition.soft
        if weight is not None:
            found.append(Penalty(partial(paired, problem, period), period.rows, weight, places, 2))
    return tuple(found)
