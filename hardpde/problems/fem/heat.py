"""The heat equation with Robin boundaries on a box minus discs, by curved finite elements (NGSolve).

    T_t = div(k grad T) + f in the domain,   a T + b n.grad T = g on each named boundary,   T(0) given.

High-order elements on curved triangles, graded towards the discs; Radau IIA in time, on steps graded
geometrically towards t = 0, where the boundary flux jumps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardpde.problems.fem.base import mesh_points, ngsolve, nodes_and_cells
from hardpde.support.checking import check_at_least, check_positive

Disc = tuple[float, float, float, str]
Box = tuple[tuple[float, float], tuple[float, float]]
Data = float | Callable[..., Any]

RADAU_NODES = {1: (1.0,), 2: (1 / 3, 1.0), 3: ((4 - 6**0.5) / 10, (4 + 6**0.5) / 10, 1.0)}


def heat_robin(
    box: Box,
    discs: Sequence[Disc],
    robin: Mapping[str, tuple[float, float, Data]],
    points: ArrayLike,
    times: ArrayLike,
    *,
    k: float = 1.0,
    initial: Data = 0.0,
    source: Data = 0.0,
    maxh: float = 0.5,
    near: float | None = None,
    grading: float = 0.3,
    order: int = 4,
    stages: int = 3,
    steps: int = 4,
    halvings: int = 16,
) -> np.ndarray:
    """Temperatures at `points` (n, 2) and `times` (m,), as an array (m, n).

    `box` is ((x0, y0), (x1, y1)); `discs` are (cx, cy, radius, name); discs may share a name.
    `robin[name] = (a, b, g)` states a T + b n.grad T = g, with n out of the domain; the box is named "box".
    `g`, `source` (functions of x, y, t) and `initial` (of x, y) are numbers or functions that compose NGSolve
    expressions (on a disc n is (centre - x)/radius; NGSolve's `specialcf.normal` has the other sign there).
    Elements have degree `order` and size `maxh`, at the discs `near` or 0.4 radii if less.
    Radau IIA with s = `stages` has order 2 s - 1 (s + 1 where boundary data vary in time); it makes `steps`
    steps after each of `halvings` halvings of (0, first time) and on every doubling of t after it; all
    `times` are hit exactly.
    """
    ng = ngsolve()
    x, instants = np.asarray(points, float), np.asarray(times, float)
    _check(box, discs, robin, x, instants)
    check_positive(k=k)
    check_at_least(1, steps=steps, order=order)
    if stages not in RADAU_NODES:
        raise ValueError(f"stages is {stages}; Radau IIA is offered with {sorted(RADAU_NODES)}")
    mesh = _mesh(box, discs, maxh, near, grading)
    mesh.Curve(order)
    space = ng.H1(mesh, order=order)
    temperature = ng.GridFunction(space)
    temperature.Set(ng.CF(initial(ng.x, ng.y) if callable(initial) else initial))
    mass, stiffness, load = _assemble(ng, space, robin, k, source)
    where = mesh_points(mesh, x, partial(_off_discs, discs))

    def sample(u: np.ndarray) -> np.ndarray:
        temperature.vec.FV().NumPy()[:] = u
        return np.asarray(temperature(where)).reshape(len(x))

    u = temperature.vec.FV().NumPy().copy()
    step = radau(mass, stiffness, load, stages)
    values, t = [sample(u)] if instants[0] == 0 else [], 0.0
    for end in instants[instants > 0]:
        for dt in _steps(t, end, steps, halvings):
            u, t = step(u, t, dt), t + dt
        values.append(sample(u))
        t = end
    return np.stack(values)


def triangulate(
    box: Box, discs: Sequence[Disc], maxh: float, near: float | None = None, grading: float = 0.3
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 2) and triangles (c, 3) of a mesh of the box minus the discs, with nodes on the circles."""
    _check_discs(box, discs)
    return nodes_and_cells(_mesh(box, discs, maxh, near, grading))


def radau(mass: Any, stiffness: Any, load: Callable[[float], np.ndarray], stages: int = 3) -> Callable:
    """A step (u, t, dt) -> u of Radau IIA for M u' = load(t) - K u, with sparse SciPy matrices M and K.

    The stage increments Z solve (inv(A)/dt (x) M + I (x) K) Z = F - K u; the eigenvectors of inv(A) split it
    into one system per real eigenvalue and one per complex pair, factorised anew only when dt changes.
    """
    from scipy.sparse.linalg import splu

    nodes = np.array(RADAU_NODES[stages])
    eigenvalues, vectors = np.linalg.eig(np.linalg.inv(runge_kutta_matrix(nodes)).astype(complex))
    modes = [
        (_real_if_close(eigenvalues[j]), vectors[-1, j] * np.linalg.inv(vectors)[j])
        for j in range(stages)
        if eigenvalues[j].imag > -1e-9  # of a conjugate pair, one
    ]
    symmetric = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factors: dict[float, list] = {}

    def factorised(dt: float) -> list:
        key = float(f"{dt:.10e}")
        if key not in factors:
            factors.clear()
            factors[key] = [splu((shift / key * mass + stiffness).tocsc(), **symmetric) for shift, _ in modes]
        return factors[key]

    def step(u: np.ndarray, t: float, dt: float) -> np.ndarray:
        defect = np.stack([load(t + c * dt) for c in nodes]) - stiffness @ u
        for (shift, weights), system in zip(modes, factorised(dt)):
            if isinstance(shift, complex):
                u = u + 2 * system.solve(weights @ defect).real
            else:
                u = u + system.solve(weights.real @ defect)
        return u

    return step


def runge_kutta_matrix(nodes: np.ndarray) -> np.ndarray:
    """The collocation matrix A (s, s): integrals of the Lagrange polynomials over (0, node)."""
    powers = np.arange(len(nodes))
    return nodes[:, None] ** (powers + 1) / (powers + 1) @ np.linalg.inv(nodes[:, None] ** powers)


def _real_if_close(value: complex) -> float | complex:
    return complex(value) if abs(value.imag) > 1e-9 else float(value.real)


def _steps(start: float, end: float, steps: int, halvings: int) -> Iterator[float]:
    """Step sizes from `start` to `end`: `steps` equal ones up to each doubling of t."""
    while start < end * (1 - 1e-12):
        stop = end / 2**halvings if start == 0 else 2 * start
        if stop > end * (1 - 1e-9):
            stop = end
        yield from [(stop - start) / steps] * steps
        start = stop


def _mesh(box: Box, discs: Sequence[Disc], maxh: float, near: float | None, grading: float) -> Any:
    """A mesh of straight triangles; its circles are exact, so that `Curve` bends them to any order."""
    from netgen.geom2d import SplineGeometry

    geometry = SplineGeometry()
    geometry.AddRectangle(*box, leftdomain=1, rightdomain=0, bcs=["box"] * 4)
    for cx, cy, radius, name in discs:
        geometry.AddCircle(
            (cx, cy), radius, leftdomain=0, rightdomain=1, bc=name, maxh=min(near or maxh, 0.4 * radius)
        )
    return ngsolve().Mesh(geometry.GenerateMesh(maxh=maxh, grading=grading))


def _assemble(ng: Any, space: Any, robin: Mapping, k: float, source: Data) -> tuple[Any, Any, Callable]:
    """Mass and stiffness matrices; the load vector as a function of t, made once if all data are numbers."""
    u, v = space.TnT()
    t = ng.Parameter(0.0)
    mass, stiffness, load = ng.BilinearForm(space), ng.BilinearForm(space), ng.LinearForm(space)
    mass += u * v * ng.dx
    stiffness += k * ng.grad(u) * ng.grad(v) * ng.dx
    load += ng.CF(_at(ng, source, t)) * v * ng.dx(bonus_intorder=4)
    for name, (a, b, g) in robin.items():
        stiffness += k * a / b * u * v * ng.ds(name)
        load += k / b * ng.CF(_at(ng, g, t)) * v * ng.ds(name, bonus_intorder=4)
    constant = not any(map(callable, [source, *(g for _, _, g in robin.values())]))
    load.Assemble()
    first = load.vec.FV().NumPy().copy()

    def load_at(instant: float) -> np.ndarray:
        if constant:
            return first
        t.Set(instant)
        load.Assemble()
        return load.vec.FV().NumPy().copy()

    return _scipy(mass), _scipy(stiffness), load_at


def _at(ng: Any, datum: Data, t: Any) -> Any:
    return datum(ng.x, ng.y, t) if callable(datum) else datum


def _scipy(form: Any) -> Any:
    from scipy.sparse import csr_array

    form.Assemble()
    values, columns, rows = form.mat.CSR()
    return csr_array(
        (np.array(values), np.array(columns), np.array(rows).astype(np.int64)),
        shape=(form.mat.height, form.mat.width),
    )


def _off_discs(discs: Sequence[Disc], x: np.ndarray, length: float) -> np.ndarray:
    """Points (n, 2) of discs, moved out of them by a fraction of the radius."""
    for cx, cy, radius, _ in discs:
        arm = x - (cx, cy)
        distance = np.linalg.norm(arm, axis=1, keepdims=True)
        x = np.where(distance < radius * (1 + length), (cx, cy) + arm / distance * radius * (1 + length), x)
    return x


def _inside(box: Box, discs: Sequence[Disc], x: np.ndarray, tolerance: float = 1e-9) -> np.ndarray:
    """Which of the points (n, 2) lie in the closed domain."""
    inside = np.all((x >= np.array(box[0]) - tolerance) & (x <= np.array(box[1]) + tolerance), axis=1)
    for cx, cy, radius, _ in discs:
        inside &= np.hypot(x[:, 0] - cx, x[:, 1] - cy) >= radius - tolerance
    return inside


def _check(box: Box, discs: Sequence[Disc], robin: Mapping, x: np.ndarray, times: np.ndarray) -> None:
    """Say in one sentence what is wrong with the data of a solve."""
    _check_discs(box, discs)
    names = {"box", *(name for *_, name in discs)}
    if set(robin) != names:
        raise ValueError(
            f"robin names {sorted(robin)}, the boundaries are {sorted(names)}; give each one entry (a, b, g)"
        )
    for name, (_, b, _) in robin.items():
        if b == 0:
            raise ValueError(f"robin['{name}'] has b = 0, a Dirichlet condition; give a small b instead")
    if x.ndim != 2 or x.shape[1] != 2:
        raise ValueError(f"points have shape {x.shape}; pass an array (n, 2)")
    if times.ndim != 1 or not len(times) or times[0] < 0 or np.any(np.diff(times) <= 0):
        raise ValueError(f"times must be increasing and not negative, got {times}")
    outside = x[~_inside(box, discs, x)]
    if len(outside):
        raise ValueError(
            f"{len(outside)} of {len(x)} points lie outside the domain, the first at {outside[0]}; "
            "pass points of the box outside every disc"
        )


def _check_discs(box: Box, discs: Sequence[Disc]) -> None:
    """Every disc lies inside the box and off the others: a mesher given less may never return."""
    (x0, y0), (x1, y1) = box
    for i, (x, y, radius, name) in enumerate(discs):
        if radius <= 0 or min(x - x0, x1 - x, y - y0, y1 - y) <= radius:
            raise ValueError(f"disc {i} ('{name}') is not inside the box {box}; move or shrink it")
        for j, (u, v, other, _) in enumerate(discs[:i]):
            if np.hypot(x - u, y - v) <= radius + other:
                raise ValueError(f"discs {j} and {i} overlap; keep a gap between them")
