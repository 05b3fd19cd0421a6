"""Inlays and regions: jump conditions hold for any weights, each field counts where it lives, faults are named."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde import Ball, Box, Inlay, Interval, Polygon, Problem, Spline, dirichlet, div, dt, interface, neumann, robin
from hardpde.ansatz.exact import Exact
from hardpde.evaluation.certificate import boundary_points, certify, random_models, violation
from hardpde.evaluation.errors import checked_reference
from hardpde.evaluation.export import export_vtu
from hardpde.evaluation.figures.pictures import drawn_components
from hardpde.formulation.engine import Engine
from hardpde.formulation.points import _near
from hardpde.geometry import check_shape
from hardpde.methods import exact, hc

GRADIENTS = {"grad_a": "a", "grad_b": "b"}
BOX = Box((-1, -1), (1, 1), name="box")
DISC = Ball((0.1, 0), 0.4, name="rim")


def wave(x):
    return jnp.sin(2 * x[0]) + jnp.cos(3 * x[-1]) * x[0]


def conduction(domain, inner, conditions, **more):
    return Problem(domain=domain, fields=["a", "b"], gradients=GRADIENTS, conditions=conditions,
                   residual=lambda x, q, dq: {"a": div(dq.grad_a) + 1, "b": 2 * div(dq.grad_b)},
                   regions={"a": inner, "b": lambda x: -inner.sdf(x)}, **more)


def disc():
    return conduction(Inlay(BOX, DISC), DISC, [
        robin("box", "b", a=1, b=1, g=wave),
        interface("rim", ("a", "b"), conductivity=(3, lambda x: 1 + x[0] ** 2), jump=wave, flux_jump=2)])


def spline():
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    r = 0.5 + 0.1 * np.cos(3 * angles)
    inner = Spline([*zip(r * np.cos(angles), r * np.sin(angles))], name="rim")
    return conduction(Inlay(BOX, inner), inner, [
        dirichlet("box", "b", wave), interface("rim", ("a", "b"), conductivity=(2, 5), jump=wave, flux_jump=wave)])


def corners():
    """An inlay with convex and reentrant corners, one condition of both sides on each piece."""
    inner = Polygon([(-0.5, -0.5), (0.5, -0.5), (0.5, 0), (0, 0), (0, 0.5), (-0.5, 0.5)], name="rim")
    return conduction(Inlay(BOX, inner), inner, [
        dirichlet("box", "b", wave), interface("rim", ("a", "b"), conductivity=(2, 5), jump=wave)])


def ball():
    inner = Ball((0, 0, 0), 0.5, name="rim")
    return conduction(Inlay(Box((-1, -1, -1), (1, 1, 1), name="box"), inner), inner, [
        neumann("box", "b", wave), interface("rim", ("a", "b"), conductivity=(1, 9), jump=wave, flux_jump=-1)])


def many():
    """Two inlays that share a name, one with a hole in it, and a hole outside both."""
    plate = Box((0, 0), (3, 1), name="box") - Ball((1.5, 0.5), 0.1, name="hole") - Ball((2.5, 0.5), 0.1, name="core")
    one, two = Ball((0.5, 0.5), 0.25, name="rim"), Box((2.2, 0.2), (2.8, 0.8), name="rim")
    return conduction(Inlay(Inlay(plate, one), two), one | two, [
        dirichlet("box", "b", 1), neumann("hole", "b", 2), dirichlet("core", "a", 3),
        interface("rim", ("a", "b"), conductivity=(1, 2), jump=1, flux_jump=wave)])


def rod():
    """A rod of two materials, heated; the interface's data agree with the start."""
    inner = Interval(0.3, 0.6, left="rim", right="rim")
    return Problem(
        domain=Inlay(Interval(0, 1, left="l", right="r"), inner), fields=["a", "b"], gradients=GRADIENTS, time=(0, 1),
        regions={"a": inner, "b": lambda x: -inner.sdf(x)},
        residual=lambda x, q, dq: {"a": dt(dq.a) - div(dq.grad_a), "b": dt(dq.b) - 2 * div(dq.grad_b)},
        conditions=[dirichlet("l", "b", 1), neumann("r", "b", 1), hp.initial("a", 1), hp.initial("b", 1),
                    interface("rim", ("a", "b"), conductivity=(1, 2), flux_jump=lambda x: x[1])])


pytestmark = pytest.mark.usefixtures("quick_compilation")


@cache
def made(make):
    return make()


@pytest.mark.parametrize("make", [disc, spline, corners, ball, many, rod], ids=lambda make: make.__name__)
def test_jumps_hold_for_any_weights(make):
    formulation = exact(made(make), width=8, depth=2, engine=Engine(64))
    rows = certify(formulation, random_models(formulation, 2), points=500)
    assert violation(rows) < 1e-12, rows


def test_a_state_with_the_right_jumps_is_left_alone_on_both_sides():
    def state(x):
        return jnp.stack([wave(x), x[0] * x[1], jnp.exp(x[0]), x[0], jnp.cos(x[1]), x[1] ** 2])  # a, b, their gradients

    def flux(x):
        n = (x - jnp.array([0.1, 0])) / 0.4
        return 2 * state(x)[4:] @ n - 3 * state(x)[2:4] @ n

    problem = conduction(Inlay(BOX, DISC), DISC, [
        interface("rim", ("a", "b"), conductivity=(3, 2), jump=lambda x: state(x)[1] - state(x)[0], flux_jump=flux)],
        free=["box"])
    ansatz = Exact(problem, lambda x: x)

    @jax.jit
    @jax.vmap
    def through(x):
        ids, active = ansatz.active(x, 1)
        c, matrices, feet = ansatz.coefficients(x, ids)
        return c + jnp.einsum("kij,kj->i", matrices, jax.vmap(state)(feet)), active, matrices[1]

    x = problem.domain.sample(jax.random.key(0), 1000)
    q, active, correction = through(x)
    side = np.asarray(jax.vmap(DISC.sdf)(x)) < 0
    felt = (np.abs(correction).max(axis=(1, 2)) > 0) & (active == 1)
    assert felt[side].sum() > 50 and felt[~side].sum() > 50 and (active == 0).sum() > 50
    assert np.abs(q - jax.vmap(state)(x)).max() < 1e-12


def test_points_are_drawn_on_both_sides_of_an_inlay():
    problem = made(disc)
    x = np.asarray(_near(problem, jax.random.key(0), 1000))
    near = np.abs(depth := np.linalg.norm(x - [0.1, 0], axis=1) - 0.4) < 0.05
    assert 0.3 < (depth[near] < 0).mean() < 0.7


def test_an_inlay_is_its_base_with_one_more_boundary():
    plate = BOX - Ball((0.7, 0.7), 0.1, name="hole")
    domain = Inlay(BOX, DISC) - Ball((0.7, 0.7), 0.1, name="hole")
    assert domain == Inlay(plate, DISC)
    assert domain.measure == plate.measure and domain.bounds == plate.bounds
    assert list(domain.boundaries) == ["box", "hole", "rim"]
    x, n = boundary_points(made(disc), "rim", 50)
    np.testing.assert_allclose(n, (x - [0.1, 0]) / 0.4, atol=1e-12)


# ---------------------------------------------------------------- regions


def test_a_field_counts_only_where_it_lives(tmp_path):
    problem = Problem(
        domain=Inlay(BOX, DISC), fields=["a", "b"], gradients=GRADIENTS, regions={"a": DISC, "b": BOX - DISC},
        residual=lambda x, q, dq: {"a": div(dq.grad_a), "b": div(dq.grad_b)},
        conditions=[interface("rim", ("a", "b")), dirichlet("box", "b", lambda x: x[0])],
        exact=lambda x: {"a": x[0], "b": x[0] + 0 / jnp.maximum(DISC.sdf(x) + 0.1, 0)})  # NaN deep in the disc
    inside, outside = np.array([0.1, 0.1]), np.array([0.9, 0.9])
    jet = jnp.ones((2, 6))
    for x, expected in ((inside, [1, 0, 1, 1, 0, 0]), (outside, [0, 1, 0, 0, 1, 1])):
        found = problem.residuals(jnp.asarray(x), jnp.arange(6.0), jet)
        assert (np.asarray(found) != 0).tolist()[:2] == [bool(e) for e in expected[:2]]
        live = [k for k, e in enumerate(expected) if e]
        assert not np.asarray(found)[[k for k in range(6) if k not in live]].any()
    solution = hp.solve(problem, steps=[2, 0], options={"width": 4, "depth": 1, "points": 32})
    values = solution(np.stack([inside, outside, [0.5, 0.0]]))
    assert np.isnan(values["a"]).tolist() == [False, True, False]
    assert np.isnan(values["grad_b"][:, 0]).tolist() == [True, False, False]
    assert values["a"][2] == pytest.approx(values["b"][2], abs=1e-12)
    errors = solution.errors()
    assert all(errors[name]["max"] is not None for name in ("a", "b")), errors
    drawn = drawn_components(solution, checked_reference(problem))
    assert np.isnan(drawn["a"][3]).any() and np.isfinite(drawn["a"][3]).any()
    assert export_vtu(solution, tmp_path / "fields", None).exists()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("domain, message", [
    (lambda: Inlay(BOX, Ball((0.8, 0), 0.4, name="rim")), "inlay ball 'rim'.*touches or leaves the domain"),
    (lambda: Inlay(BOX, Ball((0, 0), 3, name="rim")), "touches or leaves the domain"),
    (lambda: Inlay(BOX, Ball((0.6, 0), 0.4, name="rim")), r"touches or leaves .*gap 0"),
    (lambda: Inlay(BOX - Ball((0.5, 0), 0.2, name="hole"), DISC), "touches or leaves the domain"),
    (lambda: Inlay(Inlay(BOX, DISC), Ball((0.5, 0), 0.2, name="two")), "or another inlay"),
    (lambda: Inlay(BOX, Ball((0, 0), 0.4, name="box")), "named 'box' like one of the domain"),
    (lambda: Inlay(BOX, Ball((0, 0, 0), 0.4)), "2-D and 3-D"),
    (lambda: BOX - Inlay(DISC, Ball((0, 0), 0.1)), "is no solid to combine with others; draw inlays in last"),
])
def test_inlays_that_are_refused(domain, message):
    with pytest.raises(ValueError, match=message):
        check_shape(domain())


def test_an_inlay_cut_out_of_others_is_refused():
    inner = Ball((-0.2, 0), 0.4, name="rim") | Ball((0.2, 0), 0.4, name="rim")
    with pytest.raises(ValueError, match=r"'rim' is cut by another.*draw the outline as one Polygon or Spline"):
        conduction(Inlay(BOX, inner), inner, [dirichlet("box", "b"), interface("rim", ("a", "b"))])


@pytest.mark.parametrize("change, message", [
    ({"regions": {"c": DISC}}, "a region is stated for 'c'"),
    ({"regions": {"grad_a": DISC}}, "a region is stated for 'grad_a'"),
    ({"regions": {"a": Ball((0, 0, 0), 1)}}, "neither a Shape in 2-D nor a function"),
    ({"regions": {"a": Ball((5, 5), 1)}}, "the region of 'a' holds no point of the domain"),
    ({"residual": lambda x, q, dq: (div(dq.grad_a), div(dq.grad_b))}, "residual: with regions it returns {field"),
    ({"residual": lambda x, q, dq: {"a": div(dq.grad_a), "c": 0.0}}, "residual: there is no field 'c'"),
    ({"conditions": [dirichlet("box", "b")]}, "boundary 'rim' has no condition"),
])
def test_regions_that_are_refused(change, message):
    stated = dict(domain=Inlay(BOX, DISC), fields=["a", "b"], gradients=GRADIENTS, regions={"a": DISC},
                  residual=lambda x, q, dq: {"a": div(dq.grad_a), "b": div(dq.grad_b)},
                  conditions=[dirichlet("box", "b"), interface("rim", ("a", "b"))])
    with pytest.raises(ValueError, match=message):
        Problem(**{**stated, **change})


def test_other_faults_are_named():
    with pytest.raises(ValueError, match="needs two fields and two conductivities"):
        interface("rim", "ab")
    with pytest.raises(ValueError, match="the paper has no ansatz for an interface like 'rim'"):
        hc(made(disc))
