"""The training loop: blocks fill a stage, runs resume bit for bit, failures are sentences, files hold no code."""

import inspect
import pickle
import shutil
import sys
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import hardpde as hp
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.sharded import Sharded
from hardpde.methods import exact, make
from hardpde.support.hardware import current_device
from hardpde.training import OPTIMISERS, Stage, adam, fit, fit_all, ssbroyden
from hardpde.training.base import Objective
from helpers import weights

pytestmark = pytest.mark.usefixtures("quick_compilation")
SMALL = {"width": 8, "depth": 2, "points": 64}


def make_problem():
    return hp.Problem(
        domain=hp.Interval(0, 1, left="left", right="right"),
        fields="u",
        gradients={"grad_u": "u"},
        residual=lambda x, q, dq: -hp.div(dq.grad_u) - 1,
        conditions=[hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=1, g=1)],
        name="rod",
    )


@pytest.fixture(scope="module")
def problem():
    return make_problem()


@pytest.fixture(scope="module")
def formulation(problem):
    return make(exact, problem, SMALL)


def stages():
    """Adam redraws inside its blocks; SSBroyden keeps its points for two blocks."""
    return [Stage("adam", adam(5e-3, plateau=False), 40, redraw=10, block=20),
            Stage("ssbroyden", ssbroyden(), 80, redraw=40, block=20)]


def comparable(training):
    """All that a run leaves but the time it took."""
    history = [{k: v for k, v in record.items() if k != "seconds"} for record in training.history]
    return history, training.endings


# --- Stages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 7, 40, 60, 500, 2000])
@pytest.mark.parametrize("redraw", [0, 1, 5, 10, 50, 60, 500])
@pytest.mark.parametrize("block", [1, 20, 50])
def test_blocks_fill_the_stage_and_fit_the_redraws(steps, redraw, block):
    stage, step, lengths = Stage("s", adam(), steps, redraw, block), 0, []
    while step < steps:
        length = stage.length(step)
        assert 1 <= length <= block
        if redraw and stage.inside:  # whole periods, or the last one, which is short
            assert length % stage.draws(length) == 0
            assert length == redraw * stage.draws(length) or length == steps - step < redraw
        elif redraw:
            assert stage.draws(length) == 1 and step // redraw == (step + length - 1) // redraw
        lengths.append(length)
        step += length
    assert step == steps and len(set(lengths)) <= 3  # so few are compiled


def test_a_last_period_may_be_short(formulation):
    """Points are redrawn after 10, 20, … steps, inside blocks and between them, whatever the number of steps."""
    for block in (20, 10):
        stage = Stage("ssbroyden", ssbroyden(), 37, redraw=10, block=block)
        training = fit(formulation, [stage], jax.random.key(0))
        assert [record["step"] for record in training.history] == ([20, 30, 37] if block == 20 else [10, 20, 30, 37])
        assert training.history[-1]["held_out"] < 0.5 * training.history[0]["held_out"]


@pytest.mark.parametrize("steps", [2, 499, 5003])
def test_other_numbers_of_steps_leave_alone_when_points_are_redrawn(steps):
    """Redrawn more often, an optimiser would never come to know its loss."""
    from hardpde.problems.presets import preset, with_steps

    settings = preset("exact", "quick")
    before, after = (each["stages"][1]["redraw"] for each in (settings, with_steps(settings, [10, steps])))
    assert after == (before if steps > before else 0)


def test_a_problem_of_ones_own_may_have_the_name_of_a_built_in_one(problem):
    """Its settings are the defaults; those made for the built-in problem are not for it."""
    from hardpde.problems import PROBLEMS
    from hardpde.solving.settings import make_settings

    own = replace(problem, name="poisson")
    assert make_settings(own, "exact", "quick", 0)["method"] == make_settings(problem, "exact", "quick", 0)["method"]
    built_in = PROBLEMS["poisson"]()
    assert make_settings(built_in, "exact", "quick", 0)["method"]["points"] == 256
    assert make_settings(replace(built_in, hints=hp.Hints()), "exact", "quick", 0)["method"]["points"] == 256
    assert make_settings(replace(built_in, name="mine"), "exact", "quick", 0)["method"]["points"] == 2048
    with pytest.raises(ValueError, match=r"write Presets\('poisson'"):
        make_settings(replace(built_in, presets={}), "exact", "quick", 0)


def test_a_mistake_in_a_later_stage_is_told_before_the_first_one_ends(formulation):
    def update(updates, state, params=None, **extra):
        raise ValueError("this optimiser cannot do that")

    wrong, seen = optax.GradientTransformationExtraArgs(lambda params: (), update), []
    with pytest.raises(ValueError, match="cannot do that"):
        fit(formulation, [Stage("adam", adam(), 10**6, block=5), Stage("wrong", wrong, 5)], jax.random.key(0),
            report=seen.append)
    assert all(record["stage"] == "adam" and record["step"] < 10**6 for record in seen)


@pytest.mark.parametrize("optimiser", [optax.adamw(1e-2), optax.chain(optax.clip(1.0), optax.sgd(1e-2))])
def test_an_optimiser_of_optax_will_do(problem, optimiser, tmp_path):
    solution = hp.solve(problem, options=SMALL, stages=[
        {"optimiser": "adam", "steps": 5}, hp.Stage("mine", optimiser, 40, redraw=20, block=10)])
    history = solution.training.history
    assert [row["stage"] for row in history] == ["adam", *["mine"] * 4]
    assert history[-1]["held_out"] < history[0]["held_out"]
    solution.save(tmp_path / "model.eqx")
    again = hp.Solution.load(tmp_path / "model.eqx", problem)
    assert again.settings["stages"][1] == {"optimiser": "mine", "steps": 40, "redraw": 20, "block": 10}
    np.testing.assert_array_equal(again([[0.3]])["u"], solution([[0.3]])["u"])


def test_stages_of_ones_own_say_what_is_wrong(problem):
    with pytest.raises(ValueError, match=r"stage 'mine': the optimiser is 'adam'; it must be an optax transformation"):
        hp.Stage("mine", "adam", 5)
    with pytest.raises(ValueError, match="state them in the stages"):
        hp.solve(problem, stages=[hp.Stage("mine", optax.sgd(1e-2), 5)], steps=[3])


def test_a_training_runs_where_it_is_told_to(formulation, monkeypatch):
    cpu = jax.devices("cpu")[0]
    assert current_device() == cpu
    for wished in (cpu, "cpu"):
        with jax.default_device(wished):
            assert current_device() == cpu
    other = object()
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: [other])
    assert current_device() is other


def test_a_block_is_compiled_once_however_many_there_are(formulation, caplog):
    class Elsewhere:
        """The same formulation, whose points come from another device."""

        def __getattr__(self, name):
            return getattr(formulation, name)

        def draw(self, key, model):
            return jax.device_put(formulation.draw(key, model), jax.local_devices()[0])

    def compilations(blocks):
        caplog.clear()
        with jax.log_compiles():
            fit(Elsewhere(), [Stage("adam", adam(), 5 * blocks, redraw=5, block=5),
                              Stage("ssbroyden", ssbroyden(), 5 * blocks, redraw=5, block=5)], jax.random.key(0))
        return sum("Finished XLA compilation" in record.getMessage() for record in caplog.records)

    compilations(4)  # what is compiled once in a process
    assert 0 < compilations(1) == compilations(4)


@pytest.mark.parametrize("many", [1, 2])
def test_what_stages_call_is_compiled_beside_the_draws(formulation, many, caplog, monkeypatch):
    """Then their calls compile nothing: first model, held-out loss, the loss with its gradient, the block of each."""
    module, calls = sys.modules["hardpde.training.calls"], []
    beside = module.compile_in_background

    def compilations():
        caplog.clear()
        with jax.log_compiles():  # of this thread
            fit_all(formulation, [Stage("adam", adam(), 5, block=5), Stage("ssbroyden", ssbroyden(), 5, block=5),
                                  Stage("ssbroyden", ssbroyden(), 4, block=4),
                                  Stage("ssbroyden", ssbroyden(), 10, redraw=2, block=10)],
                    jax.random.split(jax.random.key(0), many))
        return sum("Finished XLA compilation" in record.getMessage() for record in caplog.records)

    monkeypatch.setattr(module, "compile_in_background", lambda jobs: calls.append(jobs) or [])
    compilations()  # what is compiled once in a process
    one_by_one = compilations()
    monkeypatch.setattr(module, "compile_in_background", lambda jobs: [job for job in beside(jobs) if job.result()])
    assert len(calls[-1]) == 7 and compilations() == one_by_one - 7


@pytest.mark.parametrize("numbers", [(0, 0, 50), (10, -1, 50), (10, 0, 0)])
def test_impossible_stages_are_refused(numbers):
    with pytest.raises(ValueError, match="steps and block are positive whole numbers, redraw not negative"):
        Stage("s", adam(), *numbers)


@pytest.mark.parametrize("kind", [Formulation, Sharded])
def test_formulations_are_objectives(kind):
    """They have all that `fit` asks for, and their methods take the same arguments."""
    for name, asked in vars(Objective).items():
        if not name.startswith("_"):
            found = getattr(kind, name, None)
            assert found is not None or name in kind.__dataclass_fields__, name
            if inspect.isfunction(asked) and inspect.isfunction(found):
                taken = list(inspect.signature(asked).parameters)
                assert list(inspect.signature(found).parameters)[:len(taken)] == taken, name


def test_what_is_observed_of_each_step(formulation):
    """Steps of all stages one after the other; the training is the one that nobody observes, but for rounding."""
    keys = jax.random.split(jax.random.key(2), 2)
    trainings = fit_all(formulation, stages()[:1], keys, observe=lambda loss, terms, gradients, updates: {
        "loss": loss, "terms": terms, "slope": next(a[0].sum() for a in jax.tree.leaves(gradients)),
        "step": jnp.linalg.norm(ravel_pytree(updates)[0])})
    for training, plain in zip(trainings, fit_all(formulation, stages()[:1], keys)):
        assert {name: a.shape for name, a in training.observed.items()} == {
            "loss": (40,), "terms": (40, 1), "slope": (40,), "step": (40,)}
        assert training.observed["loss"][[19, 39]].tolist() == [record["loss"] for record in training.history]
        np.testing.assert_allclose(training.observed["terms"][:, 0], training.observed["loss"], rtol=1e-6)
        np.testing.assert_allclose(weights(training.model), weights(plain.model), rtol=1e-2, atol=1e-3)
        assert (training.observed["step"] > 0).all() and plain.observed is None


@pytest.mark.parametrize("optimiser", [adam(5e-2, plateau=False), ssbroyden()])
def test_a_loss_of_ones_own_is_trained(optimiser):
    """An objective needs a model, points and a loss; all else is as usual."""

    class Data(NamedTuple):
        x: Any
        weights: Any = None

    class Line(Objective):
        def init(self, key):
            return {"slope": jnp.zeros(()), "level": jnp.zeros(())}

        def draw(self, key, model):
            return Data(jax.random.uniform(key, (20,)))

        draw_held_out = draw

        def loss(self, model, batch):
            return ((model["slope"] * batch.x + model["level"] - 2 * batch.x - 1) ** 2).mean()

    training = fit(Line(), [Stage("mine", optimiser, 800, block=400)], jax.random.key(0))
    assert training.history[-1]["held_out"] < 1e-6
    with pytest.raises(ValueError, match="a loss that is a sum of squares"):
        fit(Line(), [Stage("mine", OPTIMISERS["levenberg_marquardt"](), 2)], jax.random.key(0))


# --- One run, seen at every moment at which it could have been killed --------------------------------------


@pytest.fixture(scope="module")
def whole(formulation, tmp_path_factory):
    """A run with a checkpoint after every block, and copies of the file as it was at each report."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "checkpoint.npz"
    copies = []

    def report(record):
        copies.append(folder / f"{len(copies)}.npz")
        if path.exists():
            shutil.copyfile(path, copies[-1])

    training = fit(formulation, stages(), jax.random.key(3), path=path, report=report, every=0)
    return training, copies


def test_the_loss_falls(whole, formulation):
    training, _ = whole
    first, last = training.history[0], training.history[-1]
    assert last["loss"] < 1e-2 * first["loss"]
    assert last["held_out"] < 1e-2 * first["held_out"]
    held = formulation.draw(jax.random.key(99), None)
    assert float(formulation.loss(training.model, held)) == pytest.approx(last["held_out"], rel=2.0)


def test_a_training_tells_every_block_and_why_each_stage_ended(whole):
    training, _ = whole
    assert [record["step"] for record in training.history] == [20, 40, 20, 40, 60, 80]
    assert [record["stage"] for record in training.history] == ["adam"] * 2 + ["ssbroyden"] * 4
    assert training.endings == [{"stage": "adam", "steps": 40, "why": "all 40 steps were taken"},
                                {"stage": "ssbroyden", "steps": 80, "why": "all 80 steps were taken"}]
    seconds = [record["seconds"] for record in training.history]
    assert seconds == sorted(seconds) and training.seconds >= seconds[-1] > 0


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_a_resumed_run_equals_the_uninterrupted_one(whole, formulation, tmp_path, blocks):
    training, copies = whole
    path = tmp_path / "checkpoint.npz"
    shutil.copyfile(copies[blocks], path)
    seen = []
    resumed = fit(formulation, stages(), jax.random.key(3), path=path, resume=True, report=seen.append)
    assert len(seen) == 6 - blocks
    np.testing.assert_array_equal(weights(resumed.model), weights(training.model))
    assert comparable(resumed) == comparable(training)


def test_checkpoints_and_a_resume_without_one_change_nothing(whole, formulation, tmp_path):
    training, _ = whole
    plain = fit(formulation, stages(), jax.random.key(3), path=tmp_path / "none.npz", resume=True)
    np.testing.assert_array_equal(weights(plain.model), weights(training.model))
    assert not list(tmp_path.iterdir())  # a minute had not passed


def test_resume_with_points_where_the_residual_is_large(problem, tmp_path):
    formulation = make(exact, problem, {**SMALL, "adaptive": True})
    plan = [Stage("ssbroyden", ssbroyden(), 60, redraw=20, block=20)]
    path, kept = tmp_path / "checkpoint.npz", tmp_path / "kept.npz"

    def keep(record):
        if record["step"] == 40:
            shutil.copyfile(path, kept)

    whole = fit(formulation, plan, jax.random.key(0), path=path, report=keep, every=0)
    resumed = fit(formulation, plan, jax.random.key(0), path=kept, resume=True)
    np.testing.assert_array_equal(weights(resumed.model), weights(whole.model))
    assert comparable(resumed) == comparable(whole)


# --- Failures are results with a sentence ------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_the_stage_and_keeps_good_weights(formulation):
    wild = Stage("wild", adam(1e200, plateau=False), 40, block=20)
    tame = Stage("tame", adam(1e-3, plateau=False), 20, block=20)
    training = fit(formulation, [tame, wild, tame], jax.random.key(0))
    calm, ending, after = training.endings
    assert ending["stage"] == "wild" and ending["steps"] < 40
    assert "not finite" in ending["why"] and "last good weights were kept" in ending["why"]
    assert np.isfinite(weights(training.model)).all()
    assert after["why"].startswith("all 20 steps were taken") and calm["why"] == "all 20 steps were taken"
    assert np.isfinite(training.history[-1]["held_out"])


def test_a_loss_that_is_never_finite_keeps_the_initial_weights(formulation):
    broken = replace(formulation, state=lambda model, batch: jnp.nan * formulation.state(model, batch))
    training = fit(broken, [Stage("adam", adam(), 20, block=20)], jax.random.key(0))
    assert training.endings[0]["steps"] == 0 and "not finite at step 1" in training.endings[0]["why"]
    start = fit(formulation, [], jax.random.key(0))
    np.testing.assert_array_equal(weights(training.model), weights(start.model))


def test_a_converged_stage_says_so(formulation):
    training = fit(formulation, [Stage("ssbroyden", ssbroyden(tolerance=1e30), 60, block=20)], jax.random.key(0))
    (ending,) = training.endings
    assert ending["steps"] == 20 and "gradient is below the tolerance" in ending["why"]


def test_single_precision_stays_single(problem):
    formulation = make(exact, problem, {**SMALL, "dtype": "float32"})
    plan = [Stage("adam", adam(5e-3), 20, block=20), Stage("ssbroyden", ssbroyden(), 20, block=20)]
    training = fit(formulation, plan, jax.random.key(0))
    assert {leaf.dtype for leaf in jax.tree.leaves(training.model)} == {np.dtype("float32")}
    assert training.history[-1]["loss"] < training.history[0]["loss"]


# --- Files ---------------------------------------------------------------------------------------------------


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.mkdir, (str(self.path),)


def damage(kind, path, good):
    """Write a file that is not what it should be."""
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(good[: len(good) // 2])
    elif kind == "flipped":
        path.write_bytes(good[:400] + bytes([good[400] ^ 255]) + good[401:])
    elif kind == "text":
        path.write_text("these are not weights\n")
    elif kind == "foreign":
        with open(path, "wb") as file:
            np.savez(file, a=np.zeros(3))
    elif kind == "other meta":
        with open(path, "wb") as file:
            np.savez(file, meta=np.frombuffer(b"{}", np.uint8))
    elif kind == "pickle":
        path.write_bytes(pickle.dumps(Bomb(path.parent / "exploded")))
    elif kind == "pickled arrays":
        with open(path, "wb") as file:
            np.savez(file, meta=np.array([Bomb(path.parent / "exploded")], dtype=object))


@pytest.mark.parametrize("kind", ["empty", "truncated", "text", "foreign", "other meta", "pickle", "pickled arrays"])
def test_a_damaged_checkpoint_is_refused_in_a_sentence(whole, formulation, tmp_path, kind):
    path = tmp_path / "checkpoint.npz"
    damage(kind, path, whole[1][2].read_bytes())
    with pytest.raises(ValueError, match=r"checkpoint\.npz' is damaged or not a hardpde file.*start the run again"):
        fit(formulation, stages(), jax.random.key(3), path=path, resume=True)
    assert not (tmp_path / "exploded").exists()


def test_a_checkpoint_of_another_run_is_refused(whole, problem, formulation):
    copies = whole[1]
    wider = make(exact, problem, {**SMALL, "width": 9})
    with pytest.raises(ValueError, match="belongs to another model"):
        fit(wider, stages(), jax.random.key(3), path=copies[2], resume=True)
    with pytest.raises(ValueError, match="other stages"):
        fit(formulation, stages()[:1], jax.random.key(3), path=copies[3], resume=True)


@pytest.fixture(scope="module")
def solved(problem):
    return hp.solve(problem, options=SMALL, steps=[20, 0])


def test_the_same_seed_repeats_and_another_does_not(problem, formulation, solved):
    again = hp.solve(problem, options=SMALL, steps=[20, 0])
    np.testing.assert_array_equal(weights(again.training.model), weights(solved.training.model))
    start, other = (fit(formulation, [], jax.random.key(seed)) for seed in (0, 1))
    assert not np.array_equal(weights(start.model), weights(other.model))


def test_a_model_is_read_back_exactly(problem, solved, tmp_path):
    solved.save(tmp_path / "model.eqx")
    loaded = hp.Solution.load(tmp_path / "model.eqx", make_problem())
    np.testing.assert_array_equal(weights(loaded.training.model), weights(solved.training.model))
    assert loaded.settings == solved.settings
    x = np.linspace(0, 1, 7)[:, None]
    np.testing.assert_array_equal(loaded(x)["u"], solved(x)["u"])
    assert list(tmp_path.iterdir()) == [tmp_path / "model.eqx"]  # no temporary file is left


@pytest.mark.parametrize("kind", ["empty", "truncated", "text", "foreign", "pickle", "pickled arrays"])
def test_a_damaged_model_file_is_refused_in_a_sentence(problem, solved, tmp_path, kind):
    path = tmp_path / "model.eqx"
    solved.save(path)
    damage(kind, path, path.read_bytes())
    with pytest.raises(ValueError, match=r"model\.eqx' is damaged or not a model of this problem"):
        hp.Solution.load(path, problem)
    assert not (tmp_path / "exploded").exists()


def test_a_model_whose_weights_are_pickled_is_refused(problem, solved, tmp_path):
    path = tmp_path / "model.eqx"
    solved.save(path)
    header = path.read_bytes().split(b"\n", 1)[0]
    with open(path, "wb") as file:
        file.write(header + b"\n")
        np.save(file, np.array([Bomb(tmp_path / "exploded")], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="damaged"):
        hp.Solution.load(path, problem)
    assert not (tmp_path / "exploded").exists()


def test_a_model_of_another_problem_or_no_file_is_refused(problem, solved, tmp_path):
    solved.save(tmp_path / "model.eqx")

    def rod(length):
        return hp.Problem(domain=hp.Interval(0, length, left="left", right="right"), fields="u",
                          gradients={"grad_u": "u"}, residual=problem.residual, conditions=problem.conditions)

    for length in (2, 1 + 1e-6):
        with pytest.raises(ValueError, match="trained for another problem"):
            hp.Solution.load(tmp_path / "model.eqx", rod(length))
    hp.Solution.load(tmp_path / "model.eqx", rod(1 + 1e-14))  # another machine's rounding
    earlier = (tmp_path / "model.eqx").read_bytes().replace(b'"hardpde": 3', b'"hardpde": 1')
    (tmp_path / "earlier.eqx").write_bytes(earlier)
    with pytest.raises(ValueError, match="another version of hardpde wrote it"):
        hp.Solution.load(tmp_path / "earlier.eqx", problem)
    with pytest.raises(ValueError, match=r"none\.eqx' cannot be read"):
        hp.Solution.load(tmp_path / "none.eqx", problem)


def test_values_do_not_depend_on_how_many_points_are_asked_for(solved, monkeypatch):
    monkeypatch.setattr(sys.modules["hardpde.formulation.predict"], "MOST", 128)
    x = np.linspace(0, 1, 300)[:, None]
    every = solved(x)
    for n in (0, 1, 64, 65, 129):
        for name, values in solved(x[:n]).items():
            assert values.shape == (n, *every[name].shape[1:])
            assert np.abs(values - every[name][:n]).max(initial=0) < 1e-14


def test_points_of_the_wrong_shape_are_refused(solved):
    with pytest.raises(ValueError, match="points have 2 coordinates; 1 are needed"):
        solved(np.zeros((3, 2)))


def test_unknown_optimisers_and_options_are_refused():
    from hardpde.problems.presets import make_stages

    with pytest.raises(ValueError, match=f"no optimiser 'sgd'; the optimisers are {', '.join(OPTIMISERS)}"):
        make_stages([{"optimiser": "sgd", "steps": 1}])
    with pytest.raises(ValueError, match=r"optimiser 'adam'.*momentum"):
        make_stages([{"optimiser": "adam", "steps": 1, "options": {"momentum": 1}}])


def test_any_stages_in_any_number_of_steps(problem):
    """70 steps are a block of 50 and one of 20; Levenberg–Marquardt brings the rod from 1e-1 to 1e-3."""
    solution = hp.solve(problem, options=SMALL, stages=[
        {"optimiser": "adam", "options": {"learning_rate": 1e-2}, "steps": 70},
        {"optimiser": "levenberg_marquardt", "steps": 30, "redraw": 10, "block": 10}])
    assert [ending["steps"] for ending in solution.training.endings] == [70, 30]
    assert [record["step"] for record in solution.training.history[:2]] == [50, 70]
    x = np.linspace(0, 1, 11)[:, None]
    # −u'' = 1, u(0) = 0, u(1) + u'(1) = 1
    np.testing.assert_allclose(solution(x)["u"], 1.25 * x[:, 0] - x[:, 0] ** 2 / 2, atol=1e-3)
