"""Figures 4 and 6: the statistics against plain loops, the recorded training against the package's own."""

import json
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.formulation.engine import Engine
from hardpde.methods.pinn import pinn
from hardpde.problems.poisson import poisson
from hardpde.problems.presets import make_stages
from hardpde.studies.reproduction import extra_fields
from hardpde.studies.reproduction.base import Work
from hardpde.studies.reproduction.extra_fields import (
    Series,
    figure4,
    figure6,
    moving_average,
    moving_variance,
    ratio,
    record,
    step_conditions,
    trained,
    training_settings,
    variation,
)
from hardpde.training import fit

pytestmark = pytest.mark.usefixtures("quick_compilation")
RNG = np.random.default_rng(0)


@cache
def small(extra=True):
    return pinn(poisson(extra=extra), layers=[8, 8], engine=Engine(16, "float32"), boundary=2,
                gradients="fields" if extra else "derivatives")


def stage(steps=8, redraw=0, block=4):
    return make_stages([{"optimiser": "adam", "options": {"learning_rate": 1e-3, "plateau": False}, "steps": steps,
                         "redraw": redraw, "block": block}])[0]


@pytest.mark.parametrize("window", [2, 5, 12])
def test_moving_statistics_are_those_of_a_plain_loop(window):
    values = RNG.normal(size=(2, 12)).astype(np.float32)
    for row, means, variances in zip(values, moving_average(values, window), moving_variance(values, window)):
        assert len(means) == len(variances) == 12 - window + 1
        for k in range(len(means)):
            part = [float(v) for v in row[k : k + window]]
            mean = sum(part) / window
            assert means[k] == pytest.approx(mean, abs=1e-12)
            assert variances[k] == pytest.approx(sum((v - mean) ** 2 for v in part) / (window - 1), abs=1e-12)


def test_the_ratio_is_that_of_smoothed_variances():
    one, other = RNG.normal(size=(2, 3, 40))
    found = ratio(one, other, 7)
    assert found.shape == (3, 40 - 2 * 7 + 2)
    smooth = [np.convolve(moving_variance(rows[1], 7), np.ones(7) / 7, "valid") for rows in (one, other)]
    np.testing.assert_allclose(found[1], smooth[0] / smooth[1], rtol=1e-10)
    np.testing.assert_allclose(ratio(10 * one, one, 7), 100, rtol=1e-10)


def test_the_coefficient_of_variation_is_deviation_over_mean_and_has_no_scale():
    values = RNG.uniform(1, 2, size=(3, 50))
    expected = [np.sqrt(np.mean((row - row.mean()) ** 2)) / row.mean() for row in values]
    np.testing.assert_allclose(coefficient_of_variation(values), expected, rtol=1e-12)
    np.testing.assert_allclose(coefficient_of_variation(1e-6 * values), coefficient_of_variation(values), rtol=1e-12)


def test_condition_numbers_are_changes_of_the_loss_over_lengths_of_steps():
    equations, moved = np.array([[4.0, 3.0, 10.0, 9.5]]), np.array([[0.5, 1.0, 0.25, 1.0]])
    found = Series(equations, equations, equations, moved)
    np.testing.assert_allclose(step_conditions(found), [[2.0, 7.0, 2.0]])


@pytest.mark.parametrize("extra", [False, True])
def test_the_first_record_is_the_mean_absolute_gradient_of_the_equations_alone(extra):
    formulation = small(extra)
    found = record(formulation, stage(1, block=1), [3])
    init_key, _, stage_key = jax.random.split(jax.random.key(3), 3)
    model = formulation.init(init_key)
    x = formulation.draw(jax.random.fold_in(jax.random.fold_in(stage_key, 0), 0)).x

    def network(model, x):
        value = x
        for w, b in zip(model.weights[:-1], model.biases[:-1]):
            value = jnp.tanh(value @ w + b)
        return value @ model.weights[-1] + model.biases[-1]

    def equations(model):
        def at(x):
            slope = jax.jacfwd(lambda x: network(model, x))(x)[:, 0]
            force = 4 * jnp.sin(2 * x[0])
            if extra:
                return (slope[1] + force) ** 2 + (network(model, x)[1] - slope[0]) ** 2
            return (jax.hessian(lambda x: network(model, x)[0])(x)[0, 0] + force) ** 2

        return jax.vmap(at)(x).mean()

    value, gradient = jax.jit(jax.value_and_grad(equations))(model)
    flat = np.concatenate([np.abs(np.asarray(a)).ravel() for a in jax.tree.leaves(gradient)])
    assert found.equations[0, 0] == pytest.approx(float(value), rel=1e-4)
    assert found.gradient[0, 0] == pytest.approx(flat.mean(), rel=1e-4)
    assert found.loss[0, 0] > found.equations[0, 0]


@pytest.mark.parametrize("redraw", [0, 2, 8])
def test_the_recorded_training_is_that_of_the_package(redraw):
    formulation, how = small(), stage(8, redraw)
    found = record(formulation, how, [0, 5])
    assert all(each.shape == (2, 8) for each in found)
    for row, seed in zip(found.loss, (0, 5)):
        history = fit(formulation, [how], jax.random.key(seed)).history
        np.testing.assert_allclose(row[[3, 7]], [entry["loss"] for entry in history], rtol=1e-4)
    assert (found.moved > 0).all()


def tiny(**changes):
    settings = training_settings("poisson", (1, 4), True, True)
    return {**settings, "stage": {**settings["stage"], "steps": 4, **changes}}


def test_stored_series_are_read_again_and_only_for_the_same_settings(tmp_path, monkeypatch):
    calls = []

    def train(settings, report):
        calls.append(settings)
        return Series(*RNG.normal(size=(4, len(settings["seeds"]), settings["stage"]["steps"])))

    monkeypatch.setattr(extra_fields, "train", train)
    work = Work(tmp_path)
    first, made = trained(work, tiny())
    again, also = trained(work, tiny())
    np.testing.assert_array_equal(again, first)
    assert also == made
    assert len(calls) == 1
    for other in (tiny(redraw=2), {**tiny(), "seeds": [1]}, {**tiny(), "extra": False},
                  training_settings("poisson", (1, 4), True, False), training_settings("poisson", (1, 5), True, True)):
        trained(work, other)
        assert calls[-1] == other
    assert len(calls) == 6 and len(list((tmp_path / "extra-fields").iterdir())) == 6
    for path in (tmp_path / "extra-fields").iterdir():
        path.write_bytes(b"broken")
    trained(work, tiny())
    assert len(calls) == 7


def test_settings_are_the_papers():
    for problem, points in (("poisson", {"points": 128, "boundary": 2}),
                            ("schroedinger", {"points": 1000, "boundary": 20, "initial": 200})):
        settings = training_settings(problem, (5, 100), True, False)
        assert settings["method"] == {**points, "layers": [100] * 5, "gradients": "fields", "dtype": "float32"}
        assert settings["stage"]["steps"] == 10_000 and settings["stage"]["options"]["learning_rate"] == 1e-3


def test_both_figures_come_from_the_same_trainings(tmp_path, monkeypatch):
    monkeypatch.setattr(extra_fields, "QUICK_NETWORKS", ((1, 6),))
    monkeypatch.setattr(extra_fields, "QUICK_STEPS", 24)
    said = []
    work = Work(tmp_path, quick=True, say=said.append)
    four = figure4(work)
    assert not any("already" in text for text in said)
    said.clear()
    six = figure6(work)
    assert len(said) == 4 and all("already trained" in text for text in said)
    for outcome in (four, six):
        json.dumps(outcome.data, allow_nan=False)
        assert len(outcome.data["cases"]) == 2 and "| Schrödinger | 1 × 6 |" in outcome.text
        assert "quick run" in outcome.text
        outcome.figures[""].savefig(tmp_path / "figure.png")
    curve = four.data["cases"][0]["curve"]
    assert len(curve["step"]) == len(curve["ratio"]) and curve["step"][-1] == 24


def test_a_training_that_diverged_is_told_as_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(extra_fields, "QUICK_NETWORKS", ((1, 6),))
    monkeypatch.setattr(extra_fields, "train", lambda settings, report: Series(*np.full(
        (4, 1, settings["stage"]["steps"]), np.nan)))
    work = replace(Work(tmp_path), quick=True)
    for outcome in (figure4(work), figure6(work)):
        json.dumps(outcome.data, allow_nan=False)
        assert "| – |" in outcome.text and "0 of 2 cases" in outcome.text
