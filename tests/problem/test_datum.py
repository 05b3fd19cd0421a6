"""Data for the level of a field: a mean or one value, exact wherever a model is evaluated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.evaluation.certificate import certify, random_models
from hardpde.methods import METHODS, make
from hardpde.problem.datum import Datum

pytestmark = pytest.mark.usefixtures("quick_compilation")
SQUARE = hp.Box((0, 0), (1, 1), name="sides")


def u(x):
    return jnp.cos(jnp.pi * x[0]) * jnp.cos(2 * jnp.pi * x[1])


def neumann(*data, domain=SQUARE, **more):
    """Δu = −5π² u*, n·∇u = 0."""
    return hp.Problem(domain=domain, fields="u", gradients={"p": "u"}, conditions=[hp.neumann("sides", "u"), *data],
                      residual=lambda x, q, dq: hp.div(dq.p) + 5 * jnp.pi**2 * u(x),
                      exact=lambda x: {"u": u(x), "p": jax.grad(u)(x)}, **more)


def flow(*data):
    """Stokes flow in time in a closed box; no condition knows the pressure."""
    return hp.Problem(domain=SQUARE, fields={"u": 2, "p": ()}, gradients={"g": "u"}, time=(0, 1),
                      conditions=[hp.dirichlet("sides", "u"), hp.initial("u", 0.0), *data],
                      residual=lambda x, q, dq: (hp.dt(dq.u) + hp.grad(dq.p) - hp.div(dq.g), hp.div(dq.u)))


@pytest.mark.parametrize("datum", [hp.mean("u"), hp.mean("u", 2.0), hp.pin("u", (0.25, 0.5), u)],
                         ids=["mean", "mean 2", "pin"])
@pytest.mark.parametrize("method", ["exact", "hc"])
def test_random_networks_have_the_level_that_is_stated(datum, method):
    formulation = make(METHODS[method], neumann(datum), {"points": 64})
    (row,) = [row for row in certify(formulation, random_models(formulation)) if row["name"] == datum.name]
    assert row["violation"] < 1e-13


def test_a_pressure_has_its_value_at_every_time():
    problem = flow(hp.pin("p", (0.5, 0.5), lambda x: jnp.sin(x[2])))
    formulation = make(METHODS["exact"], problem, {"points": 64, "width": 8})
    (model, *_) = random_models(formulation)
    x = np.array([[0.5, 0.5, 0.1], [0.5, 0.5, 0.7], [0.2, 0.9, 0.7]])
    jet = formulation.jet(model, x, 1)
    assert np.abs(jet[:2, 2, 0] - np.sin([0.1, 0.7])).max() < 1e-13
    assert np.abs(jet[:2, 2, 3] - np.cos([0.1, 0.7])).max() < 1e-13  # the derivative by time
    h = 1e-5
    late, early = (formulation.predict(model, x + np.array([0, 0, s]))[:, 2] for s in (h, -h))
    assert np.abs((late - early) / (2 * h) - jet[:, 2, 3]).max() < 1e-7


def test_the_mean_of_a_pressure_is_zero_at_every_time():
    problem = flow(hp.mean("p"))
    formulation = make(METHODS["exact"], problem, {"points": 64, "width": 8})
    (row,) = [row for row in certify(formulation, random_models(formulation)) if row["name"] == "mean p"]
    assert row["violation"] < 1e-13


def test_a_direct_solve_finds_the_solution_of_a_neumann_problem(tmp_path):
    problem = neumann(hp.mean("u"))
    solution = hp.solve(problem, solver="direct", tolerance=1e-4)
    assert solution.errors()["u"]["relative_l2"] < 1e-4
    solution.save(tmp_path / "model.eqx")
    again = hp.Solution.load(tmp_path / "model.eqx", problem)
    x = np.random.default_rng(0).uniform(size=(7, 2))
    assert np.array_equal(solution(x)["u"], again(x)["u"])


@pytest.mark.parametrize("hole", [
    hp.Box((-0.3, -0.2), (0.2, 0.3), name="hole"), hp.Box((-0.31, -0.2), (0.6, 0.11), name="hole").turned(0)])
def test_a_mean_is_as_good_where_a_hole_has_flat_sides(hole):
    x, weights = Datum("u").rule(neumann().derived(domain=hp.Box((-1, -1), (1, 1), name="sides") - hole))
    (a, b), (c, d) = (np.asarray(bound) for bound in hole.bounds)
    cut = (np.exp(c) - np.exp(a)) * (np.sin(d) - np.sin(b))
    whole = (np.exp(1) - np.exp(-1)) * 2 * np.sin(1) - cut
    assert abs(weights @ (np.exp(x[:, 0]) * np.cos(x[:, 1])) - whole / (4 - (c - a) * (d - b))) < 1e-6


@pytest.mark.parametrize("domain, function, mean", [
    (SQUARE, lambda x: x[:, 0] ** 2 * x[:, 1], 1 / 6),
    (hp.Ball((0, 0), 1, name="sides"), lambda x: (x**2).sum(1), 1 / 2),
    (hp.Ball((0, 0), 2, name="sides") - hp.Ball((0, 0), 1, name="hole"), lambda x: (x**2).sum(1), 5 / 2),
    (hp.Interval(0, 2, left="sides", right="sides"), lambda x: x[:, 0] ** 2, 4 / 3),
    (hp.Ball((0, 0, 0), 1, name="sides"), lambda x: (x**2).sum(1), 3 / 5),
], ids=["square", "disc", "ring", "rod", "ball"])
def test_the_points_of_a_mean(domain, function, mean):
    problem = neumann().derived(domain=domain)
    x, weights = Datum("u").rule(problem)
    assert abs(weights.sum() - 1) < 1e-12 and (weights > 0).all()
    assert np.asarray(jax.vmap(domain.sdf)(jnp.asarray(x))).max() < 1e-9
    assert abs(weights @ function(x) - mean) < 4e-3 * mean


@pytest.mark.parametrize("make, words", [
    (lambda: neumann(hp.mean("p")), "of no field"),
    (lambda: neumann(hp.mean("u", None)), "a number or a function"),
    (lambda: neumann(hp.mean("u", float("nan"))), "not a finite number"),
    (lambda: neumann(hp.mean("u"), hp.pin("u", (0.5, 0.5))), "stated twice"),
    (lambda: neumann(hp.pin("u", (2, 2))), "no point where the field lives"),
    (lambda: neumann(hp.pin("u", (0.5, 0.5, 0.5))), "2 coordinates"),
    (lambda: neumann(hp.pin("u", "middle")), "give a point"),
    (lambda: flow(hp.mean("u")), "a single number"),
    (lambda: hp.Problem(domain=SQUARE, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p),
                        conditions=[hp.dirichlet("sides", "u"), hp.mean("u")]), "leave one of them out"),
    (lambda: hp.Problem(domain=SQUARE, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p) - q.u,
                        conditions=[hp.neumann("sides", "u"), hp.mean("u")]), "fixed by the equations"),
])
def test_what_cannot_be_met_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
