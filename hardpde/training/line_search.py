"""The line search of L-BFGS and SSBroyden."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.training.ahead import Ahead
from hardpde.training.status import CONVERGED, status_after

REMEMBERED = 0.8  # how much of the mean length of steps is from before the last one
STEEPEST_SHRINK = 1e-2  # each further restart looks this much closer to the current point


def select(condition: Array, yes: Any, no: Any) -> Any:
    """`jnp.where` for whole pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def nan_to_infinity(value: Array) -> Array:
    """Infinity in place of NaN, so that a minimum never picks it."""
    return jnp.where(jnp.isnan(value), jnp.inf, value)


def backtrack(
    along: Callable[[Array], tuple[Array, Any]],
    start: Ahead,
    slope: Array,
    first: Array | float = 1.0,
    decrease: float = 1e-4,
    evaluations: int = 12,
) -> tuple[Array, Ahead, Array]:
    """The length of a step along a ray, what is found at its end, and the length at which the parabola through it is
    lowest; from the loss and its slope at 0 and the first length to try.

    Armijo with quadratic interpolation bounded to [0.1, 0.5] (Nocedal & Wright, section 3.5). Where no trial
    satisfies Armijo's condition (rounding, near a minimum) the lowest one is taken; where none is lower, the length
    is 0. As the first trial is mostly taken, every trial finds the gradient too, which is the next step's.
    """

    def unfinished(carry: tuple) -> Array:
        count, done, *_ = carry
        return ~done & (count < evaluations)

    def trial(carry: tuple) -> tuple:
        count, _, length, best_length, best, best_lowest = carry
        value, gradient = along(length)
        new = Ahead(nan_to_infinity(value).astype(slope.dtype), gradient)
        done = new.value <= start.value + decrease * length * slope
        lower = (new.value < start.value) & (done | (new.value < best.value))
        curvature = 2 * (new.value - start.value - length * slope)
        bends = (curvature > 0) & (curvature < jnp.inf)
        lowest = jnp.where(bends, -slope * length**2 / jnp.where(bends, curvature, 1), 2 * length)
        shorter = jnp.clip(lowest, 0.1 * length, 0.5 * length)
        return (count + 1, done, shorter, *select(lower, (length, new, lowest), (best_length, best, best_lowest)))

    number = partial(jnp.asarray, dtype=slope.dtype)
    carry = jnp.zeros((), jnp.int32), jnp.asarray(False), number(first), number(0), start, number(1)
    _, _, _, length, best, lowest = jax.lax.while_loop(unfinished, trial, carry)
    return length, best, lowest


class Searched(NamedTuple):
    """The length of a step, what is known of its end, the length at which the parabola through that is lowest, the
    failures in a row and the status code."""

    length: Array
    ahead: Ahead
    lowest: Array
    failures: Array
    status: Array


def search(value_and_grad_fn: Callable[[Any], tuple[Array, Any]], unravel: Callable[[Array], Any], x: Array, value: Any,
           g: Array, direction: Array, first: Array | float, failures: Array, tolerance: float) -> Searched:
    """A step from x against a direction, none where the gradient g at x is below the tolerance."""
    start = Ahead(jnp.asarray(value, x.dtype), unravel(g))
    length, ahead, lowest = backtrack(
        lambda length: value_and_grad_fn(unravel(x - length * direction)), start, -(g @ direction), first)
    failures, code = status_after(g, length > 0, failures, tolerance)
    converged = code == CONVERGED
    return Searched(jnp.where(converged, 0, length), select(converged, start, ahead), lowest, failures, code)
