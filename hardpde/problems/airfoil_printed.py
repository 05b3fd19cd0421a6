"""The flow round an airfoil exactly as the paper prints it (section 5.3 and A.8.2): Navier–Stokes at ν = 1/50.

    (u·∇)u = −∇p + ν Δu,   ∇·u = 0,   u = (1, 0) on inlet, top and bottom,   p = 1 on the outlet,
    n·u = 0 on the airfoil.

Conditions are missing: plane Navier–Stokes needs two at every point of the boundary, and airfoil and outlet have
one each, so that many flows satisfy this statement. It is here to compare methods on the paper's own table.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

from jax import Array

from hardpde.problem.conditions import Condition, dirichlet
from hardpde.problem.fields import State, div, grad
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.airfoil import PRESETS as WELL_POSED
from hardpde.problems.airfoil import VISCOSITY, airfoil_solution, data_file, flow_domain
from hardpde.problems.extension import Surrogate, extend, learned_distance
from hardpde.problems.presets import LBFGS, plateau_adam

PRESETS = replace(WELL_POSED, problem="airfoil-printed", settings={
    ("hc", "paper"): {
        "method": {"main": [50] * 6, "sub": [40] * 4, "points": 10_000}, "stages": [plateau_adam(1e-3), LBFGS]},
})


def airfoil_printed() -> Problem:
    """The paper's statement, with the paper's learned distance and interpolated normals for method hc."""
    domain = flow_domain()
    wall = domain.boundaries["airfoil"]
    return Problem(
        name="airfoil-printed",
        domain=domain,
        fields={"u": 2, "p": ()},
        gradients={"grad_u": "u"},
        residual=_residual,
        conditions=[
            *[dirichlet(side, "u", (1.0, 0.0)) for side in ("inlet", "top", "bottom")],
            dirichlet("outlet", "p", 1.0),
            Condition("airfoil", lambda q, x, n: q.u @ n, 0.0, "no flow through"),
        ],
        hints=Hints(distances={"airfoil": _distance()}, normals={"airfoil": extend(wall, wall.normal, unit=True)}),
        reference=_reference,
        presets=PRESETS,
    )


def _reference() -> Reference:
    """The well-posed problem's, without the vorticity, which is no field here."""
    known = airfoil_solution()
    return replace(known, values={name: known.values[name] for name in ("u", "p")})


def _residual(x: Array, q: State, dq: State) -> tuple[Array, Array]:
    """(u·∇)u − ν ∇·G + ∇p and ∇·u, with G the field that stands for ∇u."""
    return q.grad_u @ q.u - VISCOSITY * div(dq.grad_u) + grad(dq.p), div(dq.u)


def make_distance(path: str | Path | None = None, steps: int = 10_000, seed: int = 0) -> Surrogate:
    """Train the distance to the airfoil as A.8.2 says (about a minute) and write it to `path`.

    The file that ships was made by `make_distance("hardpde/problems/data/w1015_distance.npz")`.
    """
    domain = flow_domain()
    learned = learned_distance(domain.boundaries["airfoil"], domain, steps=steps, seed=seed)
    learned.about["made by"] = f"hardpde.problems.airfoil_printed.make_distance(steps={steps}, seed={seed})"
    if path is not None:
        learned.save(path)
    return learned


@cache
def _distance() -> Surrogate:
    return Surrogate.load(data_file("w1015_distance.npz"))
