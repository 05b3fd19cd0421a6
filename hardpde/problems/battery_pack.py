"""A battery pack: heat conduction round 11 cells and 6 cooling pipes (paper, section 5.2 and A.8.1).

    ∂T/∂t = k ΔT,   k n·∇T = h (T_b − T) on the outer box, the cells and the pipes,   T = T₀ at t = 0.
"""

from importlib.resources import files

from hardpde.conditions import initial, robin
from hardpde.fields import div, dt
from hardpde.geometry import Ball, Box
from hardpde.problem import Hints, Problem
from hardpde.reference import Reference

CELLS = [(-4, -9), (4, -9), (-4, -3), (4, -3), (-4, 3), (4, 3), (-4, 9), (4, 9), (0, -6), (0, 0), (0, 6)]
PIPES = [(-3.2, -6), (3.2, -6), (-3.2, 0), (3.2, 0), (-3.2, 6), (3.2, 6)]


def battery_pack(k: float = 1.0, h: float = 1.0, air: float = 0.1, cell: float = 5.0, water: float = 1.0,
                 start: float = 0.1) -> Problem:
    """The paper's pack; other coefficients give packs of the same shape without a stored reference."""
    if k <= 0 or h <= 0:
        raise ValueError(f"k = {k} and h = {h} must be positive")
    domain = Box((-8, -12), (8, 12), name="outer")
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
        hints=Hints(),
        reference=_reference if printed else None,
    )


def _reference() -> Reference:
    return Reference.load(str(files("hardpde.problems") / "data" / "battery_pack.npz"))
