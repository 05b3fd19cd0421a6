"""Stationary plane Navier–Stokes flow by curved Taylor–Hood elements (NGSolve).

    (u.grad) u = div sigma,   div u = 0,   sigma = 2 nu eps(u) - p I,   eps(u) = (grad u + grad u^T) / 2.

Velocities are fixed strongly, tractions act naturally, and a wall that lets the flow slip (n.u = 0, tangential
traction -beta u_t) is imposed by Nitsche's method, consistently: no penalty has to be large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry import Arc, Shape
from hardpde.problems.fem.base import mesh_points, ngsolve
from hardpde.support.checking import check_positive

Vector = tuple[Any, Any]

PENALTY = 10.0  # of Nitsche's method
TOLERANCE, MOST_STEPS = 1e-10, 30  # of Newton's method


@dataclass(frozen=True)
class Flow:
    """A solution: NGSolve's mesh and the functions velocity and pressure."""

    mesh: Any
    velocity: Any
    pressure: Any
    nu: float

    @property
    def vorticity(self) -> Any:
        """v_x - u_y."""
        gradient = ngsolve().Grad(self.velocity)
        return gradient[1, 0] - gradient[0, 1]

    def force(self, walls: str) -> tuple[float, float]:
        """Force of the fluid on the walls (names joined by |), from the weak form: accurate also beside corners."""
        ng = ngsolve()
        found = []
        for axis in ((1, 0), (0, 1)):
            test = ng.GridFunction(self.velocity.space)
            test.Set(ng.CF(axis), definedon=self.mesh.Boundaries(walls))
            stress = _stress(ng, self.nu, ng.Grad(self.velocity), self.pressure)
            inertia = ng.Grad(self.velocity) * self.velocity
            density = ng.InnerProduct(stress, ng.Grad(test)) + ng.InnerProduct(inertia, test)
            order = 3 * self.velocity.space.globalorder
            found.append(-float(ng.Integrate(density, self.mesh, order=order)))
        return found[0], found[1]


def solve_flow(
    mesh: Any,
    nu: float,
    *,
    fixed: Mapping[str, Vector],
    traction: Mapping[str, Vector] | None = None,
    slip: Mapping[str, float] | None = None,
    order: int = 4,
) -> Flow:
    """Solve on a mesh with named boundaries (names joined by | share a condition).

    `fixed[name] = (u, v)` fixes the velocity, None leaves a component free; `traction[name]` is sigma n for free
    components; `slip[name] = beta` is a wall with friction beta. Data are numbers or NGSolve expressions.
    Velocities have degree `order`, the pressure one less. Newton's method starts from the Stokes flow and halves
    steps that do not lower the residual; it ends when a step is below TOLERANCE.
    """
    ng = ngsolve()
    if order < 2:
        raise ValueError(f"order is {order}; Taylor–Hood elements need at least 2")
    check_positive(nu=nu)
    names = [[name for name, value in fixed.items() if value[k] is not None] for k in (0, 1)]
    velocities = ng.VectorH1(mesh, order=order, dirichletx="|".join(names[0]), dirichlety="|".join(names[1]))
    space = velocities * ng.H1(mesh, order=order - 1)
    state = ng.GridFunction(space)
    _fix(ng, mesh, state.components[0], fixed)
    stokes, inertial = (_form(ng, space, nu, traction or {}, slip or {}, order, c) for c in (False, True))
    _newton(space, stokes, state, 1, np.inf)
    _newton(space, inertial, state, MOST_STEPS, TOLERANCE)
    return Flow(mesh, state.components[0], state.components[1], nu)


def _fix(ng: Any, mesh: Any, velocity: Any, fixed: Mapping[str, Vector]) -> None:
    """Write the fixed values into the boundary's degrees of freedom."""
    for k, component in enumerate(velocity.components):
        value = {
            part: ng.CF(datum[k]) for name, datum in fixed.items() if datum[k] is not None for part in name.split("|")
        }
        component.Set(mesh.BoundaryCF(value, default=0), ng.BND)


def _stress(ng: Any, nu: float, gradient: Any, pressure: Any) -> Any:
    return nu * (gradient + gradient.trans) - pressure * ng.Id(2)


def _form(ng: Any, space: Any, nu: float, traction: Mapping[str, Vector], slip: Mapping[str, float], order: int,
          convection: bool) -> Any:
    """The weak form as a function of the state."""
    (u, p), (v, q) = space.TnT()
    form = ng.BilinearForm(space, condense=True)
    form += (ng.InnerProduct(_stress(ng, nu, ng.Grad(u), p), ng.Grad(v)) - q * ng.div(u)) * ng.dx
    if convection:
        form += ng.InnerProduct(ng.Grad(u) * u, v) * ng.dx(bonus_intorder=order)
    for name, datum in traction.items():
        form += -ng.InnerProduct(ng.CF(datum), v) * ng.ds(name, bonus_intorder=4)
    n, h = ng.specialcf.normal(2), ng.specialcf.mesh_size
    for name, beta in slip.items():
        wall = ng.ds(name, skeleton=True, bonus_intorder=4)
        push = [ng.InnerProduct(_stress(ng, nu, ng.Grad(w), r) * n, n) for w, r in ((u, p), (v, q))]
        through = [ng.InnerProduct(w, n) for w in (u, v)]
        form += (-push[0] * through[1] - push[1] * through[0]) * wall
        form += PENALTY * nu * order**2 / h * through[0] * through[1] * wall
        if beta:
            form += beta * (ng.InnerProduct(u, v) - through[0] * through[1]) * wall
    return form


def _newton(space: Any, form: Any, state: Any, most: int, tolerance: float) -> None:
    """Newton's method on the free degrees of freedom, until a step is below the tolerance."""
    residual, step, start = (state.vec.CreateVector() for _ in range(3))
    free = np.array(list(space.FreeDofs()), bool)
    velocities = space.components[0].ndof

    def size() -> float:
        return float(np.linalg.norm(residual.FV().NumPy()[free]))

    form.Apply(state.vec, residual)
    for _ in range(most):
        before, start.data = size(), state.vec
        form.AssembleLinearization(state.vec)
        # Static condensation: the inner unknowns are eliminated before the solve and recovered after it.
        residual.data += form.harmonic_extension_trans * residual
        step.data = form.mat.Inverse(space.FreeDofs(True), inverse="umfpack") * residual
        step.data += form.harmonic_extension * step
        step.data += form.inner_solve * residual
        scale = 1.0
        while True:
            state.vec.data = start - scale * step
            form.Apply(state.vec, residual)
            if tolerance == np.inf or scale < 1e-2 or size() <= 2 * before + 1e-10:
                break
            scale /= 2
        moved = scale * float(np.abs(step.FV().NumPy()[:velocities]).max())
        if moved <= tolerance:
            return
    raise ValueError(f"Newton's method has not converged in {most} steps; refine the mesh or raise nu")


def mesh_around(
    box: tuple[tuple[float, float], tuple[float, float]],
    body: Shape,
    *,
    maxh: float,
    near: float,
    bend: float = 0.5,
    tip: float | None = None,
    layers: int = 0,
    grading: float = 0.3,
) -> Any:
    """A mesh of the box minus a Loop or Spline; boundaries "inlet" (left), "outlet", "bottom", "top" and "wall".

    Elements have size `maxh`, at the wall `near` or `bend` radii of curvature if less, at its corners `tip`;
    `layers` of ever smaller elements (by 0.15) surround the corners. The wall is exact: `Curve` bends it to any order.
    """
    ng = ngsolve()
    from netgen.occ import Face, MoveTo, OCCGeometry, Wire, X, Y

    solid = Face(Wire(outline_edges(body)))
    solid.edges.name = "wall"
    (x0, y0), (x1, y1) = box
    domain = MoveTo(x0, y0).Rectangle(x1 - x0, y1 - y0).Face()
    domain.edges.Min(X).name, domain.edges.Max(X).name = "inlet", "outlet"
    domain.edges.Min(Y).name, domain.edges.Max(Y).name = "bottom", "top"
    domain = domain - solid
    for edge in domain.edges:
        if edge.name == "wall":
            edge.maxh = min(near, bend * edge_radius(edge))
    for vertex in domain.vertices:
        if np.min(np.linalg.norm(corners(body) - (vertex.p.x, vertex.p.y), axis=1), initial=np.inf) < 1e-9:
            vertex.maxh = tip or near
            vertex.hpref = 1
    mesh = ng.Mesh(OCCGeometry(domain, dim=2).GenerateMesh(maxh=maxh, grading=grading))
    if layers:
        mesh.RefineHP(layers, 0.15)
    return mesh


def corners(body: Shape) -> np.ndarray:
    """Ends (k, 2) of the pieces of an outline that are not closed."""
    ends = []
    for piece in body.pieces:
        if not isinstance(piece.kind, Arc):
            ends.append(piece.params[:2])
        elif not piece.kind.closed:
            curve = piece.kind.polynomial(piece.params)
            ends += [tuple(curve(curve.x[0])), tuple(curve(curve.x[-1]))]
    return np.array(ends).reshape(-1, 2)


def points_beside(mesh: Any, x: np.ndarray, body: Shape) -> np.ndarray:
    """The points of a mesh round a body that are nearest to `x` (n, 2)."""
    return mesh_points(mesh, x, lambda lost, length: lost + length * _normals(body, lost))


def _normals(body: Shape, x: np.ndarray) -> np.ndarray:
    """Directions (n, 2) off the body: its normal, at a corner the mean of two."""
    total = np.zeros_like(x)
    for piece in body.pieces:
        foot = jax.vmap(piece.closest)(jnp.asarray(x))
        on = np.linalg.norm(x - np.asarray(foot), axis=1) < 1e-8
        total[on] += np.asarray(jax.vmap(piece.normal)(foot))[on]
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-300)


def outline_edges(body: Shape) -> list:
    """The outline as OCC edges: each interval of an arc is a Bézier curve, exactly."""
    from netgen.occ import BezierCurve, Pnt, Segment

    edges = []
    for piece in body.pieces:
        if not isinstance(piece.kind, Arc):
            (a, b), (c, d) = np.array(piece.params).reshape(2, 2)
            edges.append(Segment(Pnt(a, b, 0), Pnt(c, d, 0)))
            continue
        curve = piece.kind.polynomial(piece.params)
        degree = piece.kind.degree
        change = np.array([[comb(i, j) / comb(degree, j) for j in range(degree + 1)] for i in range(degree + 1)])
        for i, width in enumerate(np.diff(curve.x)):
            powers = curve.c[::-1, i] * width ** np.arange(degree + 1)[:, None]
            edges.append(BezierCurve([Pnt(x, y, 0) for x, y in change @ powers]))
    return edges


def edge_radius(edge: Any) -> float:
    """About the smallest radius of curvature of an edge: its length over the angle it turns by."""
    one, two = (np.array([v.x, v.y]) for v in (edge.start_tangent, edge.end_tangent))
    turn = abs(np.arctan2(one[0] * two[1] - one[1] * two[0], one @ two))
    return edge.mass / max(turn, 1e-9)
