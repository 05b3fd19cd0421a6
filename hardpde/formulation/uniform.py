"""Formulations whose points are uniform and do not follow the model."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import ALL_POINTS, Batch, Shard, cast, penalty_places, shard_rows
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model
from hardpde.formulation.penalties import Penalty
from hardpde.formulation.points import uniform
from hardpde.problem.problem import Problem


def uniform_points(problem: Problem, points: int, penalties: Sequence[Penalty], key: Array,
                   shard: Shard) -> list[tuple[Array, Any]]:
    """The points (n, c) of a draw: inside the domain, then those of each penalty with what is known there."""
    inside = shard_rows(shard, uniform(problem, key, points), 0), None
    return [inside, *[penalty_places(penalty, jax.random.fold_in(key, k + 1), shard)
                      for k, penalty in enumerate(penalties)]]


def uniformly_drawn(problem: Problem, init: Callable[[Array], Model], state: Callable[[Model, Batch], Array],
                    sample: Callable[[Array, Shard], Batch], at: Callable[[Array, bool], Batch], points: int,
                    dtype: str, **more: Any) -> Formulation:
    """A formulation for which sample(key, shard) draws points and at(x, derivatives) prepares given ones.

    more: other fields of the formulation.
    """
    sampled = jax.jit(lambda key, shard: cast(sample(key, shard), dtype))
    prepared = jax.jit(at, static_argnums=1)

    def draw(key: Array, model: Model | None = None, shard: Shard = ALL_POINTS) -> Batch:
        """Fresh points, whatever the model."""
        return sampled(key, shard)

    def anywhere(x: np.ndarray, order: int = 0) -> Batch:
        """The batch of any points, in their order."""
        return prepared(jnp.asarray(x), order > 0)

    return Formulation(problem, init, draw, draw, state, anywhere, points, jnp.dtype(dtype), **more)
