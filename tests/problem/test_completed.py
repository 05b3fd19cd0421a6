"""Fields that a statement needs and lacks are added: gradients where boundaries touch, all second derivatives, ΔΔu."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.engine import Engine
from hardpde.methods import METHODS, exact, make
from hardpde.problem.completed import added_fields
from hardpde.training import Training

SIDES = {side: side for side in ("left", "right", "bottom", "top")}
SQUARE = hp.Box((0, 0), (1, 1), sides=SIDES)
DISC = hp.Ball((0, 0), 1.0, name="rim")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def u(x):
    return jnp.sin(x[0] + 2 * x[1]) * jnp.exp(x[1] / 2)


def bend(f, x):
    return jnp.trace(jax.hessian(f)(x), axis1=-2, axis2=-1)


def slope(x):
    return jax.grad(u)(x)


@cache
def mixed(**more):
    """Dirichlet, Neumann and Robin sides that meet, and an operator with all second derivatives."""
    return hp.Problem(
        SQUARE, "u", lambda x, q, dq: jnp.sum(jnp.array([[1, 0.3], [0.3, 1]]) * (hp.hessian(dq.u) - jax.hessian(u)(x)))
        + hp.laplacian(dq.u) - bend(u, x),
        [hp.dirichlet("left", "u", u), hp.neumann("bottom", "u", lambda x: -slope(x)[1]), hp.dirichlet("top", "u", u),
         hp.robin("right", "u", a=1, b=2, g=lambda x: u(x) + 2 * slope(x)[0])],
        exact=lambda x: {"u": u(x)}, **more)


@cache
def plate():
    """A plate with clamped and supported edges, and an equation with its own gradient field beside it."""
    return hp.Problem(
        SQUARE, ("w", "v"), lambda x, q, dq: (hp.bilaplacian(dq.w) - bend(lambda y: bend(u, y), x),
                                             hp.div(dq.p) - bend(u, x)),
        [hp.dirichlet("left", "w", u), hp.neumann("left", "w", lambda x: -slope(x)[0]),
         *(hp.supported(side, "w", u, moment=lambda x: bend(u, x)) for side in ("right", "bottom", "top")),
         *(hp.dirichlet(side, "v", u) for side in SIDES)],
        gradients={"p": "v"}, exact=lambda x: {"w": u(x), "v": u(x), "p": slope(x)})


@cache
def supported_disc(poisson=0.3):
    """Of q r⁴/64: w = (1 − r²)((5 + ν)/(1 + ν) − r²) for ΔΔw = 64 (Timoshenko)."""
    return hp.Problem(DISC, "w", lambda x, q, dq: hp.bilaplacian(dq.w) - 64,
                      [hp.supported("rim", "w", poisson=poisson)], exact=lambda x: {
                          "w": (1 - x @ x) * ((5 + poisson) / (1 + poisson) - x @ x)})


@cache
def pulled():
    """A traction asks for derivatives along the boundary."""
    return hp.Problem(DISC, {"u": 2}, lambda x, q, dq: hp.laplacian(dq.u), [hp.traction("rim", "u")])


@cache
def small(statement):
    return make(METHODS["exact"], statement(), {"width": 8, "depth": 2, "points": 64})


@pytest.mark.parametrize(("statement", "fields"), [
    (mixed, ("u", "grad_u")), (plate, ("w", "v", "laplacian_w", "p", "grad_w", "grad_laplacian_w")),
    (supported_disc, ("w", "laplacian_w")), (pulled, ("u", "grad_u"))])
def test_conditions_hold_for_any_weights_with_the_fields_that_are_needed(statement, fields):
    formulation = small(statement)
    assert formulation.problem.schema.names == fields
    assert statement().schema.names == tuple(name for name in fields if name in ("u", "w", "v", "p"))
    rows = certify(formulation, random_models(formulation, 2), points=200)
    assert violation(rows) < 1e-12, rows
    assert [row["name"] for row in rows] == [condition.name for condition in statement().conditions]


@pytest.mark.parametrize("statement", [mixed, plate, supported_disc])
def test_the_known_solution_solves_what_was_made_of_the_statement(statement):
    """Equations, those added and conditions, with what the known solution says of the fields that were added."""
    whole = statement().completed
    schema = whole.schema

    def state(x):
        values = whole.exact(x)
        return jnp.concatenate([jnp.ravel(values[name]) for name in schema.names])

    def residuals(x):
        jet = [state(x), *jax.jacfwd(state)(x).T, *([bend(state, x)] if whole.order == 2 else [])]
        return whole.residuals(x, jet[0], jnp.stack(jet[1:]))

    x = whole.sample(jax.random.key(0), 16)
    assert np.abs(jax.jit(jax.vmap(residuals))(x)).max() < 1e-9  # fourth derivatives of terms of size 100
    for condition in whole.pointwise:
        boundary = whole.domain.boundaries[condition.on]
        x = boundary.sample(jax.random.key(1), 8)

        def miss(x, condition=condition, boundary=boundary):
            q, n = state(x), boundary.normal(x)
            a, g = condition.matrix(schema, x, n)
            slopes = jax.jacfwd(state)(x) @ n if schema.traces else jnp.zeros(0)
            return a @ jnp.concatenate([q, slopes]) - g

        assert np.abs(jax.vmap(miss)(x)).max() < 1e-10, condition.name


def test_nothing_of_it_shows_but_a_sentence(tmp_path):
    problem = mixed()
    settings = {"method_name": "exact", "method": {"width": 8, "depth": 2, "points": 64}, "stages": []}
    solution = hp.Solution(problem, small(mixed), settings, Training(random_models(small(mixed), 1)[0]))
    found = solution([[0.5, 0.5]])
    assert set(found) == {"u"} and set(solution.errors()) == {"u"} and "grad_u" not in repr(solution)
    assert "hardpde adds ∇u as a field" in solution.decision
    assert problem.schema.labels() == ["u"] and not problem.schema.gradients
    solution.save(tmp_path / "model")
    again = hp.Solution.load(tmp_path / "model", problem)
    assert np.array_equal(again([[0.5, 0.5]])["u"], found["u"])
    assert added_fields(plate()).startswith("hardpde adds Δw, ∇w and ∇Δw as fields")


def test_hints_are_told_of_the_fields_that_are_added():
    hints = hp.Hints(guess=lambda x: {"u": x[0] ** 2 * x[1]}, mirror=hp.Mirror(0, 0.5, odd=("u",)),
                     scale=lambda x: jnp.array([2.0]), outputs=lambda x: jnp.array([[x[0], 3.0]]),
                     continuation=lambda s: mixed().residual)
    problem = mixed().derived(hints=hints).completed
    x = jnp.array([0.5, 0.2])
    np.testing.assert_allclose(problem.guess(x), [0.05, 0.2, 0.25])
    assert problem.hints.mirror.odd == ("u", "grad_u[1]")  # the slope across the plane is even where the field is odd
    np.testing.assert_allclose(problem.hints.outputs(x), [[0.5, 3, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert problem.hints.scale(x).shape == (1,)
    factors = mixed().derived(hints=hp.Hints(scale=lambda x: jnp.array([2.0, 3.0])))
    np.testing.assert_allclose(factors.completed.hints.scale(x), [2, 3, 1, 1])


def test_nothing_is_added_where_nothing_is_needed():
    """Neither where boundaries keep apart, nor where a condition asks for a gradient if there is one."""
    apart = hp.Problem(DISC, "u", lambda x, q, dq: hp.laplacian(dq.u), [hp.robin("rim", "u", a=1, b=1, g=1)])
    sound = hp.Problem(SQUARE, {"v": 2, "p": ()}, lambda x, q, dq: (hp.dt(dq.v) + hp.grad(dq.p), hp.dt(dq.p)
                                                                   + hp.div(dq.v)),
                       [*(hp.slip(side, "v") for side in SIDES), hp.initial("v"), hp.initial("p")], time=(0, 1))
    assert apart.completed is apart and sound.completed is sound and not added_fields(apart)


MISTAKES = {
    "curved": (lambda: hp.Problem(DISC, "w", lambda x, q, dq: hp.bilaplacian(dq.w), [hp.supported("rim", "w")]),
               "'supported w' is for straight edges, and 'rim' is curved; give it poisson="),
    "hessian by differentiation": (lambda: exact(mixed(), gradients="derivatives", engine=Engine(64)),
                                   "hessian and bilaplacian need gradients that are fields"),
    "outputs of another shape": (lambda: mixed.__wrapped__(hints=hp.Hints(outputs=lambda x: jnp.ones((2, 2)))),
                                 r"hint outputs: it returns an array of shape \(2, 2\); .* 1 rows"),
    "one condition for two": (lambda: hp.Problem(SQUARE, "w", lambda x, q, dq: hp.hessian(dq.w)[0], [
        hp.dirichlet(side, "w") for side in SIDES]), "residual returns 2 equations and 1 are expected"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(mistake):
    statement, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        statement()


def test_what_a_plate_lacks_is_named_by_what_its_user_can_state():
    """An edge needs two conditions, and Δw is no field of the user's."""
    strip = hp.Problem(hp.Box((0, 0), (1, 1), sides=SIDES), "w", lambda x, q, dq: hp.bilaplacian(dq.w) - 1, [
        hp.dirichlet("left", "w"), *(hp.supported(side, "w") for side in ("right", "bottom", "top"))])
    (sentence,) = hp.check_well_posed(strip).sentences
    assert "'left' needs 2 conditions and has 1: state supported(\"left\", \"w\") in place of 'dirichlet w'" in sentence
