"""What a bound takes for granted is looked at: jumps, growth, corners; and waves have a bound of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.bounds.error_bar import ESTIMATED, GUARANTEED, error_bar
from hardpde.bounds.quadrature import points_drawn
from hardpde.bounds.recognise import Unrecognised, recognised
from hardpde.bounds.soundness import SHELLS, Probes, check_continuous, unseen
from hardpde.evaluation.certificate import random_models
from hardpde.methods import Engine, exact

pytestmark = pytest.mark.usefixtures("quick_compilation")
SQUARE = hp.Box((0, 0), (1, 1), name="wall")


def u(x):
    return jnp.sin(2 * x[0]) * jnp.exp(x[1]) * (jnp.exp(-x[2]) if x.size > 2 else 1.0)


def bent(x):
    return jnp.exp(jnp.sin(3 * x)) / (1 + x)


def told(problem):
    """The bar of an answer that keeps the conditions and is wrong otherwise, and the error of its first field."""
    formulation = exact(problem, width=8, depth=1, engine=Engine(64))
    model = random_models(formulation, 1)[0]
    bar = error_bar(formulation, model, problem, "exact", 0.0, points=2048)
    sample = points_drawn(problem, 4096, 1)
    e = formulation.predict(model, sample.x)[:, 0] - np.asarray(jax.vmap(u)(sample.x))
    return bar, np.sqrt((sample.weights * e**2).mean())


def held(residual, **more):
    """On the unit square with the solution u."""
    def data(x, q, dq):
        hessian = jax.hessian(u)(x)
        return residual(x, q.u, q.p, hp.div(dq.p)) - residual(x, u(x), jax.grad(u)(x)[:2], jnp.trace(hessian))

    return hp.Problem(SQUARE, "u", data, [hp.dirichlet("wall", "u", u)], {"p": "u"}, **more)


@pytest.mark.parametrize(("residual", "words"), [
    (lambda x, u, p, s: -s + jnp.where(x[0] < 0.5, 40.0, 1.0) * p[0], "jumps"),
    (lambda x, u, p, s: -s - u**3, "falls without bound"),
])
def test_what_no_theorem_covers_is_not_guaranteed(residual, words):
    bar, _ = told(held(residual))
    assert bar.word == ESTIMATED and words in bar.why


@pytest.mark.parametrize("residual", [
    lambda x, u, p, s: -bent(x[0]) * s - jax.grad(bent)(x[0]) * p[0] + jnp.where(x[0] < 0.5, 1.0, 50.0) * u,
    lambda x, u, p, s: -jnp.exp(2 * x[0]) * (s + 2 * p[0]) + 10 * (x[1] * p[0] - x[0] * p[1]) + u**3,
])
def test_coefficients_may_vary_and_reactions_jump(residual):
    bar, error = told(held(residual))
    assert bar.word == GUARANTEED and bar.fields["u"].l2 >= error


def in_time(fields, residual, conditions):
    return hp.Problem(SQUARE, fields, residual, conditions, time=(0.0, 0.5))


def test_inertia_that_grows_is_counted():
    """ρ ∂u/∂t = Δu/100 + f: with ρ = e^{6t} an error that does not decay has more and more of ∫ρe²."""
    def residual(x, q, dq):
        laplacian = jnp.trace(jax.hessian(u)(x)[:2, :2])
        return jnp.exp(6 * x[2]) * (hp.dt(dq.u) + u(x)) - (hp.laplacian(dq.u) - laplacian) / 100

    bar, error = told(in_time("u", residual, [hp.dirichlet("wall", "u", u), hp.initial("u", u)]))
    assert bar.word == GUARANTEED and error <= bar.fields["u"].l2 <= 40 * error


def test_the_bar_of_a_wave_is_above_the_error():
    """The residual of ∂u/∂t = v counts, too."""
    def residual(x, q, dq):
        laplacian = jnp.trace(jax.hessian(u)(x)[:2, :2])
        return hp.dt(dq.u) - q.v, 2 * hp.dt(dq.v) + q.v - 3 * (hp.laplacian(dq.u) - laplacian) - u(x)

    bar, error = told(in_time(["u", "v"], residual, [
        hp.dirichlet("wall", "u", u), hp.dirichlet("wall", "v", lambda x: -u(x)), hp.initial("u", u),
        hp.initial("v", lambda x: -u(x))]))
    assert bar.word == GUARANTEED and "wave" in bar.kind
    assert error <= bar.fields["u"].l2 <= 5 * error
    assert bar.fields["v"].word == ESTIMATED and "v ≤" in bar.sentence and "(estimated)" in bar.sentence


def test_integrals_that_do_not_exist_are_noticed():
    """In the plane the integral of ρ^{-a} exists for a < 2; at 2 it grows as a logarithm, which is counted."""
    shell = np.repeat(np.arange(len(SHELLS)), 50)
    distance = SHELLS[shell] * np.random.default_rng(0).uniform(0.1, 1, len(shell))
    probes = Probes(np.zeros((len(shell), 2)), np.ones(len(shell)), (), shell, (2 * SHELLS[shell]) ** 2)
    assert 0 < unseen(np.ones(len(shell)), 1.0, probes) < 1e-3
    assert unseen(distance**-1.0, 2 * np.pi, probes) < 1
    assert unseen(distance**-2.0, 2 * np.pi, probes) > 2 * np.pi * np.log(SHELLS[0] / SHELLS[-1])
    assert unseen(1e-9 * distance**-2.0, 1e-12, probes) > 1e-9  # however small the rest is
    for power in (3.0, 4.0):
        with pytest.raises(Unrecognised, match="too singular"):
            unseen(distance**-power, 1.0, probes)


@pytest.mark.parametrize(("wave", "words"), [(2 * np.pi, None), (np.pi, "differ between 'left' and 'right'")])
def test_coefficients_agree_on_periodic_faces(wave, words):
    problem = hp.Problem(
        hp.Box((0, 0), (1, 1), name="wall", sides={"left": "left", "right": "right"}), "u",
        lambda x, q, dq: (2 + jnp.cos(wave * x[0])) * hp.laplacian(dq.u) + hp.grad(dq.u)[0] + 1,
        [hp.periodic("left", "right"), hp.dirichlet("wall", "u")])
    (equation,) = recognised(problem)
    x = np.random.default_rng(0).random((100, 2))
    if words is None:
        check_continuous(equation, x)
    else:
        with pytest.raises(Unrecognised, match=words):
            check_continuous(equation, x)
