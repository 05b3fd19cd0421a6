"""Properties of shapes, their boundaries and the distances between their pieces."""

import math
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde
from hardpde.geometry import (
    Ball,
    Box,
    Difference,
    Face,
    Intersection,
    Interval,
    Loop,
    Polygon,
    Segment,
    Spline,
    TimeSlice,
    Union,
    airfoil,
    check_shape,
    distances,
    gap_matrix,
    read_airfoil,
    stack,
    touching_points,
)
from hardpde.geometry.algorithms.sampling import unit_points

pytestmark = pytest.mark.usefixtures("quick_compilation")


def key(i=0):
    return jax.random.key(i)


@cache
def each(f):
    """f over many points, compiled once."""
    return jax.jit(jax.vmap(f), compiler_options={"xla_backend_optimization_level": 0})


def ellipse(a=1.0, b=0.5, n=24, center=(0.0, 0.0)):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.stack([center[0] + a * np.cos(t), center[1] + b * np.sin(t)], axis=1)


def naca(n=30, thickness=0.12, blunt=False):
    """NACA 00xx upper side (n, 2) from the leading to the trailing edge."""
    x = 0.5 * (1 - np.cos(np.linspace(0, np.pi, n)))
    last = 0.1015 if blunt else 0.1036
    y = 5 * thickness * (0.2969 * np.sqrt(x) - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - last * x**4)
    if not blunt:
        y[-1] = 0.0
    return np.stack([x, y], axis=1)


def naca_loop(**options):
    upper = naca(**options)
    lower = upper * [1, -1]
    return np.concatenate([upper[::-1], lower[1:]])


ARROW = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (1.0, 0.7), (0.0, 1.0))
STAR = Polygon(ARROW, "star")
ELLIPSE = Spline(ellipse(), "ellipse")
FOIL = Spline(naca_loop(blunt=True), "foil", corners=(0, 58))
DROP = Spline(naca_loop()[:-1], "drop", corners=(0,))
W1015 = Path(hardpde.__file__).parent / "problems" / "data" / "w1015.dat"
FITTED = airfoil(W1015, "fitted", smooth="fit")

PRIMITIVES = {
    "interval": Interval(-1.0, 2.0),
    "box2": Box((0.0, -1.0), (2.0, 1.0)),
    "box4": Box((0.0,) * 4, (1.0, 2.0, 1.0, 1.0)),
    "ball1": Ball((0.5,), 1.0),
    "ball2": Ball((0.3, -0.2), 1.5),
    "ball5": Ball((0.0,) * 5, 1.0),
    "polygon": STAR,
    "spline": ELLIPSE,
    "foil": FOIL,
    "fitted": FITTED,
}
COMPOUNDS = {
    "pack": Box((0.0, 0.0), (4.0, 2.0), "wall") - Ball((1.0, 1.0), 0.5, "one") - Ball((3.0, 1.0), 0.4, "two"),
    "ell": Box((0.0, 0.0), (2.0, 1.0), "low") | Box((0.0, 0.0), (1.0, 2.0), "high"),
    "lens": Ball((0.0, 0.0), 1.0, "left") & Ball((1.0, 0.0), 1.0, "right"),
    "channel": Box((-1.0, -1.0), (3.0, 1.0), "wall", {"left": "inlet", "right": "outlet"}) - FOIL,
    "tunnel": Box((-2.0, -2.0), (6.0, 2.0), "wall", {"left": "inlet", "right": "outlet"}) - FITTED,
    "half": (Box((-2.0, -2.0), (2.0, 2.0), "wide") - Ball((0.0, 0.0), 0.8, "bump"))
    & Box((-1.5, 0.0), (1.5, 1.5), "cut"),
    "cube": Box((0.0,) * 3, (1.0,) * 3, "cube") - Ball((0.5,) * 3, 0.3, "core"),
    "eyes": Box((-3.0, -3.0), (3.0, 3.0), "wall")
    - (Ball((0.0, 0.0), 1.0, "a") | Ball((1.0, 0.0), 1.0, "b")),
}
SHAPES = PRIMITIVES | COMPOUNDS
MEASURES = {
    "interval": 3.0,
    "box2": 4.0,
    "box4": 2.0,
    "ball1": 2.0,
    "ball2": math.pi * 2.25,
    "ball5": 8 * math.pi**2 / 15,
    "polygon": 2.2,
    "pack": 8 - math.pi * 0.41,
    "cube": 1 - 4 / 3 * math.pi * 0.027,
}
ESTIMATES = {
    "ell": 3.0,
    "lens": 2 * math.pi / 3 - math.sqrt(3) / 2,
    "half": 4.5 - 0.32 * math.pi,
    "spline": math.pi / 2,
}
PERIMETERS = {
    ("ell", "low"): 5.0,
    ("ell", "high"): 3.0,
    ("lens", "left"): 2 * math.pi / 3,
    ("pack", "wall"): 12.0,
    ("pack", "two"): 0.8 * math.pi,
    ("channel", "inlet"): 2.0,
    ("eyes", "a"): 4 * math.pi / 3,
    ("half", "bump"): 0.8 * math.pi,
}

shapes = pytest.mark.parametrize("name", SHAPES)


def around(shape, n=1000, i=5):
    """Random points in the bounds, widened by 30 %."""
    lo, hi = (np.array(b) for b in shape.bounds)
    u = np.random.default_rng(i).uniform(-0.3, 1.3, (n, shape.dim))
    return jnp.asarray(lo + u * (hi - lo))


@shapes
def test_samples_are_inside_and_uniform(name):
    shape = SHAPES[name]
    points = shape.sample(key(), 1000)
    assert points.shape == (1000, shape.dim)
    assert jnp.all(each(shape.sdf)(points) < 0)
    lo, hi = (np.array(b) for b in shape.bounds)
    assert np.all(points >= lo) and np.all(points <= hi)
    middle = (lo + hi) / 2
    everywhere = lo + (hi - lo) * np.random.default_rng(0).uniform(size=(1000, shape.dim))
    inner = everywhere[np.asarray(each(shape.sdf)(everywhere)) < 0]
    for k in range(shape.dim):
        share = np.mean(np.asarray(points)[:, k] < middle[k])
        assert abs(share - np.mean(inner[:, k] < middle[k])) < 0.08


@shapes
def test_sdf_is_negative_inside_and_has_unit_gradient(name):
    shape = SHAPES[name]
    x = around(shape)
    gradient = each(jax.grad(shape.sdf))(x)
    assert np.mean(np.abs(np.linalg.norm(gradient, axis=1) - 1) < 1e-6) > 0.99
    lo, hi = (np.array(b) for b in shape.bounds)
    outside = np.any((x < lo) | (x > hi), axis=1)
    assert np.all(each(shape.sdf)(x)[outside] > 0)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitive_distance_is_that_of_its_boundary(name):
    shape = PRIMITIVES[name]
    x = around(shape)
    near = each(lambda x: jnp.min(distances(shape.pieces, x)))(x)
    np.testing.assert_allclose(np.abs(each(shape.sdf)(x)), near, atol=1e-12)
    dense = jnp.concatenate([b.sample(key(1), 1000) for b in shape.boundaries.values()])
    if shape.dim <= 2:
        brute = jnp.min(jnp.linalg.norm(x[:, None] - dense[None], axis=-1), axis=1)
        assert np.all(near <= brute + 1e-12)
        assert np.max(brute - near) < 0.1


@shapes
def test_boundary_samples_lie_on_the_boundary_and_normals_leave(name):
    shape = SHAPES[name]
    for boundary in shape.boundaries.values():
        y = boundary.sample(key(1), 1000)
        assert np.max(np.abs(each(shape.sdf)(y))) < 1e-8 * shape.size
        n = each(boundary.normal)(y)
        np.testing.assert_allclose(np.linalg.norm(n, axis=1), 1.0, atol=1e-12)
        step = 1e-5 * shape.size
        assert np.mean(each(shape.sdf)(y + step * n) > 0) > 0.98
        assert np.mean(each(shape.sdf)(y - step * n) < 0) > 0.98


@shapes
def test_closest_points_lie_on_the_boundary_at_the_distance(name):
    shape = SHAPES[name]
    for boundary in shape.boundaries.values():
        x = around(shape)
        t = jnp.full((len(x), 1), 0.7)
        foot = each(boundary.closest)(jnp.concatenate([x, t], axis=1))
        assert np.all(foot[:, -1] == 0.7)
        foot = foot[:, :-1]
        distance = each(boundary.distance)(x)
        np.testing.assert_allclose(np.linalg.norm(x - foot, axis=1), distance, atol=1e-12)
        np.testing.assert_allclose(each(boundary.distance)(foot), 0.0, atol=1e-9)
        samples = boundary.sample(key(1), 1000)
        assert np.all(distance <= np.linalg.norm(x[:, None] - samples[None], axis=-1).min(axis=1) + 1e-9)


@pytest.mark.parametrize("name", ["box2", "ball2", "ball5", "polygon", "spline", "foil", "fitted", "drop", "pack"])
def test_closest_jacobian_agrees_with_finite_differences(name):
    shape = (SHAPES | {"drop": DROP})[name]
    x = around(shape)
    h = 1e-6
    for boundary in shape.boundaries.values():
        exact = each(jax.jacfwd(boundary.closest))(x)
        columns = []
        for e in np.eye(shape.dim):
            f = each(boundary.closest)
            columns.append((f(x + h * e) - f(x - h * e)) / (2 * h))
        error = np.abs(exact - np.stack(columns, axis=-1)).max(axis=(1, 2))
        scale = 1 + np.abs(exact).max(axis=(1, 2))
        # The few points on a medial axis or at a change of piece are left out.
        assert np.mean(error / scale < 1e-4) > 0.96


@pytest.mark.parametrize("piece", [Spline(ellipse(n=16), "e").pieces[0], FITTED.pieces[0]])
def test_spline_closest_has_exact_second_derivatives(piece):
    x, v, h = jnp.array([0.9, 0.6]), jnp.array([0.3, -0.8]), 1e-5
    first = jax.jit(jax.jacfwd(piece.closest))
    second = jax.jit(jax.jacfwd(jax.jacfwd(piece.closest)))(x) @ v
    np.testing.assert_allclose(second, (first(x + h * v) - first(x - h * v)) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("shape", [Ball((0.0, 0.0), 1.0), Box((0.0, 0.0), (1.0, 1.0)), STAR, ELLIPSE])
def test_no_nan_at_centres_and_on_pieces(shape):
    (boundary,) = shape.boundaries.values()
    x = jnp.concatenate([jnp.zeros((1, 2)), jnp.array([[1.0, 0.0]]), boundary.sample(key(), 5)])

    def everything(x):
        foot, n = boundary.closest(x), boundary.normal(x)
        return jnp.concatenate([foot, n, jnp.stack([shape.sdf(x), boundary.distance(x)])])

    for derivative in (lambda f: f, jax.jacfwd, jax.jacrev):
        assert np.all(np.isfinite(each(derivative(everything))(x)))


def test_on_a_face_the_foot_moves_along_the_face_only():
    face = Box((0.0, 0.0), (1.0, 1.0)).pieces[0]
    for y in (0.0, 0.4, 1.0):
        np.testing.assert_array_equal(jax.jacfwd(face.closest)(jnp.array([0.0, y])), [[0, 0], [0, 1]])


@pytest.mark.parametrize("name", MEASURES)
def test_measures_with_a_formula_are_exact(name):
    assert SHAPES[name].measure == pytest.approx(MEASURES[name], rel=1e-12)


@pytest.mark.parametrize("name", ESTIMATES)
def test_measures_without_a_formula_are_estimated_to_a_thousandth(name):
    assert SHAPES[name].measure == pytest.approx(ESTIMATES[name], rel=1e-3)


@pytest.mark.parametrize("name, boundary", PERIMETERS)
def test_boundaries_have_their_length_or_area(name, boundary):
    expected = PERIMETERS[name, boundary]
    assert SHAPES[name].boundaries[boundary].measure == pytest.approx(expected, rel=2e-3)


def test_boundary_points_are_spread_by_measure():
    y = COMPOUNDS["ell"].boundaries["low"].sample(key(), 5000)
    assert np.mean(y[:, 1] == 0) == pytest.approx(2 / 5, abs=2e-3)
    assert np.mean((y[:, 1] == 0) & (y[:, 0] < 1)) == pytest.approx(1 / 5, abs=0.02)
    ball = Ball((0.0, 0.0, 0.0), 1.0).boundaries["ball"].sample(key(), 20000)
    assert np.mean(ball[:, 2] > 0.5) == pytest.approx(0.25, abs=0.01)


def test_names_survive():
    a, b, c = Ball((0.0, 0.0), 1.0, "a"), Ball((1.0, 0.0), 1.0, "b"), Ball((0.5, 0.0), 0.2, "c")
    assert list((a | b).boundaries) == ["a", "b"]
    assert list((a & b).boundaries) == ["a", "b"]
    lens = (a & b) - c
    assert list(lens.boundaries) == ["a", "b", "c"]
    assert [(p.body, p.flip) for p in lens.pieces] == [(0, False), (1, False), (2, True)]
    assert [(p.name, p.flip) for p in (a - (b - c)).pieces] == [("a", False), ("b", True), ("c", False)]


def test_nested_operations_flatten():
    a, b, c = (Ball((2.0 * i, 0.0), 0.5) for i in range(3))
    assert (a | b | c).shapes == Union(a, b, c).shapes == (a | (b | c)).shapes
    assert (a & b & c).shapes == Intersection(a, b, c).shapes
    box = Box((-9.0, -9.0), (9.0, 9.0))
    assert (box - a - b - c) == Difference(box, a, b, c)
    assert (box - (a | b)).holes == (a | b,)


def test_pieces_that_vanish_are_dropped_and_faces_are_trimmed():
    inner = Ball((0.0, 0.0), 0.1, "lost")
    assert list((Ball((0.0, 0.0), 1.0, "kept") | inner).boundaries) == ["kept"]
    ell = COMPOUNDS["ell"]
    assert all(ell.whole) and len(ell.pieces) == 7
    # The part of the lower box's top that lies inside the upper one is no boundary.
    assert ell.boundaries["low"].distance(jnp.array([0.5, 1.0])) == pytest.approx(0.5)
    side = Box((0.0, 0.0), (1.0, 1.0), "one") | Box((1.0, 0.0), (2.0, 1.0), "two")
    assert sum(b.measure for b in side.boundaries.values()) == pytest.approx(6.0)


def test_sides_of_a_box_are_named():
    box = Box((0.0,) * 3, (1.0,) * 3, "rest", {"left": "in", "+0": "out", "front": "lid"})
    names = {tuple(p.params[6:]): p.name for p in box.pieces}
    assert names[-1.0, 0.0, 0.0] == "in" and names[1.0, 0.0, 0.0] == "out" and names[0.0, 0.0, 1.0] == "lid"
    assert [p.name for p in box.pieces].count("rest") == 3
    assert list(Interval(0.0, 1.0, left="a", right="b").boundaries) == ["a", "b"]


def test_polygon_keeps_edge_names_in_either_orientation():
    names = ("p", "q", "r", "s", "t")
    for order in (1, -1):
        turned = names if order == 1 else (*names[-2::-1], names[-1])
        polygon = Polygon(ARROW[::order], names=turned)
        bottom = polygon.boundaries["p"].pieces[0]
        np.testing.assert_allclose(bottom.normal(jnp.array([1.0, 0.0])), [0, -1])


def test_everything_is_jittable_and_hashable():
    for name in ("pack", "ell", "lens", "channel"):
        shape = COMPOUNDS[name]
        fresh = type(shape)(*shape.operands)
        assert fresh == shape and hash(fresh) == hash(shape)
        points = jax.jit(fresh.sample, static_argnums=1)(key(), 20)
        assert np.all(each(fresh.sdf)(points) < 0)
    boundary = COMPOUNDS["eyes"].boundaries["a"]
    assert jax.jit(boundary.sample, static_argnums=1)(key(), 7).shape == (7, 2)


def test_reach_is_the_radius_of_curvature_inside_and_none_where_flat():
    pack = COMPOUNDS["pack"]
    assert pack.boundaries["one"].pieces[0].reach == math.inf
    assert PRIMITIVES["ball2"].pieces[0].reach == 1.5
    assert PRIMITIVES["box2"].pieces[0].reach == math.inf
    fine = Spline(ellipse(n=100), "e").pieces[0]
    assert fine.reach == pytest.approx(0.25, rel=1e-2)
    assert fine.kind.reach(fine.params, False) == math.inf


def test_the_start_is_a_boundary_with_distance_t():
    initial = TimeSlice(COMPOUNDS["pack"])
    x = jnp.array([2.0, 1.0, 0.3])
    assert initial.name == "initial" and initial.distance(x) == pytest.approx(0.3)
    np.testing.assert_array_equal(initial.closest(x), [2.0, 1.0, 0.0])
    np.testing.assert_array_equal(initial.normal(x), [0, 0, -1])
    points = initial.sample(key(), 10)
    assert points.shape == (10, 3) and np.all(points[:, 2] == 0)
    assert initial.measure == COMPOUNDS["pack"].measure


def test_box_minus_a_thousand_balls():
    balls = [Ball((i % 32 + 0.5, i // 32 + 0.5), 0.3, f"cell{i % 3}") for i in range(1000)]
    shape = Box((0.0, 0.0), (32.0, 32.0), "case")
    for ball in balls:
        shape = shape - ball
    assert len(shape.pieces) == 1004 and len(stack(shape.pieces)) == 2
    assert shape.measure == pytest.approx(1024 - 1000 * math.pi * 0.09)
    check_shape(shape)
    points = shape.sample(key(), 500)
    assert np.all(each(shape.sdf)(points) < 0)
    cells = shape.boundaries["cell1"]
    assert cells.measure == pytest.approx(333 * 0.6 * math.pi)
    assert np.max(np.abs(each(shape.sdf)(cells.sample(key(), 500)))) < 1e-12
    gaps = gap_matrix(shape.pieces, shape)
    assert gaps[4, 5] == pytest.approx(0.4) and gaps[0, 4] == pytest.approx(0.2) and gaps[0, 2] == 0


# -- gaps -------------------------------------------------------------------------------------------


def test_gaps_of_spheres_and_faces():
    shape = COMPOUNDS["pack"]
    gaps = gap_matrix(shape.pieces, shape)
    # pieces: left, right, bottom, top, ball one, ball two
    expected = [
        [0, 4, 0, 0, 0.5, 2.6],
        [4, 0, 0, 0, 2.5, 0.6],
        [0, 0, 0, 2, 0.5, 0.6],
        [0, 0, 2, 0, 0.5, 0.6],
        [0.5, 2.5, 0.5, 0.5, 0, 1.1],
        [2.6, 0.6, 0.6, 0.6, 1.1, 0],
    ]
    np.testing.assert_allclose(gaps, expected, atol=1e-12)
    ring = Ball((0.0,) * 3, 2.0) - Ball((0.5, 0.0, 0.0), 1.0)
    assert gap_matrix(ring.pieces, ring)[0, 1] == pytest.approx(0.5)
    line = Interval(0.0, 10.0) - Ball((4.0,), 1.0)
    np.testing.assert_allclose(gap_matrix(line.pieces, line), [[0, 10, 3], [10, 0, 5], [3, 5, 0]])


def test_gaps_of_polygons_and_splines():
    gaps = gap_matrix(STAR.pieces, STAR)
    assert np.all(np.diag(gaps, 1) == 0) and gaps[0, 4] == 0
    assert gaps[0, 3] == pytest.approx(0.7)
    shape = Box((-2.0, -1.0), (2.0, 1.0)) - Spline(ellipse(), "e")
    np.testing.assert_allclose(gap_matrix(shape.pieces, shape)[4, :4], [1, 1, 0.5, 0.5], rtol=1e-6)
    blunt = gap_matrix(FOIL.pieces, FOIL)
    np.testing.assert_array_equal(blunt, np.zeros((2, 2)))


def test_gaps_where_pieces_cross_or_survive_in_part():
    for name in ("lens", "half", "eyes"):
        shape = COMPOUNDS[name]
        gaps = gap_matrix(shape.pieces, shape)
        names = [p.name for p in shape.pieces]
        if name == "half":
            bottom = next(i for i, p in enumerate(shape.pieces) if p.name == "cut" and p.params[5] == -1)
            top = next(i for i, p in enumerate(shape.pieces) if p.name == "cut" and p.params[5] == 1)
            curve = names.index("bump")
            assert gaps[curve, bottom] == 0 and gaps[curve, top] == pytest.approx(0.7, rel=1e-6)
        else:
            assert gaps[names.index(names[-1]), names.index(names[-2])] == 0


def test_tangential_contact_is_a_gap_of_zero():
    curve = Spline(ellipse(), "e")
    shape = Box((-2.0, -0.5), (2.0, 1.0)) - curve
    bottom = Box((-2.0, -0.5), (2.0, 1.0)).pieces[2]
    assert gap_matrix((bottom, *curve.pieces), shape)[0, 1] == 0


def test_touching_points_are_where_pieces_meet():
    def sorted_points(points):
        return np.array(sorted(points.tolist()))

    box = Box((0.0,) * 2, (1.0,) * 2)
    np.testing.assert_allclose(touching_points(box.pieces[0], box.pieces[2], box), [[0, 0]])
    assert touching_points(box.pieces[0], box.pieces[1], box).shape == (0, 2)
    cube = Box((0.0,) * 3, (1.0,) * 3)
    edge = sorted_points(touching_points(cube.pieces[0], cube.pieces[2], cube))
    np.testing.assert_allclose(edge, [[0, 0, 0], [0, 0, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(touching_points(STAR.pieces[0], STAR.pieces[1], STAR), [[2, 0]])
    lens = COMPOUNDS["lens"]
    points = sorted_points(touching_points(*lens.pieces, lens))
    np.testing.assert_allclose(points, [[0.5, -math.sqrt(0.75)], [0.5, math.sqrt(0.75)]], atol=1e-8)
    corners = sorted_points(touching_points(*FOIL.pieces, FOIL))
    np.testing.assert_allclose(corners, sorted_points(np.array(FOIL.points)[[0, -1]]), atol=1e-9)
    dome = Ball((0.0,) * 3, 1.0, "dome") & Box((-2.0, -2.0, 0.0), (2.0,) * 3, "floor")
    sphere = next(p for p in dome.pieces if p.name == "dome")
    floor = next(p for p in dome.pieces if isinstance(p.kind, Face))
    rim = touching_points(sphere, floor, dome)
    assert len(rim) >= 4 and np.allclose(np.linalg.norm(rim, axis=1), 1) and np.allclose(rim[:, 2], 0)


# -- airfoil files ----------------------------------------------------------------------------------


def write(path, name, rows, counts=None):
    lines = [name] + ([f"{counts[0]}.  {counts[1]}.", ""] if counts else [])
    path.write_text("\n".join(lines + [f"{x:.7f} {y:.7f}" for x, y in rows]) + "\n")
    return path


@pytest.mark.parametrize("blunt", [False, True])
def test_both_airfoil_formats_give_the_same_loop(tmp_path, blunt):
    upper, loop = naca(blunt=blunt), naca_loop(blunt=blunt)
    selig = write(tmp_path / "selig.dat", "NACA 0012", loop)
    both = np.concatenate([upper, upper * [1, -1]])
    lednicer = write(tmp_path / "lednicer.dat", "NACA 0012", both, (30, 30))
    name, points = read_airfoil(selig)
    assert name == "NACA 0012"
    expected = loop if blunt else loop[:-1]
    np.testing.assert_allclose(points, expected, atol=1e-7)
    np.testing.assert_allclose(read_airfoil(lednicer)[1], expected, atol=1e-7)
    backwards = write(tmp_path / "backwards.dat", "", loop[::-1])
    np.testing.assert_allclose(read_airfoil(backwards)[1], expected, atol=1e-7)
    shape = airfoil(selig, "wing")
    assert len(shape.pieces) == (2 if blunt else 1) and list(shape.boundaries) == ["wing"]
    assert shape.measure == pytest.approx(0.082, rel=1e-2)
    assert len(airfoil(selig, smooth=False).pieces) == len(expected)
    assert shape.sdf(jnp.array([0.5, 0.0])) < 0 < shape.sdf(jnp.array([1.0001, 0.0]))


def test_malformed_airfoil_files(tmp_path):
    loop = naca_loop()
    bad = {
        "no coordinates": "only a title\n",
        "line 2: expected two numbers": "title\nwords here\n",
        "line 3: expected two numbers": "title\n1 0\n0.5\n",
        "finite": "title\n1 0\nnan 0.1\n",
        "far outside": "title\n1 0\n100 0\n",
        "at least 10 points": "title\n" + "\n".join(f"{x} {y}" for x, y in loop[::8]),
        "not closed": "title\n" + "\n".join(f"{x} {y}" for x, y in loop[:40]),
        "announces 30 . 30": "title\n30. 30.\n" + "\n".join(f"{x} {y}" for x, y in loop[:40]),
    }
    for message, text in bad.items():
        path = tmp_path / "bad.dat"
        path.write_text(text)
        with pytest.raises(ValueError, match=message) as caught:
            read_airfoil(path)
        assert "bad.dat, line" in str(caught.value)


# -- the fitted airfoil -----------------------------------------------------------------------------


def test_fitted_airfoil_stays_close_to_its_points_and_is_symmetric():
    _, points = read_airfoil(W1015)
    assert np.max(each(FITTED.boundaries["fitted"].distance)(points)) < 5e-5
    arc, base = FITTED.pieces
    assert arc.kind.degree == 5 and isinstance(base.kind, Segment)
    curve = arc.kind.polynomial(arc.params)
    np.testing.assert_allclose(curve(curve.x[[0, -1]]), [[1, 0.000833], [1, -0.000833]], atol=1e-15)
    s = np.linspace(-1, 1, 777)
    np.testing.assert_allclose(curve(s), curve(-s) * [1, -1], atol=1e-14)
    assert FITTED.measure == pytest.approx(airfoil(W1015).measure, rel=1e-4)
    assert arc.measure == pytest.approx(airfoil(W1015).pieces[0].measure, rel=1e-4)
    assert FITTED == airfoil(W1015, "fitted", smooth="fit") and len({FITTED, airfoil(W1015, smooth="fit")}) == 2


def test_fitted_airfoil_is_four_times_continuously_differentiable():
    arc = FITTED.pieces[0]
    curve = arc.kind.polynomial(arc.params)
    width = np.diff(curve.x)[:-1, None]
    for order in range(5):
        d = curve.derivative(order).c
        left = sum(c[:-1] * width**k for k, c in enumerate(d[::-1]))
        np.testing.assert_allclose(left, d[-1, 1:], rtol=1e-9, atol=1e-9)


def test_fitted_airfoil_closest_points_beat_a_fine_search():
    arc = FITTED.pieces[0]
    fine = arc.kind.polynomial(arc.params)(np.linspace(-1, 1, 20001))
    x = np.random.default_rng(0).uniform((-0.5, -0.5), (1.5, 0.5), (500, 2))
    distance = np.asarray(each(arc.distance)(x))
    brute = np.array([np.sqrt(np.min(np.sum((fine - y) ** 2, axis=1))) for y in x])
    assert np.all(distance <= brute + 1e-12) and np.all(distance >= brute - 1e-6)


@pytest.mark.parametrize("points", [80])
def test_a_sharp_trailing_edge_is_fitted_as_one_arc(tmp_path, points):
    shape = airfoil(write(tmp_path / "sharp.dat", "sharp", naca_loop(n=points)), "wing", smooth="fit")
    (arc,) = shape.pieces
    curve = arc.kind.polynomial(arc.params)
    np.testing.assert_allclose(curve(curve.x[[0, -1]]), [[1, 0], [1, 0]], atol=1e-15)
    assert shape.measure == pytest.approx(0.081706, rel=1e-4)
    sdf = each(shape.sdf)(jnp.array([[0.5, 0.0], [1.001, 0.0], [0.99, 0.0], [0.9, 0.02], [-1e-3, 0.0], [1e-3, 0.0]]))
    np.testing.assert_array_equal(np.sign(sdf), [-1, 1, -1, 1, 1, -1])
    domain = Box((-1.0, -1.0), (2.0, 1.0), "wall") - shape
    check_shape(domain)
    assert domain.survival[-1] == 1.0
    y = domain.boundaries["wing"].sample(key(), 200)
    assert np.all(each(domain.sdf)(y + 1e-5 * each(domain.boundaries["wing"].normal)(y)) > 0)


def test_a_cambered_airfoil_is_fitted(tmp_path):
    loop = naca_loop(n=80, blunt=True)
    loop[:, 1] += 0.08 * loop[:, 0] * (1 - loop[:, 0])
    shape = airfoil(write(tmp_path / "cambered.dat", "cambered", loop), smooth="fit")
    assert np.max(each(shape.boundaries["airfoil"].distance)(jnp.asarray(loop))) < 5e-5


def test_fits_that_fail_say_so(tmp_path):
    rng = np.random.default_rng(0)
    rough = naca_loop(n=80, blunt=True) + np.stack([np.zeros(159), rng.normal(0, 3e-4, 159)], axis=1)
    back = naca_loop(n=80, blunt=True)
    back[[30, 31]] = back[[31, 30]]
    cases = {"misses": rough, "turn back": back, "at least 36 points": naca_loop(n=15)}
    for message, rows in cases.items():
        path = write(tmp_path / "wing.dat", "wing", rows)
        with pytest.raises(ValueError, match=f"wing.dat: .*{message}"):
            airfoil(path, smooth="fit")
    with pytest.raises(ValueError, match="choose True, False or 'fit'"):
        airfoil(W1015, smooth="fitted")


# -- curvature --------------------------------------------------------------------------------------


def test_curvature_of_discs_holes_and_straight_pieces():
    disc = Ball((0.3, 0.1), 0.5, "disc")
    x = jnp.array([0.9, 0.4])
    assert disc.boundaries["disc"].curvature(x) == pytest.approx(-2.0)
    domain = Box((-2.0, -2.0), (2.0, 2.0), "wall") - disc
    assert domain.boundaries["disc"].curvature(x) == pytest.approx(2.0)
    assert domain.boundaries["disc"].pieces[0].curvature(x) == pytest.approx(2.0)
    assert domain.boundaries["wall"].curvature(x) == 0
    assert STAR.boundaries["star"].curvature(x) == 0
    np.testing.assert_array_equal(jax.jacfwd(domain.boundaries["disc"].curvature)(x), [0, 0])


@pytest.mark.parametrize("shape", [ELLIPSE, COMPOUNDS["tunnel"]])
def test_curvature_is_that_of_the_normal(shape):
    boundary = shape.boundaries["ellipse" if shape is ELLIPSE else "fitted"]
    y = np.asarray(boundary.sample(key(), 300))
    y = y[np.abs(y[:, 0] - 1) > 0.01]  # the corners of the trailing edge
    n = np.asarray(each(boundary.normal)(y))
    t = np.stack([-n[:, 1], n[:, 0]], axis=1)
    along = np.einsum("nij,nj->ni", each(jax.jacfwd(boundary.normal))(y), t)
    k = np.asarray(each(boundary.curvature)(y))
    np.testing.assert_allclose(k, -np.sum(along * t, axis=1), rtol=1e-7, atol=1e-7)
    h = 1e-5
    feet = np.stack([each(boundary.closest)(y + step * t) for step in (-h, 0.0, h)])
    second = (feet[2] - 2 * feet[1] + feet[0]) / h**2
    np.testing.assert_allclose(k, np.sum(second * n, axis=1), rtol=1e-3, atol=1e-3)
    change = np.sum(np.asarray(each(jax.jacfwd(boundary.curvature))(y)) * t, axis=1)
    ends = [np.asarray(each(boundary.curvature)(y + step * t)) for step in (-h, h)]
    close = np.abs(change - (ends[1] - ends[0]) / (2 * h)) < 1e-3 * (1 + np.abs(change))
    assert np.mean(close) > (0.99 if shape is not ELLIPSE else 0.98)  # a cubic's bends break at its knots


def test_curvature_signs_of_the_airfoil():
    x = jnp.array([[-0.1, 0.0], [0.3, 0.3], [0.3, -0.3]])
    assert np.all(each(FITTED.boundaries["fitted"].curvature)(x) < 0)
    assert np.all(each(COMPOUNDS["tunnel"].boundaries["fitted"].curvature)(x) > 0)


def test_curvature_in_space_is_refused():
    for boundary in COMPOUNDS["cube"].boundaries.values():
        with pytest.raises(ValueError, match="plane boundaries only, and this one is in 3-D"):
            boundary.curvature(jnp.zeros(3))


# -- errors -----------------------------------------------------------------------------------------

BIG = Box((-3.0, -3.0), (3.0, 3.0), "case")
SQUARE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
CONSTRUCTIONS = {
    "edges 0 and 2 of the Polygon": lambda: Polygon(((0, 0), (1, 1), (1, 0), (0, 1))),
    "at least 3 points": lambda: Polygon(((0, 0), (1, 1))),
    "points 1 and 2 of a Polygon coincide": lambda: Polygon(((0, 0), (1, 0), (1, 0), (0, 1))),
    "one entry per edge": lambda: Polygon(SQUARE, names=("a",)),
    r"\(n, 2\) array": lambda: Polygon(((0, 0, 0), (1, 0, 0), (1, 1, 0))),
    "crosses itself": lambda: Spline(((0, 0), (1, 1), (2, 0), (2, 1), (1, 0), (0, 1))),
    "made of arcs and segments": lambda: Loop(()),
    "a gap between": lambda: Loop(((Segment(), (0, 0, 1, 0)), (Segment(), (1, 1, 0, 0)))),
    "runs clockwise": lambda: Loop(tuple((Segment(), (*SQUARE[i], *SQUARE[i - 1])) for i in (0, 3, 2, 1))),
    "corners of a Spline": lambda: Spline(SQUARE, corners=(7,)),
    "points of a Spline must be finite": lambda: Spline(((0, 0), (1, np.nan), (2, 0))),
    "corners of a Box must be finite": lambda: Box((0, np.inf), (1, 1)),
    "center of a Ball must be finite": lambda: Ball((np.nan, 0), 1),
    "radius > 0": lambda: Ball((0, 0), 0),
    "lo < hi": lambda: Box((0, 1), (1, 1)),
    "equally many": lambda: Box((0, 1), (1, 1, 1)),
    "has no side 'back'": lambda: Box((0, 0), (1, 1), sides={"back": "x"}),
    "shapes of one dimension": lambda: BIG - Ball((0.0,) * 3, 1.0),
    "combine shapes with shapes": lambda: BIG | 3,
}


@pytest.mark.parametrize("message", CONSTRUCTIONS)
def test_constructors_refuse(message):
    with pytest.raises(ValueError, match=message):
        CONSTRUCTIONS[message]()


DISC = Ball((0.0, 0.0), 1.0, "disc")
DOMAINS = {
    r"'disc' at \(0, 0\).* and ball 'b' at \(1.5, 0\).* overlap or touch \(gap -0.5\)": BIG
    - DISC
    - Ball((1.5, 0.0), 1.0, "b"),
    r"overlap or touch \(gap 0\)": BIG - DISC - Ball((1.5, 0.0), 0.5, "b"),
    "ball 'b' .* box 'q' .* overlap|box 'q'.* ball 'b'": BIG
    - Ball((0.0, 0.0), 1.0, "b")
    - Box((0.5, 0.5), (2.0, 2.0), "q"),
    "'e' in .* and ball 'b'": BIG - Spline(ellipse(), "e") - Ball((0.0, 1.5), 1.0, "b"),
    "'inner'.* overlap or touch": BIG - DISC - Polygon(np.array(SQUARE) * 0.1, "inner"),
    "touches or leaves box 'case'.*gap -0.5": BIG - Ball((2.5, 0.0), 1.0, "b"),
    "touches or leaves box 'case'.*gap 0": BIG - Ball((2.0, 0.0), 1.0, "b"),
    "'e' in .* touches or leaves ball 'disc'": DISC - Spline(ellipse(a=0.8, center=(0.5, 0.0)), "e"),
    "the domain is empty": DISC & Ball((3.0, 0.0), 1.0),
    "domain is empty: nothing": DISC & Ball((1.5, 1.5), 1.0),
}


@pytest.mark.parametrize("message", DOMAINS)
def test_check_shape_refuses(message):
    with pytest.raises(ValueError, match=message):
        check_shape(DOMAINS[message])


@pytest.mark.parametrize("name", COMPOUNDS)
def test_check_shape_accepts(name):
    check_shape(COMPOUNDS[name])


@pytest.mark.parametrize("n, dim", [(0, 2), (5, 1), (1000, 3), (300, 12)])
def test_points_of_the_cube_are_scipys_halton_points(n, dim):
    from scipy.stats import qmc

    wanted = qmc.Halton(dim, scramble=True, rng=np.random.default_rng(0)).random(n) if n else np.zeros((0, dim))
    np.testing.assert_array_equal(unit_points(n, dim), np.clip(wanted, 1e-12, 1 - 1e-12))
