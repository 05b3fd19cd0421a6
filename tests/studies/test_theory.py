"""What the paper proves, measured."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.studies.reproduction.base import Work
from hardpde.studies.reproduction.theory.base import FORMS
from hardpde.studies.reproduction.theory.claims import theory
from hardpde.studies.reproduction.theory.condition_numbers import condition_bounds
from hardpde.studies.reproduction.theory.ranks import ranks
from hardpde.studies.reproduction.theory.reformulation import Weights, bounds, pde_loss
from hardpde.studies.reproduction.theory.time_blend import AIR, CELL, OUTER, TIMES, mean_error, one_cell


@pytest.fixture(scope="module")
def outcome():
    return theory(Work(Path("."), quick=True))


@pytest.fixture(scope="module")
def weights():
    return Weights(*[jnp.asarray(v) for v in ([1.0, -2.0], [0.5, 3.0], [0.1, -1.0], [0.3, 4.0])])


def test_losses_are_the_integrals_of_the_squared_residuals(weights):
    a, x = 2.0, np.linspace(0, 2 * np.pi, 4001)

    def field(c):
        return lambda x: c @ jnp.tanh(weights.w * x + weights.b)

    u, p = field(weights.c), field(weights.c_p)
    source = a**2 * np.sin(a * x)
    bend = jax.vmap(jax.grad(jax.grad(u)))(x) + source
    flux = (jax.vmap(jax.grad(p))(x) + source) ** 2 + (jax.vmap(p)(x) - jax.vmap(jax.grad(u))(x)) ** 2
    for form, squares in (("before", bend**2), ("after", flux)):
        expected = np.trapezoid(np.asarray(squares), x) / (2 * np.pi)
        assert float(pde_loss(form, weights, a)) == pytest.approx(expected, rel=1e-5)


def test_bounds_are_those_of_the_paper(weights):
    """By hand for c = (1, −2), w = (½, 3), c_p = (0.3, 4), a = 2: |c|·w² = 18.25, |c|·|w| = 6.5."""
    before, after = bounds("before", weights, 2.0), bounds("after", weights, 2.0)
    assert np.allclose(before["c"], 8 * 22.25 * np.array([0.25, 9]))
    assert np.allclose(before["w"], 16 * math.pi * 22.25 * np.array([0.75, 24]))
    assert np.allclose(before["b"], 8 * 22.25 * np.array([0.25, 18]))
    size = 4.3 + (1 * 0.5 + 4 * 3) + 4
    assert np.allclose(after["c"], 2 * (4.3 + 6.5) * np.array([0.5, 3]))
    assert np.allclose(after["w"], 40 * math.pi * size * np.array([1, 12]))
    assert np.allclose(after["b"], 12 * size * np.array([1, 12]))
    assert np.allclose(after["c_p"], 4 * size * np.array([1, 3]))


@pytest.mark.parametrize("form", FORMS)
def test_the_last_bound_of_the_condition_number_is_the_weaker_one(form, weights):
    sharp, last = condition_bounds(form, weights, 2.0)
    assert sharp < last


def test_the_projection_has_rank_d_and_the_other_basis_loses_it():
    found = ranks(quick=True)
    for row in (*found["projection"], *found["low_dimensional"]):
        assert row["ranks"] == [row["d"]] and row["residual"] < 1e-14
    counter = found["counter_example"]
    assert counter["basis"][0] == 0 and np.allclose(counter["basis"], counter["n1"], atol=1e-15)
    assert min(counter["projection"]) > 1 - 1e-12


def test_the_error_of_the_time_blend_falls_with_its_hardness():
    true = one_cell(cells=100)
    errors = [mean_error(one_cell(beta, 100).values, true) for beta in (1.0, 5.0, 20.0, 1e6)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[-1] < 1e-5


def test_the_radial_solution_gains_the_heat_that_flows_in():
    """d/dt ∫ u r dr = r n·∇u on the walls, with the wall value from the cell next to it."""
    found = one_cell()
    heat = found.values @ found.area
    half = (found.r[1] - found.r[0]) / 2
    inflow = [(CELL - u[0]) / (1 + half) + OUTER * (AIR - u[-1]) / (1 + half) for u in found.values]
    assert heat[-1] - heat[5] == pytest.approx(np.trapezoid(inflow[5:], TIMES[5:]), rel=2e-3)


def test_no_bound_of_the_theorem_is_exceeded(outcome):
    for form in FORMS:
        assert not any(outcome.data["gradients"]["forms"][form]["exceeds"].values())
        assert outcome.data["condition"]["forms"][form]["ratio"] < 1


def test_the_violation_falls_as_the_theorem_says_only_where_its_assumption_holds(outcome):
    found = outcome.data["hardness"]["three-holes"]
    assert found["rate"] == pytest.approx(-1, abs=0.02)
    assert found["printed"]["all"][-1][1] > 1e-3
    assert found["exact"] < 1e-12


def test_a_trained_network_has_the_error_of_the_limit(outcome):
    found = outcome.data["time"]
    row = found["trained"][0]
    assert row["mae"] == pytest.approx(found["mae"][found["beta_t"].index(row["beta_t"])], rel=0.2)


def test_the_outcome_is_plain_data_with_a_picture_and_whole_tables(outcome):
    assert json.loads(json.dumps(outcome.data)) is not None
    assert set(outcome.figures) == {""} and len(outcome.figures[""].axes) == 6
    tables = [part.splitlines() for part in outcome.text.split("\n\n") if part.startswith("|")]
    assert len(tables) >= 3
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1
