"""Heat conduction in a ball of any dimension, ten by default (paper, section 5.4 and A.8.3).

    ∂u/∂t = k Δu + f,   n·∇u = g on the sphere,   u = g at t = 0,   with g = exp(|x|²/2 + t) the solution itself.
"""

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.geometry import Ball
from hardpde.problem.conditions import initial, neumann
from hardpde.problem.fields import State, div, dt
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problems.presets import Presets, start_and_finish
from hardpde.support.checking import is_whole

PRESETS = Presets("heat-ball", {
    ("exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 1024, "gradients": "derivatives"},
        "stages": start_and_finish(200, 5e-3, 9000, 200)},
    ("exact", "best"): {
        "method": {"width": 48, "depth": 3, "points": 8192, "gradients": "derivatives"},
        "stages": start_and_finish(300, 3e-3, 16_000, 1000)},
    ("hc", "paper"): {"method": {"points": 1000}},
}, sizes={"points": 1000, "boundary": 100, "initial": 100})


def heat_ball(dim: int = 10) -> Problem:
    """The unit ball of `dim` dimensions, heated so that u = exp(|x|²/2 + t)."""
    if not is_whole(dim, 1):
        raise ValueError(f"dim is {dim}; a ball has a whole number of dimensions, at least 1")
    k = 1 / dim

    def u(x: Array) -> Array:
        return jnp.exp(0.5 * (x[:dim] ** 2).sum() + x[dim])

    def heat(x: Array, q: State, dq: State) -> Array:
        return dt(dq.u) - k * div(dq.grad_u) + k * (x[:dim] ** 2).sum() * u(x)

    return Problem(
        name="heat-ball",
        domain=Ball((0.0,) * dim, 1.0, name="sphere"),
        fields="u",
        gradients={"grad_u": "u"},
        time=(0.0, 1.0),
        residual=heat,
        conditions=[neumann("sphere", "u", u), initial("u", u)],
        # The data agree where they meet, so that nothing is steep.
        hints=Hints(root_time=False, near=0.0, early=0.0, scale=lambda x: 1.0),
        exact=lambda x: {"u": u(x), "grad_u": jax.grad(u)(x)[:dim]},
        presets=PRESETS,
    )
