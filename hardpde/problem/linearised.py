"""Equations linearised about a state, at points."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from jax import Array

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

# Values (e, n) and derivatives (e, m, slots, n) by the jet, from points (n, c), jets (m, slots, n) and data.
Linearise = Callable[[Any, Any, Any], tuple[Array, Array]]


def linearisation(problem: "Problem") -> Linearise:
    """Residuals and their derivatives by the jet of the state."""

    def one(x: Array, jet: Array, data: Any) -> tuple[Array, Array]:
        def residuals(jet: Array) -> tuple[Array, Array]:
            r = problem.residuals(x, jet[:, 0], jet[:, 1:].T)
            return r, r

        slope, value = jax.jacfwd(residuals, has_aux=True)(jet)
        return value, slope

    return jax.jit(jax.vmap(one, (0, -1, None), -1))
