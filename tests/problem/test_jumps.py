"""Jumps of data and coefficients are found wherever they are; what is steep, bent or a source is no jump."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.problem.jumps import check_jumps, jump_of, may_jump
from helpers import heat, poisson

pytestmark = pytest.mark.usefixtures("quick_compilation")

LINE = hp.Interval(0, 1, left="a", right="b")
SQUARE = hp.Box((0, 0), (1, 1), name="wall", sides={"left": "left"})
DISC = hp.Ball((0, 0), 1.0, name="rim")


def k(x):
    return jnp.where(x[0] < 0.4, 1.0, 10.0)


def warmed(start, a=lambda x: 1.0):
    return heat(LINE, [hp.dirichlet("a", "u", a), hp.dirichlet("b", "u"), hp.initial("u", start)], (0.0, 0.1))


def plain(residual, **more):
    return hp.Problem(domain=LINE, fields="u", conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
                      residual=residual, **more)


JUMPS = {
    "initial data": (lambda: warmed(lambda x: jnp.where(x[0] < 0.5, 1.0, 0.0)), "the initial data (initial u)", 0.5),
    "in time": (lambda: warmed(lambda x: 1 - x[0], lambda x: jnp.where(x[1] < 0.03, 1.0, 2.0)), "data on 'a'", 0.03),
    "on a wall": (lambda: poisson(SQUARE, [hp.dirichlet("left", "u"), hp.neumann(
        "wall", "u", lambda x: jnp.where(x[0] < 0.7, 0.0, 1.0))]), "the data on 'wall' (neumann u)", 0.7),
    "across the cut of an angle": (lambda: poisson(DISC, [hp.dirichlet(
        "rim", "u", lambda x: jnp.cos(jnp.arctan2(x[1], x[0]) / 2 - 1))]), "the data on 'rim'", -1.0),
    "a product rule": (lambda: plain(lambda x, q, dq: k(x) * hp.div(dq.p) + jax.grad(k)(x) @ q.p + 1,
                                     gradients={"p": "u"}), "make the flux a field", 0.4),
    "by a field": (lambda: plain(lambda x, q, dq: jnp.where(q.u < 300.5, 1.0, 10.0) * hp.div(dq.p) + 1,
                                 gradients={"p": "u"}), "make the flux a field", 300.5),
    "a Laplacian": (lambda: plain(lambda x, q, dq: k(x) * hp.laplacian(dq.u) + 1), "make the flux a field", 0.4),
}


@pytest.mark.parametrize("kind", JUMPS)
def test_a_jump_is_refused_with_its_place_and_what_to_do(kind):
    make, says, place = JUMPS[kind]
    with pytest.raises(ValueError, match="jump") as caught:
        check_jumps(make())
    assert says in str(caught.value) and f"= {place:g}" in str(caught.value)


SMOOTH = {
    "bent": lambda: warmed(lambda x: jnp.where(x[0] < 0.5, 1 - x[0], 0.5 - (x[0] - 0.5))),
    "steep": lambda: warmed(lambda x: (1 - x[0]) * (1 + x[0] * jnp.tanh((jnp.where(x[0] < 0, 0, x[0]) - 0.5) * 1e5))),
    "a cut that is none": lambda: poisson(DISC, [hp.dirichlet(
        "rim", "u", lambda x: jnp.cos(3 * jnp.arctan2(x[1], x[0])))]),
    "at a corner": lambda: poisson(SQUARE, [hp.dirichlet("left", "u"), hp.neumann(
        "wall", "u", lambda x: jnp.where(x[0] > 1 - 1e-9, 1.0, 0.0))]),
    "rounding": lambda: warmed(lambda x: 1 - x[0] + 0 * x[0], lambda x: jnp.where(x[1] < 0.03, 0.1 + 0.2, 0.3) / 0.3),
    "bent by a field": lambda: plain(lambda x, q, dq: jnp.maximum(q.u, 0.1) * hp.laplacian(dq.u) + 1),
    "a source": lambda: plain(lambda x, q, dq: hp.laplacian(dq.u) + k(x)),
    "a flux": lambda: hp.Problem(
        domain=LINE, fields={"u": 1, "s": (1,)}, conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u")],
        residual=lambda x, q, dq: (hp.div(dq.s) + 1, q.s - k(x) * hp.grad(dq.u))),
}


@pytest.mark.parametrize("kind", SMOOTH)
def test_what_is_no_jump_passes(kind):
    check_jumps(SMOOTH[kind]())


def test_functions_without_comparisons_are_not_looked_at():
    assert not may_jump(lambda x: jnp.sin(x[0]) * jnp.exp(-x[1]), jnp.zeros(2))
    assert may_jump(jax.jit(lambda x: jnp.where(x[0] > 0, 1.0, 0.0)), jnp.zeros(2))
    assert may_jump(lambda x: jnp.array([1.0, 2.0])[(2 * x[0]).astype(int)], jnp.zeros(2))


def test_a_jump_of_an_answer_is_found_among_slopes_that_do_not_show_it():
    x = np.random.default_rng(0).uniform(size=(400, 2))

    def step(x):
        return (np.sin(3 * x[:, 0]) + 0.3 * (x[:, 0] + x[:, 1] > 0.9))[:, None]

    slopes = np.stack([3 * np.cos(3 * x[:, :1]), 0 * x[:, :1]], axis=-1)
    found = jump_of(step, x, slopes=slopes)
    assert found is not None and abs(found.at.sum() - 0.9) < 1e-6
    assert abs(found.after - found.before) == pytest.approx(0.3)
    assert jump_of(lambda x: np.sin(3 * x[:, :1]), x, slopes=slopes) is None
