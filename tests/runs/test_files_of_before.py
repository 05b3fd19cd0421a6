"""Files that an earlier version wrote still open, and interrupted runs end as they would have ended there.

data/before holds what commit 2f899f7 wrote about the rod of its problem.py: a finished run, the same run killed in each
of its two stages, a comparison, a reference, and a model of every method with its values at three points.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.problems.presets import METHODS
from hardpde.runs.load import load_problem

pytestmark = pytest.mark.usefixtures("quick_compilation")

BEFORE = Path(__file__).parents[1] / "data" / "before"
POINTS = np.array([[0.25, 0.5], [0.5, 1.0], [0.9, 0.1]])
NEAR = 1e-9  # another processor may round otherwise, and training carries that on


@pytest.fixture(scope="module")
def problem():
    return load_problem(str(BEFORE / "finished" / "problem.py"))[0]


@pytest.fixture
def folder(tmp_path):
    """A copy of data/before."""
    return shutil.copytree(BEFORE, tmp_path / "before")


def read(path):
    return json.loads(path.read_text())


def history(folder):
    """Stages and figures of a run, without the times."""
    rows = [line.split(",")[:-1] for line in (folder / "history.csv").read_text().splitlines()[1:]]
    return [row[:3] for row in rows], np.array([row[3:] for row in rows], float)


def test_a_finished_run_is_reported_and_exported(folder):
    run = folder / "finished"
    named = [str(run), "--problem", str(run / "problem.py")]  # it came from elsewhere
    assert main(["report", *named]) == main(["export", *named]) == main(["resume", *named]) == 0
    page = (run / "report.html").read_text()
    assert f"{read(run / 'metrics.json')['errors']['u']['mae']:.2e}" in page
    assert len(list(run.glob("solution*.vtu"))) > 1 and (run / "solution.pvd").exists()
    for name in ("run.json", "model.eqx", "metrics.json", "history.csv"):
        assert (run / name).read_bytes() == (BEFORE / "finished" / name).read_bytes()


@pytest.mark.parametrize("stage", ["adam", "levenberg_marquardt"])
def test_an_interrupted_run_ends_as_it_would_have_ended(folder, problem, stage):
    run = folder / f"killed-in-{stage}"
    assert main(["resume", str(run), "--problem", str(run / "problem.py")]) == 0
    (steps, found), (known_steps, known) = history(run), history(BEFORE / "finished")
    assert steps == known_steps
    np.testing.assert_allclose(found, known, rtol=NEAR)
    ended, as_then = (hp.Solution.load(place / "model.eqx", problem) for place in (run, BEFORE / "finished"))
    np.testing.assert_allclose(ended(POINTS)["u"], as_then(POINTS)["u"], rtol=NEAR)


def test_a_model_of_each_method_says_what_it_said(problem):
    known = read(BEFORE / "models" / "values.json")
    assert set(known["u"]) == set(METHODS)
    for method, values in known["u"].items():
        solution = hp.Solution.load(BEFORE / "models" / f"{method}.eqx", problem)
        np.testing.assert_allclose(solution(np.array(known["x"]))["u"].ravel(), values, rtol=NEAR, err_msg=method)


def test_a_comparison_goes_on_and_says_what_it_said(folder):
    run = folder / "compared"
    plans = read(run / "run.json")["settings"]["plans"]
    (run / "table.md").unlink()
    assert main(["compare", str(run / "problem.py"), "--methods", ",".join(plans), "--seeds", "2", "--steps", "4,4",
                 "--set", "points=16", "--set", "exact.width=4", "--set", "exact.depth=1", "--set", "pinn.layers=[6]",
                 "--out", str(run), "--resume"]) == 0
    for path in (BEFORE / "compared").rglob("*"):
        if path.is_file() and path.name != "run.json":
            assert (run / path.relative_to(BEFORE / "compared")).read_bytes() == path.read_bytes()


def test_a_reference_has_what_was_put_into_it():
    reference = hp.Reference.load(BEFORE / "reference.npz")
    np.testing.assert_array_equal(reference.x, [[0], [0.5], [1]])
    np.testing.assert_array_equal(reference.times, [0, 1])
    np.testing.assert_array_equal(reference.values["u"], [[0, 0, 0], [0, 0.5, 1]])
    np.testing.assert_array_equal(reference.cells, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(reference.masks["left"], [True, True, False])
    assert list(reference.baselines) == ["nothing", "mean"] and reference.baselines["nothing"]["u"] == 0
    np.testing.assert_array_equal(reference.baselines["mean"]["u"], np.full((2, 3), 0.25))
    assert reference.weighted and reference.about == {"by": "hand", "level": 2}
