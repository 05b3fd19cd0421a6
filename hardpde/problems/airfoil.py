"""Flow round an airfoil: stationary Navier–Stokes equations at Reynolds number 50 (paper, section 5.3), well-posed.

    (u·∇)u + ∇p − ν Δu = 0,   ∇·u = 0,   u = (1, 0) on inlet, top and bottom,   p = 1 and v = 0 on the outlet,

and a smooth slip wall: n·u = 0 without tangential traction. With the vorticity w = ∂ₓv − ∂ᵧu as a field every
condition is algebraic: on the wall w + 2κ t·u = 0, with κ its curvature and t the normal turned by +90°.
"""

from dataclasses import replace
from functools import cache
from importlib.resources import files

import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Boundary, Box, Shape, distances
from hardpde.geometry import airfoil as read
from hardpde.geometry.base import Piece
from hardpde.problem.conditions import Condition, dirichlet
from hardpde.problem.fields import State, curl, div
from hardpde.problem.hints import Focus, Hints, Mirror
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.presets import LBFGS, Presets, plateau_adam, start_and_finish

BOX = ((-2.0, -2.0), (6.0, 2.0))
SIDES = {"left": "inlet", "right": "outlet", "bottom": "bottom", "top": "top"}
VISCOSITY = 1 / 50
NOSE = 0.008  # about the radius of curvature of the leading edge
PRESETS = Presets("airfoil", {
    ("exact", "quick"): {"method": {"points": 4096}, "stages": start_and_finish(200, 5e-3, 4000, 200)},
    ("exact", "best"): {"stages": start_and_finish(300, 3e-3, 16_200, 600)},
}, sizes={"points": 10_000, "boundary": 2048, "interface": 2048}, network={"layers": [50] * 6},
    blocks={"layers": [30] * 4, "blocks": [6, 3], "sigma": 0.2}, stages=[plateau_adam(1e-3), LBFGS])


def airfoil(symmetric: bool = False) -> Problem:
    """The flow round W1015 with a slip wall: velocity u, vorticity w and pressure p.

    symmetric: tell the network that the flow is symmetric about the chord, which it need not know.
    """
    domain = flow_domain()
    wall = domain.boundaries["airfoil"]
    half = max(abs(v) for piece in wall.pieces for v in _ends(piece))  # of the width of the trailing edge
    corners = [(1.0, half), (1.0, -half)]

    def equations(x: Array, q: State, dq: State) -> tuple[Array, Array, Array]:
        spin = dq.w.space
        momentum = dq.u.space @ q.u + dq.p.space + VISCOSITY * jnp.stack([spin[1], -spin[0]])
        return momentum, div(dq.u), q.w - curl(dq.u)

    def slip(q: State, x: Array, n: Array) -> tuple[Array, Array]:
        along = q.u[1] * n[0] - q.u[0] * n[1]
        return q.u @ n, q.w + 2 * wall.curvature(x) * along

    def outlet(q: State, x: Array, n: Array) -> tuple[Array, Array]:
        return q.p, q.u[1]

    return Problem(
        name="airfoil",
        domain=domain,
        fields={"u": 2, "w": (), "p": ()},
        residual=equations,
        conditions=[
            *[dirichlet(side, "u", (1.0, 0.0)) for side in ("inlet", "top", "bottom")],
            Condition("outlet", outlet, (1.0, 0.0), "pressure"),
            Condition("airfoil", slip, 0.0, "slip"),
        ],
        hints=_hints(wall, half, corners, symmetric),
        reference=airfoil_solution,
        presets=PRESETS,
    )


@cache
def flow_domain() -> Shape:
    """The box round the airfoil; the wall is a smooth curve fitted to its coordinates."""
    return Box(*BOX, sides=SIDES) - read(data_file("w1015.dat"), smooth="fit")


def airfoil_solution() -> Reference:
    """Finite elements, by `hardpde reference airfoil`; errors are told away from the trailing edge too, where
    vorticity and pressure are singular, and beside those of the flow that no airfoil disturbs."""
    known = Reference.load(data_file("airfoil.npz"))
    r = np.hypot(known.x[:, 0] - 1, known.x[:, 1])
    return replace(known, masks={"r > 0.05": r > 0.05, "r > 0.005": r > 0.005}, weighted=True,
                   baselines={"constant flow": {"u": np.array([1.0, 0.0]), "p": 1.0}})


def data_file(name: str) -> str:
    """Where a file that comes with the problems lies."""
    return str(files("hardpde.problems") / "data" / name)


def _ends(piece: Piece) -> tuple[float, ...]:
    """Heights of the ends of the straight piece that closes a blunt trailing edge."""
    return (piece.params[1], piece.params[3]) if len(piece.params) == 4 else ()


def _hints(wall: Boundary, half: float, corners: list[tuple[float, float]], symmetric: bool) -> Hints:
    """What is known of the flow beforehand: where it is steep, and how it behaves at the sharp corners.

    At the two corners of the trailing edge, whose angle is about 3π/2, velocities behave like r^0.316 and
    vorticity and pressure like r^−0.684.
    """

    def lengths(x: Array) -> tuple[Array, Array, Array]:
        """Distances to both corners, to the middle of the trailing edge and to the nose; all rounded off."""
        to_corners = jnp.sqrt(((x - jnp.asarray(corners)) ** 2).sum(1) + (1e-3 * half) ** 2)
        middle = jnp.sqrt((x[0] - 1) ** 2 + x[1] ** 2 + half**2)
        nose = jnp.sqrt((x[0] - NOSE) ** 2 + x[1] ** 2 + 1e-12)
        return to_corners, middle, nose

    def local(x: Array) -> Array:
        """The length over which the flow varies."""
        to_corners, _, nose = lengths(x)
        return 1 / ((1 / to_corners).sum() + 1 / nose + 1)

    def inputs(x: Array) -> Array:
        to_corners, middle, nose = lengths(x)
        height = jnp.min(distances(wall.pieces, x))
        left = BOX[1][0] - x[0]  # to the outlet, where the wake meets p = 1 and v = 0 in a layer as thin as ν
        parts = [jnp.exp(-left / (1.5 * VISCOSITY)), jnp.exp(-left / (10 * VISCOSITY)),
                 (jnp.log(middle) + 3) / 2.5, (x[0] - 1) / middle, x[1] / middle, (jnp.log(nose) + 1.3) / 2,
                 (x[0] - NOSE) / nose, x[1] / nose, height / (height + 0.5 * local(x)), jnp.exp(-height / 0.1),
                 jnp.exp(-jnp.sqrt(x[1] ** 2 + 0.01) / 0.3), jnp.tanh((x[0] - 0.5) / 0.6)]
        for corner, r in zip(corners, to_corners):
            parts += [(jnp.log(r) + 4) / 3.5, (x[0] - corner[0]) / r, (x[1] - corner[1]) / r]
        return jnp.stack(parts)

    def still(x: Array) -> Array:
        """A factor of the velocity: 1 except near the corners, where it vanishes like r^0.316."""
        to_corners, middle, _ = lengths(x)
        near = (1 - jnp.minimum(middle**2 / 0.25, 1.0)) ** 3
        return 1 - near * (1 - ((to_corners**2 / (to_corners**2 + half**2)) ** 0.158).prod())

    def outputs(x: Array) -> Array:
        """The velocity, a regular and a singular vorticity, a regular and a singular pressure."""
        to_corners, middle, nose = lengths(x)
        singular = (half**2 / to_corners.prod()) ** 0.684 * (middle / half) ** 0.368
        height = jnp.min(distances(wall.pieces, x))
        lift = height / (height + 0.5 * local(x))
        matrix = jnp.zeros((4, 6))
        matrix = matrix.at[0, 0].set(still(x)).at[1, 1].set(still(x))
        matrix = matrix.at[2, 2].set(1 + 0.3 / nose).at[2, 4].set(lift * singular / half)
        return matrix.at[3, 3].set(1.0).at[3, 5].set(singular * VISCOSITY / half)

    def scale(x: Array) -> Array:
        ell = local(x)
        momentum = ell**2 / (VISCOSITY + ell)
        return jnp.stack([momentum, momentum, ell, ell])

    return Hints(
        decay=False, inputs=inputs, outputs=outputs, scale=scale, sharp=corners, near=0.25,
        mirror=Mirror(axis=1, odd=("u[1]", "w")) if symmetric else None,
        guess=lambda x: {"u": still(x) * jnp.array([1.0, 0.0]), "p": 1.0},
        focus=[*[Focus(corner, 1e-5, 0.6, 0.13) for corner in corners], Focus((NOSE, 0.0), 0.003, 0.6, 0.14),
               Focus((1.0, 0.0), 0.03, 3.0, 0.2)],
    )
