"""The ansätze: conditions hold for any weights, a solution is left alone, jets are derivatives."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import (
    Ball,
    Box,
    Condition,
    Hints,
    Interval,
    Polygon,
    Problem,
    Spline,
    dirichlet,
    div,
    dt,
    initial,
    neumann,
    robin,
    slip,
    traction,
)
from hardpde.ansatz import Exact, Paper
from hardpde.evaluation.certificate import boundary_points, certify, random_models, violation
from hardpde.formulation import split
from hardpde.inputs import standard_inputs
from hardpde.methods import exact, hc
from hardpde.networks import _points_first, _points_last, count, mlp, randomise
from hardpde.problems.battery_pack import battery_pack

SIDES = {"left": "left", "right": "right", "bottom": "bottom", "top": "top"}
GRADIENT = {"grad_u": "u"}


def poisson(domain, conditions, source=0.0, **more):
    return Problem(domain=domain, fields="u", gradients=GRADIENT, conditions=conditions,
                   residual=lambda x, q, dq: div(dq.grad_u) + source, **more)


def heat(domain, conditions, **more):
    return Problem(domain=domain, fields="u", gradients=GRADIENT, conditions=conditions, time=(0.5, 2.0),
                   residual=lambda x, q, dq: dt(dq.u) - div(dq.grad_u), **more)


def channel(conditions, gradient):
    """Flow past a hole; without the gradient of u as a field, only conditions on values can be stated."""
    domain = Box((0, 0), (3, 2), sides=SIDES) - Ball((1.2, 1.1), 0.3, name="hole")
    return Problem(domain=domain, fields={"u": 2, "p": ()}, gradients={"grad_u": "u"} if gradient else {},
                   conditions=conditions, free=["bottom", "top"],
                   residual=lambda x, q, dq: (q.u, div(dq.u)))


def wave(x):
    return jnp.sin(2 * x[0]) + jnp.cos(3 * x[1]) * x[0]


def box_dirichlet():
    return poisson(Box((0, 0), (2, 1), sides=SIDES), [dirichlet(side, "u", wave) for side in SIDES])


def box_mixed():
    return poisson(Box((0, -1), (2, 1), sides=SIDES), [
        dirichlet("left", "u", lambda x: x[1] ** 2), neumann("right", "u", wave),
        robin("top", "u", a=lambda x: 1 + x[0], b=2.0, g=3.0), robin("bottom", "u", a=0.5, b=-1.0, g=wave)])


def box_one_name():
    return poisson(Box((0, 0), (1, 1), name="wall"), [robin("wall", "u", a=3.0, b=0.7, g=wave)])


def box3_minus_balls():
    domain = Box((0, 0, 0), (2, 1, 1), name="box") - Ball((0.5, 0.5, 0.5), 0.2, name="a") - Ball(
        (1.4, 0.5, 0.5), 0.25, name="b")
    return poisson(domain, [dirichlet("box", "u", lambda x: wave(x) + x[2]), robin("a", "u", a=1.0, b=1.0, g=wave),
                            robin("b", "u", a=2.0, b=0.1, g=-1.0)])


def box3_mixed():
    """Every kind of vertex: three sides of the same rows, two and one, none."""
    names = {"-0": "d", "+0": "n", "-1": "d", "+1": "r", "-2": "d", "+2": "n"}
    return poisson(Box((0, 0, 0), (1, 1, 1), sides=names), [
        dirichlet("d", "u", lambda x: x[0] * x[1] * x[2] + 3.0), neumann("n", "u", wave),
        robin("r", "u", a=1.3, b=0.7, g=wave)])


def triangle_dirichlet():
    return poisson(Polygon([(0, 0), (2, 0.3), (0.4, 1.5)], name="edge"), [dirichlet("edge", "u", wave)])


def obtuse_robin():
    """Corners of 120 degrees, where feet are clamped to the corner; one vertex is flat."""
    angles = np.linspace(0, 2 * np.pi, 7)[:-1]
    points = [(float(np.cos(t)), float(np.sin(t))) for t in angles]
    points.insert(1, (0.75, float(np.sqrt(3) / 4)))
    return poisson(Polygon(points, name="edge"), [robin("edge", "u", a=1.0, b=0.5, g=wave)])


def l_shape_robin():
    corner = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    return poisson(Polygon(corner, name="edge"), [robin("edge", "u", a=2.0, b=1.0, g=wave)])


def l_shape_boxes():
    domain = Box((0, 0), (2, 1), name="edge") | Box((0, 0), (1, 2), name="edge")
    return poisson(domain, [dirichlet("edge", "u", wave)])


def spline_neumann():
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    points = [((1 + 0.2 * np.cos(3 * t)) * np.cos(t), (1 + 0.2 * np.cos(3 * t)) * np.sin(t)) for t in angles]
    return poisson(Spline(points, name="curve"), [neumann("curve", "u", wave)])


def interval():
    return poisson(Interval(-1, 2, left="l", right="r"), [
        dirichlet("l", "u", 3.0), robin("r", "u", a=1.0, b=2.0, g=-1.0)])


def heat_compatible():
    domain = Box((0, 0), (1, 1), name="box") - Ball((0.5, 0.5), 0.2, name="hole")
    return heat(domain, [
        dirichlet("box", "u", lambda x: wave(x) + (x[2] - 0.5) * x[0]), neumann("hole", "u", lambda x: x[2]),
        initial("u", wave)])


def heat_incompatible():
    domain = Box((0, 0), (1, 1), name="box") - Ball((0.5, 0.5), 0.2, name="hole")
    return heat(domain, [
        robin("box", "u", a=lambda x: 1 + x[2], b=1.0, g=lambda x: 5 * x[2] + x[0]),
        robin("hole", "u", a=1.0, b=-0.5, g=7.0), initial("u", wave)], hints=Hints(ramp="root"))


def heat_mixed():
    return heat(Box((0, 0), (1, 1), sides=SIDES), [
        dirichlet("left", "u", 1.0), robin("right", "u", a=1.0, b=1.0, g=lambda x: x[2]),
        neumann("bottom", "u", 2.0), dirichlet("top", "u", lambda x: 1.0 + x[0] * (x[2] - 0.5)),
        initial("u", 1.0)])


def flow_slip():
    return channel([dirichlet("left", "u", (1.0, 0.0)), dirichlet("right", "p"), slip("hole", "u")], False)


def flow_slip_gradient():
    return channel([dirichlet("left", "u", lambda x: (x[1] * (2 - x[1]), 0.0)),
                    traction("right", "u", (0.3, -0.2), pressure="p", viscosity=0.1), slip("hole", "u")], True)


def flow_traction():
    return channel([dirichlet("left", "u", (1.0, 0.0)), dirichlet("right", "p"),
                    traction("hole", "u", lambda x: x[:2], pressure="p", viscosity=lambda x: 1 + x[0], bulk=0.3)],
                   True)


def several_on_one():
    domain = Ball((0, 0), 1.0, name="rim")
    return Problem(domain=domain, fields=["u", "v"], gradients={"grad_u": "u", "grad_v": "v"},
                   residual=lambda x, q, dq: (div(dq.grad_u) - q.v, div(dq.grad_v) + q.u), conditions=[
        robin("rim", "u", a=1.0, b=1.0, g=wave),
        Condition("rim", lambda q, x, n: (q.u - 2 * q.v, q.grad_v @ n + x[0] * q.u), lambda x: (x[1], 4.0), "pair")])


def ball4_neumann():
    return poisson(Ball((0, 0, 0, 0), 1.5, name="rim"), [neumann("rim", "u", wave)])


def half_disc():
    """Pieces that are cut: the rest of each lies outside the domain."""
    domain = Ball((0, 0), 1.0, name="arc") & Box((-2, 0), (2, 2), name="base")
    return poisson(domain, [robin("arc", "u", a=1.0, b=1.0, g=wave), neumann("base", "u", 1.0)])


def merged_holes():
    domain = Box((-2, -2), (2, 2), name="box") - (Ball((-0.4, 0), 0.6, name="one") | Ball((0.4, 0), 0.6, name="two"))
    return poisson(domain, [dirichlet("box", "u", 1.0), robin("one", "u", a=1.0, b=1.0, g=wave),
                            neumann("two", "u", 2.0)])


def lens_hole():
    """A hole with two sharp ends: opposite sides are close, and their normals opposite."""
    x = np.linspace(-1, 1, 9)
    points = [*zip(x, 0.15 * (1 - x**2)), *list(zip(x, -0.15 * (1 - x**2)))[-2:0:-1]]
    domain = Box((-2, -2), (2, 2), name="box") - Spline(points, name="lens", corners=(0, 8))
    return poisson(domain, [dirichlet("box", "u", 1.0), neumann("lens", "u", wave)])


PROBLEMS = [box_dirichlet, box_mixed, box_one_name, box3_minus_balls, box3_mixed, triangle_dirichlet, obtuse_robin,
            l_shape_robin, l_shape_boxes, spline_neumann, interval, heat_compatible, heat_incompatible, heat_mixed,
            flow_slip, flow_slip_gradient, flow_traction, several_on_one, ball4_neumann, half_disc, merged_holes,
            lens_hole]


@cache
def solved_by_exact(make):
    problem = make()
    return problem, exact(problem, width=8, depth=2, points=64)


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_conditions_hold_for_any_weights(make):
    _, formulation = solved_by_exact(make)
    rows = certify(formulation, random_models(formulation, 2), points=1000)
    assert violation(rows) < 1e-12, rows
