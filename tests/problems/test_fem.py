"""Finite-element references: orders of convergence, and the shipped files."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import hardpde
from hardpde.problem.reference import Reference

ng = pytest.importorskip("ngsolve")

from hardpde.problems import PROBLEMS, REFERENCES  # noqa: E402
from hardpde.problems.fem import airfoil as foil  # noqa: E402
from hardpde.problems.fem import battery_pack as pack  # noqa: E402
from hardpde.problems.fem.base import mesh_points, nodes_and_cells  # noqa: E402
from hardpde.problems.fem.flow import corners, mesh_around, points_beside, solve_flow  # noqa: E402
from hardpde.problems.fem.heat import heat_robin, radau, triangulate  # noqa: E402

BOX = ((0.0, 0.0), (2.0, 1.5))
DISCS = [(0.9, 0.8, 0.5, "hole")]
SHIPPED = Path(hardpde.__file__).parent / "problems" / "data" / "battery_pack.npz"
FOIL = SHIPPED.with_name("airfoil.npz")
K = 0.7


def wave(sin, cos, x, y, t):
    """A smooth temperature that solves no heat equation until `made_up` adds its source."""
    return sin(2 * x - y) * cos(3 * t) + 0.3 * x * y


def made_up(points, times, **settings):
    """Solve for `wave`, with source and Robin data computed from it, and return the error (m, n)."""

    def T(x, y, t):
        return wave(ng.sin, ng.cos, x, y, t)

    def flux(x, y, t, normal):
        return T(x, y, t).Diff(ng.x) * normal[0] + T(x, y, t).Diff(ng.y) * normal[1]

    def on_box(x, y, t):
        return 2.0 * T(x, y, t) + 0.5 * flux(x, y, t, ng.specialcf.normal(2))

    def on_hole(x, y, t):
        (cx, cy, radius, _) = DISCS[0]
        return T(x, y, t) + 3.0 * flux(x, y, t, ((cx - x) / radius, (cy - y) / radius))

    def source(x, y, t):
        laplacian = T(x, y, t).Diff(ng.x).Diff(ng.x) + T(x, y, t).Diff(ng.y).Diff(ng.y)
        return -3 * ng.sin(2 * x - y) * ng.sin(3 * t) - K * laplacian

    robin = {"box": (2.0, 0.5, on_box), "hole": (1.0, 3.0, on_hole)}
    found = heat_robin(
        BOX, DISCS, robin, points, times, k=K, initial=lambda x, y: T(x, y, 0.0), source=source, **settings
    )
    exact = wave(np.sin, np.cos, points[:, 0], points[:, 1], np.asarray(times)[:, None])
    return found - exact


def rate(sizes, errors):
    """The slope of log(error) over log(size)."""
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.fixture(scope="module")
def nodes():
    return triangulate(BOX, DISCS, 0.06)[0]


@pytest.mark.parametrize("order", [2, 3])
def test_converges_in_h_at_its_order(nodes, order):
    sizes = [0.2, 0.1, 0.05]
    errors = [
        np.sqrt(np.mean(made_up(nodes, [0.1], maxh=h, order=order, steps=3, halvings=0) ** 2)) for h in sizes
    ]
    assert rate(sizes, errors) > order + 0.8
    assert errors[-1] < 1e-5


@pytest.mark.parametrize("stages, order", [(1, 1), (2, 3), (3, 5)])
def test_radau_converges_at_its_order(stages, order):
    from scipy.sparse import csr_array

    mass, stiffness = csr_array(np.diag([1.0, 2.0])), csr_array(np.array([[2.0, -1.0], [-1.0, 3.0]]))

    def exact(t):
        return np.array([np.sin(t), np.cos(2 * t)])

    def load(t):
        return mass @ np.array([np.cos(t), -2 * np.sin(2 * t)]) + stiffness @ exact(t)

    errors = []
    for count in (4, 8, 16):
        step, u = radau(mass, stiffness, load, stages), exact(0.0)
        for i in range(count):
            u = step(u, i / count, 1 / count)
        errors.append(np.abs(u - exact(1.0)).max())
    assert rate([1 / 4, 1 / 8, 1 / 16], errors) > order - 0.25


def test_converges_in_time(nodes):
    """Two stages: order 3, and no less than stage order + 1 with time-dependent Robin data."""
    settings = {"maxh": 0.25, "order": 6, "stages": 2, "halvings": 0}
    counts = np.array([2, 4, 8])
    errors = [np.abs(made_up(nodes, [1.0], steps=count, **settings)).max() for count in counts]
    assert rate(1 / counts, errors) > 2.8


def test_times_are_hit_whatever_their_spacing(nodes):
    times = [0.0, 0.03, 0.05, 0.3, 0.31]
    error = made_up(nodes, times, maxh=0.25, order=6, steps=3, halvings=4)
    assert error.shape == (5, len(nodes))
    assert np.abs(error).max() < 2e-6


def test_shipped_pack_is_in_its_domain_and_starts_at_a_tenth():
    shipped = Reference.load(SHIPPED)
    x, T = shipped.x, shipped.values["T"]
    assert x.dtype == np.float64 and 12_000 < len(x) < 14_000 and T.shape == (11, len(x))
    assert np.allclose(shipped.times, np.linspace(0, 1, 11), atol=1e-15)
    assert np.abs(T[0] - 0.1).max() < 1e-8
    assert np.abs(x[:, 0]).max() <= 8 and np.abs(x[:, 1]).max() <= 12
    gaps = [np.hypot(x[:, 0] - cx, x[:, 1] - cy) - r for cx, cy, r, _ in pack.DISCS]
    assert len(gaps) == 17 and np.min(gaps) > -1e-14
    assert all(np.sum(np.abs(gap) < 1e-14) > 10 for gap in gaps)
    assert shipped.about["max_difference_to_level_below"] < 1e-6
    assert SHIPPED.stat().st_size < 1_000_000


def test_shipped_pack_has_the_area_of_the_pack():
    shipped = Reference.load(SHIPPED)
    a, b, c = (shipped.x[shipped.cells[:, i]] for i in range(3))
    area = np.sum(np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])) / 2
    assert area == pytest.approx(16 * 24 - np.pi * (11 + 6 * 0.16), rel=1e-3)


def test_shipped_pack_agrees_with_a_fresh_coarse_solve():
    shipped = Reference.load(SHIPPED)
    fresh = pack.pack_temperature(shipped.x, level=0)
    error = np.abs(fresh - shipped.values["T"])
    assert error.max() < 1e-3 and error.mean() < 2e-5


@pytest.mark.parametrize(
    "change, message",
    [
        ({"robin": {"box": (1, 1, 0)}}, "the boundaries are"),
        ({"robin": {"box": (1, 1, 0), "hole": (1, 0, 0)}}, "b = 0"),
        ({"points": [[0.9, 0.8]]}, "outside the domain"),
        ({"points": [0.1, 0.1]}, "points have shape"),
        ({"times": [0.2, 0.1]}, "times must be increasing"),
        ({"k": -1.0}, "k must be positive"),
        ({"stages": 7}, "Radau"),
        ({"order": 0}, "at least 1"),
        ({"discs": [(0.1, 0.1, 0.5, "hole")]}, "not inside the box"),
        ({"discs": [(0.9, 0.8, 0.3, "hole"), (1.2, 0.8, 0.3, "hole")]}, "overlap"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(change, message):
    settings = {"discs": DISCS, "robin": {"box": (1, 1, 0), "hole": (1, 1, 0)}}
    settings |= {"points": [[0.1, 0.1]], "times": [0.1]}
    with pytest.raises(ValueError, match=message):
        heat_robin(BOX, **(settings | change))


@pytest.mark.parametrize(
    "call",
    [lambda: pack.pack_reference(0), lambda: pack.pack_temperature(np.zeros((1, 2)), 9),
     lambda: foil.airfoil_reference(0), lambda: foil.airfoil_flow(9)],
)
def test_an_unknown_level_is_named(call):
    with pytest.raises(ValueError, match="level is"):
        call()


# -- flow -------------------------------------------------------------------------------------------


def rms(mesh, difference):
    return float(np.sqrt(ng.Integrate(ng.InnerProduct(difference, difference), mesh, order=12)))


def kovasznay(h, order):
    """Errors of u and p in L2 for Kovasznay's flow at Re 40, with an outlet where only v and the traction are given."""
    from netgen.geom2d import unit_square

    nu = 1 / 40
    rate = 0.5 / nu - np.sqrt(0.25 / nu**2 + 4 * np.pi**2)
    e, wave = ng.exp(rate * ng.x), 2 * np.pi * ng.y
    u = ng.CF((1 - e * ng.cos(wave), rate / (2 * np.pi) * e * ng.sin(wave)))
    p = -0.5 * ng.exp(2 * rate * ng.x)
    pull = (2 * nu * u[0].Diff(ng.x) - p, 0.0)
    mesh = ng.Mesh(unit_square.GenerateMesh(maxh=h))
    fixed = {"left|top|bottom": (u[0], u[1]), "right": (None, u[1])}
    flow = solve_flow(mesh, nu, fixed=fixed, traction={"right": pull}, order=order)
    return rms(mesh, flow.velocity - u), rms(mesh, flow.pressure - p)


@pytest.mark.parametrize("order", [2, 4])
def test_kovasznay_flow_converges_at_its_order(order):
    sizes = [0.2, 0.1] if order == 2 else [0.3, 0.15]
    u, p = np.array([kovasznay(h, order) for h in sizes]).T
    assert rate(sizes, u) > order + 0.8 and rate(sizes, p) > order - 0.3
    assert u[-1] < 1e-2 if order == 2 else u[-1] < 2e-4


def annulus(h, order):
    """A quarter of the annulus 1 < r < 2 with boundaries "inner", "outer", "down" (y = 0) and "left" (x = 0)."""
    from netgen.occ import Circle, MoveTo, OCCGeometry, X, Y

    face = (Circle((0, 0), 2).Face() - Circle((0, 0), 1).Face()) * MoveTo(0, 0).Rectangle(3, 3).Face()
    for edge in face.edges:
        middle = np.hypot(edge.center.x, edge.center.y)
        edge.name = "inner" if middle < 1.1 else "outer"
    face.edges.Min(X).name, face.edges.Min(Y).name = "left", "down"
    mesh = ng.Mesh(OCCGeometry(face, dim=2).GenerateMesh(maxh=h))
    mesh.Curve(order)
    assert set(mesh.GetBoundaries()) == {"inner", "outer", "left", "down"}
    return mesh


def test_rigid_rotation_slips_along_circles():
    """No strain, so no traction: u = (-y, x), p = r^2 / 2 is a flow along slipping walls."""
    u, p = ng.CF((-ng.y, ng.x)), (ng.x**2 + ng.y**2) / 2
    errors = []
    sizes = [0.4, 0.2]
    for h in sizes:
        mesh = annulus(h, 4)
        conditions = {"fixed": {"down": (u[0], u[1])}, "traction": {"left": (p, 0.0)}}
        flow = solve_flow(mesh, 0.1, slip={"inner": 0.0, "outer": 0.0}, order=4, **conditions)
        errors.append(rms(mesh, flow.velocity - u))
    assert errors[-1] < 1e-5 and rate(sizes, errors) > 3.5
    # With friction the same data have another solution.
    rough = solve_flow(mesh, 0.1, slip={"inner": 1.0, "outer": 1.0}, order=4, **conditions)
    assert rms(mesh, rough.velocity - u) > 0.05


def test_friction_is_the_traction_of_shear():
    """Couette flow over a wall with friction: u = a + b y with nu b = beta a."""
    from netgen.geom2d import unit_square

    nu, beta = 0.1, 0.5
    a = nu / (nu + beta)
    u = ng.CF((a + (1 - a) * ng.y, 0.0))
    mesh = ng.Mesh(unit_square.GenerateMesh(maxh=0.4))
    fixed = {"left|top": (u[0], 0.0), "right": (None, 0.0)}
    flow = solve_flow(mesh, nu, fixed=fixed, traction={"right": (0.0, 0.0)}, slip={"bottom": beta}, order=2)
    assert rms(mesh, flow.velocity - u) < 1e-10
    assert flow.force("bottom")[0] == pytest.approx(beta * a, rel=1e-8)


def test_airfoil_levels_agree_and_drag_is_positive():
    shipped = Reference.load(FOIL)
    flow = foil.airfoil_flow(0)
    fresh = foil.at_nodes(flow, shipped.x, shipped.cells)
    assert np.abs(fresh["u"] - shipped.values["u"]).mean() < 1e-4
    far = np.hypot(shipped.x[:, 0] - 1, shipped.x[:, 1]) > 0.05
    assert np.abs(fresh["p"] - shipped.values["p"])[far].max() < 0.02
    drag, lift = flow.force("wall")
    assert drag == pytest.approx(shipped.about["drag"]["3"], rel=1e-2) and abs(lift) < 1e-3


def test_shipped_airfoil_is_a_flow_in_its_domain():
    shipped = Reference.load(FOIL)
    x, u, p, w = shipped.x, *(shipped.values[name] for name in "upw")
    assert x.dtype == np.float64 and 13_000 <= len(x) <= 14_000
    assert u.shape == (len(x), 2) and p.shape == w.shape == (len(x),)
    assert all(np.isfinite(v).all() for v in shipped.values.values()) and shipped.times is None
    assert FOIL.stat().st_size < 2_000_000
    about = shipped.about
    assert max(about["mae_to_level_below"][name] for name in ("u1", "u2")) < 1e-6
    assert about["drag"]["3"] == pytest.approx(about["drag"]["2"], rel=1e-4)
    (x0, _), (x1, y1) = foil.BOX
    for edge in (x[:, 0] == x0, np.abs(x[:, 1]) == y1):
        np.testing.assert_allclose(u[edge], [[1, 0]] * edge.sum(), atol=1e-6)
    outlet = x[:, 0] == x1
    assert np.abs(u[outlet, 1]).max() < 1e-6 and np.abs(p[outlet] - 1).max() < 1e-3
    wall = foil.body().boundaries["airfoil"]
    on = np.asarray(jax.vmap(wall.distance)(x)) < 1e-14
    assert on.sum() > 150
    n = np.asarray(jax.vmap(wall.normal)(x[on]))
    r = np.hypot(x[on, 0] - 1, x[on, 1])
    assert np.abs(np.sum(n * u[on], axis=1))[r > 0.005].max() < 1e-6
    # No traction along the wall: w = -2 k u_t with the domain's normal and its curvature.
    slide = n[:, 1] * u[on, 0] - n[:, 0] * u[on, 1]
    k = -np.asarray(jax.vmap(wall.curvature)(x[on]))
    assert np.abs(w[on] + 2 * k * slide)[r > 0.1].max() < 2e-3


def test_walls_of_the_airfoil_are_named():
    with pytest.raises(ValueError, match="choose from slip, friction, no-slip"):
        foil.airfoil_flow(0, wall="rough")


def test_mesh_around_an_airfoil_follows_its_wall():
    body = foil.body()
    mesh = mesh_around(foil.BOX, body, maxh=0.8, near=0.2, tip=5e-4, layers=2)
    mesh.Curve(5)
    assert ng.Integrate(ng.CF(1), mesh, order=10) == pytest.approx(32 - body.measure, abs=1e-7)
    assert len(np.unique(corners(body), axis=0)) == 2
    points = np.asarray(body.boundaries["airfoil"].sample(jax.random.key(0), 200))
    found = points_beside(mesh, points, body)
    back = np.stack([np.ravel(ng.x(found)), np.ravel(ng.y(found))], axis=1)
    assert np.abs(back - points).max() < 1e-4


@pytest.mark.parametrize("change, message", [({"order": 1}, "at least 2"), ({"nu": 0.0}, "must be positive")])
def test_mistakes_in_a_flow_are_answered_by_a_sentence(change, message):
    from netgen.geom2d import unit_square

    mesh = ng.Mesh(unit_square.GenerateMesh(maxh=0.5))
    with pytest.raises(ValueError, match=message):
        solve_flow(mesh, **({"nu": 1.0, "fixed": {"left": (0, 0)}} | change))


def test_references_are_of_built_in_problems():
    assert set(REFERENCES) == {"battery-pack", "airfoil"} <= set(PROBLEMS)


def test_points_beside_a_mesh_are_found_on_it_or_refused():
    from netgen.geom2d import unit_square

    mesh = ng.Mesh(unit_square.GenerateMesh(maxh=0.5))
    x, cells = nodes_and_cells(mesh)
    assert x.shape[1] == 2 and set(cells.ravel()) == set(range(len(x)))
    outside = np.array([[0.5, 1 + 1e-6]])
    found = mesh_points(mesh, outside, lambda lost, length: lost - [0.0, length])
    assert np.hypot(ng.x(found)[0] - 0.5, ng.y(found)[0] - 1) < 1e-4
    with pytest.raises(ValueError, match="too coarse"):
        mesh_points(mesh, outside, lambda lost, length: lost - [0.0, -length])


# -- without NGSolve --------------------------------------------------------------------------------


def test_nothing_imports_ngsolve_before_it_is_used():
    code = (
        "import sys, hardpde.problems.fem.battery_pack, hardpde.problems.fem.airfoil; "
        "sys.exit('ngsolve' in sys.modules or 'netgen' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_ngsolve_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ngsolve", None)
    with pytest.raises(ImportError, match=r"pip install 'hardpde\[fem\]'"):
        triangulate(BOX, DISCS, 0.2)
