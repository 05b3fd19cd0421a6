"""A battery pack: heat conduction round 11 cells and 6 cooling pipes (paper, section 5.2 and A.8.1).

    ∂T/∂t = k ΔT,   k n·∇T = h (T_b − T) on the outer box, the cells and the pipes,   T = T₀ at t = 0.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import erfc

from hardpde.geometry import Ball, Box, Shape, distances
from hardpde.problem.conditions import evaluate, initial, robin
from hardpde.problem.fields import div, dt
from hardpde.problem.hints import Hints
from hardpde.problem.parameters import parameters
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.presets import Presets, start_and_finish
from hardpde.support.checking import check_positive

CELLS: list[tuple[float, float]] = [
    (-4, -9), (4, -9), (-4, -3), (4, -3), (-4, 3), (4, 3), (-4, 9), (4, 9), (0, -6), (0, 0), (0, 6)]
PIPES: list[tuple[float, float]] = [(-3.2, -6), (3.2, -6), (-3.2, 0), (3.2, 0), (-3.2, 6), (3.2, 6)]
BLUR = 1e-4  # of k t: keeps ξ insensitive to the last digit of a distance at t = 0
RANGES = {"h": (0.5, 2.0), "cell": (3.0, 7.0), "k": (0.5, 2.0)}  # of the family
PRESETS = Presets("battery-pack", {("exact", "best"): {"stages": start_and_finish(500, 3e-3, 28_000, 500)}})
FAMILY_PRESETS = Presets("battery-pack-family", {
    ("exact", "quick"): {
        "method": {"width": 32, "depth": 3, "points": 4096}, "stages": start_and_finish(200, 5e-3, 3000, 100)},
    ("exact", "best"): {"method": {"points": 16_384}, "stages": start_and_finish(500, 3e-3, 15_000, 300)},
})


def battery_pack(k: float = 1.0, h: float = 1.0, air: float = 0.1, cell: float = 5.0, water: float = 1.0,
                 start: float = 0.1) -> Problem:
    """The paper's pack; other coefficients give packs of the same shape without a stored reference."""
    check_positive(k=k, h=h)
    printed = (k, h, air, cell, water, start) == (1.0, 1.0, 0.1, 5.0, 1.0, 0.1)
    return _pack(PRESETS, k, h, air, cell, water, start, reference=_reference if printed else None)


def battery_pack_family() -> Problem:
    """The pack for every heat-transfer coefficient h, temperature of the cells and conductivity k within RANGES."""
    h, cell, k = parameters(**RANGES)
    return _pack(FAMILY_PRESETS, k, h, 0.1, cell, 1.0, 0.1, parameters=(h, cell, k))


def _pack(presets: Presets, k: Any, h: Any, air: float, cell: Any, water: float, start: float, **more: Any) -> Problem:
    """k, h and the temperature of the cells are numbers or parameters."""
    domain: Shape = Box((-8, -12), (8, 12), name="outer")
    for centre in CELLS:
        domain = domain - Ball(centre, 1.0, name="cell")
    for centre in PIPES:
        domain = domain - Ball(centre, 0.4, name="pipe")

    def warmed(temperature: Any) -> Any:
        return lambda x: evaluate(h, x) * evaluate(temperature, x)

    return Problem(
        name=presets.problem,
        domain=domain,
        fields="T",
        gradients={"grad_T": "T"},
        time=(0.0, 1.0),
        residual=lambda x, q, dq: dt(dq.T) - evaluate(k, x) * div(dq.grad_T),
        conditions=[
            robin("outer", "T", a=h, b=k, g=warmed(air)),
            robin("cell", "T", a=h, b=k, g=warmed(cell)),
            robin("pipe", "T", a=h, b=k, g=warmed(water)),
            initial("T", start),
        ],
        hints=Hints(ramp="root", inputs=_layers(domain, k)),
        presets=presets,
        **more,
    )


def _layers(domain: Shape, k: Any) -> Callable[[Array], Array]:
    """The shape of the layers that the jump of the flux at t = 0 sends into the domain.

    Near a wall T depends on ξ = distance / (2 √(k t)); the network is given erfc ξ and e^{−ξ²}, summed over
    the cells and over the pipes.
    """
    walls = [domain.boundaries[name].pieces for name in ("cell", "pipe")]

    def inputs(x: Array) -> Array:
        parts = []
        for pieces in walls:
            xi = distances(pieces, x) / (2 * jnp.sqrt(evaluate(k, x) * x[2] + BLUR))
            parts += [erfc(xi).sum(), jnp.exp(-(xi**2)).sum()]
        return jnp.stack(parts)

    return inputs


def _reference() -> Reference:
    return Reference.load(str(files("hardpde.problems") / "data" / "battery_pack.npz"))
