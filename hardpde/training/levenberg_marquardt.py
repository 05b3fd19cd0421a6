"""Levenberg–Marquardt on the vector of residuals."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from hardpde.support.checking import check_positive
from hardpde.training.line_search import nan_to_infinity
from hardpde.training.status import CONVERGED, status_after


def _uses_woodbury(mode: str, rows: int, columns: int) -> bool:
    if mode not in ("dense", "woodbury", "auto"):
        raise ValueError(f'mode must be "dense", "woodbury" or "auto", got {mode!r}')
    return mode == "woodbury" or (mode == "auto" and rows < columns)


def damped_solver(J: Array, r: Array, mode: str = "auto") -> Callable[[Array], Array]:
    """The Levenberg–Marquardt step d(μ) solving (JᵀJ + μI) d = −Jᵀr, by Cholesky.

    "woodbury" uses the equal form d = −Jᵀ(JJᵀ + μI)⁻¹ r, the smaller system when J has few rows.
    """
    woodbury = _uses_woodbury(mode, *J.shape)
    product = lambda a, b: jnp.matmul(a, b, precision="highest")  # noqa: E731
    gram = product(J, J.T) if woodbury else product(J.T, J)
    right = r if woodbury else product(J.T, r)
    diagonal = jnp.arange(gram.shape[0])

    def step(mu: Array) -> Array:
        factor = jnp.linalg.cholesky(gram.at[diagonal, diagonal].add(mu), symmetrize_input=False)
        solution = jax.scipy.linalg.cho_solve((factor, True), right)
        return -(product(J.T, solution) if woodbury else solution)

    return step


class LevenbergMarquardtState(NamedTuple):
    """The damping μ, the failures in a row, and the status."""

    damping: Array
    failures: Array
    status: Array


def levenberg_marquardt(
    damping: float = 1e-3,
    mode: str = "auto",
    up: float = 10.0,
    down: float = 0.1,
    tolerance: float = 1e-12,
) -> optax.GradientTransformationExtraArgs:
    """Levenberg–Marquardt for a loss that is a sum of squares, loss = r·r with r = `residual_fn(params)`.

    Each step tries the dampings μ·(down, 1, up) and keeps the one with the lowest loss; where none lowers
    it the step is zero and μ rises beyond all three. `update` is given `jacobian_fn(params)`, a pytree like
    `jax.jacrev(residual_fn)(params)`: residuals that belong to single points are differentiated point by
    point far faster than through the whole vector.
    """
    _uses_woodbury(mode, 1, 1)
    check_positive(damping=damping)
    if not 0 < down < 1 < up:
        raise ValueError(f"down and up must satisfy 0 < down < 1 < up, got down={down}, up={up}")

    def init(params: Any) -> LevenbergMarquardtState:
        x, _ = ravel_pytree(params)
        zeros = [jnp.zeros((), jnp.int32) for _ in range(2)]
        return LevenbergMarquardtState(jnp.asarray(damping, x.dtype), *zeros)

    def update(
        updates: Any,
        state: LevenbergMarquardtState,
        params: Any,
        *,
        value: Any,
        value_fn: Callable[[Any], Array],
        residual_fn: Callable[[Any], Array],
        jacobian_fn: Callable[[Any], Any],
        fresh: Any = False,
        **extra: Any,
    ) -> tuple[Any, LevenbergMarquardtState]:
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        r = residual_fn(params).reshape(-1)
        J = jnp.concatenate([leaf.reshape(r.size, -1) for leaf in jax.tree.leaves(jacobian_fn(params))], axis=1)
        solve = damped_solver(J, r, mode)

        # A stall on the old points raised the damping; new points start again from the given one.
        mu = jnp.where(fresh, jnp.minimum(state.damping, damping), state.damping).astype(x.dtype)

        def trial(candidate: Array) -> tuple[Array, Array]:
            d = solve(candidate)
            return d, nan_to_infinity(value_fn(unravel(x + d)))

        candidates = mu * jnp.asarray([down, 1.0, up], x.dtype)
        directions, values = jax.lax.map(trial, candidates)
        best = jnp.argmin(values)
        moved = values[best] < value
        failures, code = status_after(g, moved, jnp.where(fresh, 0, state.failures), tolerance)
        moved &= code != CONVERGED

        raised = jnp.where(code == CONVERGED, mu, mu * up**2 / down)
        limits = jnp.finfo(x.dtype)
        mu = jnp.clip(jnp.where(moved, candidates[best], raised), limits.tiny / limits.eps, 1e20)
        step = jnp.where(moved, directions[best], 0)
        return unravel(step), LevenbergMarquardtState(mu.astype(x.dtype), failures, code)

    return optax.GradientTransformationExtraArgs(init, update)
