"""The line search of L-BFGS and SSBroyden."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from hardpde.training.ahead import Ahead
from hardpde.training.status import CONVERGED, RUNNING, STALLED

FAILURES_BEFORE_STALL = 3  # the first failure restarts from steepest descent, the others are that descent
REMEMBERED = 0.8  # how much of the mean length of steps is from before the last one
STEEPEST_SHRINK = 1e-2  # each further restart looks this much closer to the current point


def progress_code(
    gradient: jax.Array, moved: jax.Array, failures: jax.Array, tolerance: float
) -> tuple[jax.Array, jax.Array]:
    """The new number of failures in a row and the status code."""
    converged = jnp.max(jnp.abs(gradient)) <= tolerance
    failures = jnp.where(moved | converged, 0, failures + 1).astype(jnp.int32)
    stalled = jnp.where(failures >= FAILURES_BEFORE_STALL, STALLED, RUNNING)
    return failures, jnp.where(converged, CONVERGED, stalled).astype(jnp.int32)


def tree_where(condition: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def finite_or_infinity(value: jax.Array) -> jax.Array:
    """Infinity in place of NaN, so that a minimum never picks it."""
    return jnp.where(jnp.isnan(value), jnp.inf, value)


def backtrack(
    along: Callable[[jax.Array], tuple[jax.Array, Any]],
    here: Ahead,
    slope: jax.Array,
    first: jax.Array | float = 1.0,
    decrease: float = 1e-4,
    evaluations: int = 12,
) -> tuple[jax.Array, Ahead, jax.Array]:
    """The length of a step along a ray, what is found at its end, and the length at which the parabola through it is
    lowest; from the loss and its slope at 0 and the first length to try.

    Armijo with quadratic interpolation bounded to [0.1, 0.5] (Nocedal & Wright, section 3.5). Where no trial
    satisfies Armijo's condition (rounding, near a minimum) the lowest one is taken; where none is lower, the length
    is 0. As the first trial is mostly taken, every trial finds the gradient too, which is the next step's.
    """

    def unfinished(carry):
        count, done, *_ = carry
        return ~done & (count < evaluations)

    def trial(carry):
        count, _, length, best_length, best, best_lowest = carry
        value, gradient = along(length)
        new = Ahead(finite_or_infinity(value).astype(slope.dtype), gradient)
        done = new.value <= here.value + decrease * length * slope
        lower = (new.value < here.value) & (done | (new.value < best.value))
        curvature = 2 * (new.value - here.value - length * slope)
        bends = (curvature > 0) & (curvature < jnp.inf)
        lowest = jnp.where(bends, -slope * length**2 / jnp.where(bends, curvature, 1), 2 * length)
        shorter = jnp.clip(lowest, 0.1 * length, 0.5 * length)
        return (count + 1, done, shorter, *tree_where(lower, (length, new, lowest), (best_length, best, best_lowest)))

    number = partial(jnp.asarray, dtype=slope.dtype)
    start = jnp.zeros((), jnp.int32), jnp.asarray(False), number(first), number(0), here, number(1)
    _, _, _, length, best, lowest = jax.lax.while_loop(unfinished, trial, start)
    return length, best, lowest
