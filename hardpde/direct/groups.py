"""What a direct solve asks to be zero, group by group: the equations at points of the domain, and each penalty at its
places; with their derivatives by the state."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Term, laplacian_over
from hardpde.ansatz.corners import Corner, nearness
from hardpde.direct.evaluations import Points, as_numpy, put_together
from hardpde.formulation.batch import Batch
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.penalties import Penalty
from hardpde.networks.features import Source, seen, seen_along
from hardpde.networks.mlp import MLP
from hardpde.problem.linearised import Linearise, linearisation

FEWEST_FINITE = 0.9  # of the points; with fewer something is wrong with the statement


class Group(NamedTuple):
    """Values that should be zero at places; a place has so many points (`at_once`), which come one after the other.

    weight: how much their mean square counts against that of the equations. data: what they need, places last.
    """

    points: Points
    linearise: Linearise
    weight: float = 1.0
    at_once: int = 1
    data: Any = None

    @property
    def places(self) -> int:
        return len(self.points.x) // self.at_once

    def linearised(self, jet: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (e, places) and derivatives (e, m, slots, points), unscaled."""
        value, slope = self.linearise(self.points.x, jet, self.data)
        return np.asarray(value), np.asarray(slope)


class Drawn(NamedTuple):
    """A batch, or those of its points that were chosen, by their numbers; penalties go with whole ones alone."""

    batch: Batch
    chosen: np.ndarray | None = None

    @property
    def points(self) -> int:
        return len(self.batch.x) if self.chosen is None else len(self.chosen)


class Asked(NamedTuple):
    """How groups are made of the batches of a formulation; functions are compiled once for all of them."""

    formulation: Formulation
    equations: Linearise
    penalties: tuple[Linearise, ...]
    corners: list[Corner]
    based: Callable[[Batch], Batch]
    sources: tuple[Source, ...]
    sloped: int

    def groups(self, draws: list[Drawn]) -> tuple[Group, ...]:
        """The groups of several draws together; what a penalty asks, it asks once if it always asks at one place."""
        based = [self.based(draw.batch) for draw in draws]
        parts = [as_numpy(batch, self.sources, self.sloped) for batch in based]
        points = put_together([part if draw.chosen is None else part.chosen(draw.chosen)
                               for part, draw in zip(parts, draws)])
        batches = [batch for batch, draw in zip(based, draws) if draw.chosen is None]
        length = nearness(self.corners, self.formulation.problem.domain.size, points.x)
        points = points._replace(scale=points.scale * length)
        found = [Group(_with_finite(points, self.equations), self.equations)]
        for k, (penalty, linearise) in enumerate(zip(self.formulation.penalties, self.penalties)):
            found += _of_penalty(penalty, linearise, [batch.penalised[k] for batch in batches],
                                 self.sources, self.sloped)
        return tuple(found)

    def points_of(self, batch: Batch) -> Points:
        """The points of a batch alone."""
        return as_numpy(self.based(batch), self.sources, self.sloped)


def _with_finite(points: Points, linearise: Linearise) -> Points:
    """The points without those few where data have no derivatives, as in a corner where they are singular."""
    value, slope = linearise(points.x, points.offset, None)
    good = points.finite & np.isfinite(np.asarray(value)).all(0) & np.isfinite(np.asarray(slope)).all((0, 1, 2))
    if good.all():
        return points
    if good.mean() < FEWEST_FINITE:
        at = ", ".join(f"{c:.6g}" for c in points.x[~good][0])
        share = f"{(~good).mean():.0%} of the points"
        raise ValueError(f"data, coefficients or hints, or their derivatives, are not finite at {share}, such as "
                         f"({at}); look for a division by zero, a root or a logarithm there, also of fields where they "
                         f"start, which is near zero without the hint guess")
    return points.chosen(np.flatnonzero(good))


def asked(formulation: Formulation, corners: list[Corner], sources: tuple[Source, ...],
          sloped: int = 0, base: MLP | None = None) -> Asked:
    """corners: about them, equations count by the distance, as derivatives may be infinite there. sources: what each
    output of the network is made of; sloped: by how many coordinates its inputs are followed by their derivatives.
    base: a trained network to which features add."""
    return Asked(formulation, linearisation(formulation.problem),
                 tuple(_penalty_linearisation(penalty) for penalty in formulation.penalties), corners,
                 (lambda batch: batch) if base is None else jax.jit(partial(_upon, formulation, base)), sources, sloped)


def _upon(formulation: Formulation, base: MLP, batch: Batch) -> Batch:
    """A batch as features on a trained network see it: the offset is the trained state, inputs have its hidden layer.
    """
    second = laplacian_over(formulation.problem.schema, batch.offset)

    def term(one: Term) -> Term:
        if one.dual is None:
            return one._replace(inputs=seen(base, one.inputs, second))
        inputs, dual = seen_along(base, one.inputs, one.dual, second)
        return one._replace(inputs=inputs, dual=dual)

    return batch._replace(offset=formulation.state(base, batch), terms=tuple(map(term, batch.terms)),
                          penalised=tuple(_upon(formulation, base, part) for part in batch.penalised))


def _penalty_linearisation(penalty: Penalty) -> Linearise:
    """The rows of a penalty and their derivatives, the points of a place one after the other."""

    def one(x: Array, jet: Array, data: Any) -> tuple[Array, Array]:
        def rows(jet: Array) -> tuple[Array, Array]:
            r = penalty.rows(x, jet, data)
            return r, r

        slope, value = jax.jacfwd(rows, has_aux=True)(jet)  # (r, k, m, slots)
        return value, slope

    def every(x: Array, jet: Array, data: Any) -> tuple[Array, Array]:
        k = penalty.points
        places = x.reshape(k, -1, x.shape[-1])
        jets = jet.reshape(*jet.shape[:2], k, -1)
        value, slope = jax.vmap(one, (1, -1, -1), -1)(places, jnp.moveaxis(jets, 2, 0), data)
        slope = jnp.moveaxis(slope, 1, -2)
        return value, slope.reshape(*slope.shape[:-2], -1)

    return jax.jit(every)


def _of_penalty(penalty: Penalty, linearise: Linearise, batches: list[Batch],
                sources: tuple[Source, ...], sloped: int) -> list[Group]:
    """A group for each draw; one where all are of the same places. A penalty of method exact has one term."""
    if len(batches) > 1 and np.array_equal(batches[0].x, batches[1].x):
        batches = batches[:1]
    (weight,) = penalty.weights
    return [Group(as_numpy(batch._replace(scale=np.zeros((0, len(batch.x)))), sources, sloped), linearise,
                  weight / len(batches), penalty.points, batch.data) for batch in batches]
