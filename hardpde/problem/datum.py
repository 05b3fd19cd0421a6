"""Data for the level of a field that equations and conditions leave free, like a pressure: its mean, or one value."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.polynomial import legendre

from hardpde.geometry.algorithms.stacking import place
from hardpde.problem.conditions import INITIAL, evaluate
from hardpde.problem.places import Linear, sampled
from hardpde.support.checking import is_number
from hardpde.support.compiling import compiled_quickly, jit_simply

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

NODES, FEW = 8192, 256  # of a mean; where there is time, or parameters, it is taken anew for each
CANDIDATES = 8  # random points for each that is wanted, as some may lie where the field does not live
HALVINGS = 50
RULED = 3  # dimensions in which nodes are spread evenly; in more they are random
NOTHING = 1e-9
LOOKED, MOST_CUTS, FEWEST = 3, 24, 4  # points of a part of a boundary; cuts across a coordinate; lines between two


@dataclass(frozen=True)
class Datum:
    """The mean of a field over the domain, or where it lives, is `value`; or, with `at`, its value there is.

    value: a number, or a function of the point; that of a mean may depend on time and parameters alone.
    """

    field: str
    value: Callable[[Array], Any] | float = 0.0
    at: tuple[float, ...] | None = None

    on: ClassVar[str] = "the whole domain"

    @property
    def name(self) -> str:
        return f"{'mean' if self.at is None else 'pin'} {self.field}"

    def component(self, problem: "Problem") -> int:
        """Which component of the state it is."""
        return problem.schema.slices[self.field].start

    def rule(self, problem: "Problem", number: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) whose mean with weights (n,) is meant."""
        if self.at is not None:
            return np.asarray(self.at, float)[None], np.ones(1)
        number = number or (NODES if problem.schema.point == problem.schema.dim else FEW)
        return _kept_rule(problem, self.field, number)

    def points(self, problem: "Problem", others: np.ndarray) -> np.ndarray:
        """The points at times and parameters (k, c − d): (k n, c) in the domain, those of each together."""
        nodes, _ = self.rule(problem)
        found = np.concatenate([np.tile(nodes, (len(others), 1)), np.repeat(others, len(nodes), axis=0)], axis=1)
        return problem.back(found) if self.at is not None else found

    def average(self, problem: "Problem", values: np.ndarray, number: int) -> np.ndarray:
        """Of values (k n, …) at `points`, one for each of so many times and parameters, (k, …)."""
        _, weights = self.rule(problem)
        return np.tensordot(weights, values.reshape(number, -1, *values.shape[1:]), axes=(0, 1))

    def values(self, problem: "Problem", others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (k,) at times and parameters (k, c − d), and their derivatives by time (k,), 0 without it."""
        d = problem.schema.dim
        x = jnp.asarray(np.concatenate([np.tile(self.rule(problem)[0][:1], (len(others), 1)), others], axis=1))

        def value(x: Array) -> Array:
            return jnp.asarray(evaluate(self.value, x), float).reshape(())

        later = jnp.zeros(x.shape[1]).at[d : d + (problem.time is not None)].set(1.0)
        found, change = jax.vmap(lambda x: jax.jvp(value, (x,), (later,)))(x)
        return np.asarray(found), np.asarray(change)


def mean(field: str, value: Callable[[Array], Any] | float = 0.0) -> Datum:
    """The mean of a field over the domain: for one that equations and conditions leave free up to a constant."""
    return Datum(field, value)


def pin(field: str, at: Any, value: Callable[[Array], Any] | float = 0.0) -> Datum:
    """The value of a field at a point of the domain: for one that is left free up to a constant."""
    try:
        place = tuple(float(c) for c in at)
    except (TypeError, ValueError):
        raise ValueError(f"'{field}' is pinned at {at!r}; give a point, like (0.5, 0.5)") from None
    return Datum(field, value, place)


@lru_cache(maxsize=8)
def _kept_rule(problem: "Problem", field: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    with compiled_quickly():
        return _rule(problem, field, number)


def domain_rule(problem: "Problem", number: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) and weights (n,) of a mean over the domain, about so many."""
    return _kept_rule(problem, problem.schema.names[0], number)


def _rule(problem: "Problem", field: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) and weights (n,) of a mean over where a field lives, about so many.

    Lines along the first coordinate stand at Gauss points of the others, between flat parts of boundaries; on each,
    cells are cut where the line leaves the domain. In many dimensions the points are random.
    """
    d = problem.schema.dim
    if d > RULED:
        x = np.asarray(problem.domain.sample(jax.random.key(31), CANDIDATES * number))
        x = x[problem.lives(field, x)][:number]
        return x, np.full(len(x), 1 / len(x))
    low, high = (np.asarray(bound, float) for bound in problem.domain.bounds)
    cells, across = _sizes(number, d)
    rules = [_between(cuts, across) for cuts in _flat(problem)]
    lines, each = (np.array(list(product(*parts))).reshape(-1, d - 1) if d > 1 else np.zeros((1, 0))
                   for parts in ([points for points, _ in rules], [weights for _, weights in rules]))
    shares = np.prod(each, axis=1)
    edges = np.linspace(low[0], high[0], cells + 1)
    outside = jax.jit(jax.vmap(lambda x: jnp.maximum(problem.domain.sdf(x), problem.where(field)(x))))

    def out(first: np.ndarray) -> np.ndarray:
        """Whether points of all lines with that first coordinate (lines, k) are outside."""
        x = np.concatenate([first[..., None], np.broadcast_to(lines[:, None], (*first.shape, d - 1))], axis=-1)
        return np.asarray(outside(x.reshape(-1, d))).reshape(first.shape) > 0

    left, right = (np.tile(part, (len(lines), 1)) for part in (edges[:-1], edges[1:]))
    gone = out(np.tile(edges * (1 - 1e-12) + (low[0] + high[0]) / 2 * 1e-12, (len(lines), 1)))
    first, last = gone[:, :-1], gone[:, 1:]
    inner, outer = np.where(first, right, left), np.where(first, left, right)
    for _ in range(HALVINGS):  # towards where a line leaves the domain
        middle = (inner + outer) / 2
        beyond = out(middle)
        inner, outer = np.where(beyond, inner, middle), np.where(beyond, middle, outer)
    left, right = np.where(first, inner, left), np.where(last, inner, right)
    length = np.where(first & last, 0.0, right - left)
    places = np.stack([(left + right) / 2 + sign * length / np.sqrt(12) for sign in (-1, 1)], axis=-1)
    w = np.repeat((length * shares[:, None])[..., None], 2, axis=-1)
    kept = w.ravel() > 0
    x = np.concatenate([places[..., None], np.broadcast_to(lines[:, None, None], (*places.shape, d - 1))], axis=-1)
    return x.reshape(-1, d)[kept], w.ravel()[kept] / w.sum()


def _flat(problem: "Problem") -> list[np.ndarray]:
    """Where the domain begins, ends, and has boundaries across each coordinate but the first, in order: what lines see
    jumps there."""
    low, high = (np.asarray(bound, float) for bound in problem.domain.bounds)
    found: list[list[float]] = [[a, b] for a, b in zip(low[1:], high[1:])]
    pieces = tuple(piece for boundary in problem.domain.boundaries.values() for piece in boundary.pieces)
    which = np.repeat(np.arange(len(pieces)), LOOKED)
    u = jnp.asarray(np.random.default_rng(5).random((len(which), len(low))))
    x, n = map(np.asarray, jit_simply(lambda u: place(pieces, jnp.asarray(which), u))(u))
    for one, normals in zip(np.split(x, len(pieces)), np.split(n, len(pieces))):
        for k in np.flatnonzero((np.abs(np.abs(normals) - 1) < NOTHING).all(axis=0)):
            if k and low[k] < one[0, k] < high[k]:
                found[k - 1].append(float(one[0, k]))
    extent = high - low
    return [_apart(np.sort(cuts), NOTHING * size) if len(cuts) <= MOST_CUTS else np.array(cuts[:2])
            for cuts, size in zip(found, extent[1:])]


def _apart(sorted_values: np.ndarray, least: float) -> np.ndarray:
    """Values in order without those that are nearly the one before; the last one stays."""
    return np.append(sorted_values[:-1][np.diff(sorted_values) > least], sorted_values[-1])


def _between(cuts: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss points and weights between each two of these cuts, about so many, at least FEWEST in each part."""
    parts = []
    for a, b in pairwise(cuts):
        points, weights = legendre.leggauss(max(min(FEWEST, number), round(number * (b - a) / (cuts[-1] - cuts[0]))))
        parts.append((a + (b - a) * (1 + points) / 2, (b - a) * weights))
    return np.concatenate([x for x, _ in parts]), np.concatenate([w for _, w in parts])


def _sizes(number: int, d: int) -> tuple[int, int]:
    """How many cells a line has, and how many lines there are along each of the other coordinates."""
    across = max(2, round(number ** (1 / d))) if d > 1 else 1
    return max(2, number // (2 * across ** (d - 1))), across


def check_datum(problem: "Problem", datum: Datum) -> None:
    """It is of a number that nothing else fixes, so that it can be met by a constant that changes nothing else."""
    schema, field, what = problem.schema, datum.field, f"the condition '{datum.name}'"
    gradients = dict(schema.gradients)
    if not isinstance(field, str) or field not in schema.names or field in gradients:
        raise ValueError(f"{what} is of no field; the fields are "
                         f"{', '.join(name for name in schema.names if name not in gradients)}")
    if schema.shapes[field]:
        raise ValueError(f"{what} is of a field of shape {schema.shapes[field]}; it must be a single number")
    if not callable(datum.value) and not is_number(datum.value):
        raise ValueError(f"the value of {what} is {datum.value!r}; it is a number or a function of the point")
    if sum(other.field == field for other in problem.levels) > 1:
        raise ValueError(f"the level of '{field}' is stated twice; keep one of mean and pin")
    if problem.mapping is not None and datum.at is None:
        raise ValueError(f"{what} is not taken where a mapping moves the domain; state pin(\"{field}\", at=…)")
    if datum.at is not None:
        _check_place(problem, datum, what)
    if not np.isfinite(datum.values(problem, _others(problem))).all():
        raise ValueError(f"the value of {what} is not a finite number")
    _check_free(problem, datum, what)


def _others(problem: "Problem", number: int = 8) -> np.ndarray:
    """Times and parameters (k, c − d)."""
    return np.asarray(problem.everywhen(jnp.zeros((number, problem.schema.dim))))[:, problem.schema.dim :]


def _check_place(problem: "Problem", datum: Datum, what: str) -> None:
    d = problem.schema.dim
    if len(datum.at or ()) != d:
        raise ValueError(f"{what} is at {datum.at}; a point of the domain has {d} coordinates")
    x = datum.points(problem, _others(problem))[:, :d]
    off = np.asarray(jax.vmap(problem.domain.sdf)(jnp.asarray(x)))
    if off.max() > 1e-9 * problem.domain.size or not problem.lives(datum.field, x).all():
        raise ValueError(f"{what} is at {datum.at}, which is no point where the field lives")


def _check_free(problem: "Problem", datum: Datum, what: str) -> None:
    linear, k = Linear(problem), datum.component(problem)
    fixed = f"{what} says what is known already: the level of '{datum.field}' is fixed by"
    for name, boundary in problem.domain.boundaries.items():
        space, n = sampled(boundary)
        a, _, names = linear.rows(name, np.asarray(problem.everywhen(jnp.asarray(space))), n)
        if (rows := np.abs(a[:, :, k]).max(0, initial=0.0) > 0).any():
            raise ValueError(f"{fixed} '{names[int(rows.argmax())]}' on '{name}'; leave one of them out")
    x = linear.points
    a, _, _ = linear.rows(INITIAL, x, np.zeros((len(x), problem.schema.dim)))
    if np.abs(a[:, :, k]).max(initial=0.0) > 0:
        raise ValueError(f"{fixed} the initial condition; leave one of them out")
    jet = np.random.default_rng(12).normal(size=(problem.schema.size, 1 + problem.derivatives, len(x)))
    slope = linear.at(x, jet)[1]
    used = [slope[:, k, 0]] + ([slope[:, k, 1 + problem.schema.dim]] if problem.time is not None else [])
    if max(np.nanmax(np.abs(part)) for part in used) > NOTHING * np.nanmax(np.abs(slope)):
        raise ValueError(f"{fixed} the equations, which change when a constant is added to it; leave '{datum.name}' "
                         f"out")
