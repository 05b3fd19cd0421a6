"""Data that jump where two straight sides meet hold on each side up to there, with a function made for the jump."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.methods import METHODS, make
from hardpde.problem.corner_jumps import corner_lift

SIDES = {side: side for side in ("left", "right", "bottom", "top")}
SQUARE = hp.Box((0, 0), (1, 1), sides=SIDES)
OTHERS = ("left", "right", "bottom")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def hot(domain=SQUARE, residual=lambda x, q, dq: hp.laplacian(dq.u), others=OTHERS, **more):
    return hp.Problem(domain, "u", residual, [hp.dirichlet("top", "u", 1), *(
        hp.dirichlet(side, "u", 0) for side in others)], **more)


@cache
def cavity(viscosity=0.05):
    return hp.Problem(SQUARE, {"u": 2, "p": ()}, lambda x, q, dq: (
        hp.grad(dq.u) @ q.u + hp.grad(dq.p) - viscosity * hp.laplacian(dq.u), hp.div(dq.u)), [
            hp.dirichlet("top", "u", (1.0, 0.0)), *(hp.dirichlet(side, "u") for side in OTHERS), hp.mean("p")])


@cache
def with_gradients():
    return hot(residual=lambda x, q, dq: hp.div(dq.p), gradients={"p": "u"})


@pytest.mark.parametrize("statement", [cavity, with_gradients])
def test_conditions_hold_for_any_weights_up_to_the_corners(statement):
    problem = statement()
    formulation = make(METHODS["exact"], problem, {"width": 8, "depth": 2, "points": 64})
    model = random_models(formulation, 1)[0]
    assert violation(certify(formulation, [model], 100)) < 1e-12
    close = 10.0 ** -np.arange(3, 13, 2)
    for x, value in ((np.stack([close, 0 * close + 1], 1), 1.0), (np.stack([0 * close, 1 - close], 1), 0.0)):
        np.testing.assert_allclose(formulation.predict(model, x)[:, 0], value, atol=1e-12)


def test_a_velocity_jumps_as_a_stokes_flow_with_its_pressure():
    jumps = cavity().completed.jumps
    assert [jump.at.tolist() for jump in jumps] == [[0, 1], [1, 1]]
    for jump in jumps:
        assert jump.creep.pressure == ((2, pytest.approx(0.05)),)

        def state(x, jump=jump):
            return corner_lift((jump,), cavity().schema, x)

        x = jnp.asarray(jump.at) + 0.1 * jnp.array(np.sign(0.5 - jump.at)) * jnp.array([[0.3, 1.0], [1.0, 0.7]])
        slope = jax.vmap(jax.jacfwd(state))(x)
        bend = jnp.trace(jax.vmap(jax.hessian(state))(x), axis1=2, axis2=3)
        assert np.abs(slope[:, 0, 0] + slope[:, 1, 1]).max() < 1e-12
        assert np.abs(slope[:, 2] - 0.05 * bend[:, :2]).max() < 1e-10


def test_a_plate_with_one_hot_side_is_solved():
    """Against the series of sines."""
    solution = hp.solve(hot(), solver="direct", tolerance=1e-4)
    x = np.random.default_rng(0).uniform(0.02, 0.95, (200, 2))
    k = np.arange(1, 600, 2)[:, None]
    known = (4 / np.pi / k * np.sin(k * np.pi * x[:, 0]) * np.exp(k * np.pi * (x[:, 1] - 1))
             * (1 - np.exp(-2 * k * np.pi * x[:, 1])) / (1 - np.exp(-2 * k * np.pi))).sum(0)
    assert np.abs(solution(x)["u"] - known).max() < 1e-5
    assert "the data jump at (0, 1) and (1, 1): they hold on each side up to there" in solution.decision


REFUSED = {
    "in time": lambda: hot(residual=lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u), time=(0, 1)),
    "a curved side": lambda: hot(hp.Ball((0, 0), 1.0, name="rim") & hp.Box((-2, -2), (2, 0), name="top"),
                                 others=("rim",)),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_other_jumps_are_refused(refused):
    with pytest.raises(ValueError, match="disagree by 1 at their corner"):
        REFUSED[refused]()
