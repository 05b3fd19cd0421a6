"""A battery pack: heat conduction round 11 cells and 6 cooling pipes (paper, section 5.2 and A.8.1).

    ∂T/∂t = k ΔT,   k n·∇T = h (T_b − T) on the outer box, the cells and the pipes,   T = T₀ at t = 0.
"""

from collections.abc import Callable
from importlib.resources import files

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import erfc

from hardpde.conditions import initial, robin
from hardpde.fields import div, dt
from hardpde.geometry import Ball, Box, Shape, distances
from hardpde.problem import Hints, Problem
from hardpde.reference import Reference

CELLS: list[tuple[float, float]] = [
    (-4, -9), (4, -9), (-4, -3), (4, -3), (-4, 3), (4, 3), (-4, 9), (4, 9), (0, -6), (0, 0), (0, 6)]
PIPES: list[tuple[float, float]] = [(-3.2, -6), (3.2, -6), (-3.2, 0), (3.2, 0), (-3.2, 6), (3.2, 6)]
BLUR = 1e-4  # of k t: keeps ξ insensitive to the last digit of a distance at t = 0


def battery_pack(k: float = 1.0, h: float = 1.0, air: float = 0.1, cell: float = 5.0, water: float = 1.0,
                 start: float = 0.1) -> Problem:
    """The paper's pack; other coefficients give packs of the same shape without a stored reference."""
    if k <= 0 or h <= 0:
        raise ValueError(f"k = {k} and h = {h} must be positive")
    domain: Shape = Box((-8, -12), (8, 12), name="outer")
    for centre in CELLS:
        domain = domain - Ball(centre, 1.0, name="cell")
    for centre in PIPES:
        domain = domain - Ball(centre, 0.4, name="pipe")
    printed = (k, h, air, cell, water, start) == (1.0, 1.0, 0.1, 5.0, 1.0, 0.1)
    return Problem(
        name="battery-pack",
        domain=domain,
        fields="T",
        gradients={"grad_T": "T"},
        time=(0.0, 1.0),
        residual=lambda x, q, dq: dt(dq.T) - k * div(dq.grad_T),
        conditions=[
            robin("outer", "T", a=h, b=k, g=h * air),
            robin("cell", "T", a=h, b=k, g=h * cell),
            robin("pipe", "T", a=h, b=k, g=h * water),
            initial("T", start),
        ],
        hints=Hints(ramp="root", inputs=_layers(domain, k)),
        reference=_reference if printed else None,
    )


def _layers(domain: Shape, k: float) -> Callable[[Array], Array]:
    """The shape of the layers that the jump of the flux at t = 0 sends into the domain.

    Near a wall T depends on ξ = distance / (2 √(k t)); the network is given erfc ξ and e^{−ξ²}, summed over
    the cells and over the pipes.
    """
    walls = [domain.boundaries[name].pieces for name in ("cell", "pipe")]

    def inputs(x: Array) -> Array:
        parts = []
        for pieces in walls:
            xi = distances(pieces, x) / (2 * jnp.sqrt(k * x[-1] + BLUR))
            parts += [erfc(xi).sum(), jnp.exp(-(xi**2)).sum()]
        return jnp.stack(parts)

    return inputs


def _reference() -> Reference:
    return Reference.load(str(files("hardpde.problems") / "data" / "battery_pack.npz"))
