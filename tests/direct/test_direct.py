"""A direct solve: rows are the derivatives of residuals, known solutions are found, conditions hold, runs resume."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.ansatz.corners import Corner, corners_of, nearness, with_points_about
from hardpde.cli import commands
from hardpde.cli.parser import main
from hardpde.direct import least_squares, tall
from hardpde.direct.continuation import led
from hardpde.direct.evaluations import as_numpy, potentials, put_together
from hardpde.direct.groups import Drawn, asked
from hardpde.direct.newton import Balance, Equations, fitted, right_side
from hardpde.direct.recipe import FIRST, Recipe, draw, kinds, searched
from hardpde.direct.solver import directly
from hardpde.direct.system import matrix
from hardpde.direct.window_rows import blocks, last_of_blocks, together
from hardpde.evaluation.certificate import certify, violation
from hardpde.methods import Engine, exact
from hardpde.networks.features import LOCAL, Layer, Local, each_its_own, number, outputs, random_features, waves
from hardpde.networks.mlp import mlp
from hardpde.problems.presets import GENERAL
from hardpde.runs.folder import write_run
from hardpde.solving.direct import chosen_solver, run_directly
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


def measured():
    """A problem with rows of penalties: a periodic condition that is soft, and measurements."""
    sides = {"left": "left", "right": "right", "bottom": "wall", "top": "wall"}
    return hp.Problem(hp.Box((0, 0), (1, 1), sides=sides), "u", lambda x, q, dq: hp.laplacian(dq.u) + q.u**2,
                      [hp.dirichlet("wall", "u", 0), hp.periodic("left", "right", soft=2.0)],
                      measurements=[hp.Measurement("u", [[0.5, 0.5], [0.2, 0.7]], [0.25, 0.1], weight=3.0)])


CORNER = [Corner(np.zeros(2), np.array([1.0, 0.0]), 1.5 * np.pi, np.inf)]
STATEMENTS = {"fields": lambda: hole(0.5), "laplacian": lambda: hole(0.5, gradients=False),
              "shared": lambda: hole(0.5),
              "slopes": lambda: hole(0.5), "penalties": measured, "trained": lambda: hole(0.5, gradients=False)}


def recipe(inputs, kind, corners=()):
    plain = len(inputs) - 3 * len(corners)
    scales = np.where(np.arange(len(inputs)) < plain, 1.0, 0.0)
    return Recipe(scales, kind, 0.4 if corners else 0.0, tuple(corner.exponent for corner in corners))


def own_columns(batch):
    """Outputs of the network that share nothing."""
    main = batch.terms[0]
    return each_its_own(main.matrix.shape[1] // (1 if main.dual is None else 2))


@pytest.fixture(scope="module", params=STATEMENTS)
def system(request):
    """The equations of a problem with gradient fields, with a Laplacian, with outputs that are slopes of others, with
    normal derivatives as conditions, with penalties, and of features on a trained network."""
    problem = STATEMENTS[request.param]()
    options = {"gradients": "derivatives"} if request.param == "slopes" else {}
    found = corners_of(problem) if request.param == "laplacian" else []
    shared = potentials(problem) if request.param == "shared" else ()
    formulation = exact(problem, width=7, depth=1, corners=bool(found), slopes=bool(shared), engine=Engine(64),
                        **options)
    batch = formulation.draw(jax.random.key(0))
    base = mlp(jax.random.key(3), [batch.terms[0].inputs.shape[0], 5, 4, 1]) if request.param == "trained" else None
    second = problem.schema.dim if formulation.problem.order == 2 else 0
    ask = asked(formulation, found, shared or own_columns(batch), problem.schema.dim if shared else 0, base)
    return formulation, batch, base, found, Equations(ask.groups([Drawn(batch)]), second)


@pytest.mark.parametrize("kind", ["tanh", "sine"])
def test_rows_are_the_derivatives_of_the_residuals(system, kind):
    formulation, batch, base, found, equations = system
    inputs = equations.groups[0].points.terms[0].inputs[:, 0]
    units = draw(1, inputs, 10, recipe(inputs, kind, found))
    assert [layer.kind for layer in units] == ([kind, "power"] if found else [kind])
    shape, sources = (10, equations.columns), equations.groups[0].points.sources
    balance = Balance(np.linspace(1, 2, len(equations.groups[0].points.scale)), np.linspace(0.5, 1, shape[1]))
    last = np.random.default_rng(1).standard_normal(shape)
    problem, sizes = formulation.problem, jnp.asarray(balance.equations)[:, None]
    scale = jnp.asarray(nearness(found, problem.domain.size, np.asarray(batch.x)))

    def residuals(last):
        model = random_features(units, last, base, sources if any(source.axis for source in sources) else ())
        parts = [(formulation.residuals(model, batch) * scale / sizes).ravel()]
        for penalty, part in zip(formulation.penalties, batch.penalised):
            rows = formulation.terms.penalty_rows(model, penalty, part)
            weight = penalty.weights[0] * len(batch.x) / rows.shape[-1]
            parts.append(jnp.sqrt(weight) * rows.ravel())
        return jnp.concatenate(parts)

    jets = equations.jets(units, last)
    expected = np.asarray(jax.jit(residuals)(jnp.asarray(last)))
    np.testing.assert_allclose(equations.residuals(jets, balance), expected, rtol=1e-8,
                               atol=1e-10 * np.abs(expected).max())
    rows = equations.about(jets, balance)
    expected = np.asarray(jax.jit(jax.jacfwd(residuals))(jnp.asarray(last)))
    expected = expected.transpose(0, 2, 1).reshape(len(expected), -1) * np.repeat(balance.columns, 10)
    kept = np.concatenate([(np.ones(part.known.shape, bool) if part.kept is None else part.kept).ravel()
                           for part in rows])
    assert np.abs(expected[~kept]).max(initial=0.0) < 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(matrix(rows, units), expected[kept], rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    known, found = right_side(rows), equations.residuals(jets, balance)
    weights = (last / balance.columns).T.ravel()
    np.testing.assert_allclose(matrix(rows, units) @ weights + known, found[kept], rtol=1e-7,
                               atol=1e-9 * np.abs(known).max())
    assert np.abs(found[~kept]).max(initial=0.0) < 1e-9 * np.abs(found).max()


def windows(inputs, count, many):
    """Units in windows over random boxes of the first two inputs."""
    random = np.random.default_rng(5)
    f = len(inputs)
    centres, halves = np.zeros((count, f)), np.full((count, f), np.inf)
    centres[:, :2] = random.uniform(-0.7, 0.7, (count, 2))
    halves[:, :2] = random.uniform(0.4, 1.5, (count, 2))
    return Local(LOCAL, random.standard_normal((count, f, many)), random.standard_normal((count, many)), centres,
                 halves)


def test_blocks_of_windows_are_the_derivatives_of_the_residuals(system):
    formulation, batch, base, _, equations = system
    inputs = equations.groups[0].points.terms[0].inputs[:, 0]
    units = (*draw(1, inputs, 3, recipe(inputs, "tanh")), windows(inputs, 4, 2))
    columns, sources = equations.columns, equations.groups[0].points.sources
    balance = Balance(np.linspace(1, 2, len(equations.groups[0].points.scale)), np.linspace(0.5, 1, columns))
    weights = np.random.default_rng(2).standard_normal(columns * number(units))
    last = last_of_blocks(weights, units, columns) * balance.columns
    jets = equations.jets(units, last)
    rows = equations.about(jets, balance)
    known = right_side(rows)
    made = together(blocks(rows, units), len(known), len(weights)) @ weights + known
    kept = np.concatenate([(np.ones(part.known.shape, bool) if part.kept is None else part.kept).ravel()
                           for part in rows])
    np.testing.assert_allclose(made, equations.residuals(jets, balance)[kept], rtol=1e-7,
                               atol=1e-9 * np.abs(known).max())
    # What is compiled computes all windows at all points, NumPy each where it is.
    model = random_features(units, last, base, sources if any(source.axis for source in sources) else ())
    state = np.asarray(jax.jit(formulation.state)(model, batch))
    np.testing.assert_allclose(formulation.state(model, batch), state, rtol=1e-9, atol=1e-9 * np.abs(state).max())


def test_windows_follow_a_peak_that_few_features_over_the_domain_do_not_see():
    def u(x):
        return jnp.exp(-((x[0] - 0.3) ** 2) * 1e4)

    problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: (
        hp.laplacian(dq.u) - jnp.trace(jax.hessian(u)(x))), [hp.dirichlet("ends", "u", u)])
    formulation = exact(problem, width=8, depth=1, engine=Engine(256))
    found = directly(formulation, [], 1e-4, 60)
    assert [layer.kind for layer in found.best.fitted.units][-1] == LOCAL
    assert found.best.held_out < 1e-3 * found.tried[0].held_out
    x = np.linspace(0.2, 0.4, 201)[:, None]
    np.testing.assert_allclose(formulation.predict(found.model(), x)[:, 0], u(x.T), atol=1e-3)
    assert violation(certify(formulation, [found.model()])) < 1e-12


@pytest.mark.parametrize("nonlinear", [0.0, 0.5])
def test_linearity_is_found(nonlinear):
    formulation = exact(hole(nonlinear), width=2, depth=1, engine=Engine(64))
    batch = formulation.draw(jax.random.key(0))
    groups = asked(formulation, [], own_columns(batch)).groups([Drawn(batch)])
    assert Equations(groups, 0).linear() == (nonlinear == 0)


def test_draws_put_together_are_the_draws():
    formulation = exact(hole(), width=2, depth=1, engine=Engine(64))
    apart = [as_numpy(formulation.draw(jax.random.key(k)), each_its_own(3)) for k in range(3)]
    apart[2] = apart[2].chosen(np.arange(1, len(apart[2].x), 3))
    together = put_together(apart)
    assert sorted(map(tuple, together.x)) == sorted(tuple(x) for one in apart for x in one.x)
    for k, term in enumerate(together.terms):
        assert term.inputs.shape[-1] == sum(one.terms[k].inputs.shape[-1] for one in apart)
        first = together.x[: term.inputs.shape[-1]]
        corrected = [one.x[: one.terms[k].inputs.shape[-1]] for one in apart]
        assert sorted(map(tuple, first)) == sorted(map(tuple, np.concatenate(corrected)))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("kind, function", [("tanh", jnp.tanh), ("sine", jnp.sin)])
def test_waves_are_derivatives(order, kind, function):
    z = np.linspace(-2, 2, 9)
    for _ in range(order):
        function = jax.grad(function)
    found = waves(Layer(kind, np.ones((1, 1)), np.zeros(1)), z[None], 3)
    np.testing.assert_allclose(found[order][0], jax.vmap(function)(z), rtol=1e-12, atol=1e-14)


def test_powers_are_powers_of_the_distance_about_a_corner():
    layer = Layer("power", np.array([[0.0], [1.5]]), np.array([0.2]), np.array([[0.7], [0.0]]))
    r, theta = 0.3, 0.8
    jet = np.array([[[np.log(r)]], [[theta]]])
    found = outputs((layer,), np.ones((1, 1)), jet, None, 0)
    assert found[0, 0, 0] == pytest.approx(r**0.7 * np.sin(1.5 * theta + 0.2), rel=1e-14)


def test_more_features_begin_with_those_of_fewer():
    inputs = np.random.default_rng(0).uniform(-1, 1, (8, 50))
    few, many = (draw(3, inputs, number, recipe(inputs, "sine", CORNER)) for number in (80, 200))
    for one, other in zip(few, many):
        np.testing.assert_array_equal(one.weights, other.weights[:, : one.number])


@pytest.mark.parametrize("shift", [0.0, -50.0])
def test_the_search_finds_the_scales_of_a_score_and_leaves_out_what_does_harm(shift):
    """Also of a score that is negative, as a logarithm is."""
    group, coordinate = np.array([0, 0, 1, 2]), np.array([True, True, False])
    best = np.array([6.0, 6.0, 0.4, 0.0])

    def score(recipe):
        miss = np.log(np.maximum(recipe.scales[:3], 1e-3)) - np.log(best[:3])
        return float((miss**2).sum() + recipe.scales[3] + (recipe.kind == "tanh")) + shift

    found = searched(score, Recipe(np.full(4, FIRST), "tanh"), group, coordinate)
    assert found.kind == "sine"
    assert found.scales[3] == 0 and np.abs(np.log(found.scales[:3] / best[:3])).max() < 0.35


def test_a_search_begins_with_a_cheaper_score_and_mends_what_that_got_wrong():
    group, coordinate, best, dear = np.array([0, 1]), np.array([True, False]), np.array([3.0, 0.75]), []

    def score(recipe):
        dear.append(recipe.scales)
        return float(np.abs(np.log(np.maximum(recipe.scales, 1e-3) / best)).sum())

    def coarse(recipe):
        return float(np.abs(np.log(recipe.scales[0] / 3.0)) + recipe.scales[1])

    start = Recipe(np.full(2, FIRST), "tanh")
    searched(score, start, group, coordinate)
    alone = len(dear)
    found = searched(score, start, group, coordinate, coarse=coarse)
    assert np.abs(np.log(found.scales / best)).max() < 0.35 and len(dear) - alone < alone


def test_the_search_ends_where_a_score_is_low_enough():
    seen = []

    def score(recipe):
        seen.append(np.abs(np.log(recipe.scales / 6.0)).max())
        return seen[-1]

    found = searched(score, Recipe(np.full(1, FIRST), "tanh"), np.zeros(1, int), np.array([True]), sure=0.8)
    assert found.scales == 2 * FIRST and len(seen) == 2  # 6 would be the best


def test_inputs_are_grouped_by_what_they_depend_on():
    problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u),
                         [hp.dirichlet("ends", "u", 0), hp.initial("u", lambda x: jnp.sin(jnp.pi * x[0]))],
                         time=(0, 1), hints=hp.Hints(inputs=lambda x: x[:1] ** 2))
    points = as_numpy(exact(problem, width=2, depth=1, engine=Engine(64)).draw(jax.random.key(0)), each_its_own(1))
    group, coordinate = kinds(points.terms[0].inputs, 1)
    assert len(set(group.tolist())) == 4  # x, t, √t, x²
    assert coordinate[group].tolist() == [True, True, False, False]


def test_corners_are_found_with_their_angles():
    outline = ((0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1))
    bent = hp.Problem(hp.Polygon(outline, name="wall"), "u", lambda x, q, dq: hp.laplacian(dq.u),
                      [hp.dirichlet("wall", "u", 0)])
    found = corners_of(bent)
    assert tuple(np.round(found[0].at, 9)) == (0, 0)
    assert sorted(map(tuple, np.round([corner.at for corner in found], 9))) == sorted(outline)
    angles = np.array([corner.angle for corner in found])
    np.testing.assert_allclose(angles / np.pi, [1.5, *[0.5] * 5], atol=0.05)
    assert not corners_of(hp.Problem(hp.Ball((0, 0), 1, name="wall"), "u", lambda x, q, dq: hp.laplacian(dq.u),
                                  [hp.dirichlet("wall", "u", 0)]))
    places = with_points_about(bent, found).hints.focus
    assert {place.at for place in places} == {tuple(corner.at.tolist()) for corner in found}


def test_a_singular_corner_needs_powers():
    def u(x):
        far = (x[0] ** 2 + x[1] ** 2) > 0
        angle = jnp.arctan2(x[1], jnp.where(far, x[0], 1.0))
        angle = jnp.where(angle < -1e-9, angle + 2 * jnp.pi, angle)
        r = jnp.where(far, x[0] ** 2 + x[1] ** 2, 1.0)
        return jnp.where(far, r ** (1 / 3), 0.0) * jnp.sin(2 * angle / 3)

    problem = hp.Problem(hp.Polygon(((0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)), name="wall"), "u",
                         lambda x, q, dq: hp.laplacian(dq.u), [hp.dirichlet("wall", "u", u)],
                         exact=lambda x: {"u": u(x)})
    solution = hp.solve(problem, solver="direct", tolerance=1e-3)
    assert "power" in solution.settings["features"]["kinds"]
    assert solution.errors()["u"]["relative_l2"] < 3e-3


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
    batches = [formulation.draw(jax.random.key(k)) for k in range(2)]
    ask = asked(formulation, [], own_columns(batches[0]))
    train, held = (Equations(ask.groups([Drawn(batch)]), 0) for batch in batches)
    inputs = train.groups[0].points.terms[0].inputs[:, 0]
    balance = Balance(np.ones(3), np.ones(3))
    found = fitted(train, draw(0, inputs, 60, recipe(inputs, "tanh")), balance, linear=False)
    left = held.residuals(held.jets(found.units, found.last), balance)
    assert 2 <= found.steps <= 8 and found.residual < 1e-2 * held.residual(held.offsets, balance)
    assert held.size(left) < 10 * found.residual


def test_units_of_the_statement_change_nothing():
    """Metres or millimetres, kelvin or millikelvin, watts: the relative error stays small."""
    def stated(length, degree, watt):
        def u(x):
            return degree * jnp.sin(2 * x[0] / length) * jnp.exp(x[1] / length)

        k, source = watt, (lambda x: -watt * jnp.trace(jax.hessian(u)(x)))
        return hp.Problem(hp.Box((0, 0), (length, length), name="wall"), "u", gradients={"p": "u"},
                          residual=lambda x, q, dq: -k * hp.div(dq.p) - source(x),
                          conditions=[hp.dirichlet("wall", "u", u)], exact=lambda x: {"u": u(x)})

    for units in ((1e-3, 300.0, 200.0), (1e5, 1e-6, 1e6)):
        solution = hp.solve(stated(*units), solver="direct", tolerance=1e-6)
        assert solution.errors()["u"]["relative_l2"] < 1e-6
        assert "was not reached" not in solution.decision


def test_a_direct_solution_is_saved_and_loaded(tmp_path):
    problem = hp.Problem(hp.Interval(0, 1, left="left", right="right"), "u",
                         lambda x, q, dq: hp.div(dq.p) + jnp.exp(x[0]),
                         [hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=2, g=3)], {"p": "u"})
    solution = hp.solve(problem, solver="direct", tolerance=1e-2, seed=3)
    solution.save(tmp_path / "model.eqx")
    x = [[0.2], [0.7]]
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
    why = solution.training.endings[0]["why"]
    assert "was not reached" in why and "would" in why


def test_measurements_are_met_where_equations_leave_something_open():
    """The conductivity k of −(k u')' = 1 is unknown; u is measured."""
    x = np.linspace(0.1, 0.9, 9)
    problem = hp.Problem(hp.Interval(0, 1, name="ends"), ["u", "k"],
                         lambda x, q, dq: (q.k * hp.laplacian(dq.u) + 1, dq.k.space[0]),
                         [hp.dirichlet("ends", "u", 0)], equations=2,
                         hints=hp.Hints(guess=lambda x: {"u": x[0] * (1 - x[0]), "k": 1.0}),
                         measurements=[hp.Measurement("u", x[:, None], x * (1 - x) / 4)])
    solution = hp.solve(problem, solver="direct", tolerance=1e-6)
    np.testing.assert_allclose(solution([[0.3], [0.7]])["k"], 2.0, rtol=1e-5)


def test_a_division_by_zero_is_told_with_the_place():
    broken = hp.Problem(hp.Interval(-1, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) + jnp.sqrt(q.u**2),
                        [hp.dirichlet("ends", "u", 0)])
    with pytest.raises(ValueError, match=r"not finite at 100% of the points, such as \("):
        hp.solve(broken, solver="direct")


FRONT = """
import jax, jax.numpy as jnp, hardpde as hp
def u(x):
    return jnp.tanh(60 * (x[0] - 0.3))
problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u",
                     lambda x, q, dq: hp.laplacian(dq.u) - jax.grad(lambda x: jax.grad(u)(x)[0])(x)[0],
                     [hp.dirichlet("ends", "u", u)], exact=lambda x: {"u": u(x)}, name="front")
"""


def test_what_features_cannot_do_is_trained_and_what_was_trained_gets_features(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hardpde.solving.solve.run_directly", partial(run_directly, most=60))
    monkeypatch.setattr("hardpde.direct.in_windows.MOST_DENSE", 0)
    (tmp_path / "front.py").write_text(FRONT)
    monkeypatch.setitem(GENERAL.settings[("exact", "quick")], "stages",
                        [{"optimiser": "ssbroyden", "steps": 60, "redraw": 0, "block": 20}])
    run, begun = tmp_path / "run", []
    monkeypatch.setattr(commands, "write_run", lambda *arguments: (begun.append(arguments), write_run(*arguments)))
    assert main(["solve", str(tmp_path / "front.py"), "--tolerance", "1e-10", "--out", str(run), "--json"]) == 0
    found = last_json(capsys.readouterr().out)
    assert found["solver"] in ("train", "train+direct", "direct") and "kept: " + found["solver"] in found["decision"]
    assert "was not reached" in found["decision"] and found["boundary_violation"] < 1e-12
    about = json.loads((run / "run.json").read_text())
    assert about["settings"]["solver"] == found["solver"]
    model = (run / "model.eqx").read_bytes()
    write_run(*begun[0])  # as it was when the run began
    assert main(["resume", str(run), "--json"]) == 0
    assert (run / "model.eqx").read_bytes() == model


def test_devices_share_the_rows_and_change_rounding_alone(monkeypatch):
    """The rows are cut into as many blocks as there are devices; that is stated in the settings."""
    parts, factor = [], least_squares.tall_qr

    def seen(matrix):
        parts.append(len((found := factor(matrix)).blocks))
        return found

    monkeypatch.setattr(least_squares, "tall_qr", seen)
    monkeypatch.setattr(tall, "SMALL", 0.0)
    rod = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.laplacian(dq.u) + jnp.exp(x[0]),
                     [hp.dirichlet("ends", "u", 0)])
    x, found = np.linspace(0, 1, 50)[:, None], []
    for devices in (1, 2):
        parts.clear()
        solution = hp.solve(rod, solver="direct", tolerance=1e-6, devices=devices)
        assert solution.settings["devices"] == devices and set(parts) == {devices}
        found.append(solution(x)["u"])
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)
    with pytest.raises(ValueError, match="99 devices are asked for"):
        hp.solve(rod, solver="direct", devices=99)


@pytest.mark.parametrize("stated, solver", [
    ({}, "auto"), ({"preset": "quick"}, "train"), ({"steps": [5, 5]}, "train"), ({"options": {"width": 3}}, "train"),
    ({"stages": []}, "train"), ({"devices": 2}, "auto"), ({"schedule": "fair"}, "train"),
])
def test_who_states_how_to_train_gets_a_training(stated, solver):
    assert chosen_solver("auto", "exact", **stated) == solver
    assert chosen_solver("auto", "pinn") == "train"
    assert chosen_solver("train", "exact", **stated) == "train"


def test_the_time_of_a_training_can_be_limited():
    solution = hp.solve(hole(), solver="train", seconds=1e-3)
    assert [ending["why"] for ending in solution.training.endings] == ["the time of 0.001 s was over"]


def troesch(n):
    """u'' = n sinh n u from 0 to 1; with n = 10 a layer at the end."""
    return lambda x, q, dq: hp.laplacian(dq.u) - n * jnp.sinh(n * q.u)


def led_system(residual, continuation=None):
    problem = hp.Problem(hp.Interval(0, 1, left="left", right="right"), "u", residual,
                         [hp.dirichlet("left", "u", 0), hp.dirichlet("right", "u", 1)],
                         hints=hp.Hints(continuation=continuation))
    formulation = exact(problem, width=2, depth=1, engine=Engine(128))
    batch = formulation.draw(jax.random.key(0))
    train = Equations(asked(formulation, [], own_columns(batch)).groups([Drawn(batch)]), 1)
    inputs = train.groups[0].points.terms[0].inputs[:, 0]
    return problem, train, draw(0, inputs, 40, recipe(inputs, "tanh")), Balance(np.ones(1), np.ones(1))


@pytest.mark.parametrize("stated", [False, True])
def test_a_way_of_easier_equations_ends_at_the_problem(stated):
    problem, train, units, balance = led_system(troesch(4.0), lambda s: troesch(1 + 3 * s))
    straight = fitted(train, units, balance, linear=False)
    found = led(train, units, balance, problem if stated else None)
    assert found.converged and straight.converged
    assert found.residual == pytest.approx(straight.residual, rel=1e-2)
    np.testing.assert_allclose(train.jets(units, found.last)[0], train.jets(units, straight.last)[0], rtol=1e-2,
                               atol=1e-2 * straight.residual + 1e-3)


def test_newton_steps_that_lead_nowhere_are_told():
    """u² + 1 = 0 has no solution."""
    _, train, units, balance = led_system(lambda x, q, dq: q.u**2 + 1 + 0 * hp.laplacian(dq.u))
    assert not fitted(train, units, balance, linear=False).converged


def test_a_way_that_leads_elsewhere_is_refused():
    with pytest.raises(ValueError, match="continuation does not lead to the problem"):
        led_system(troesch(4.0), lambda s: troesch(1 + s))
