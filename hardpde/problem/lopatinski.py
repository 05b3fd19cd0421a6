"""How many conditions each boundary needs, and whether those stated are such (Lopatinski and Shapiro).

Of the waves of the linearised equations at a point of the boundary, those that decay into the domain are left free by
the equations; the rows of the conditions must determine them, and ask for no more.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hardpde.problem.places import Place
from hardpde.problem.waves import half_space

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

DIRECTIONS = 3  # along a boundary in more than two dimensions
SHORT = 1e7  # how many waves fit into the domain, or into the time
ORDERS = 40.0  # logarithm of how far apart weights of fields may be
DEPENDENT = 1e-5  # of the size of the rows: what smaller singular values leave is nothing


class Count(NamedTuple):
    """What a boundary point needs and has, at the worst frequency. needed: waves that decay into the domain; stated:
    rows that say something of any wave; held: how many of the decaying waves they determine; neutral: see `Waves`."""

    needed: int
    stated: int
    held: int
    neutral: tuple[int, ...]


def frequencies(problem: "Problem") -> list[tuple[float, complex, float]]:
    """Wave numbers along the boundary, rates in time, and about how fast waves decay into the domain."""
    short = SHORT / problem.domain.size
    if problem.time is None:
        return [(short, 0.0, short)]
    rate, slow = SHORT / (problem.time[1] - problem.time[0]), SHORT**0.5 / problem.domain.size
    found = [(0.0, complex(rate), slow), (0.0, rate * (0.4 + 1j), slow)]
    if problem.domain.dim > 1:
        found += [(short, complex(rate), short), (slow, complex(rate), slow), (short, rate * (0.4 + 1j), short)]
    return found


def counted(place: Place, which: Sequence[tuple[float, complex, float]]) -> Count | None:
    """What a place needs and has; None where frequencies disagree, so that nothing can be told."""
    found = list[tuple[float, Count]]()
    for number, s, rate in which:
        for along in _directions(place.sides[0].normal) if number else [np.zeros(place.sides[0].symbol.dim)]:
            one = _at_one(place, number * along, s, rate)
            if one.held < min(one.needed, one.stated):
                one = max((one, *_weighted_otherwise(place, number * along, s, rate)), key=lambda one: one.held)
            found.append((number, one))
    counts = [one for _, one in found]
    if place.sides[0].symbol.dim > 1:  # what is the same along the boundary may lack what others have, like pressures
        others = {(one.needed, one.neutral) for number, one in found if number}
        counts = [one for number, one in found if number or (one.needed, one.neutral) in others]
    if len({(one.needed, len(one.neutral)) for one in counts}) > 1:
        return None
    worst = min(counts, key=lambda one: one.held)
    return worst._replace(stated=max(one.stated for one in counts))


def _weighted_otherwise(place: Place, along: np.ndarray, s: complex, rate: float) -> Iterator[Count]:
    """What is found with other weights of the fields, where the equations leave a choice: theorems ask for some."""
    for k in range(place.sides[0].symbol.slope.shape[1]):
        for weight in (ORDERS, -ORDERS):
            most = np.zeros(place.sides[0].symbol.slope.shape[1])
            most[k] = min(weight, 0.0)
            most[np.arange(len(most)) != k] = min(-weight, 0.0)
            if all(len(side.fields) == len(most) for side in place.sides):
                yield _at_one(place, along, s, rate, most)


def _at_one(place: Place, along: np.ndarray, s: complex, rate: float, most: np.ndarray | None = None) -> Count:
    decaying, everything, neutral = list[np.ndarray](), list[np.ndarray](), tuple[int, ...]()
    bounds = 0.0
    for side, values, slopes in zip(place.sides, place.values, place.slopes):
        waves = half_space(side.symbol, side.normal, along, s, rate, most)
        neutral += waves.neutral
        a, b = values[:, side.fields], -side.turned * slopes[:, side.fields]
        made = a @ waves.values + b @ waves.slopes
        bounds = bounds + (np.abs(a) @ np.abs(waves.values) + np.abs(b) @ np.abs(waves.slopes)).sum(1)
        decaying.append(made[:, : waves.decaying])
        everything.append(made[:, waves.decaying :])
    size = np.where(bounds > 0, bounds, 1.0)[:, None] if len(place.names) else 1.0
    inside = np.concatenate(decaying, axis=1) / size
    of_none = int((np.zeros(len(place.names)) + bounds == 0).sum())  # rows that no wave can change
    return Count(inside.shape[1], of_none + rank(np.concatenate(everything, axis=1) / size), rank(inside), neutral)


def rank(matrix: np.ndarray) -> int:
    """Of rows of about unit size."""
    return int((np.linalg.svd(matrix, compute_uv=False) > DEPENDENT).sum()) if matrix.size else 0


def _directions(normal: np.ndarray) -> list[np.ndarray]:
    """Unit vectors along a boundary."""
    d = len(normal)
    if d == 1:
        return [np.zeros(1)]
    if d == 2:
        return [np.array([-normal[1], normal[0]]), np.array([normal[1], -normal[0]])]
    rng, found = np.random.default_rng(5), []
    for _ in range(DIRECTIONS):
        v = rng.normal(size=d)
        v -= (v @ normal) * normal
        found.append(v / np.linalg.norm(v))
    return found
