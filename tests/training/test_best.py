"""The weights with the least held-out loss are kept, whatever the training does after them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from hardpde.training import Stage, fit, fit_all
from hardpde.training.base import Objective

pytestmark = pytest.mark.usefixtures("quick_compilation")
KEY = jax.random.key(0)


class Data(NamedTuple):
    x: Any
    weights: Any = None


class Bowl(Objective):
    """(w − x)² of a number: points are about 1, held-out ones about `truth`."""

    def __init__(self, truth=1.0):
        self.truth = truth

    def init(self, key):
        return {"w": jnp.zeros(())}

    def draw(self, key, model):
        return Data(jnp.ones(3))

    def draw_held_out(self, key, model):
        return Data(jnp.full(3, self.truth))

    def loss(self, model, batch):
        return ((model["w"] - batch.x) ** 2).mean()


def stage(name, rate, steps, block=1):
    return Stage(name, optax.sgd(rate), steps, block=block)


def test_a_stage_that_diverges_is_undone_and_told():
    training = fit(Bowl(), [stage("calm", 0.1, 20), stage("wild", 3.0, 200), stage("after", 0.1, 20)], KEY)
    calm, wild, after = training.endings
    assert wild["steps"] < 20 and "it diverged: the held-out loss rose from" in wild["why"]
    assert "the weights of step 20 of calm were kept" in wild["why"] and calm["why"] == "all 20 steps were taken"
    assert after["why"] == "all 20 steps were taken" and float(training.model["w"]) == pytest.approx(1, abs=1e-3)
    (undone,) = [k for k, (a, b) in enumerate(zip(training.history, training.history[1:]))
                 if (a["step"], a["stage"]) == (b["step"], b["stage"])]  # the record of the weights that were kept
    assert training.history[undone + 1]["held_out"] == training.history[19]["held_out"]


def test_a_held_out_loss_that_rises_for_long_ends_the_stage():
    training = fit(Bowl(0.5), [stage("long", 0.02, 400)], KEY)  # the points lead past what is held out
    (ending,) = training.endings
    assert ending["steps"] < 250 and "while that of the training's points fell" in ending["why"]
    assert float(training.model["w"]) == pytest.approx(0.5, abs=0.02)


def test_the_last_weights_are_not_returned_where_earlier_ones_were_better():
    training = fit(Bowl(0.985), [stage("short", 0.1, 20)], KEY)
    best = min(record["held_out"] for record in training.history)
    assert training.history[-1]["held_out"] == best == pytest.approx((float(training.model["w"]) - 0.985) ** 2)
    assert training.endings[0]["why"].startswith("all 20 steps were taken; the weights of step ")


@pytest.mark.parametrize("kill", [3, 12, 21])
def test_a_resumed_run_keeps_the_same_weights(tmp_path, kill):
    stages, path, seen = [stage("short", 0.1, 20), stage("wild", 3.0, 20)], tmp_path / "checkpoint.npz", []

    def stop(record):
        seen.append(record)
        if len(seen) == kill:
            raise KeyboardInterrupt

    whole = fit(Bowl(0.985), stages, KEY)
    with pytest.raises(KeyboardInterrupt):
        fit(Bowl(0.985), stages, KEY, path=path, report=stop, every=0)
    resumed = fit(Bowl(0.985), stages, KEY, path=path, resume=True)
    assert float(resumed.model["w"]) == float(whole.model["w"]) and resumed.endings == whole.endings
    assert [row["held_out"] for row in resumed.history] == [row["held_out"] for row in whole.history]


def test_each_of_many_models_keeps_its_own():
    class Apart(Bowl):
        def init(self, key):
            return {"w": jax.random.uniform(key, (), minval=-1.0, maxval=0.5)}

    alone = [fit(Apart(0.985), [stage("short", 0.1, 20)], key) for key in jax.random.split(KEY, 3)]
    together = fit_all(Apart(0.985), [stage("short", 0.1, 20)], jax.random.split(KEY, 3))
    np.testing.assert_allclose([float(t.model["w"]) for t in together], [float(t.model["w"]) for t in alone])
    assert [t.endings for t in together] == [t.endings for t in alone]


class Cliff(Bowl):
    """A bowl whose loss is no number beyond half of the way."""

    def loss(self, model, batch):
        return jnp.where(model["w"] > 0.5, jnp.nan, super().loss(model, batch))


def test_the_last_weights_before_a_loss_that_is_not_finite_are_kept():
    training = fit(Cliff(), [stage("steps", 0.05, 40, block=20)], KEY)
    (ending,) = training.endings
    assert "not finite" in ending["why"] and 0 < ending["steps"] < 20
    last, next_one = (fit(Bowl(), [stage("steps", 0.05, ending["steps"] + more, block=20)], KEY) for more in (-1, 0))
    assert float(training.model["w"]) == float(last.model["w"]) <= 0.5 < float(next_one.model["w"])
