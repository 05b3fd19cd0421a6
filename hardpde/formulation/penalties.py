"""Penalties: conditions that are asked for by the loss, where no ansatz builds them in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.points import on_pieces, paired
from hardpde.geometry import Boundary, Piece
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.measurements import Measurement
from hardpde.problem.parameters import append
from hardpde.problem.problem import Problem

SPARSE = 16  # points inside the domain for each place that is penalised


@dataclass(frozen=True, eq=False)
class Penalty:
    """A few terms of the loss: each is its weight × the mean over its places of Σ rows².

    A place is one point, or a few points whose states are compared. draw(key): places (k, n, c) of k points each,
    term by term, and what the rows need to know there, with places last. rows(x, jet, data): what should be zero at
    one place, (r,), from its points (k, c) and the jets of the state there (k, m, slots). needs: what of the jets the
    rows read: 0 values, 1 derivatives in space too, 2 all that the equations read.
    """

    draw: Callable[[Array], tuple[Array, Any]]
    rows: Callable[[Array, Array, Any], Array]
    weights: tuple[float, ...]  # one for each term
    each: int  # places of a term
    points: int = 1  # k
    needs: int = 1


def stated_penalties(problem: Problem, points: int, chunks: int, default: float | None = None,
                     each: int | None = None) -> tuple[Penalty, ...]:
    """The measurements and the soft periodic conditions; with a default weight, also those stated without one.

    each: how many places of a periodic condition; a share of the points unless stated.
    """
    found = [_measured(problem, measurement, chunks) for measurement in problem.measurements]
    places = share(points / SPARSE if each is None else each, chunks)
    for period in problem.periods:
        weight = default if period.hard else period.condition.soft
        if weight is not None:
            found.append(Penalty(lambda key, p=period: (paired(problem, p, key, places), jnp.ones(places)),  # type: ignore[misc]
                                 lambda x, jet, counts, p=period: counts * p.rows(x, jet),  # type: ignore[misc]
                                 (weight,), places, 2))
    return tuple(found)


def _measured(problem: Problem, measurement: Measurement, chunks: int) -> Penalty:
    """The mean square by which a field misses what was measured, over the variance of that."""
    x, wanted = measurement.points(problem)
    columns = problem.schema.slices[measurement.field]
    n, size = len(x), share(len(x), chunks)
    spread = np.sqrt(((wanted - wanted.mean(0)) ** 2).sum(1).mean()) or np.sqrt((wanted**2).sum(1).mean()) or 1.0
    factor = np.where(np.arange(size) < n, np.sqrt(size / n) / spread, 0.0)  # places that fill up a chunk count nothing
    again = np.arange(size) % n
    data = jnp.asarray(wanted[again].T), jnp.asarray(factor)
    return Penalty(lambda key: (jnp.asarray(x[again])[None], data),
                   lambda x, jet, data: (jet[0, columns, 0] - data[0]) * data[1], (measurement.weight,), size, needs=0)


def condition_penalties(problem: Problem, boundary: int, initial: int, chunks: int) -> tuple[Penalty, ...]:
    """All conditions at points: one term for each condition on each connected boundary, and for each initial one.

    boundary: places on all boundaries, shared evenly between the terms, so that a small hole counts as much as the
    outer box; initial: places at the start of time, for each initial condition.
    """
    edges = [(condition, pieces) for condition in problem.pointwise if condition.on != INITIAL
             for pieces in bodies(problem.domain.boundaries[condition.on])]
    starts = [condition for condition in problem.pointwise if condition.on == INITIAL]
    found = []
    if edges:
        each = share(boundary / len(edges), chunks)

        def on_edges(key: Array) -> tuple[Array, Any]:
            x, n = on_pieces(problem, tuple(pieces for _, pieces in edges), key, each)
            return x[None], equations(problem, [condition for condition, _ in edges], x, n)

        found.append(Penalty(on_edges, mismatch, (1.0,) * len(edges), each))
    if starts:
        many = share(initial, chunks)

        def at_start(key: Array) -> tuple[Array, Any]:
            x = append(problem.parameters, problem.boundaries[INITIAL].sample(key, many * len(starts)),
                       jax.random.fold_in(key, 1))
            a, g = equations(problem, starts, x, jnp.zeros((len(x), problem.schema.dim)))
            return x[None], (a[:, : problem.schema.size], g)

        found.append(Penalty(at_start, mismatch, (1.0,) * len(starts), many, needs=0))
    return tuple(found)


def bodies(boundary: Boundary) -> list[tuple[Piece, ...]]:
    """The pieces of a boundary, those of one body together."""
    found: dict[int, tuple[Piece, ...]] = {}
    for piece in boundary.pieces:
        found[piece.body] = (*found.get(piece.body, ()), piece)
    return list(found.values())


def equations(problem: Problem, conditions: Sequence[Condition], x: Array, n: Array) -> tuple[Array, Array]:
    """The rows A (r, columns, n) and g (r, n) of conditions at points (n, c) with normals, as many for each."""
    each = len(x) // len(conditions)
    parts = []
    for k, condition in _runs(conditions):
        where = slice(k.start * each, k.stop * each)
        parts.append(jax.vmap(lambda x, n, c=condition: c.matrix(problem.schema, x, n, gradients=True),
                              out_axes=-1)(x[where], n[where]))
    most = max(len(a) for a, _ in parts)
    padded = [(jnp.pad(a, ((0, most - len(a)), (0, 0), (0, 0))), jnp.pad(g, ((0, most - len(g)), (0, 0))))
              for a, g in parts]
    a, g = zip(*padded)
    return jnp.concatenate(a, axis=-1), jnp.concatenate(g, axis=-1)


def mismatch(x: Array, jet: Array, data: tuple[Array, Array]) -> Array:
    """A z − g at one point, with z the state and its derivatives in space."""
    a, g = data
    columns = a.shape[-1]
    m = jet.shape[1]
    z = jnp.concatenate([jet[0, :, 0], jet[0, :, 1 : columns // m].ravel()])
    # Sums of products, not tiny matrix products: this fuses.
    return (a * z).sum(-1) - g


def _runs(conditions: Sequence[Condition]) -> list[tuple[slice, Condition]]:
    """Where the same condition follows itself."""
    starts = [k for k, c in enumerate(conditions) if k == 0 or c is not conditions[k - 1]]
    return [(slice(a, b), conditions[a]) for a, b in zip(starts, [*starts[1:], len(conditions)])]


def share(places: float, chunks: int) -> int:
    """A number of places that suits the chunks: every part of a batch gets as many."""
    return int(max(1, np.ceil(places / chunks - 1e-9))) * chunks
