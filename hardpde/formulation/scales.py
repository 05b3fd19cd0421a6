"""Factors of the residuals."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Nearby
from hardpde.problem.problem import Problem


def plain_scale(problem: Problem) -> Callable[[Array], Array]:
    """All factors of the residuals are 1, (e,)."""
    schema = problem.schema
    size = jax.eval_shape(problem.residuals, np.zeros(schema.point), np.zeros(schema.size),
                          np.zeros((problem.derivatives, schema.size))).shape
    return lambda x: jnp.ones(size)


def residual_scale(problem: Problem) -> Callable[[Array], Array]:
    """The factors of the residuals at a point, (e,): those stated, or those the geometry suggests.

    Where boundary and initial data meet, a solution has a layer of width √t and its equations grow like 1/ℓ
    with ℓ² = t + distance² (in units of the time span and the collar). The user's equations are scaled by
    min(1, ℓ) there, so that no single corner of space-time rules the loss.
    """
    schema, layout, stated, ones = problem.schema, problem.layout, problem.hints.scale, plain_scale(problem)
    if stated is not None:
        return lambda x: ones(x) * jnp.asarray(stated(x))
    if not layout.initial or not layout.pieces or problem.time is None:
        return ones
    start, end = problem.time
    nearby, collar = Nearby(layout.pieces, layout.collar, problem.domain.bounds), jnp.asarray(layout.collar)
    gradients = sum(int(np.prod(schema.shapes[name])) for name, _ in schema.gradients)

    def scale(x: Array) -> Array:
        numbers, feet = nearby.feet(x)
        squared = jnp.where(numbers < 0, jnp.inf, ((feet - x[: schema.dim]) ** 2).sum(-1) / collar[numbers] ** 2)
        length = jnp.sqrt(jnp.minimum((x[schema.dim] - start) / (end - start) + squared.min(), 1.0))
        factors = ones(x)
        return factors.at[: factors.size - gradients].set(length)

    return scale
