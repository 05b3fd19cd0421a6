"""The reference of the airfoil: stationary Navier–Stokes flow, nu = 1/50, about the W1015 in a box.

u = (1, 0) on inlet, top and bottom; v = 0 and normal stress -p + 2 nu u_x = -1 at the outlet, which means p = 1;
a wall that the flow slips along: n.u = 0 without tangential traction. (Friction and no slip are there to compare.)
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry import Shape, airfoil
from hardpde.problem.reference import Reference
from hardpde.problems.airfoil import BOX, VISCOSITY, data_file
from hardpde.problems.fem.base import check_level, ngsolve, nodes_and_cells, versions, with_level_below
from hardpde.problems.fem.flow import Flow, corners, mesh_around, points_beside, solve_flow

WALLS = ("slip", "friction", "no-slip")
NODES: dict[str, Any] = {"maxh": 0.077, "near": 0.004, "tip": 0.0008, "grading": 0.08}
CLEAR = 0.005  # pressures are compared farther than this from the trailing edge, where they are singular
LEVELS: list[dict[str, Any]] = [
    {"maxh": 0.5, "near": 0.1, "bend": 0.5, "tip": 8e-4, "layers": 3, "order": 4},
    {"maxh": 0.4, "near": 0.07, "bend": 0.4, "tip": 6e-4, "layers": 5, "order": 5},
    {"maxh": 0.33, "near": 0.05, "bend": 0.25, "tip": 4e-4, "layers": 7, "order": 6},
    {"maxh": 0.27, "near": 0.04, "bend": 0.2, "tip": 3e-4, "layers": 9, "order": 7},
]


@cache
def body() -> Shape:
    """The airfoil, its wall a quintic spline fitted to the coordinates."""
    return airfoil(data_file("w1015.dat"), smooth="fit")


def airfoil_reference(level: int = 3) -> Reference:
    """The fields "u" (n, 2), "p" and "w" (vorticity v_x - u_y) on the nodes of a linear mesh of about 13,200 nodes.

    `about` records how far they are from the solution one level coarser in h and order. At the two corners of the
    trailing edge p and w are infinite; the mean of the neighbouring nodes stands there.
    """
    check_level(level, LEVELS, 1)
    x, cells = _triangulate()

    def found(level: int) -> tuple[dict[str, np.ndarray], float]:
        flow = airfoil_flow(level)
        return at_nodes(flow, x, cells), flow.force("wall")[0]

    (coarser, coarser_drag), (finer, drag), seconds = with_level_below(found, level)
    clear = np.hypot(x[:, 0] - 1, x[:, 1]) > CLEAR
    apart = {name: np.abs(finer[name] - coarser[name]) for name in finer}
    apart = {"u1": apart["u"][:, 0], "u2": apart["u"][:, 1], "p": apart["p"][clear], "w": apart["w"][clear]}
    about = {
        "problem": "airfoil",
        "level": level,
        "settings": LEVELS[level],
        "nodes": NODES,
        "mae_to_level_below": {name: float(error.mean()) for name, error in apart.items()},
        "max_difference_to_level_below": {name: float(error.max()) for name, error in apart.items()},
        "p_and_w_compared": f"farther than {CLEAR} from the trailing edge",
        "drag": {str(level - 1): coarser_drag, str(level): drag},
        "seconds": seconds,
        "versions": versions(),
    }
    return Reference(x, {name: v.astype(np.float32) for name, v in finer.items()}, None, cells, about)


def airfoil_flow(level: int = 2, wall: str = "slip", friction: float = 1.0) -> Flow:
    """The flow at one of LEVELS; `friction` is the beta of the tangential traction -beta u_t at such a wall."""
    check_level(level, LEVELS)
    if wall not in WALLS:
        raise ValueError(f"there is no wall '{wall}'; choose from {', '.join(WALLS)}")
    settings = dict(LEVELS[level])
    order = settings.pop("order")
    mesh = mesh_around(BOX, body(), **settings)
    mesh.Curve(order)
    fixed: dict[str, Any] = {"inlet|top|bottom": (1.0, 0.0), "outlet": (None, 0.0)}
    slip = {"wall": friction if wall == "friction" else 0.0}
    if wall == "no-slip":
        fixed, slip = {**fixed, "wall": (0.0, 0.0)}, {}
    return solve_flow(mesh, VISCOSITY, fixed=fixed, traction={"outlet": (-1.0, 0.0)}, slip=slip, order=order)


def at_nodes(flow: Flow, x: np.ndarray, cells: np.ndarray) -> dict[str, np.ndarray]:
    """u (n, 2), p (n,) and w (n,) of a flow at the nodes of a linear mesh; finite at the trailing edge."""
    where = points_beside(flow.mesh, x, body())
    fields = {"u": flow.velocity, "p": flow.pressure, "w": flow.vorticity}
    values = {name: np.asarray(f(where)).reshape(len(x), -1) for name, f in fields.items()}
    for corner in np.unique(corners(body()), axis=0):
        node = int(np.argmin(np.linalg.norm(x - corner, axis=1)))
        around = np.setdiff1d(cells[np.any(cells == node, axis=1)], node)
        for name in ("p", "w"):
            values[name][node] = values[name][around].mean(axis=0)
    return {"u": values["u"], "p": values["p"][:, 0], "w": values["w"][:, 0]}


def _triangulate() -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 2) and triangles (c, 3) of a mesh of the domain, nodes on the wall lying on the exact curve."""
    ng = ngsolve()
    mesh = mesh_around(BOX, body(), **NODES)
    x, cells = nodes_and_cells(mesh)
    wall = np.unique([v.nr for e in mesh.Elements(ng.BND) if e.mat == "wall" for v in e.vertices])
    x[wall] = np.asarray(jax.vmap(body().boundaries["airfoil"].closest)(jnp.asarray(x[wall])))
    return x, cells
