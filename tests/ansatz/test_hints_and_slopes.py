"""Conditions on true normal derivatives, gradient fields filled by differentiation, and the hints of singular flows."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import (
    Ball,
    Box,
    Condition,
    Focus,
    Hints,
    Interval,
    Mirror,
    Problem,
    dirichlet,
    div,
    dt,
    initial,
    laplacian,
    neumann,
    robin,
    traction,
)
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.engine import Engine
from hardpde.formulation.points import graded
from hardpde.methods import exact, hc
from hardpde.networks.mlp import mlp
from hardpde.problem.unfilled import without_gradients
from hardpde.problems.heat_ball import heat_ball

RING = Ball((0, 0), 2.0, name="outer") - Ball((0.3, 0), 0.5, name="inner")
DISC = Ball((0, 0), 1.0, name="rim")


pytestmark = pytest.mark.usefixtures("quick_compilation")


def laplace(x, q, dq):
    return laplacian(dq.u)


def coupled():
    """Two fields, values and normal derivatives on the same boundaries."""
    return Problem(
        domain=RING, fields=("u", "v"), residual=lambda x, q, dq: (laplacian(dq.u) - q.v, laplacian(dq.v)),
        conditions=[robin("outer", "u", a=2.0, b=1.0, g=lambda x: jnp.sin(x[0])),
                    dirichlet("outer", "v", lambda x: x[1]), neumann("inner", "v", 1.0),
                    Condition("inner", lambda q, x, n: q.u + q.v + 3 * q.gradient("u") @ n, 2.0)])


def heat():
    return Problem(domain=DISC, fields="u", time=(0.0, 1.0), residual=lambda x, q, dq: dt(dq.u) - laplacian(dq.u),
                   conditions=[neumann("rim", "u", lambda x: 2.0 + x[-1]), initial("u", lambda x: x[:2] @ x[:2])])


@cache
def small(make):
    """A small network for that problem, by the exact method."""
    return exact(make(), width=8, depth=2, engine=Engine(64))


@pytest.mark.parametrize("make", [coupled, heat], ids=lambda make: make.__name__)
def test_true_normal_derivatives_hold_for_any_weights(make):
    formulation = small(make)
    assert formulation.problem.order == 2 and formulation.problem.schema.traces
    rows = certify(formulation, random_models(formulation, 2), points=300)
    assert violation(rows) < 1e-12, rows


@pytest.mark.parametrize("make", [coupled, heat], ids=lambda make: make.__name__)
def test_jets_of_true_slopes_are_derivatives(make):
    formulation = small(make)
    problem, model = formulation.problem, random_models(formulation, 1)[0]
    x = np.asarray(graded(problem, jax.random.key(3), 12))
    x = x[x[:, -1] > 0.01] if problem.time is not None else x
    jets = formulation.jet(model, x)
    h = 1e-4
    steps = h * np.eye(x.shape[1])
    ahead, back = ([formulation.predict(model, x + sign * step) for step in steps] for sign in (1, -1))
    here = formulation.predict(model, x)
    for k in range(x.shape[1]):
        assert np.abs((ahead[k] - back[k]) / (2 * h) - jets[:, :, 1 + k]).max() < 1e-5 * np.abs(jets).max()
    bend = sum(ahead[k] + back[k] - 2 * here for k in range(problem.schema.dim)) / h**2
    assert np.abs(bend - jets[:, :, -1]).max() < 1e-5 * np.abs(jets).max()


def test_the_dual_jet_is_the_derivative_of_the_jet():
    model = mlp(jax.random.key(0), [3, 7, 5, 2])
    point, direction = jax.random.normal(jax.random.key(1), (2, 3))

    def inputs(x):  # three inputs of two coordinates
        return jnp.stack([jnp.sin(x[0]), x[0] * x[1], x[1] ** 2]) * point

    def moved(x):
        return jax.jvp(lambda s: jnp.sin(inputs(x) + s * direction), (0.0,), (1.0,))

    def network(v):
        return model.jet(v[:, None, None])[:, 0, 0]

    def jet(f, x):
        bend = sum(jax.hessian(f)(x)[..., k, k] for k in range(2))
        return jnp.concatenate([f(x)[:, None], jax.jacfwd(f)(x), bend[:, None]], axis=1)[..., None]

    @jax.jit
    def both(x):
        found = model.dual_jet(jet(lambda x: moved(x)[0], x), jet(lambda x: moved(x)[1], x), 2)[..., 0]
        value = jet(lambda x: network(moved(x)[0]), x)[..., 0]
        slope = jet(lambda x: jax.jvp(network, moved(x)[:1], moved(x)[1:])[1], x)[..., 0]
        return found, jnp.concatenate([value, slope])

    found, expected = both(jnp.array([0.3, -0.7]))
    assert np.abs(found - expected).max() < 1e-12


# ---------------------------------------------------------------- gradient fields filled by differentiation


@pytest.mark.parametrize("dim", [1, 10])
@pytest.mark.parametrize("gradients", ["fields", "derivatives"])
def test_the_heat_ball_is_exact_both_ways(dim, gradients):
    formulation = exact(heat_ball(dim), width=6, depth=2, engine=Engine(64), gradients=gradients)
    rows = certify(formulation, random_models(formulation, 1), points=200)
    assert violation(rows) < 1e-12, rows


def test_the_known_solution_has_no_residual_both_ways():
    problem = heat_ball(3)
    reduced = without_gradients(problem)
    assert reduced.schema.names == ("u",) and reduced.order == 2

    def u(x):
        return problem.exact(x)["u"]

    def at(x):
        bend = jnp.trace(jax.hessian(u)(x)[:3, :3])
        return reduced.residuals(x, u(x)[None], jnp.append(jax.grad(u)(x), bend)[:, None])

    x = graded(problem, jax.random.key(0), 20)
    assert np.abs(jax.vmap(at)(x)).max() < 1e-12


def test_the_paper_s_ansatz_needs_gradient_fields():
    problem = Problem(domain=RING, fields="u", residual=laplace, free=["inner"],
                      conditions=[robin("outer", "u", a=1.0, b=1.0, g=1.0)])
    with pytest.raises(ValueError, match="needs the gradient as a field for 'robin u' on 'outer'"):
        hc(problem)


def of_true_slopes(**stated):
    """With fields that are added these are solved: by differentiation they cannot be."""
    return exact(Problem(**stated), gradients="derivatives", engine=Engine(64))


MISTAKES = {
    "touching boundaries": (
        lambda: of_true_slopes(domain=Box((0, 0), (1, 1), name="box"), fields="u", residual=laplace,
                               conditions=[neumann("box", "u", 1.0)]),
        "'box' asks for a normal derivative and touches 'box'; corners need the gradient as a field"),
    "derivatives along the boundary": (
        lambda: of_true_slopes(domain=DISC, fields={"u": 2}, residual=laplace, conditions=[traction("rim", "u")]),
        "needs derivatives along the boundary"),
    "initial data of another slope": (
        lambda: of_true_slopes(domain=DISC, fields="u", time=(0.0, 1.0), residual=lambda x, q, dq: laplacian(dq.u),
                               conditions=[neumann("rim", "u", 5.0), initial("u", lambda x: x[:2] @ x[:2])]),
        "the normal derivative on 'rim' and the initial condition disagree by 3"),
    "a slope that vanishes": (
        lambda: of_true_slopes(domain=DISC, fields="u", residual=laplace,
                               conditions=[robin("rim", "u", a=1.0, b=lambda x: jnp.maximum(x[0], 0.0))]),
        "the normal derivatives in the conditions on 'rim' vanish somewhere"),
    "more than the divergence": (
        lambda: without_gradients(Problem(
            domain=DISC, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: dq.p.space[0, 0],
            conditions=[dirichlet("rim", "u")])),
        "only div of a gradient field is known"),
    "dimension 0": (lambda: heat_ball(0), "dim is 0; a ball has a whole number of dimensions, at least 1"),
    "dimension 2.5": (lambda: heat_ball(2.5), "dim is 2.5"),
    "mirror of an unknown component": (
        lambda: Problem(domain=DISC, fields="u", residual=laplace, conditions=[dirichlet("rim", "u")],
                        hints=Hints(mirror=Mirror(1, odd=("w",)))), "odd components from u"),
    "guess of an unknown field": (
        lambda: Problem(domain=DISC, fields="u", residual=laplace, conditions=[dirichlet("rim", "u")],
                        hints=Hints(guess=lambda x: {"w": 1.0})), "guess has a field 'w'; the fields are u"),
    "focus turned round": (lambda: Hints(focus=[Focus((0, 0), 1.0, 0.1, 0.1)]), "needs 0 < inner < outer"),
    "focus of another dimension": (
        lambda: hinted(focus=[Focus((0, 0, 0), 0.1, 0.5, 0.2)]), "is not about a place with 2 coordinates"),
    "focus that is none": (lambda: Hints(focus=[((0, 0), 0.1, 0.5, 0.2)]), "is not a Focus"),
    "scale of another length": (
        lambda: hinted(scale=lambda x: jnp.ones(7)), r"scale returns an array of shape \(7,\); .* each of the 3 eq"),
    "shares above one": (lambda: Hints(focus=[Focus((0, 0), 0.1, 1.0, 0.9)]), "add up to more than 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- hints


def hinted(**hints):
    return Problem(domain=Box((-1, -1), (1, 1), name="box") - Ball((0, 0), 0.3, name="hole"), fields="u",
                   gradients={"p": "u"}, residual=lambda x, q, dq: div(dq.p), hints=Hints(**hints),
                   conditions=[dirichlet("box", "u", lambda x: x[0] ** 2), neumann("hole", "u", 1.0)])


def singular(x):
    r = jnp.sqrt(x @ x + 1e-6)
    return jnp.zeros((3, 5)).at[0, 0].set(1.0).at[1, 1].set(1 / r).at[2, 2].set(1.0).at[0, 3].set(r).at[2, 4].set(x[0])


@pytest.mark.parametrize("hints", [
    {"outputs": singular}, {"guess": lambda x: {"u": x[1], "p": jnp.array([0.0, 1.0])}},
    {"mirror": Mirror(axis=1, odd=("p[1]",))},
    {"mirror": Mirror(axis=0, odd=("p[0]",)), "outputs": singular, "sharp": [(1.0, 1.0), (1.0, -1.0)]},
], ids=["outputs", "guess", "mirror", "all"])
def test_hints_never_touch_the_conditions(hints):
    formulation = exact(hinted(**hints), width=6, depth=2, engine=Engine(64))
    rows = certify(formulation, random_models(formulation, 1), points=400)
    assert violation(rows) < 1e-12, rows


def test_a_mirror_makes_the_state_symmetric():
    formulation = exact(hinted(mirror=Mirror(axis=1, odd=("p[1]",))), width=6, depth=2, engine=Engine(64))
    model = random_models(formulation, 1)[0]
    x = np.asarray(graded(formulation.problem, jax.random.key(0), 50))
    one, two = formulation.predict(model, x), formulation.predict(model, x * [1, -1])
    assert np.abs(one - two * [1, 1, -1]).max() < 1e-12
    assert np.abs(one - formulation.predict(model, x * [-1, 1]) * [1, -1, 1]).max() > 1e-3


def test_focus_draws_about_a_place():
    problem = hinted(focus=[Focus((0.5, 0.5), 1e-4, 0.1, 0.3)], near=0.2)
    x = np.asarray(graded(problem, jax.random.key(0), 4000))
    r = np.linalg.norm(x - 0.5, axis=1)
    assert 0.28 < (r < 0.1).mean() < 0.36  # its share, and the few that fall there anyway
    close = np.log(r[(r > 1e-4) & (r < 0.1)] / 1e-4) / np.log(1e3)
    assert abs(close.mean() - 0.5) < 0.03  # even in scale
    assert (np.asarray(jax.vmap(problem.domain.sdf)(x)) < 0).all()


def test_collars_shrink_to_a_sharp_corner():
    layout = hinted(sharp=[(1.0, 1.0)]).layout
    top = next(k for k, piece in enumerate(layout.pieces) if piece.name == "box" and piece.params[5] == 1)

    def width(x):
        return layout.widths(top, np.array(x))

    assert width((1.0, 1.0)) == pytest.approx(0.0, abs=1e-12)
    assert 0.9 * layout.collar[top] < width((-1.0, 1.0)) <= layout.collar[top]
    slope = width((0.99, 1.0)) / 0.01
    assert slope == pytest.approx(0.7, rel=1e-2)


def test_an_interval_with_a_true_slope():
    problem = Problem(domain=Interval(0, 1, left="l", right="r"), fields="u", residual=laplace,
                      conditions=[dirichlet("l", "u", 1.0), robin("r", "u", a=1.0, b=2.0, g=3.0)])
    formulation = exact(problem, width=6, depth=2, engine=Engine(32))
    assert violation(certify(formulation, random_models(formulation, 2), points=50)) < 1e-12
