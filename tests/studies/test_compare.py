"""Several seeds at once take the steps each takes alone; methods are compared, and a comparison goes on."""

import io
import json
import shutil
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.evaluation.errors import label_of
from hardpde.evaluation.report.comparison_tables import endings
from hardpde.formulation.engine import Engine
from hardpde.methods import METHODS, exact, known_options, pinn_la
from hardpde.networks.mlp import count
from hardpde.problems import PROBLEMS
from hardpde.problems.presets import GENERAL, PRESETS, SCHEDULES, make_stages, preset
from hardpde.runs.load import load_problem
from hardpde.solving.settings import check_options, make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.solving.solve import run_seeds
from hardpde.studies.compare import compare, comparison_settings, residual, step_times
from hardpde.studies.reproduction.comparisons import TABLES
from hardpde.support.progress import Progress
from hardpde.training import Stage, Training, adam, fit, fit_all, lbfgs, ssbroyden
from hardpde.training.status import CONVERGED, RUNNING, STALLED
from helpers import built_in, last_json, refused, weights

pytestmark = pytest.mark.usefixtures("quick_compilation")


def make_problem():
    """−u″ + u′ = 2x − 2 with u = x²: the equation is that of no energy."""
    return hp.Problem(
        domain=hp.Interval(0, 1, left="left", right="right"),
        fields="u",
        gradients={"grad_u": "u"},
        residual=lambda x, q, dq: -hp.div(dq.grad_u) + q.grad_u[0] - 2 * x[0] + 2,
        conditions=[hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=1, g=3)],
        exact=lambda x: {"u": x @ x, "grad_u": 2 * x},
        name="rod",
    )


@pytest.fixture(scope="module")
def problem():
    return make_problem()


@pytest.fixture(scope="module")
def formulations(problem):
    return {"exact": exact(problem, width=6, depth=1, engine=Engine(32)),
            "pinn-la": pinn_la(problem, layers=[8], engine=Engine(32), boundary=4)}


def keys_of(*seeds):
    return jnp.stack([jax.random.key(seed) for seed in seeds])


def timeless(rows):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def assert_alike(one, other):
    """The same steps up to rounding."""
    assert one.endings == other.endings
    for key in ("stage", "step", "steps"):
        assert [row[key] for row in one.history] == [row[key] for row in other.history]
    for key in ("loss", "held_out"):
        np.testing.assert_allclose(*([row[key] for row in each.history] for each in (one, other)), rtol=1e-7)
    np.testing.assert_allclose(weights(one.model), weights(other.model), atol=1e-7)


# --- Seeds at once -----------------------------------------------------------------------------------------------


QUASI_NEWTON = {"ssbroyden": Stage("ssbroyden", ssbroyden(), 20, redraw=10, block=10),
                "lbfgs": Stage("lbfgs", lbfgs(), 20, redraw=10, block=10)}


@pytest.mark.parametrize("method, then", [("exact", "ssbroyden"), ("pinn-la", "lbfgs")])
def test_seeds_at_once_take_the_steps_each_takes_alone(formulations, method, then):
    stages = [Stage("adam", adam(5e-3), 40, redraw=10, block=20, reweigh=True), QUASI_NEWTON[then]]
    one, two = fit_all(formulations[method], stages, keys_of(3, 8))
    assert not np.allclose(weights(one.model), weights(two.model), atol=0.1)
    assert [row["step"] for row in one.history] == [20, 40, 10, 20]
    assert_alike(two, fit(formulations[method], stages, jax.random.key(8)))


class Mood(NamedTuple):
    inner: Any
    count: jax.Array
    moody: jax.Array
    status: jax.Array


def moody_adam(first, mood, after):
    """Adam; for the model whose first weight is `first` something happens from a step on after points are drawn.

    It goes on moving even where it says that it has ended, so that a model that does not wait is found out.
    """
    inner = adam(5e-3, plateau=False)

    def init(params):
        zero = jnp.zeros((), jnp.int32)
        return Mood(inner.init(params), zero, jnp.abs(ravel_pytree(params)[0][0] - first) < 1e-6, zero + 0)

    def update(updates, state, params, *, fresh=False, **extra):
        updates, moved = inner.update(updates, state.inner, params, **extra)
        number = jnp.where(fresh, 0, state.count) + 1
        struck = state.moody & (number >= after)
        if mood == "not finite":
            updates = jax.tree.map(lambda u: jnp.where(struck, jnp.nan, u), updates)
        code = {"not finite": RUNNING, "converged": CONVERGED, "stalled": STALLED}[mood]
        return updates, Mood(moved, number, state.moody, jnp.where(struck, code, RUNNING).astype(jnp.int32))

    return optax.GradientTransformationExtraArgs(init, update)


MOODY = 8  # the seed
MOODS = {
    "not finite": (13, [10, 13, 5, 10], "the loss was not finite at step 14; the last good weights were kept"),
    "converged": (13, [10, 20, 5, 10], "the gradient is below the tolerance"),
    "stalled": (7, [30, 60, 5, 10], "the line search found no lower loss along the steepest descent"),
}


def moody_stages(formulation, mood, after):
    start = fit(formulation, [], jax.random.key(MOODY)).model
    return [Stage("moody", moody_adam(weights(start)[0], mood, after), 60, redraw=30, block=10, reweigh=True),
            Stage("adam", adam(5e-3, plateau=False), 10, block=5, reweigh=True)]


@pytest.fixture(scope="module")
def calm_alone(formulations):
    """The same for every mood of the other model."""
    return fit(formulations["pinn-la"], moody_stages(formulations["pinn-la"], "stalled", 7), jax.random.key(3))


@pytest.mark.parametrize("mood", MOODS)
def test_a_model_that_has_ended_waits_and_disturbs_no_other(formulations, calm_alone, mood):
    after, steps, why = MOODS[mood]
    formulation = formulations["pinn-la"]
    stages = moody_stages(formulation, mood, after)
    calm, moody = fit_all(formulation, stages, keys_of(3, MOODY))
    assert [row["step"] for row in calm.history] == [10, 20, 30, 40, 50, 60, 5, 10]
    assert [ending["why"] for ending in calm.endings] == ["all 60 steps were taken", "all 10 steps were taken"]
    assert [row["step"] for row in moody.history] == steps
    assert moody.endings[0] == {"stage": "moody", "steps": steps[-3], "why": why}
    assert np.isfinite(weights(moody.model)).all() and np.isfinite(moody.history[-1]["loss"])
    assert_alike(calm, calm_alone)
    assert_alike(moody, fit(formulation, stages, jax.random.key(MOODY)))


@pytest.fixture(scope="module")
def whole(formulations, tmp_path_factory):
    """Three models, one of which waits, with what was reported and the checkpoint as it was at each report."""
    folder, copies, rows = tmp_path_factory.mktemp("whole"), [], []
    stages = moody_stages(formulations["pinn-la"], "stalled", 7)

    def report(row):
        rows.append(row)
        copies.append(folder / f"{len(copies)}.npz")
        if (folder / "checkpoint.npz").exists():
            shutil.copyfile(folder / "checkpoint.npz", copies[-1])

    trainings = fit_all(formulations["pinn-la"], stages, keys_of(3, MOODY, 5), path=folder / "checkpoint.npz",
                        report=report, every=0)
    return stages, trainings, copies, rows


def test_progress_never_goes_back(whole):
    """A model that has stalled is ahead of the others; what is reported is where all of them are."""
    stages, trainings, _, rows = whole
    assert [row["step"] for row in rows] == [10, 20, 30, 40, 50, 60, 5, 10]
    assert [row["step"] for row in trainings[1].history] == MOODS["stalled"][1]
    progress = Progress([{"optimiser": stage.name, "steps": stage.steps} for stage in stages])
    for row in rows:
        progress(row)


@pytest.mark.parametrize("blocks", [2, 7])
def test_seeds_at_once_resume_bit_for_bit(formulations, whole, blocks):
    """After 20 steps one model waits for new points; in the second stage the weights of the terms have moved."""
    stages, trainings, copies, _ = whole
    seen = []
    resumed = fit_all(formulations["pinn-la"], stages, keys_of(3, MOODY, 5), path=copies[blocks], resume=True,
                      report=seen.append)
    assert len(seen) == 8 - blocks
    for one, other in zip(resumed, trainings):
        np.testing.assert_array_equal(weights(one.model), weights(other.model))
        assert timeless(one.history) == timeless(other.history) and one.endings == other.endings


def test_moving_weights_are_in_the_checkpoint(formulations, whole):
    stages, trainings, copies, _ = whole
    with np.load(copies[7]) as file:
        arrays = {name: file[name] for name in file.files}
    [name] = [name for name, array in arrays.items() if array.shape == (3, 3)]  # three models, three terms
    assert (arrays[name][:, 0] == 1).all() and len(np.unique(arrays[name][:, 1:])) == 6
    arrays[name][:] = 1.0
    path = copies[7].with_name("plain.npz")
    np.savez(path, **arrays)
    plain = fit_all(formulations["pinn-la"], stages, keys_of(3, MOODY, 5), path=path, resume=True)
    assert not np.allclose(weights(plain[0].model), weights(trainings[0].model))


def test_a_checkpoint_of_another_number_of_seeds_is_refused(formulations, whole):
    stages, _, copies, _ = whole
    with pytest.raises(ValueError, match=r"2\.npz' is of 3 models trained at once, not of 2; start the run again"):
        fit_all(formulations["pinn-la"], stages, keys_of(3, MOODY), path=copies[2], resume=True)


def test_solutions_of_seeds_know_their_seed(problem):
    options = {"width": 6, "depth": 1, "points": 32}
    settings = make_settings(problem, "exact", "quick", 0, options, [20, 0])
    first, second = run_seeds(problem, settings, [3, 8])
    assert (first.settings["seed"], second.settings["seed"]) == (3, 8)
    assert_alike(second.training, hp.solve(problem, seed=8, options=options, steps=[20, 0]).training)


# --- What is measured --------------------------------------------------------------------------------------------


def polynomial(formulation, coefficient):
    """A solution whose network does not matter: u = c x², ∇u = 2 c x + 1 where that is a field."""

    def state(model, batch):
        x = batch.x[:, 0]
        one, zero = jnp.ones_like(x), 0 * x
        u = [coefficient * x**2, 2 * coefficient * x, 2 * coefficient * one]
        p = [2 * coefficient * x + 1, 2 * coefficient * one, zero]
        slots = 3 if formulation.problem.order == 2 else 2
        return jnp.stack([jnp.stack(q[:slots]) for q in (u, p)[: formulation.problem.schema.size]])

    made = replace(formulation, state=state)
    return Solution(formulation.problem.stated, made, {}, Training(made.init(jax.random.key(0))))


def test_the_residual_is_the_same_for_every_method(problem, formulations):
    """Of u = 3x² it is the mean of (−6 + 6x − 2x + 2)² = 16 (1 − x)²; a gradient field counts where it enters."""
    assert residual(polynomial(formulations["pinn-la"], 3.0)) == pytest.approx(16 / 3, rel=0.05)
    assert residual(polynomial(formulations["pinn-la"], 1.0)) == pytest.approx(0, abs=1e-20)
    scaled = exact(replace(problem, hints=hp.Hints(scale=lambda x: 7.0)), width=4, depth=1, engine=Engine(256))
    found = [residual(polynomial(formulation, 1.0)) for formulation in (formulations["exact"], scaled)]
    assert found == pytest.approx([1.0, 1.0], rel=1e-12)  # −2 + (2x + 1) − 2x + 2 = 1; without ∇u − u′ = 1


def test_step_times_leave_out_what_is_compiled():
    def row(stage, step, seconds):
        return {"stage": stage, "step": step, "seconds": seconds}

    rows = [row("adam", 50, 9.0), row("adam", 100, 9.5), row("adam", 150, 10.1), row("adam", 170, 17.0),
            row("lbfgs", 10, 30.0), row("lbfgs", 15, 40.0)]
    assert step_times(rows) == {"adam": pytest.approx(11.0)}


# --- The command -------------------------------------------------------------------------------------------------

TEXT = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="left", right="right"),
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) + q.grad_u[0] - 2 * x[0] + 2,
    conditions=[hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=1, g=3)],
    exact=lambda x: {"u": x @ x, "grad_u": 2 * x},
)
"""
SMALL = ["--seeds", 2, "--steps", "20,10", "--set", "points=32", "--set", "width=6", "--set", "exact.depth=1",
         "--set", "layers=[6]"]


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "rod.py"
    path.write_text(TEXT)
    return path


class Killed(BaseException):
    """What `kill -9` does, as far as a test can."""


LOADED: dict[str, Any] = {}


def load_once(name, options):
    """A problem is checked whenever it is made, which takes a second."""
    if name not in LOADED:
        LOADED[name] = load_problem(name, options)
    return LOADED[name]


def answer(*words):
    """Exit status, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("hardpde.cli.commands.load_problem", load_once)
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


@contextmanager
def watched(act=run_seeds):
    """What is trained meanwhile, method by method; `act` may do it in another way."""
    trained = []

    def train(problem, settings, seeds, **options):
        trained.append(settings["method_name"])
        return act(problem, settings, seeds, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["hardpde.studies.compare"], "run_seeds", train)
        yield trained


def untrained(problem, settings, seeds, *, formulation, report):
    """Solutions with random networks, and a history of one row."""
    row = {"stage": "adam", "step": 20, "steps": 20, "loss": 1.0, "held_out": 1.0, "seconds": 0.1}
    return [Solution(problem, formulation, {**settings, "seed": seed}, Training(
        formulation.init(jax.random.key(seed)), [row], [{"stage": "adam", "steps": 20, "why": "all 20"}], 0.1))
        for seed in seeds]


@pytest.fixture(scope="module")
def compared(user):
    """A comparison with --resume until it is finished, and all that was said: it is stopped while the second method
    trains and killed before its record is written."""
    folder = user.parent / "rod"
    words = ["compare", user, "--methods", "exact,pfnn,pinn", *SMALL, "--out", folder]

    def stop(problem, settings, seeds, **options):
        if settings["method_name"] == "pinn":
            raise KeyboardInterrupt
        return run_seeds(problem, settings, seeds, **options)

    def kill(path, data):
        raise Killed

    with watched(stop) as first:
        stopped = answer(*words)
    status = read(folder / "run.json")["status"]
    kept = {path: path.stat().st_mtime_ns for path in folder.rglob("exact*")}
    with watched(untrained) as second, pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("hardpde.runs.records.write_json", kill)
        answer(*words, "--resume")
    with watched() as third:
        finished = answer(*words, "--resume", "--json")
    assert (first, second, third) == (["exact", "pinn"], ["pinn"], ["pinn"])
    return {"folder": folder, "words": words, "stopped": stopped, "status": status, "kept": kept, "answer": finished}


def test_a_direct_solve_is_a_column_beside_those_that_are_trained(user, tmp_path):
    """It is solved once for each seed, to the tolerance that is stated for it alone, and goes on like the others."""
    folder = tmp_path / "direct"
    words = ["compare", user, "--methods", "exact,direct", "--seeds", 2, "--steps", "3,3", "--set", "exact.points=16",
             "--set", "width=4", "--set", "exact.depth=1", "--set", "direct.tolerance=1e-9", "--out", folder, "--json"]
    code, out, err = answer(*words)
    assert code == 0, err
    found = last_json(out)["methods"]
    assert list(found) == ["exact", "direct"] and "rod by exact, directly, 2 seeds one after the other" in err
    errors = found["direct"]["errors"]["u"]["mae"]["values"]
    assert len(errors) == 2 and max(errors) < 1e-9 < min(found["exact"]["errors"]["u"]["mae"]["values"])
    record = read(folder / "records" / "direct.json")
    assert record["settings"]["solver"] == "direct" and record["step_ms"] == {} and record["seconds"] > 0
    assert {path.name for path in (folder / "models").iterdir()} == {
        f"{name}-{seed}.eqx" for name in ("exact", "direct") for seed in (0, 1)}
    assert "direct" in (folder / "table.md").read_text()
    with watched(untrained) as trained:
        code, _, err = answer(*words, "--resume")
    assert code == 0 and trained == [] and "direct is done" in err


@pytest.mark.parametrize("word, says", [("direct.tolerance=-1", "positive"), ("direct.width=3", "no option 'width'")])
def test_a_direct_solve_is_refused_what_it_does_not_know(problem, word, says):
    name, _, value = word.partition("=")
    with pytest.raises(ValueError, match=says):
        comparison_settings(problem, ["direct"], 1, "quick", "fair", {name: float(value)})


@pytest.fixture
def copy(compared, tmp_path):
    """A copy of the comparison, and the words that go on with it."""
    folder = tmp_path / "rod"
    shutil.copytree(compared["folder"], folder)
    return folder, [*compared["words"][:-1], folder]


def read(path):
    return json.loads(path.read_text())


def test_a_stopped_comparison_says_how_to_go_on(compared):
    code, out, err = compared["stopped"]
    assert code == 130 and "stopped; the same command with --resume goes on" in err
    assert "hardpde resume" not in err and compared["status"] == "comparing"
    assert "exact: MAE of u" in out and "pfnn does not apply" in out


def test_a_resumed_comparison_keeps_what_is_done(compared):
    assert len(compared["kept"]) == 3  # the record and two models
    assert all(path.stat().st_mtime_ns == when for path, when in compared["kept"].items())
    assert "exact is done: MAE of u" in compared["answer"][2]


def test_the_folder_of_a_comparison(compared):
    folder = compared["folder"]
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {"run.json", "problem.py", "comparison.json", "table.md", "report.html", "figures/errors.png",
                     "figures/convergence.png", "records/exact.json", "records/pinn.json", "models/exact-0.eqx",
                     "models/exact-1.eqx", "models/pinn-0.eqx", "models/pinn-1.eqx"}
    about = read(folder / "run.json")
    assert about["status"] == "finished" and list(about["settings"]["plans"]) == ["exact", "pfnn", "pinn"]
    assert about["settings"]["plans"]["pinn"]["method"]["layers"] == [6]
    assert "--resume" not in about["provenance"]["command"]
    text = (folder / "table.md").read_text()
    assert "# rod: 2 methods compared" in text and "pfnn does not apply" in text
    for line in [line for line in text.splitlines() if line.startswith("| exact ")]:
        assert len(line) in {len(other) for other in text.splitlines() if other.startswith("| pinn ")}
    assert "pfnn" in (folder / "report.html").read_text(encoding="utf-8")
    records = read(folder / "comparison.json")["records"]
    assert records == [read(folder / "records" / f"{name}.json") for name in ("exact", "pinn")]
    assert [[run["seed"] for run in record["runs"]] for record in records] == [[0, 1]] * 2
    assert [len(record["runs"][0]["endings"]) for record in records] == [2, 1]


def test_the_models_of_a_comparison_are_the_ones_measured(compared, problem):
    for method, seed in (("exact", 1), ("pinn", 0)):
        solution = Solution.load(compared["folder"] / "models" / f"{method}-{seed}.eqx", problem)
        assert solution.settings["seed"] == seed and solution.settings["method_name"] == method
        run = read(compared["folder"] / "records" / f"{method}.json")["runs"][seed]
        assert solution.errors()["u"]["mae"] == pytest.approx(run["errors"]["u"]["mae"], rel=1e-9)


def test_a_comparison_prints_one_object(compared):
    code, out, err = compared["answer"]
    assert code == 0 and len(out.splitlines()) == 1
    found = last_json(out)
    assert {"problem", "preset", "schedule", "seeds", "methods", "refused", "device", "run"} == set(found)
    assert (found["problem"], found["seeds"], found["run"]) == ("rod", 2, str(compared["folder"]))
    assert list(found["methods"]) == ["exact", "pinn"]
    for method, summary in found["methods"].items():
        values = [run["errors"]["u"]["mae"] for run in read(compared["folder"] / "records" / f"{method}.json")["runs"]]
        assert summary["errors"]["u"]["mae"]["values"] == values and len(set(values)) == 2
        assert summary["errors"]["u"]["mae"]["mean"] == pytest.approx(np.mean(values))
    [row] = found["refused"]
    assert row["method"] == "pfnn" and f"pfnn does not apply: {row['why']}" in err
    assert "rod by pinn, 2 seeds at once" in err and "Traceback" not in err


def test_another_method_may_be_added_and_none_is_trained_twice(copy):
    """A resumed comparison may be asked for other methods; none is trained twice, and none is lost."""
    folder, words = copy
    (folder / "report.html").unlink()
    words[words.index("exact,pfnn,pinn")] = "exact,xpinn"
    with watched(untrained) as trained:
        code, _, err = answer(*words, "--resume", "--json")
    assert code == 0 and trained == ["xpinn"], err
    assert (folder / "report.html").exists() and (folder / "records" / "pinn.json").exists()
    assert "exact" in (folder / "table.md").read_text() and "| pinn " not in (folder / "table.md").read_text()
    words[words.index("exact,xpinn")] = "pinn,exact,xpinn"
    with watched() as trained:
        code, out, err = answer(*words, "--resume", "--json")
    assert code == 0 and trained == [], err
    assert list(last_json(out)["methods"]) == ["pinn", "exact", "xpinn"]


def test_force_begins_anew(copy):
    folder, words = copy
    (folder / "notes.txt").write_text("mine")
    words = ["compare", words[1], "--methods", "pinn", "--seeds", 1, "--set", "points=16", "--out", folder, "--force"]
    with watched(untrained) as trained:
        code, _, err = answer(*words)
    assert code == 0 and trained == ["pinn"], err
    assert [path.name for path in (folder / "records").iterdir()] == ["pinn.json"]
    assert [path.name for path in (folder / "models").iterdir()] == ["pinn-0.eqx"]
    assert (folder / "notes.txt").exists() and list(read(folder / "run.json")["settings"]["plans"]) == ["pinn"]


@pytest.mark.parametrize("more, says", [
    ([], ["exists; --resume goes on with it and --force replaces it"]),
    (["--resume", "--force"], ["not allowed with"]),
    (["--resume", "--seeds", 3], ["was begun with 2 seeds, not 3", "--force"]),
    (["--resume", "--steps", "20,20"], ["was begun with other settings of exact;"]),
    (["--resume", "--preset", "best"], ["was begun with other settings of exact, pfnn, pinn;"]),
    (["--resume", "--schedule", "as-published"], ["other settings of"]),
    (["--resume", "--set", "pinn.layers=[7]"], ["was begun with other settings of pinn;"]),
], ids=["neither", "both", "seeds", "steps", "preset", "schedule", "option"])
def test_a_comparison_that_exists_is_left_alone_unless_resumed_or_forced(copy, more, says):
    folder, words = copy
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with watched() as trained:
        refused(answer(*words, *more), *says)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before and trained == []


def test_a_comparison_of_another_problem_or_with_a_damaged_record(copy, tmp_path):
    folder, words = copy
    other = tmp_path / "rod.py"
    other.write_text(TEXT.replace("g=3", "g=3.0"))
    refused(answer("compare", other, *words[2:], "--resume"), "begun with another problem, or its file has changed")
    (folder / "records" / "pinn.json").write_text("{}")
    refused(answer(*words, "--resume"), "pinn.json' is damaged", "delete it")


@pytest.mark.parametrize("command, says", [("resume", "goes on with it"), ("report", "writes its report again"),
                                           ("export", "`hardpde solve` makes runs that can be exported")])
def test_commands_for_runs_say_what_a_comparison_is(compared, command, says):
    refused(answer(command, compared["folder"]), "is a comparison of methods, not a run", says)


@pytest.mark.parametrize("words, says", [
    (["--methods", "exact,pin"], ["no method 'pin'", "exact, hc"]),
    (["--methods", "exact,hc,exact"], ["method 'exact' is named twice"]),
    (["--methods", ","], ["no method is named"]),
    (["--seeds", 0], ["0 seeds are asked for", "from 1 to 100"]),
    (["--seeds", 101], ["101 seeds"]),
    (["--seeds", "two"], ["--seeds", "two"]),
    (["--set", "wdth=3"], ["none of the methods compared (exact, hc, pinn) has an option 'wdth'"]),
    (["--set", "fbpinn.layers=[3]"], ["'fbpinn.layers' is for method 'fbpinn', which is not compared"]),
    (["--set", "hc.layers=[3]"], ["method 'hc' has no option 'layers'", "main"]),
    (["--set", "layers=3"], ["option 'layers' is 3", "a list of positive whole numbers"]),
    (["--steps", "20"], ["method 'exact'", "give one number for each stage"]),
    (["--steps", "20,20,20"], ["3 numbers of steps are given and no method has more than 2 stages"]),
    (["--steps", "0,20"], ["method 'hc'", "one stage must remain"]),
    (["--preset", "slow"], ["--preset", "slow"]),
    (["--schedule", "slow"], ["--schedule", "slow"]),
    (["--methods", "pfnn"], ["no method applies: pfnn: ", "energy"]),
    (["--out", "full"], ["'full' exists"]),
    (["--out", "full", "--force"], ["'full' is not a run folder"]),
    (["--out", "full", "--resume"], ["'full' is not a comparison", "--resume"]),
    (["--out", "run", "--resume"], ["'run' is not a comparison"]),
    (["--out", "full/note.txt"], ["'full/note.txt' is a file"]),
    (["--out", "full/note.txt/deeper"], ["Not a directory"]),
], ids=lambda value: "_".join(map(str, value)) if isinstance(value, list) else None)
def test_a_mistake_in_the_words_is_one_sentence_and_writes_nothing(user, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    for name, file in (("full", "note.txt"), ("run", "run.json")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text('{"status": "running", "settings": {"stages": []}}')
    with watched(untrained) as trained:
        refused(answer("compare", user, "--methods", "exact,hc,pinn", *words), *says)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "note.txt", "run", "run.json"]
    assert trained == []


def test_every_method_is_compared_or_says_why_not(user, tmp_path, monkeypatch):
    """Each is compared or says why not."""
    monkeypatch.setattr(sys.modules["hardpde.studies.compare"], "measured", lambda solutions, *more: {
        "method": solutions[0].settings["method_name"], "settings": {}, "runs": [], "seconds": 0.1})
    sizes = ["points=16", "blocks=[2]", "layers=[4]", "main=[4]", "sub=[4]", "depth=1"]
    with watched(untrained) as trained:
        code, out, err = answer("compare", user, "--methods", "all", "--seeds", 1, "--out", tmp_path / "all", "--json",
                                *[word for size in sizes for word in ("--set", size)])
    assert code == 0, err
    found = last_json(out)
    assert trained == list(found["methods"]) == [name for name in METHODS if not name.startswith("pfnn")]
    assert [row["method"] for row in found["refused"]] == ["pfnn", "pfnn2"]
    assert "rod by exact, 1 seed, on" in err


def test_the_list_is_aligned():
    code, out, _ = answer("list")
    assert code == 0
    rows = [line for line in out.splitlines() if line.startswith("  ")]
    names = [line.split()[0] for line in rows]
    assert names == [*PROBLEMS, *METHODS]
    starts = {len(line) - len(line[2 + len(name):].lstrip()) for line, name in zip(rows, names)}
    assert len(starts) == 1 and all(line.rstrip().endswith(".") for line in rows)


def test_seeds_that_ended_in_the_same_way_are_told_together():
    runs = [{"seed": seed, "endings": [{"stage": "adam", "steps": 20, "why": "all 20 steps were taken"},
                                       {"stage": "lbfgs", "steps": 7 + seed, "why": "odd" if seed == 1 else "flat"}]}
            for seed in range(4)]
    assert endings({"runs": runs}) == [("adam", "0–3", "20", "all 20 steps were taken"),
                                       ("lbfgs", "0, 2–3", "7, 9, 10", "flat"), ("lbfgs", "1", "8", "odd")]


# --- Presets -----------------------------------------------------------------------------------------------------
# What section 5 and appendix A.8 of the paper say.
NETWORK = {"layers": [50] * 4, "points": 8192, "boundary": 512, "initial": 512}
WINDOWS = {"layers": [30] * 3, "points": 8192, "boundary": 512}
FLOW = {"layers": [50] * 6, "points": 10_000, "boundary": 2048}
FLOW_BLOCKS = {"layers": [30] * 4, "points": 10_000, "boundary": 2048, "blocks": [6, 3]}
BALL = {"layers": [50] * 4, "points": 1000, "boundary": 100}
PRINTED = {
    ("battery-pack", 0.01): {
        "hc": {"main": [50] * 4, "sub": [20] * 3, "points": 8192, "beta_s": 5.0, "beta_t": 10.0, "softmin_beta": 4.0},
        "pinn": NETWORK, "pinn-la": {**NETWORK, "alpha": 0.1}, "pinn-la2": {**NETWORK, "alpha": 0.1},
        "fbpinn": {**WINDOWS, "initial": 512}, "xpinn": {**WINDOWS, "initial": 512, "interface": 512},
        "pfnn": {"layers": [50] * 4, "points": 8192, "boundary": 512}, "pfnn2": WINDOWS,
    },
    ("airfoil-printed", 0.001): {
        "hc": {"main": [50] * 6, "sub": [40] * 4, "points": 10_000, "beta_s": 5.0, "softmin_beta": 4.0},
        "pinn": FLOW, "pinn-la": {**FLOW, "alpha": 0.1}, "pinn-la2": {**FLOW, "alpha": 0.1},
        "fbpinn": {**FLOW_BLOCKS, "sigma": 0.2}, "xpinn": {**FLOW_BLOCKS, "interface": 2048},
    },
    ("heat-ball", 0.01): {
        "hc": {"main": [50] * 4, "sub": [20] * 3, "points": 1000, "beta_t": 10.0},
        "pinn": {**BALL, "initial": 100}, "pinn-la": {**BALL, "initial": 100, "alpha": 0.1},
        "pinn-la2": {**BALL, "initial": 100, "alpha": 0.1}, "pfnn": BALL,
    },
}


def suited_to(name):
    """The presets of a built-in problem; the general ones for another."""
    return built_in(name).presets if name in PROBLEMS else GENERAL


@pytest.mark.parametrize("problem, rate, method", [(*key, name) for key, table in PRINTED.items() for name in table])
def test_the_paper_preset_is_the_paper(problem, rate, method):
    settings = preset(method, "paper", suited=suited_to(problem))
    found = {**known_options(METHODS[method]), **settings["method"]}
    for name, value in PRINTED[problem, rate][method].items():
        assert (list(found[name]) if isinstance(value, list) else found[name]) == value, name
    first, last = settings["stages"]
    assert (first["optimiser"], first["steps"], first["options"]["learning_rate"]) == ("adam", 5000, rate)
    assert first["options"].get("plateau", True) and last["optimiser"] == "lbfgs"


def mlp_size(*widths):
    return sum((a + 1) * b for a, b in pairwise(widths))


SIZES = {  # what A.8 says of networks over the domain and of the others, and how many of these there are
    "battery-pack": {
        "pinn": (mlp_size(3, 50, 50, 50, 50, 1), 7901), "fbpinn": (24 * mlp_size(3, 30, 30, 30, 1), 48_264),
        "hc": (mlp_size(3, 50, 50, 50, 50, 3) + (1 + 11 + 6) * mlp_size(3, 20, 20, 20, 3), 25_697),
    },
    "heat-ball": {"pinn": (mlp_size(11, 50, 50, 50, 50, 1), 8301)},
}


@pytest.mark.parametrize("name", SIZES)
def test_networks_have_the_sizes_of_the_paper(name):
    problem = built_in(name)
    for method, (size, number) in SIZES[name].items():
        formulation = make_formulation(problem, make_settings(problem, method, "paper", 0))
        model = jax.eval_shape(formulation.init, jax.random.key(0))
        assert count(model) == size == number
        if method == "fbpinn":
            assert model.grid.counts == (4, 6) and model.sigma == pytest.approx(0.4)


@pytest.mark.parametrize("name", TABLES)
def test_the_paper_s_tables_show_components_of_their_problems(name):
    _, study, columns, _ = TABLES[name]
    for problem in map(built_in, (study.problem, study.beside)):
        known = {metric: 1.0 for metric, _, _ in columns}
        by_time = [{"time": time, **known} for time in (0.0, 0.5, 1.0)]
        assert (problem.time is not None) == any("t = " in label for _, label, _ in columns)
        errors = {label_of(field, index): {**known, "by_time": by_time}
                  for field, shape in problem.schema.fields for index in np.ndindex(shape)}
        assert all(cell(errors) == 1.0 for _, _, cell in columns)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_every_preset_and_schedule(method):
    for problem in (*PROBLEMS, "a problem of your own"):
        for name in PRESETS:
            fair, published = (preset(method, name, schedule, suited_to(problem)) for schedule in SCHEDULES)
            for settings in (fair, published):
                check_options({**settings, "method_name": method})
                make_stages(settings["stages"])
            if method in ("exact", "hc"):
                assert published == fair
                continue
            assert published["method"] == fair["method"]
            for one, other in zip(fair["stages"], published["stages"]):
                if one["optimiser"] != "adam":
                    assert one == other
                    continue
                rate = one["options"]["learning_rate"]
                assert other["options"] == {"learning_rate": rate, "plateau": False}
                constant = problem in ("poisson", "schroedinger") and name != "quick"  # as the paper prints them
                assert one["options"] == (other["options"] if constant else {
                    "learning_rate": rate, "factor": 0.75, "patience": 100, "min_lr": 1e-5})
                assert {**one, "options": {}} == {**other, "options": {}}


def test_schedules_and_plans_are_checked_and_take_what_is_stated(problem):
    with pytest.raises(ValueError, match="there is no schedule 'slow'; it is fair or as-published"):
        preset("pinn", "quick", "slow")
    with pytest.raises(ValueError, match="no method is named"):
        compare(problem, [])
    plans = comparison_settings(problem, ["exact", "pinn"], 2, "quick", "as-published",
                                {"points": 64, "pinn.layers": [7]}, [30, 40])
    assert plans["pinn"]["method"]["layers"] == [7] and plans["pinn"]["schedule"] == "as-published"
    assert [plans[name]["method"]["points"] for name in plans] == [64, 64]
    assert [[stage["steps"] for stage in plans[name]["stages"]] for name in plans] == [[30, 40], [30]]
