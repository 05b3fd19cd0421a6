"""Solids of revolution, prisms, and shapes that are turned and shifted: distances, normals, feet and measures."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp

pytestmark = pytest.mark.usefixtures("quick_compilation")

ELL = hp.Polygon(((0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)), names=tuple("abcdef"))
SHAPES = {  # the shape, its volume, the areas of its boundaries
    "cylinder": (hp.Cylinder((0, 0, 0), (1, 1, 1), 0.5, ends=("low", "high")), math.pi / 4 * math.sqrt(3),
                 {"low": math.pi / 4, "high": math.pi / 4, "cylinder": math.pi * math.sqrt(3)}),
    "cone": (hp.Cone((0, 0, 0), (0, 2, 0), (0.5, 0.1)), math.pi * 2 / 3 * 0.31,
             {"cone": math.pi * (0.25 + 0.01 + 0.6 * math.hypot(2, 0.4))}),
    "ring": (hp.Revolved(((1, 0), (2, 0), (2, 1), (1, 1)), name="ring"), 3 * math.pi, {"ring": 12 * math.pi}),
    "prism": (ELL.extrude(0, 0.5, top="top"), 1.5, {"polygon": 3, "top": 3, "a": 1, "b": 0.5, "c": 0.5, "d": 0.5,
                                                    "e": 0.5, "f": 1}),
    "turned box": (hp.Box((0, 0, 0), (1, 2, 3)).turned(30, (1, 1, 0), (1, 1, 1)), 6, {"box": 22}),
    "turned plate": ((hp.Box((0, 0), (2, 1), sides={"left": "left"}) - hp.Ball((1, 0.5), 0.2)).turned(40).shifted(
        (1, 1)), 2 - 0.04 * math.pi, {"box": 5, "left": 1, "ball": 0.4 * math.pi}),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_what_is_inside_what_is_on_the_boundary_and_how_large_it_is(kind):
    shape, volume, areas = SHAPES[kind]
    assert shape.measure == pytest.approx(volume, rel=1e-12)
    assert {name: boundary.measure for name, boundary in shape.boundaries.items()} == pytest.approx(areas, rel=1e-12)
    lo, hi = map(np.array, shape.bounds)
    sdf = jax.jit(jax.vmap(shape.sdf))
    inside = shape.sample(jax.random.key(0), 200)
    assert (sdf(inside) < 0).all() and ((inside > lo) & (inside < hi)).all()
    for boundary in shape.boundaries.values():
        x = boundary.sample(jax.random.key(1), 200)
        n = jax.vmap(boundary.normal)(x)
        assert np.abs(sdf(x)).max() < 1e-14 and np.abs((n**2).sum(1) - 1).max() < 1e-12
        edge = 1e-5  # some points are nearer than that to another piece
        assert np.mean(np.abs(sdf(x + edge * n) - edge) < 1e-12) > 0.99
        assert np.mean(np.abs(sdf(x - edge * n) + edge) < 1e-12) > 0.99
        assert np.abs(jax.vmap(boundary.closest)(x + 0.01 * n) - x).max() < 1e-12


def test_turning_and_shifting_back_changes_nothing():
    base = hp.Cone((0.1, 0.2, 0.3), (1, 1, 0), (0.4, 0.2)) | hp.Box((0, 0, 0), (1, 1, 1))
    there = base.turned(70, (1, 2, 3), (0.5, 0, 0)).shifted((1, 2, 3))
    back = there.shifted((-1, -2, -3)).turned(-70, (1, 2, 3), (0.5, 0, 0))
    x = np.random.default_rng(0).uniform(-0.5, 1.5, (100, 3))
    np.testing.assert_allclose(jax.vmap(back.sdf)(jnp.asarray(x)), jax.vmap(base.sdf)(jnp.asarray(x)), atol=1e-14)
    assert list(back.boundaries) == list(base.boundaries)


def test_a_drilled_box_carries_conditions_exactly():
    from hardpde.evaluation.certificate import certify, random_models, violation
    from hardpde.methods import exact, make

    bore = hp.Cylinder((0, 0, -0.3), (0, 0, 1.3), 0.3, name="bore")
    box = (hp.Box((-2, -2, -0.5), (2, 2, 1.5)) - bore) & hp.Box((-1, -1, 0), (1, 1, 1), name="wall")
    problem = hp.Problem(domain=box, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p) + 1,
                         conditions=[hp.neumann("wall", "u"), hp.dirichlet("bore", "u", 1.0)])
    formulation = make(exact, problem, {"points": 64, "width": 8})
    assert violation(certify(formulation, random_models(formulation, 1), 200)) < 1e-13


@pytest.mark.parametrize("make, says", [
    (lambda: hp.Cylinder((0, 0), (0, 1), 1), "from one point of space to another"),
    (lambda: hp.Cylinder((0, 0, 0), (0, 0, 0), 1), "from one point of space to another"),
    (lambda: hp.Cylinder((0, 0, 0), (0, 0, 1), 0), "radii > 0"),
    (lambda: hp.Cone((0, 0, 0), (0, 0, 1), 1), "two radii"),
    (lambda: hp.Cone((0, 0, 0), (0, 0, 1), (1, 0)), "cut off by a small disc"),
    (lambda: hp.Cone((0, 0, 0), (0, 0, 1), (1, 1), ends="ab"), "ends"),
    (lambda: hp.Revolved(((0, 0), (1, 0), (0, 1))), "tip on the axis"),
    (lambda: hp.Revolved(((-1, 0), (1, 0), (1, 1))), "r ≥ 0"),
    (lambda: hp.Revolved(((0, 0), (1, 0), (1, 1), (0, 1)), names=("a",)), "one entry per edge"),
    (lambda: ELL.extrude(1, 0), "low < high"),
    (lambda: ELL.extrude("0", 1), "numbers"),
    (lambda: ELL.shifted((1, 2, 3)), "2 numbers"),
    (lambda: ELL.turned("half"), "numbers"),
    (lambda: ELL.turned(30, (0, 0, 1)), "in the plane"),
    (lambda: hp.Box((0, 0, 0), (1, 1, 1)).turned(30), "about an axis"),
    (lambda: hp.Box((0, 0, 0), (1, 1, 1)).turned(30, (0, 0, 0)), "a direction in space"),
])
def test_what_cannot_be_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
