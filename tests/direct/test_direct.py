"""A direct solve: rows are the derivatives of residuals, known solutions are found, conditions hold, runs resume."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.direct.evaluations import as_numpy, draw_points
from hardpde.direct.features import draw, slopes
from hardpde.direct.least_squares import least_squares
from hardpde.direct.newton import Equations, fitted
from hardpde.direct.steepness import groups, searched
from hardpde.direct.system import linearisation, matrix
from hardpde.evaluation.certificate import certify, violation
from hardpde.methods import Engine, exact
from hardpde.networks.mlp import MLP
from hardpde.solving.solution import Solution
from helpers import last_json, refused

pytestmark = pytest.mark.usefixtures("quick_compilation")


def known(x):
    return {"u": jnp.sin(2 * x[0]) * jnp.exp(x[1])}


def hole(nonlinear=0.0, gradients=True):
    """−Δu + nonlinear u³ = f round a hole; the solution is known."""
    def u(x):
        return known(x)["u"]

    def source(x):
        return -jnp.trace(jax.hessian(u)(x)) + nonlinear * u(x) ** 3

    def flux(x):
        centre = jnp.array([0.1, 0.0])
        n = (centre - x[:2]) / jnp.linalg.norm(centre - x[:2])
        return u(x) + jax.grad(u)(x) @ n

    box = hp.Box((-1, -1), (1, 1), name="wall")
    conditions = [hp.dirichlet("wall", "u", u), hp.robin("hole", "u", a=1, b=1, g=flux)]
    if gradients:
        return hp.Problem(box - hp.Ball((0.1, 0.0), 0.4, name="hole"), "u",
                          lambda x, q, dq: -hp.div(dq.p) + nonlinear * q.u**3 - source(x), conditions, {"p": "u"},
                          exact=known)
    return hp.Problem(box - hp.Ball((0.1, 0.0), 0.4, name="hole"), "u",
                      lambda x, q, dq: -hp.laplacian(dq.u) + nonlinear * q.u**3 - source(x), conditions, exact=known)


@pytest.fixture(scope="module", params=["fields", "laplacian", "slopes"])
def system(request):
    """The equations of a problem with gradient fields, with a Laplacian, or with normal derivatives as conditions."""
    problem = hole(nonlinear=0.5, gradients=request.param != "laplacian")
    options = {"gradients": "derivatives"} if request.param == "slopes" else {}
    formulation = exact(problem, width=7, depth=1, engine=Engine(64), **options)
    batch = formulation.draw(jax.random.key(0))
    return formulation, batch, Equations(formulation.problem, as_numpy(batch), linearisation(formulation.problem))


def test_rows_are_the_derivatives_of_the_residuals(system):
    formulation, batch, equations = system
    rng = np.random.default_rng(1)
    features = draw(rng, equations.points.terms[0].inputs[:, 0], 7, np.ones(len(equations.points.terms[0].inputs)))
    outputs = equations.points.outputs
    weights = rng.standard_normal((7, outputs))

    def residuals(weights):
        model = MLP([jnp.asarray(features.weights), weights], [jnp.asarray(features.biases), jnp.zeros(outputs)])
        return formulation.residuals(model, batch)

    jet = equations.jet(features, weights)
    np.testing.assert_allclose(equations.residuals(jet), residuals(jnp.asarray(weights)), rtol=1e-9, atol=1e-9)
    found = matrix(equations.about(jet), features)
    expected = np.asarray(jax.jacfwd(residuals)(jnp.asarray(weights)))  # (e, n, h, o)
    expected = expected.reshape(found.shape[0], 7, outputs).transpose(0, 2, 1).reshape(found.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("nonlinear", [0.0, 0.5])
def test_linearity_is_found(nonlinear):
    formulation = exact(hole(nonlinear), width=2, depth=1, engine=Engine(64))
    points = as_numpy(formulation.draw(jax.random.key(0)))
    assert Equations(formulation.problem, points, linearisation(formulation.problem)).linear() == (nonlinear == 0)


def test_draws_put_together_are_the_draws():
    formulation = exact(hole(), width=2, depth=1, engine=Engine(64))
    together = draw_points(formulation, jax.random.key(0), 150)
    apart = [as_numpy(formulation.draw(k)) for k in jax.random.split(jax.random.key(0), 3)]
    assert sorted(map(tuple, together.x)) == sorted(tuple(x) for one in apart for x in one.x)
    for k, term in enumerate(together.terms):
        assert term.inputs.shape[-1] == sum(one.terms[k].inputs.shape[-1] for one in apart)
        first = together.x[: term.inputs.shape[-1]]
        corrected = [one.x[: one.terms[k].inputs.shape[-1]] for one in apart]
        assert sorted(map(tuple, first)) == sorted(map(tuple, np.concatenate(corrected)))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_slopes_are_derivatives_of_tanh(order):
    z = np.linspace(-2, 2, 9)
    function = jnp.tanh
    for _ in range(order):
        function = jax.grad(function)
    np.testing.assert_allclose(slopes(z, 3)[order], jax.vmap(function)(z), rtol=1e-12, atol=1e-14)


def test_least_squares_agree_with_a_library_whatever_the_lengths_of_columns():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 7)) * 10.0 ** np.arange(-3, 4), rng.standard_normal(40)
    np.testing.assert_allclose(least_squares(a.copy(order="F"), b), np.linalg.lstsq(a, b)[0], rtol=1e-9)


def test_no_weight_is_larger_than_asked_for():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 6))
    a[:, 5] = a[:, 4] + 1e-9 * rng.standard_normal(40)
    assert np.abs(least_squares(a.copy(order="F"), rng.standard_normal(40))).max() > 1e5
    assert np.abs(least_squares(a.copy(order="F"), rng.standard_normal(40), largest=10.0)).max() <= 10


def test_columns_that_depend_on_each_other_and_zero_columns_do_no_harm():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 3))
    a = np.asfortranarray(np.column_stack([a, a[:, 0], np.zeros(40)]))
    b = a @ np.array([1.0, 2, 3, 4, 5])
    x = least_squares(a.copy(order="F"), b)
    assert np.abs(x).max() < 100
    np.testing.assert_allclose(a @ x, b, atol=1e-10)


def test_the_search_finds_the_scales_of_a_score_and_leaves_out_what_does_harm():
    group, coordinate = np.array([0, 0, 1, 2]), np.array([True, True, False])
    best = np.array([6.0, 6.0, 0.4, 0.0])

    def score(scales):
        return float(((np.log(scales[:3]) - np.log(best[:3])) ** 2).sum() + scales[3])

    found = searched(score, group, coordinate)
    assert found[3] == 0 and np.abs(np.log(found[:3] / best[:3])).max() < 0.35


def test_inputs_are_grouped_by_what_they_depend_on():
    problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u),
                         [hp.dirichlet("ends", "u", 0), hp.initial("u", lambda x: jnp.sin(jnp.pi * x[0]))],
                         time=(0, 1), hints=hp.Hints(inputs=lambda x: x[:1] ** 2))
    points = as_numpy(exact(problem, width=2, depth=1, engine=Engine(64)).draw(jax.random.key(0)))
    group, coordinate = groups(points.terms[0].inputs, 1)
    assert len(set(group.tolist())) == 4  # x, t, √t, x²
    assert coordinate[group].tolist() == [True, True, False, False]


def test_more_features_lower_the_error_of_a_linear_problem():
    solution = hp.solve(hole(), solver="direct", tolerance=1e-6)
    (ending,) = solution.training.endings
    assert ending["why"].startswith("linear") and "was not reached" not in ending["why"]
    assert solution.errors()["u"]["relative_l2"] < 1e-6
    assert violation(certify(solution.formulation, [solution.training.model])) < 1e-12
    held_out = [row["held_out"] for row in solution.training.history]
    assert held_out == sorted(held_out, reverse=True)


def test_newton_steps_solve_what_is_not_linear():
    formulation = exact(hole(0.5), width=2, depth=1, engine=Engine(256))
    train, held = (Equations(formulation.problem, draw_points(formulation, jax.random.key(k), 256),
                             linearisation(formulation.problem)) for k in range(2))
    inputs = train.points.terms[0].inputs[:, 0]
    found = fitted(train, held, draw(np.random.default_rng(0), inputs, 60, np.ones(len(inputs))), linear=False)
    assert 2 <= found.steps <= 8 and found.held_out < 1e-2
    assert abs(found.held_out / found.residual) < 10


def test_a_direct_solution_is_saved_and_loaded(tmp_path):
    problem = hole()
    solution = hp.solve(problem, solver="direct", tolerance=1e-2, seed=3)
    solution.save(tmp_path / "model.eqx")
    x = [[0.8, 0.8], [-0.5, 0.5]]
    again = Solution.load(tmp_path / "model.eqx", problem)
    np.testing.assert_array_equal(again(x)["u"], solution(x)["u"])
    np.testing.assert_array_equal(hp.solve(problem, solver="direct", tolerance=1e-2, seed=3)(x)["u"], solution(x)["u"])


FILE = """
import hardpde as hp
problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) + 2,
                     [hp.dirichlet("ends", "u", 0)], exact=lambda x: {"u": x[0] * (1 - x[0])}, name="parabola")
"""


def test_the_command_solves_directly_and_goes_on_with_a_run_that_was_stopped(tmp_path, capsys):
    (tmp_path / "parabola.py").write_text(FILE)
    run = tmp_path / "run"
    words = ["solve", str(tmp_path / "parabola.py"), "--solver", "direct", "--tolerance", "1e-8", "--out", str(run)]
    assert main([*words, "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert found["solver"] == "direct" and found["errors"]["u"]["mae"] < 1e-8 and found["boundary_violation"] < 1e-12
    assert found["unknowns"] > 0 and "linear" in found["decision"] and (run / "report.html").exists()
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "status": "running"}))
    model = (run / "model.eqx").read_bytes()
    assert main(["resume", str(run), "--json"]) == 0
    assert (run / "model.eqx").read_bytes() == model


@pytest.mark.parametrize("words, says", [
    (["--method", "pinn"], "method exact"), (["--set", "width=3"], "width"), (["--steps", "5,5"], "steps"),
    (["--tolerance", "-1"], "positive"), (["--tensorboard"], "tensorboard"),
])
def test_a_mistake_is_answered_by_one_sentence(tmp_path, capsys, words, says):
    (tmp_path / "parabola.py").write_text(FILE)
    try:
        code = main(["solve", str(tmp_path / "parabola.py"), "--solver", "direct", "--out", str(tmp_path / "run"),
                     *words])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    refused((code, out, err), says)
    assert not (tmp_path / "run").exists()


def test_a_tolerance_that_is_not_reached_is_told():
    step = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) - jnp.sign(x[0] - 0.37),
                      [hp.dirichlet("ends", "u", 0)])
    solution = hp.solve(step, solver="direct", tolerance=1e-12)
    assert "was not reached" in solution.training.endings[0]["why"]


def test_what_needs_penalties_is_refused():
    measured = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) + 2,
                          [hp.dirichlet("ends", "u", 0)], measurements=[hp.Measurement("u", [[0.5]], [0.25])])
    with pytest.raises(ValueError, match="penalties"):
        hp.solve(measured, solver="direct")
