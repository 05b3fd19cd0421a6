"""L-BFGS with a line search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from hardpde.training.ahead import Ahead
from hardpde.training.line_search import STEEPEST_SHRINK, search, select


class LBFGSState(NamedTuple):
    """The last steps S and changes of the gradient Y (memory, n), oldest first, SYᵀ above its diagonal and YYᵀ; then
    the last gradient and the step from it, and what is known of its end."""

    S: Array
    Y: Array
    SY: Array
    YY: Array
    gradient: Array
    step: Array
    ahead: Ahead
    failures: Array
    status: Array


def _remembered(state: LBFGSState, s: Array, y: Array) -> LBFGSState:
    """The memory with a new pair in place of the oldest."""
    S, Y = jnp.concatenate([state.S[1:], s[None]]), jnp.concatenate([state.Y[1:], y[None]])
    by_s, by_y = jnp.matmul(S, y, precision="highest"), jnp.matmul(Y, y, precision="highest")
    older = lambda gram: jnp.pad(gram[1:, 1:], ((0, 1), (0, 1)))  # noqa: E731
    YY = older(state.YY).at[-1].set(by_y).at[:, -1].set(by_y)
    return state._replace(S=S, Y=Y, SY=older(state.SY).at[:, -1].set(by_s), YY=YY)


def _inverse_hessian(state: LBFGSState, g: Array) -> Array:
    """H g in the compact form of Byrd, Nocedal & Schnabel (1994), theorem 2.2: a few products with S and Y.

    Places of the memory that are still empty are zero and change nothing.
    """
    product = lambda a, b: jnp.matmul(a, b, precision="highest")  # noqa: E731
    curvatures = jnp.diag(state.SY)
    empty = jnp.diag((curvatures == 0).astype(g.dtype))
    scale = jnp.where(curvatures[-1] > 0, curvatures[-1] / jnp.where(curvatures[-1] > 0, state.YY[-1, -1], 1), 1)
    R = state.SY + empty
    u = jax.scipy.linalg.solve_triangular(R, product(state.S, g))
    right = curvatures * u + scale * (product(state.YY, u) - product(state.Y, g))
    w = jax.scipy.linalg.solve_triangular(R, right, trans="T")
    return scale * (g - product(u, state.Y)) + product(w, state.S)


def lbfgs(memory: int = 50, tolerance: float = 1e-12) -> optax.GradientTransformationExtraArgs:
    """L-BFGS with a backtracking line search. A redraw or a failed search drops the memory.

    The pair (s, y) of a step enters the memory at the next call, when the new gradient is known. As the two loops of
    the usual recursion are written as products, an iteration costs little more than the loss and its gradient.
    """
    def init(params: Any) -> LBFGSState:
        x, _ = ravel_pytree(params)
        zero = lambda *shape: jnp.zeros(shape, x.dtype)  # noqa: E731
        return LBFGSState(zero(memory, x.size), zero(memory, x.size), zero(memory, memory), zero(memory, memory),
                          zero(x.size), zero(x.size), Ahead(zero(), jax.tree.map(jnp.zeros_like, params)),
                          jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def update(
        updates: Any,
        state: LBFGSState,
        params: Any,
        *,
        value: Any,
        value_and_grad_fn: Callable[[Any], tuple[Array, Any]],
        fresh: Any = False,
        **extra: Any,
    ) -> tuple[Any, LBFGSState]:
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        fresh = jnp.asarray(fresh)
        y = g - state.gradient
        lengths = jnp.linalg.norm(state.step) * jnp.linalg.norm(y)
        valid = state.step @ y > jnp.finfo(x.dtype).eps * lengths
        state = select(valid & ~fresh, _remembered(state, state.step, y), state)
        failures = jnp.where(fresh, 0, state.failures)
        direction = _inverse_hessian(state, g)
        steepest = fresh | (state.SY[-1, -1] == 0) | ~(g @ direction > 0)
        # The first step has length one at most; after a failure it looks closer.
        short = STEEPEST_SHRINK**failures / jnp.maximum(1, jnp.abs(g).sum())
        direction = jnp.where(steepest, short.astype(x.dtype) * g, direction)

        length, there, _, failures, code = search(
            value_and_grad_fn, unravel, x, value, g, direction, 1.0, failures, tolerance)
        step = jnp.where(length > 0, -length * direction, 0)
        forget = steepest | (length == 0)
        S, Y, SY, YY = (jnp.where(forget, 0, a) for a in state[:4])
        return unravel(step), LBFGSState(S, Y, SY, YY, g, step, there, failures, code)

    return optax.GradientTransformationExtraArgs(init, update)
