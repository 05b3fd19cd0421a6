"""Error bars: never below the error, near it where theory says so, and refused where the class is not known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.bounds.boundary_rows import find_sides
from hardpde.bounds.error_bar import ESTIMATED, GUARANTEED, NONE, error_bar
from hardpde.bounds.quadrature import points_drawn, volume
from hardpde.bounds.recognise import Unrecognised, recognised
from hardpde.evaluation.certificate import random_models
from hardpde.methods import Engine, exact
from helpers import load

pytestmark = pytest.mark.usefixtures("quick_compilation")

HOLED = hp.Box((0, 0), (1, 1), name="wall") - hp.Ball((0.5, 0.5), 0.2, name="hole")
SQUARE = hp.Box((0, 0), (1, 1), name="wall")
CENTRE = jnp.array([0.5, 0.5])


def u(x):
    return jnp.sin(2 * x[0]) * jnp.exp(x[1]) * (jnp.exp(-x[2]) if x.size > 2 else 1.0)


def slope(x):
    return jax.grad(u)(x)[:2]


def inward(x):
    return (CENTRE - x[:2]) / jnp.linalg.norm(CENTRE - x[:2])


def stated(operator, domain=HOLED, alone=False, timed=False, h=1.0, conductivity=lambda x: 1.0, **more):
    """A problem with the solution u: operator(x, u, ∇u, ∇·∇u or the divergence of its field, u_t) = 0 for it."""
    def terms(x):
        hessian = jax.hessian(u)(x)
        return u(x), slope(x), jnp.trace(hessian[:2, :2]), jax.grad(u)(x)[2] if timed else 0.0

    def residual(x, q, dq):
        rate = hp.dt(dq.u) if timed else 0.0
        parts = (q.u, hp.grad(dq.u), hp.laplacian(dq.u), rate) if alone else (q.u, q.p, hp.div(dq.p), rate)
        return operator(x, *parts) - operator(x, *terms(x))

    conditions = [hp.dirichlet("wall", "u", u)]
    if domain is HOLED:
        conditions.append(hp.robin("hole", "u", a=h, b=conductivity,
                                   g=lambda x: h * u(x) + conductivity(x) * slope(x) @ inward(x)))
    if timed:
        conditions.append(hp.initial("u", u))
        more["time"] = (0.0, 0.5)
    return hp.Problem(domain, "u", residual, conditions, {} if alone else {"p": "u"},
                      exact=lambda x: {"u": u(x)}, **more)


def growing(x):
    return 1 + x[0] * x[1]


CASES = {  # statement, effectivity at most
    "reaction": (lambda: stated(lambda x, u, p, s, t: -s + (3 + x[0]) * u), 1.5),
    "pair": (lambda: stated(lambda x, u, p, s, t: growing(x) * s + x[1] * p[0] + x[0] * p[1],
                                    conductivity=growing), 4),
    "alone": (lambda: stated(lambda x, u, p, s, t: -s, SQUARE, alone=True), 15),
    "convection": (lambda: stated(lambda x, u, p, s, t: -s + p[0] - 2 * p[1], SQUARE), 4),
    "semilinear": (lambda: stated(lambda x, u, p, s, t: -s + u**3, SQUARE), 4),
    "heat": (lambda: stated(lambda x, u, p, s, t: t - s / 4, timed=True, conductivity=lambda x: 0.25), 4),
    "heat alone": (lambda: stated(lambda x, u, p, s, t: 2 * t - s - u, SQUARE, alone=True, timed=True), 40),
}
CLASSES = {"reaction": "reaction ≥ 3", "pair": "symmetric, u and its gradient", "alone": "u alone",
           "convection": "with convection", "semilinear": "semilinear", "heat": "parabolic", "heat alone": "parabolic"}


def true_errors(problem, formulation, model, name):
    """Norms of the error over the domain and its time: of u, its energy (without the part on the boundary), that of
    gradient and flux together, and all that an identity has, as far as points inside tell."""
    sample = points_drawn(problem, 4096, 1)
    jets = formulation.jet(model, sample.x)
    space = volume(problem.domain).high
    e = jets[:, 0, 0] - np.asarray(jax.vmap(u)(sample.x))
    known = np.asarray(jax.vmap(slope)(sample.x))
    a = {"pair": np.asarray(jax.vmap(growing)(sample.x)), "heat": 0.25}.get(name, 1.0)
    c = 3 + sample.x[:, 0] if name == "reaction" else 0.0
    gradient = a * ((jets[:, 0, 1:3] - known) ** 2).sum(1) + c * e**2
    flux, spread = gradient, 0.0
    if problem.schema.gradients:
        flux = a * ((jets[:, 1:3, 0] - known) ** 2).sum(1)
        if name == "reaction":
            laplacian = jax.vmap(lambda x: jnp.trace(jax.hessian(u)(x)))(sample.x)
            spread = (jets[:, 1, 1] + jets[:, 2, 2] - np.asarray(laplacian)) ** 2 / c
    return [np.sqrt(space * (sample.weights * part).mean()) for part in
            (e**2, gradient, gradient + flux, gradient + flux + spread)]


@pytest.mark.parametrize("name", CASES)
def test_a_guaranteed_bar_is_never_below_the_error_and_near_it(name):
    make, most = CASES[name]
    problem = make()
    formulation = exact(problem, width=8, depth=1, engine=Engine(64))
    model = random_models(formulation, 1)[0]
    bar = error_bar(formulation, model, problem, "exact", 0.0, points=4096)
    assert bar.word == GUARANTEED, bar.why
    assert CLASSES.get(name, "elliptic") in bar.kind
    value, energy, together, whole = true_errors(problem, formulation, model, name)
    assert value <= bar.fields["u"].l2
    assert energy <= bar.energy <= most * max(energy, together)
    if bar.combined:
        assert bar.combined[0] <= 1.02 * whole and whole <= 1.02 * bar.combined[1]
        assert bar.combined[1] <= most * whole


def refused(problem, *words):
    with pytest.raises(Unrecognised) as why:
        for equation in recognised(problem):
            find_sides(equation)
    for word in words:
        assert word in str(why.value)


def test_classes_without_a_bound_are_refused_in_words():
    wall = [hp.dirichlet("wall", "u", 0)]
    refused(hp.Problem(SQUARE, "u", lambda x, q, dq: hp.div(dq.p) + (q.p**2).sum(), wall, {"p": "u"}), "nonlinearly")
    refused(hp.Problem(SQUARE, "u", lambda x, q, dq: hp.grad(dq.p)[0, 0] - hp.grad(dq.p)[1, 1], wall, {"p": "u"}),
            "not elliptic")
    refused(hp.Problem(SQUARE, ["u", "v"], lambda x, q, dq: (hp.laplacian(dq.u) + q.v, hp.laplacian(dq.v) - q.u),
                       [*wall, hp.dirichlet("wall", "v", 0)]), "couple")
    refused(hp.Problem(HOLED, "u", lambda x, q, dq: hp.div(dq.p), wall, {"p": "u"}, free="hole"), "nothing is stated")
    oblique = hp.Condition("hole", lambda q, x, n: q.p[0] + 3 * q.p @ n, 0.0, "oblique")
    refused(hp.Problem(HOLED, "u", lambda x, q, dq: hp.div(dq.p), [*wall, oblique], {"p": "u"}), "not its flux")


def test_conditions_that_only_nearly_hold_have_no_bar():
    problem = CASES["pair"][0]()
    formulation = exact(problem, width=8, depth=1, engine=Engine(64))
    model = random_models(formulation, 1)[0]
    assert error_bar(formulation, model, problem, "pinn", 0.0).word == NONE
    assert "are off by" in error_bar(formulation, model, problem, "exact", 1e-3).why


def test_scalars_that_do_not_meet_are_bounded_each():
    problem = hp.Problem(SQUARE, ["u", "v"], lambda x, q, dq: (hp.div(dq.p) + 1, hp.laplacian(dq.v) - 2 * q.v),
                         [hp.dirichlet("wall", "u", 0), hp.dirichlet("wall", "v", 1)], {"p": "u"})
    formulation = exact(problem, width=8, depth=1, engine=Engine(64))
    bar = error_bar(formulation, random_models(formulation, 1)[0], problem, "exact", 0.0, points=2048)
    assert set(bar.fields) == {"u", "v", "p"} and bar.word == GUARANTEED


def test_where_theory_has_no_bound_the_error_is_estimated():
    """Navier–Stokes' equations; the answer is the solution, moved a little by what keeps the conditions."""
    problem = load("kovasznay").problem
    formulation = exact(problem, width=8, depth=1, engine=Engine(64))
    model = random_models(formulation, 1)[0]
    bar = error_bar(formulation, model, problem, "exact", 0.0, points=4096)
    assert bar.word == ESTIMATED, bar.why
    assert "couple" in bar.why
    x = points_drawn(problem, 4096, 3).x
    known, found = jax.vmap(problem.exact)(x), formulation.predict(model, x)
    for name, where in problem.schema.slices.items():
        true = np.sqrt(2.87 * ((found[:, where] - np.reshape(known[name], (len(x), -1))) ** 2).sum(1).mean())
        assert 0.2 * true < bar.fields[name].l2 < 10 * true
