"""Poisson's equation on an interval (paper, appendix A.8.4): u″ = −a² sin(ax), u = 0 at both ends of (0, 2π).

The solution is u = sin(ax). With and without the extra field ∇u, to see what extra fields are worth.
"""

import math

import jax.numpy as jnp
from jax import Array

from hardpde.geometry import Interval
from hardpde.problem.conditions import dirichlet
from hardpde.problem.fields import State, div, laplacian
from hardpde.problem.problem import Problem
from hardpde.problems.presets import Presets, constant_adam

PRESETS = Presets(
    "poisson", {("exact", "quick"): {"method": {"points": 256}}}, sizes={"points": 128, "boundary": 2},
    network={"layers": [50] * 3}, stages=[constant_adam(1e-3, 10_000)])


def poisson(a: int = 2, extra: bool = True) -> Problem:
    """u″ = −a² sin(ax) on (0, 2π), u = 0 at the ends; extra=False takes u″ itself instead of the field ∇u."""
    if a % 1 or a < 1:
        raise ValueError(f"a = {a} must be a positive whole number, so that sin(ax) is 0 at both ends")

    def exact(x: Array) -> dict[str, Array]:
        gradient = {"grad_u": a * jnp.cos(a * x)} if extra else {}
        return {"u": jnp.sin(a * x[0]), **gradient}

    def residual(x: Array, q: State, dq: State) -> Array:
        second = div(dq.grad_u) if extra else laplacian(dq.u)
        return second + a**2 * jnp.sin(a * x[0])

    return Problem(
        name="poisson",
        domain=Interval(0, 2 * math.pi, left="left", right="right"),
        fields="u",
        gradients={"grad_u": "u"} if extra else {},
        residual=residual,
        conditions=[dirichlet("left", "u"), dirichlet("right", "u")],
        exact=exact,
        presets=PRESETS,
    )
