"""The comparison with other libraries: its data are right, its harness measures, every library's file runs."""

import importlib
import json
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.problem.unfilled import without_gradients
from hardpde.problems.heat_ball import heat_ball as stock_heat_ball
from hardpde.solving.settings import make_settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import others  # noqa: E402

heat_ball, robin_holes, watching = others.heat_ball, others.robin_holes, others.watching
FEW = {"width": 8, "depth": 2, "points": 64}


def exact(problem):
    """u and its derivatives at points, by automatic differentiation of the stated solution."""

    def u(x):
        if problem == "robin-holes":
            return robin_holes.solution(x[0], x[1], jnp)
        return heat_ball.solution(x[:-1], x[-1], jnp)

    return u, lambda x: tuple(map(np.asarray, jax.vmap(jax.value_and_grad(u))(jnp.asarray(x))))


def modules():
    found = [np, jnp]
    if importlib.util.find_spec("torch"):
        import torch

        found.append(torch)
    return found


def test_the_source_of_robin_holes_is_that_of_its_solution():
    u, _ = exact("robin-holes")
    x = others.PROBLEMS["robin-holes"]().x[:200]
    np.testing.assert_allclose(
        -jax.vmap(lambda x: jnp.trace(jax.hessian(u)(x)))(x), robin_holes.source(x[:, 0], x[:, 1], np), atol=1e-11)


def test_the_source_of_heat_ball_is_that_of_its_solution():
    u, state = exact("heat-ball")
    x = others.PROBLEMS["heat-ball"]().x[:200]
    diffusion = heat_ball.K * jax.vmap(lambda x: jnp.trace(jax.hessian(u)(x)[:-1, :-1]))(x)
    np.testing.assert_allclose(state(x)[1][:, -1] - diffusion, heat_ball.source(x[:, :-1], x[:, -1], np), atol=1e-12)


def test_every_module_computes_the_same_data():
    x = np.random.default_rng(0).random((5, 11))
    for m in modules():
        p = x if m is np else m.asarray(x)
        for function, arguments in ((robin_holes.solution, (0, 1)), (robin_holes.source, (0, 1))):
            found = function(*(p[:, i] for i in arguments), m)
            np.testing.assert_allclose(found, function(*(x[:, i] for i in arguments), np), rtol=1e-14)
        for function in (heat_ball.solution, heat_ball.source):
            np.testing.assert_allclose(function(p[:, :10], p[:, 10], m), function(x[:, :10], x[:, 10], np), rtol=1e-14)
        hole = robin_holes.HOLES[1]
        np.testing.assert_allclose(robin_holes.rim(p[:, 0], p[:, 1], hole, m),
                                   robin_holes.rim(x[:, 0], x[:, 1], hole, np), rtol=1e-13)


@pytest.mark.parametrize("problem", others.PROBLEMS)
def test_the_known_solution_violates_no_condition_and_another_does(problem):
    known = others.PROBLEMS[problem]()
    u, state = exact(problem)
    np.testing.assert_allclose(jax.vmap(u)(known.x), known.u, rtol=1e-13)
    found = others.violation(known, state)
    assert found["max"] < 1e-13 and found["points"] >= 4000
    moved = others.violation(known, lambda x: (state(x)[0] + 0.1, 1.1 * state(x)[1]))
    assert all(part["mean"] > 0.01 for part in moved["parts"].values())


@pytest.mark.parametrize("problem", others.PROBLEMS)
def test_hardpde_is_told_the_same_problem(problem):
    stated = importlib.import_module(f"hardpde_{problem.replace('-', '_')}").problem
    u, _ = exact(problem)
    dim = stated.schema.dim

    def state(x):
        return jnp.concatenate([u(x)[None], jax.grad(u)(x)[:dim]])[: stated.schema.size]

    def derivatives(x):
        rows = jax.jacfwd(state)(x).T
        if stated.order == 1:
            return rows
        return jnp.concatenate([rows, jnp.trace(jax.hessian(u)(x)[:dim, :dim])[None, None]])

    def columns(x, n):
        return jnp.concatenate([state(x), jax.grad(u)(x)[:dim] @ n[:, None]]) if stated.schema.traces else state(x)

    residuals = jax.jit(jax.vmap(lambda x: stated.residuals(x, state(x), derivatives(x))))
    known = others.PROBLEMS[problem]()
    assert np.abs(residuals(known.x[:200])).max() < 1e-11
    points = {c.name: c.x for c in known.conditions}
    for condition in stated.conditions:
        x = jnp.asarray(points[condition.on if condition.on in points else "initial"][:50])
        centre = np.zeros(stated.schema.dim)
        if condition.on.startswith("hole"):
            centre = np.asarray(robin_holes.HOLES[int(condition.on[4:])])
        outward = x[:, : stated.schema.dim] - centre
        normal = (-1 if condition.on.startswith("hole") else 1) * outward / jnp.linalg.norm(outward, axis=1)[:, None]
        a, g = jax.vmap(partial(condition.matrix, stated.schema))(x, normal)
        found = np.einsum("nrm,nm->nr", a, jax.vmap(columns)(x, normal))
        np.testing.assert_allclose(found, g, atol=1e-12, err_msg=condition.on)


def test_heat_ball_is_the_stock_problem():
    """With derivatives in place of gradient fields, as that is solved; with the settings of any problem."""
    stated, stock = importlib.import_module("hardpde_heat_ball").problem, without_gradients(stock_heat_ball())
    assert stated.schema == stock.schema and stated.time == stock.time and stated.name == stock.name
    rng = np.random.default_rng(1)
    x, q, dq = rng.random(11), rng.random(1), rng.random((12, 1))
    np.testing.assert_allclose(stated.residuals(x, q, dq), stock.residuals(x, q, dq), rtol=1e-13)
    assert make_settings(stated, "exact", "quick", 0)["method"]["points"] == 2048


def train_a_little(steps, user, watch):
    settings = make_settings(user.problem, "exact", "quick", 0, options=FEW, steps=steps)
    return watching.hardpde(user, watch, settings)


@pytest.fixture
def few_points(monkeypatch, quick_compilation):
    for name, value in (("POINTS", 40), ("BOUNDARY", 40), ("EVERY", 0.0)):
        monkeypatch.setattr(others, name, value)


@pytest.mark.parametrize("problem", others.PROBLEMS)
def test_a_few_steps_of_hardpde(problem, few_points):
    row = others.measure("hardpde", problem, 1e6, partial(train_a_little, [2, 2]))
    assert row["steps"] == {"adam": 2, "ssbroyden": 2} and row["ended"] == "all 2 steps were taken"
    assert row["violation"]["max"] < 1e-11
    assert len(row["curve"]) >= 2 and row["curve"][-1][1] == pytest.approx(row["relative_l2"], rel=1e-2)
    assert row["relative_l2"] > 1e-3 and row["seconds_to"]["0.001"] is None
    assert row["dtype"] == "float64" and row["weights"] > 50


def test_training_stops_when_the_time_is_up(few_points):
    row = others.measure("hardpde", "heat-ball", 0.0, partial(train_a_little, [2, 2]))
    assert row["ended"] == "the time was up" and row["steps"] == {"adam": 2}


@pytest.mark.parametrize("problem", others.PROBLEMS)
@pytest.mark.parametrize("library", [name for name in others.PACKAGES if name != "hardpde"])
def test_a_few_steps_of_another_library(library, problem):
    assert (others.FOLDER / f"{library}_{problem.replace('-', '_')}.py").exists()
    if others.missing(library):
        pytest.skip(f"{library} is not installed")
    row = others.measure_apart(library, problem, 0.1)
    assert "failure" not in row, row
    assert row["ended"] == "the time was up" and 0 < row["relative_l2"] < 10 and row["weights"] > 1000
    built_in = row["violation"]["parts"]["sides" if problem == "robin-holes" else "initial"]
    assert built_in["max"] < 1e-14 < row["violation"]["max"]


def test_the_clock_stands_still_while_the_error_is_measured(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(others.time, "perf_counter", lambda: now[0])
    known = others.Known(np.zeros((2, 1)), np.array([1.0, 1.0]), [])
    watch = others.Watch(known, budget=10.0)

    def slowly(x):
        now[0] += 100.0
        return np.array([1.0, 1.1])

    now[0] = 3.0
    assert not watch.due()  # nothing has been trained
    assert not watch.step("adam", 1) and watch.due()
    watch.look(slowly)
    assert watch.errors == [(3.0, pytest.approx(0.1 / np.sqrt(2)))] and watch.seconds() == 3.0
    now[0] += 1.0
    assert not watch.step("adam", 2) and not watch.due()
    now[0] += 7.0
    assert watch.step("adam", 3) and watch.due()
    assert [seconds for *_, seconds in watch.steps] == [3.0, 4.0, 11.0]


def test_timings_leave_the_first_steps_of_a_stage_out():
    steps = [("adam", 10, 6.0), ("adam", 20, 7.0), ("adam", 30, 8.0), ("lbfgs", 1, 13.5), ("lbfgs", 2, 14.0)]
    found = others.timings(steps)
    assert found["step_ms"] == {"adam": 100.0, "lbfgs": 500.0} and found["steps"] == {"adam": 30, "lbfgs": 2}
    assert found["first_steps_s"] == pytest.approx(5.0 + 5.0)
    assert others.timings([("adam", 1, 2.0)])["step_ms"] == {"adam": None}


def test_lines_of_code_leave_out_docstrings_comments_and_blanks(tmp_path):
    path = tmp_path / "code.py"
    words = '"""Words.\n\nMore words."""'
    path.write_text(f"{words}\n\nimport os\n\n# why\nx = 1  # what\n\n\ndef f():\n    {words}\n    return x\n")
    assert others.lines(path) == 4


def test_a_library_that_is_missing_is_a_row(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(others.PACKAGES, "pina", (("no_such_package",), "no-such-package"))
    out = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", ["others.py", "--libraries", "pina", "--problems", "heat-ball", "--out", str(out)])
    others.main()
    assert "not installed: pip install 'hardpde[bench]'" in capsys.readouterr().out.splitlines()[-1]
    written = json.loads(out.read_text())
    assert written["rows"][0]["failure"].startswith("not installed") and written["versions"]["jax"]


def test_a_name_that_is_wrong_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["others.py", "--libraries", "hardpde,sciann"])
    with pytest.raises(SystemExit):
        others.main()
    assert "there is no 'sciann'; there are hardpde, deepxde, jinns, pina" in capsys.readouterr().err


def test_the_table_in_the_document_is_that_of_the_file():
    rows = json.loads((ROOT / "results" / "others-cpu.json").read_text())["rows"]
    assert others.table(rows) in (ROOT / "docs" / "others.md").read_text()
    pairs = {(problem, library) for problem in others.PROBLEMS for library in others.PACKAGES}
    assert {(row["problem"], row["library"]) for row in rows} == pairs
