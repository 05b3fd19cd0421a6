"""The command line: what it prints, what it writes, how it answers mistakes, and `kill -9`."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hardpde.cli.parser import main
from hardpde.methods import METHODS
from hardpde.problem.reference import Reference
from hardpde.problems import PROBLEMS
from hardpde.runs.folder import check_folder, prepare_folder, settle
from hardpde.runs.load import read_run
from hardpde.support.files import sha256_of
from helpers import last_json, refused

pytestmark = pytest.mark.usefixtures("quick_compilation")

USER = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Ball((0, 0), 1, name="rim") - hp.Ball((0, 0), 0.5, name="hole"),
    fields="u",
    gradients={"grad_u": "u"},
    residual=lambda x, q, dq: -hp.div(dq.grad_u) - 4,
    conditions=[hp.robin("rim", "u", a=1, b=1, g=-1), hp.dirichlet("hole", "u", 1.75)],
    exact=lambda x: {"u": 2 - x @ x, "grad_u": -2 * x},
)
"""
# A line is checked sooner than a ring: for what is refused before anything is solved.
LOOSE = """
import hardpde as hp
problem = hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u", gradients={"p": "u"},
                     residual=lambda x, q, dq: hp.div(dq.p),
                     conditions=[hp.neumann(end, "u") for end in ("left", "right")])
"""
LINE = USER.replace('hp.Ball((0, 0), 1, name="rim") - hp.Ball((0, 0), 0.5, name="hole")',
                    'hp.Interval(0, 1, left="hole", right="rim")')
FEW = ["--steps", "100,200", "--set", "points=128", "--set", "width=8", "--set", "depth=2"]
SOLVE_KEYS = {"verdict", "because", "conservation", "error_bar",
              "problem", "method", "preset", "seed", "parameters", "mae", "errors", "boundary_violation", "seconds",
              "wall_seconds", "judged_seconds", "device", "run", "solver", "decision", "held_out", "solve_seconds",
              "unknowns", "rows", "estimated_error", "steps"}


def call(capsys, *words):
    """Exit status, stdout and stderr of a command."""
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "disc.py"
    path.write_text(USER)
    return path


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    path = tmp_path_factory.mktemp("line") / "line.py"
    path.write_text(LINE)
    return path


@pytest.fixture(scope="module")
def solved(user):
    """A finished run of the user's problem, with what it printed."""
    run = user.parent / "run"
    done = subprocess.run([sys.executable, "-m", "hardpde.cli", "solve", str(user), *FEW, "--out", str(run), "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return run, done


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- What is printed and written -----------------------------------------------------------------------------


def test_list_names_problems_and_methods(capsys):
    code, out, _ = call(capsys, "list", "--json")
    assert code == 0
    assert last_json(out) == {"problems": list(PROBLEMS), "methods": list(METHODS)}
    code, out, _ = call(capsys, "list")
    assert code == 0 and "battery-pack" in out and "exact" in out and '"problems"' not in out


@pytest.mark.parametrize("method", METHODS)
def test_check_certifies_every_condition(capsys, user, elsewhere, method):
    code, out, err = call(capsys, "check", user, "--method", method, "--json")
    assert code == 0, err
    assert len(out.splitlines()) == 1
    found = last_json(out)
    assert {"problem", "max_violation", "conditions"} <= set(found)
    assert found["well_posed"] is True and found["free_modes"] == found["findings"] == []
    assert found["needs"] == {"rim": {"needed": 1, "stated": 1}, "hole": {"needed": 1, "stated": 1}}
    assert found["problem"] == "disc"
    assert [condition["boundary"] for condition in found["conditions"]] == ["rim", "hole"]
    assert all(set(condition) == {"name", "boundary", "violation"} for condition in found["conditions"])
    assert max(condition["violation"] for condition in found["conditions"]) == found["max_violation"]
    assert found["max_violation"] <= 1e-12 if method == "exact" else found["max_violation"] > 1e-12
    assert (elsewhere / "disc-domain.png").read_bytes().startswith(b"\x89PNG")


def test_a_problem_that_leaves_something_free_is_drawn_warned_of_and_refused(capsys, elsewhere):
    Path("loose.py").write_text(LOOSE)
    code, out, _ = call(capsys, "check", "loose.py", "--json")
    found = last_json(out)
    assert code == 0 and found["well_posed"] is False
    assert found["free_modes"] == [{"fields": ["u"], "constant": True, "states": 1}]
    assert Path("loose-free-u.png").read_bytes().startswith(b"\x89PNG")
    refused(call(capsys, "solve", "loose.py", "--strict"), "not well posed", 'mean("u", 0)')
    assert not Path("runs").exists()
    code, out, _ = call(capsys, "solve", "loose.py", "--steps", "3,0", "--set", "width=4", "--set", "points=32",
                        "--report", "none")
    assert code == 0 and "warning: nothing fixes the level of 'u'" in out


def test_check_takes_options_of_the_method(capsys, user, elsewhere):
    soft, hard = (last_json(call(capsys, "check", user, "--method", "hc", "--set", f"beta_s={beta}", "--json")[1])
                  for beta in (1, 5))
    assert hard["max_violation"] < soft["max_violation"]


def test_solve_prints_one_object(solved):
    run, done = solved
    lines = done.stdout.splitlines()
    assert len(lines) == 1  # words go to stderr
    result = json.loads(lines[0])
    assert set(result) == SOLVE_KEYS
    assert (result["problem"], result["method"], result["preset"], result["seed"]) == ("disc", "exact", "quick", 0)
    assert result["run"] == str(run)
    assert set(result["errors"]) == {"u", "grad_u[0]", "grad_u[1]"}
    assert result["errors"]["u"]["mae"] == result["mae"] < 0.1
    assert result["boundary_violation"] <= 1e-12
    assert "held-out" in done.stderr and "left" in done.stderr
    assert "adam ended after 100 steps: all 100 steps were taken" in done.stderr
    assert "Traceback" not in done.stderr


def test_solve_writes_the_run(solved):
    run, _ = solved
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert names == {"run.json", "model.eqx", "history.csv", "metrics.json", "report.html", "problem.py",
                     "solution.vtu", "figures/u.png", "figures/history.png", "figures/domain.png"}
    about = json.loads((run / "run.json").read_text())
    assert about["status"] == "finished"
    assert about["settings"]["seed"] == 0 and about["settings"]["method"]["width"] == 8
    assert [stage["steps"] for stage in about["settings"]["stages"]] == [100, 200]
    assert {"versions", "device", "commit"} <= set(about["provenance"])
    assert {"python", "jax", "hardpde"} <= set(about["provenance"]["versions"])
    assert (run / "problem.py").read_text() == USER
    with open(run / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(dict.fromkeys(row["stage"] for row in rows)) == ["adam", "ssbroyden"]
    assert rows[-1]["step"] == "200" and float(rows[-1]["held_out"]) < float(rows[0]["held_out"])
    metrics = json.loads((run / "metrics.json").read_text())
    assert [ending["stage"] for ending in metrics["endings"]] == ["adam", "ssbroyden"]
    for name in ("report.html", "metrics.json"):
        text = re.sub(r"base64,[A-Za-z0-9+/=]*", "", (run / name).read_text())  # an image may hold any letters
        assert "NaN" not in text


def test_report_export_and_resume_of_a_finished_run(capsys, solved, elsewhere):
    run = elsewhere / "copy"
    shutil.copytree(solved[0], run)
    for name in ("report.html", "solution.vtu"):
        (run / name).unlink()
    code, out, err = call(capsys, "report", run, "--json")
    assert code == 0, err
    assert last_json(out) == {"report": str(run / "report.html")}
    assert "<html" in (run / "report.html").read_text().lower()
    code, out, err = call(capsys, "export", run, "--vtu", "--out", elsewhere / "u.vtu", "--json")
    assert code == 0, err
    assert last_json(out) == {"file": str(elsewhere / "u.vtu")}
    assert (elsewhere / "u.vtu").read_bytes() == (solved[0] / "solution.vtu").read_bytes()
    code, out, err = call(capsys, "resume", run, "--json")
    assert code == 0 and "is finished already" in err
    before = json.loads(solved[1].stdout)
    after = last_json(out)
    assert after.pop("wall_seconds") > 0 and before.pop("wall_seconds") > before["seconds"]
    assert after.pop("judged_seconds") > 0 and before.pop("judged_seconds") > before["seconds"]
    assert after == {**before, "run": str(run)}


def test_figures_are_said_and_kept_before_anything_is_drawn(capsys, line, elsewhere, monkeypatch):
    left = []

    def note(*words):
        left.append((capsys.readouterr().out, set(os.listdir("run"))))

    monkeypatch.setattr("hardpde.cli.commands.present", note)
    words = ["solve", line, *FEW, "--steps", "2,2", "--out", "run"]
    assert call(capsys, *words)[0] == 0
    ((said, files),) = left
    assert "largest violation" in said
    assert {"model.eqx", "metrics.json", "history.csv"} <= files and "report.html" not in files


def test_a_run_without_a_report_can_be_given_one_later(capsys, line, elsewhere):
    code, out, err = call(capsys, "solve", line, *FEW, "--steps", "2,2", "--out", "run", "--report", "none", "--json")
    assert code == 0, err
    assert set(last_json(out)) == SOLVE_KEYS and "hardpde report run" in err
    assert set(os.listdir("run")) == {"run.json", "model.eqx", "history.csv", "metrics.json", "problem.py"}
    code, out, err = call(capsys, "report", "run")
    assert code == 0 and (elsewhere / "run" / "report.html").exists()


def test_parts_and_baselines_are_said(capsys, solved, elsewhere):
    run = elsewhere / "copy"
    shutil.copytree(solved[0], run)
    metrics = json.loads((run / "metrics.json").read_text())
    parts = {"r > 0.05": {"mae": 1e-3, "mape": None}, "area-weighted": {"mae": 2e-3, "mape": None}}
    metrics["errors"]["u"] = {"mae": 3e-3, "mape": None, "by_time": [], "parts": parts}
    trivial = {"mae": 0.225, "by_time": [], "parts": {name: {"mae": 0.1} for name in parts}}
    metrics["baselines"] = {"constant flow": {"u": trivial}}
    (run / "metrics.json").write_text(json.dumps(metrics))
    about = json.loads((run / "run.json").read_text())
    about["files"]["metrics.json"] = sha256_of(run / "metrics.json")
    (run / "run.json").write_text(json.dumps(about))
    code, out, err = call(capsys, "resume", run)
    assert code == 0, err
    start = out.splitlines().index("u: mae 0.003 (constant flow: mae 0.225)")
    assert out.splitlines()[start + 1 : start + 3] == ["  r > 0.05: mae 0.001 (constant flow: mae 0.1)",
                                                       "  area-weighted: mae 0.002 (constant flow: mae 0.1)"]
    assert out.splitlines()[start + 3].startswith("grad_u[0]: mae")
    code, out, err = call(capsys, "resume", run, "--json")
    found = last_json(out)
    assert code == 0 and set(found) == SOLVE_KEYS | {"baselines"}
    assert found["errors"]["u"] == {"mae": 3e-3, "mape": None, "parts": parts}
    assert found["baselines"] == {"constant flow": {"u": {"mae": 0.225, "parts": trivial["parts"]}}}


def test_a_ball_of_one_dimension_and_of_none(capsys, elsewhere):
    refused(call(capsys, "check", "heat-ball", "--dim", "0"), "dim is 0", "at least 1")
    code, out, err = call(capsys, "check", "heat-ball", "--dim", "1", "--json")
    assert code == 0, err
    assert last_json(out)["problem"] == "heat-ball" and last_json(out)["max_violation"] <= 1e-12
    assert (elsewhere / "heat-ball-domain.png").read_bytes().startswith(b"\x89PNG")


def test_reference_of_a_known_solution(capsys, user, elsewhere):
    code, out, err = call(capsys, "reference", user, "--json")
    assert code == 0, err
    found = last_json(out)
    reference = Reference.load(elsewhere / "disc-reference.npz")
    assert found["nodes"] == len(reference.x) and found["problem"] == "disc"
    np.testing.assert_allclose(reference.values["u"], 2 - (reference.x**2).sum(1), rtol=1e-12)
    before = (elsewhere / "disc-reference.npz").stat().st_mtime_ns
    refused(call(capsys, "reference", user), "exists")
    assert (elsewhere / "disc-reference.npz").stat().st_mtime_ns == before


def test_a_reference_by_finite_elements(capsys, user, elsewhere):
    pytest.importorskip("ngsolve")
    refused(call(capsys, "reference", user, "--level", "1"), "--level is for battery-pack and airfoil")
    code, out, err = call(capsys, "reference", user, "--digits", "2", "--json")
    assert code == 0, err
    assert last_json(out)["about"]["agreed"] and "agree to" in err
    reference = Reference.load(elsewhere / "disc-reference.npz")
    np.testing.assert_allclose(reference.values["u"], 2 - (reference.x**2).sum(1), atol=1e-3)


def test_a_run_is_compared_with_the_reference_that_it_is_given(capsys, line, elsewhere):
    x = np.linspace(0, 1, 11)[:, None]
    Reference(x, {"u": np.full(11, 7.0)}).save("seven.npz")
    Reference(x, {"v": np.ones(11)}).save("other.npz")
    refused(call(capsys, "solve", line, "--reference", "other.npz"), "has a field 'v'")
    refused(call(capsys, "solve", line, "--reference", "none.npz"), "none.npz")
    code, out, err = call(capsys, "solve", line, *FEW, "--report", "none", "--out", "run", "--reference", "seven.npz",
                          "--json")
    assert code == 0, err
    assert last_json(out)["mae"] > 4
    (elsewhere / "seven.npz").unlink()
    problem = read_run(Path("run"))[1]
    assert problem.make_reference().values["u"][0] == 7
    Reference(x, {"u": np.full(11, 8.0)}).save("run/reference.npz")
    refused(call(capsys, "export", "run"), "reference.npz' is missing or damaged")


def test_a_folder_in_the_way_is_said_before_the_problem_is_stated(capsys, solved, elsewhere):
    stated = elsewhere / "stated.py"
    stated.write_text("from pathlib import Path\nPath('looked').touch()\n")
    refused(call(capsys, "solve", stated, "--out", solved[0]), "exists; choose another folder")
    assert not (elsewhere / "looked").exists()
    refused(call(capsys, "solve", stated, "--out", elsewhere / "free"), "stated.py")
    assert (elsewhere / "looked").exists() and not (elsewhere / "free").exists()


def test_force_clears_a_run_and_nothing_else(solved, elsewhere):
    run = elsewhere / "copy"
    shutil.copytree(solved[0], run)
    for name in ("notes.txt", "solutions.txt"):
        (run / name).write_text("mine")
    with pytest.raises(ValueError, match="exists; choose another folder"):
        check_folder(run, force=False)
    check_folder(run, force=True)
    prepare_folder(run)
    assert sorted(path.name for path in run.iterdir()) == [".earlier", "notes.txt", "solutions.txt"]
    settle(run)
    assert sorted(path.name for path in run.iterdir()) == ["notes.txt", "solutions.txt"]
    check_folder(elsewhere / "new", force=False)
    prepare_folder(elsewhere / "new")
    check_folder(elsewhere / "new", force=False)  # an empty folder will do


# --- kill -9 ---------------------------------------------------------------------------------------------------


def test_a_killed_run_resumes_to_the_same_bytes(capsys, solved, user, elsewhere):
    run = elsewhere / "killed"
    words = ["solve", str(user), *FEW, "--out", str(run), "--checkpoint-every", "0.001"]
    with open(elsewhere / "log", "w") as log:
        process = subprocess.Popen([sys.executable, "-m", "hardpde.cli", *words], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 200
            while not (run / "checkpoint.npz").exists() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.002)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == -9, (elsewhere / "log").read_text()
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    refused(call(capsys, "export", run, "--vtu"), "not finished", "hardpde resume")
    refused(call(capsys, "report", run), "not finished")

    truncated = elsewhere / "truncated"
    shutil.copytree(run, truncated)
    content = (truncated / "checkpoint.npz").read_bytes()
    (truncated / "checkpoint.npz").write_bytes(content[: len(content) // 2])
    refused(call(capsys, "resume", truncated), "checkpoint.npz' is damaged")

    again = subprocess.run([sys.executable, "-m", "hardpde.cli", "resume", str(run), "--json"], capture_output=True,
                           text=True, timeout=300, cwd=elsewhere)
    assert again.returncode == 0, again.stderr
    assert (run / "model.eqx").read_bytes() == (solved[0] / "model.eqx").read_bytes()
    assert not (run / "checkpoint.npz").exists()
    timeless = ("seconds", "solve_seconds", "wall_seconds", "judged_seconds", "run")
    before, after = json.loads(solved[1].stdout), json.loads(again.stdout)
    assert {k: v for k, v in after.items() if k not in timeless} == {
        k: v for k, v in before.items() if k not in timeless}


def test_ctrl_c_is_answered_by_how_to_go_on(user, elsewhere):
    """Whatever is being compiled then."""
    words = ["solve", str(user), "--steps", "100000,0", "--out", str(elsewhere / "stopped")]
    # An interrupt is ignored below a shell that runs in the background, until somebody asks for it.
    listening = ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
                 "from hardpde.cli.parser import command; command()")
    with open(elsewhere / "words", "w+") as log:
        process = subprocess.Popen([sys.executable, "-u", "-c", listening, *words], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 200
            while " by exact" not in (elsewhere / "words").read_text() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.wait(200)
        finally:
            process.kill()
            process.wait()
    said = (elsewhere / "words").read_text()
    assert process.returncode == 130 and "Traceback" not in said
    run = elsewhere / "stopped"
    assert said.rstrip().endswith(f"hardpde: stopped; `hardpde resume {run}` goes on from the last checkpoint")


# --- Mistakes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, says", [
    (["solve", "battery"], ["no problem 'battery'", "battery-pack", ".py file"]),
    (["check", "battery"], ["no problem 'battery'"]),
    (["reference", "battery"], ["no problem 'battery'"]),
    (["solve", "USER", "--method", "pin"], ["no method 'pin'", "exact, hc"]),
    (["check", "USER", "--method", "pin"], ["no method 'pin'"]),
    (["solve", "USER", "--preset", "slow"], ["--preset", "slow", "quick"]),
    (["solve", "USER", "--seed", "-1"], ["seed is -1"]),
    (["check", "USER", "--seed", "-1"], ["seed is -1"]),
    (["check", "USER", "--set", "wide=5"], ["wide", "width"]),
    (["solve", "USER", "--seed", "one"], ["--seed", "one"]),
    (["solve", "USER", "--steps", "5"], ["give one number for each stage"]),
    (["solve", "USER", "--steps=5,-5"], ["steps must be positive"]),
    (["solve", "USER", "--stages", "{"], ["the stages are not JSON"]),
    (["solve", "USER", "--stages", "[]"], ["stages are a list", "at least one"]),
    (["solve", "USER", "--stages", '[{"optimiser": "sgd", "steps": 5}]'], ["no optimiser 'sgd'", "adam"]),
    (["solve", "USER", "--stages", '[{"optimiser": "adam"}]'], ["must name optimiser and steps"]),
    (["solve", "USER", "--stages", '[{"optimiser": "adam", "steps": "5"}]'], ["steps is '5'", "whole number"]),
    (["solve", "USER", "--stages", '[{"optimiser": "adam", "steps": 5, "options": {"lr": 1}}]'], ["adam", "lr"]),
    (["solve", "USER", "--steps", "0,0"], ["one stage must remain"]),
    (["solve", "USER", "--steps", "a,b"], ["'a,b' is not a list of whole numbers"]),
    (["solve", "USER", "--set", "wdth=8"], ["no option 'wdth'", "width"]),
    (["solve", "USER", "--set", "width"], ["'width' is not NAME=VALUE"]),
    (["solve", "USER", "--set", "width=wide"], ["option 'width' is 'wide'", "whole number"]),
    (["solve", "USER", "--set", "width=2.5"], ["option 'width' is 2.5", "whole number"]),
    (["solve", "USER", "--set", "width=0"], ["option 'width' is 0", "a positive whole number"]),
    (["solve", "USER", "--set", "points=0"], ["option 'points' is 0"]),
    (["solve", "USER", "--set", "width=2000"], ["ssbroyden keeps a dense matrix", "lbfgs"]),
    (["solve", "USER", "--set", "points=many"], ["option 'points' is 'many'"]),
    (["solve", "USER", "--set", "chunk=0"], ["option 'chunk' is 0"]),
    (["solve", "USER", "--set", "dtype=float16"], ["option 'dtype' is 'float16'", "float32 or float64"]),
    (["solve", "USER", "--set", "adaptive=3"], ["option 'adaptive' is 3", "true or false"]),
    (["solve", "USER", "--set", "sampling=random"], ["sampling is 'random'"]),
    (["solve", "USER", "--method", "hc", "--set", "beta_s=-1"], ["beta_s", "positive"]),
    (["solve", "USER", "--method", "hc", "--set", "beta_s=NaN"], ["beta_s", "nan"]),
    (["solve", "USER", "--method", "hc", "--set", "main=[50,0]"], ["option 'main' is [50, 0]"]),
    (["solve", "USER", "--method", "hc", "--set", "points=0"], ["option 'points' is 0"]),
    (["solve", "USER", "--checkpoint-every", "0"], ["--checkpoint-every", "not positive"]),
    (["solve", "missing.py"], ["no file 'missing.py'"]),
    (["check", "missing.py"], ["no file 'missing.py'"]),
    (["solve", "USER", "--out", "full"], ["'full' exists", "--force"]),
    (["solve", "USER", "--out", "full", "--force"], ["'full' is not a run folder"]),
    (["solve", "USER", "--out", "full/note.txt"], ["'full/note.txt' is a file"]),
    (["resume", "full"], ["'full' is not a run folder"]),
    (["resume", "nowhere"], ["'nowhere' is not a run folder"]),
    (["export", "full"], ["'full' is not a run folder"]),
    (["report", "full"], ["'full' is not a run folder"]),
    (["check", "USER", "--picture", "nowhere/domain.png"], ["no folder 'nowhere'"]),
    (["dance"], ["dance"]),
    ([], ["COMMAND"]),
], ids=lambda value: "_".join(value)[:40] if isinstance(value, list) else None)
def test_a_mistake_in_the_words_is_one_sentence_and_writes_nothing(capsys, line, elsewhere, words, says):
    (elsewhere / "full").mkdir()
    (elsewhere / "full" / "note.txt").write_text("mine")
    refused(call(capsys, *[line if word == "USER" else word for word in words]), *says)
    assert [path.name for path in elsewhere.rglob("*")] == ["full", "note.txt"]
    assert (elsewhere / "full" / "note.txt").read_text() == "mine"


BAD_FILES = {
    "syntax": ("problem = (\n", ["'user.py' cannot be run", "SyntaxError in line 1"]),
    "raises": ("import hardpde\n\nraise RuntimeError('no luck')\n", ["RuntimeError in line 3: no luck"]),
    "exits": ("import sys\nsys.exit(3)\n", ["SystemExit in line 2"]),
    "two lines": ("\nraise RuntimeError('no luck\\nat all')\n", ["RuntimeError in line 2: no luck"]),
    "imports": ("import nothing_like_this\n", ["ModuleNotFoundError in line 1"]),
    "empty": ("", ["does not define `problem`"]),
    "no problem": ("problem = 3\n", ["does not define `problem`"]),
    "field": (LINE.replace('robin("rim", "u"', 'robin("rim", "v"'), ["there is no field 'v'; the fields are u"]),
    "boundary": (LINE.replace('robin("rim"', 'robin("edge"'), ["there is no boundary 'edge'", "hole, rim"]),
    "nothing said": (LINE.replace("a=1, b=1", "a=0, b=0"), ["a = b = 0"]),
    "no condition": (LINE.replace('hp.robin("rim", "u", a=1, b=1, g=-1), ', ""), ["'rim' has no condition"]),
    "exact field": (LINE.replace('{"u": 2', '{"w": 2'), ["the known solution has a field 'w'"]),
    "exact shape": (LINE.replace('"u": 2 - x @ x', '"u": x'), ["gives 'u' the shape (1,)"]),
    "exact raises": (LINE.replace("2 - x @ x", "missing(x)"), ["the known solution cannot be evaluated", "missing"]),
    "exact nan": (LINE.replace("2 - x @ x", "(x @ x - 9) ** 0.5"), ["not a finite number"]),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_files_that_state_no_problem(capsys, elsewhere, kind):
    text, says = BAD_FILES[kind]
    (elsewhere / "user.py").write_text(text)
    refused(call(capsys, "solve", "user.py"), *says)
    assert [path.name for path in elsewhere.iterdir() if path.name != "__pycache__"] == ["user.py"]


def test_a_file_may_define_a_function_and_dataclasses(capsys, elsewhere):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass A:\n    b: int\n"
    (elsewhere / "user.py").write_text(text + LINE.replace("problem = hp.Problem(", "problem = lambda: hp.Problem("))
    code, _, err = call(capsys, "reference", "user.py", "--json")
    assert code == 0, err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"status": "running"}', '{"settings": {"stages": []}, '
                                     '"source": {"name": "battery-pack"}, "status": "running", "provenance": {}}'])
def test_a_damaged_run_json(capsys, elsewhere, content):
    (elsewhere / "run").mkdir()
    (elsewhere / "run" / "run.json").write_text(content)
    for command in ("resume", "report", "export"):
        refused(call(capsys, command, "run"), "run.json' is damaged", "start the run again")


def test_a_run_whose_files_are_damaged(capsys, solved, elsewhere):
    run = elsewhere / "copy"
    shutil.copytree(solved[0], run)
    model = (run / "model.eqx").read_bytes()
    (run / "model.eqx").write_bytes(model[: len(model) // 2])
    refused(call(capsys, "export", run), "model.eqx' is damaged")
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "files": {}}))  # as of before there were checksums
    (run / "metrics.json").write_text("{")
    refused(call(capsys, "resume", run), "metrics.json' cannot be read")


def test_the_command_is_installed():
    command = os.path.join(os.path.dirname(sys.executable), "hardpde")
    if not os.path.exists(command):
        pytest.skip("hardpde is not installed as a command")
    done = subprocess.run([command, "list", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "battery-pack" in json.loads(done.stdout.splitlines()[-1])["problems"]


def test_finite_elements_that_are_not_installed(capsys, elsewhere, monkeypatch):
    monkeypatch.setitem(sys.modules, "ngsolve", None)
    refused(call(capsys, "reference", "battery-pack", "--level", "1"), "pip install 'hardpde[fem]'")
    assert not list(elsewhere.iterdir())


OPTIONAL = LINE.replace("problem = hp.Problem(",
                        "def problem(rate: float = 1.0, steep: bool = False):\n  return hp.Problem(")


@pytest.mark.parametrize("words, says", [
    (["--with", "speed=2"], ["has no option 'speed'", "rate, steep"]),
    (["--with", "rate=fast"], ["option 'rate'", "'fast'", "a number"]),
    (["--with", "steep=1"], ["option 'steep'", "true or false"]),
    (["--with", "rate"], ["'rate' is not NAME=VALUE"]),
    (["--dim", "2"], ["has no option 'dim'"]),
], ids=["unknown", "not a number", "not a truth value", "no value", "dim"])
def test_options_of_a_problem_that_are_wrong(capsys, elsewhere, words, says):
    (elsewhere / "optional.py").write_text(OPTIONAL)
    refused(call(capsys, "check", "optional.py", *words), *says)


def test_a_problem_that_is_a_function_takes_options(capsys, elsewhere):
    (elsewhere / "optional.py").write_text(OPTIONAL)
    code, out, _ = call(capsys, "check", "optional.py", "--with", "rate=2", "--with", "steep=true", "--json")
    assert code == 0 and last_json(out)["max_violation"] < 1e-12
    (elsewhere / "plain.py").write_text(LINE)
    refused(call(capsys, "check", "plain.py", "--with", "rate=2"), "`problem` is not a function")


def test_a_run_remembers_the_options_of_its_problem(capsys, elsewhere):
    code, _, _ = call(capsys, "solve", "poisson", "--with", "extra=false", "--out", "run", "--steps", "50,50",
                      "--set", "points=64", "--set", "width=6")
    assert code == 0
    assert json.loads((elsewhere / "run" / "run.json").read_text())["source"]["options"] == {"extra": False}
    code, out, _ = call(capsys, "resume", "run", "--json")
    assert code == 0 and last_json(out)["problem"] == "poisson"
