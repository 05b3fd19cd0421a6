"""What a direct solve shows of itself: singular values, residuals by place, features in words, and a page."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.evaluation.nodes import nodes
from hardpde.evaluation.untrained import features_in_words, residual_at, rows_solved, singular_values
from hardpde.runs.finish import finish

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def solution():
    """u″ = −π² sin πx: the residual of 0 is as large as the terms, that of the solution is rounding."""
    problem = hp.Problem(hp.Interval(0, 1, left="left", right="right"), "u",
                         lambda x, q, dq: hp.laplacian(dq.u) + np.pi**2 * jnp.sin(np.pi * x[0]),
                         [hp.dirichlet("left", "u", 0), hp.dirichlet("right", "u", 0)])
    return hp.solve(problem, solver="direct", tolerance=1e-4)


def test_singular_values_are_those_of_columns_of_length_one(solution):
    values = singular_values(solution)
    assert len(values) == solution.training.model.last.size and (np.diff(values) <= 0).all()
    assert (values**2).sum() == pytest.approx(len(values), rel=1e-10)


def test_the_residual_by_place_is_small_where_the_equation_holds(solution):
    grid = nodes(solution.problem, None)
    found = residual_at(solution, grid)
    assert found.shape == (len(grid.x),) and found.max() < 1e-3
    model = eqx.tree_at(lambda model: model.last, solution.training.model, replace_fn=jnp.zeros_like)
    zero = residual_at(replace(solution, training=replace(solution.training, model=model)), grid)
    assert np.sqrt((zero**2).mean()) == pytest.approx(1.0, rel=1e-3)  # of u = 0 it is the known term


def test_the_report_says_how_it_was_solved(solution, tmp_path):
    finish(solution, tmp_path, {})
    page = (tmp_path / "report.html").read_text()
    size = rows_solved(solution.training.history)[-1]["step"]
    assert solution.decision in page and f"<td>{size:,}</td>" in page and "How it was solved" in page
    assert "Training" not in page and {path.name for path in (tmp_path / "figures").iterdir()} >= {
        "sizes.png", "residual.png"}
    assert any("all over the domain" in how for _, how in features_in_words(solution.settings))


def test_values_are_those_of_jets_however_they_are_compiled(solution):
    """At first what is compiled for derivatives serves for values and slopes, later what is compiled for these."""
    formulation, model = replace(solution.formulation), solution.training.model
    x = np.linspace(0, 1, 65)[:, None]
    jets, first = formulation.jet(model, x), formulation.jet(model, x, 1)
    lent = formulation.predict(model, x)
    assert first.shape == (65, 1, 2) and np.abs(first - jets[:, :, :2]).max() < 1e-12
    formulation._evaluation._lent.append(10**6)
    own = formulation.predict(model, x)
    assert np.abs(own - lent).max() < 1e-14 and np.abs(own - jets[:, :, 0]).max() < 1e-14
    assert np.abs(formulation.jet(model, x, 1) - first).max() < 1e-12
