"""What a run folder holds is what the run wrote, and nothing that it names is executed unless its user has run it."""

import json
import shutil
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.cli.parser import main
from hardpde.runs.load import load_problem, read_run
from hardpde.training import checkpoint
from helpers import weights

pytestmark = pytest.mark.usefixtures("quick_compilation")

LINE = """
import pathlib
import hardpde as hp

pathlib.Path(__file__).with_name("was-run").touch()
problem = hp.Problem(domain=hp.Interval(0, 1, left="a", right="b"), fields="u",
    residual=lambda x, q, dq: hp.laplacian(dq.u), conditions=[hp.dirichlet("a", "u"), hp.dirichlet("b", "u", 1.0)])
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run, and the folder of its problem."""
    folder = tmp_path_factory.mktemp("integrity")
    (folder / "line.py").write_text(LINE)
    assert main(["solve", str(folder / "line.py"), "--steps", "2,2", "--set", "points=32", "--set", "width=4", "--set",
                 "depth=1", "--report", "none", "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made / "run", tmp_path / "run")


def flipped(path, rng):
    """The file with one bit changed."""
    data = bytearray(path.read_bytes())
    at = int(rng.integers(8 * len(data)))
    data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


def edited(path, *keys, to):
    data = json.loads(path.read_text())
    inner = data
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    path.write_text(json.dumps(data))


def test_no_flipped_bit_of_a_model_is_loaded_as_another_one(made, tmp_path):
    problem, rng = load_problem(str(made / "line.py"))[0], np.random.default_rng(0)
    whole = weights(hp.Solution.load(made / "run" / "model.eqx", problem).training.model)
    refused = 0
    for _ in range(60):
        shutil.copy(made / "run" / "model.eqx", tmp_path)
        flipped(tmp_path / "model.eqx", rng)
        try:
            found = hp.Solution.load(tmp_path / "model.eqx", problem)
        except ValueError as error:
            assert "damaged or not a model" in str(error)
            refused += 1
        else:  # a bit of what says nothing
            assert np.array_equal(weights(found.training.model), whole)
    assert refused >= 58


def test_no_flipped_bit_of_a_checkpoint_is_loaded_as_another_one(tmp_path):
    tree, rng, path = {"a": jnp.arange(50.0), "b": jnp.ones((3, 4))}, np.random.default_rng(1), tmp_path / "checkpoint"
    for _ in range(60):
        checkpoint.save(path, tree, {"step": 3})
        flipped(path, rng)
        try:
            found, meta = checkpoint.load(path, tree), checkpoint.read_meta(path)
        except ValueError as error:
            assert "damaged" in str(error) or "another model" in str(error)
        else:
            assert meta == {"step": 3} and all(np.array_equal(found[name], tree[name]) for name in tree)


@pytest.mark.parametrize("name", ["metrics.json", "history.csv", "model.eqx"])
def test_a_changed_file_of_a_finished_run_is_refused(capsys, run, name):
    text = (run / name).read_bytes()
    (run / name).write_bytes(text.replace(b"1", b"2", 1))
    assert main(["export", str(run)]) == 2
    assert f"{name}' is damaged: it is not what the run wrote" in capsys.readouterr().err


@pytest.mark.parametrize("keys, to", [(("seed",), 1), (("stages", 0, "steps"), 1), (("stages",), []),
                                      (("method", "width"), 5)], ids=["seed", "steps", "stages", "width"])
def test_changed_settings_are_refused_unless_stated(capsys, run, keys, to):
    edited(run / "run.json", "status", to="running")
    read_run(run)
    edited(run / "run.json", "settings", *keys, to=to)
    for command in ("resume", "report"):
        assert main([command, str(run)]) == 2
        assert "were changed since the run began; with --changed" in capsys.readouterr().err
    assert read_run(run, changed=True)[0]["settings"][keys[0]] != read_run(run, changed=True)[0]


def test_code_that_a_folder_from_elsewhere_names_is_not_executed(capsys, made, run, tmp_path, monkeypatch):
    monkeypatch.setenv("HARDPDE_STATE", str(tmp_path / "nobody"))
    marks = [made / "was-run", run / "was-run"]
    for mark in marks:
        mark.unlink(missing_ok=True)
    for command in ("report", "resume", "export"):
        assert main([command, str(run)]) == 2
        assert "you have not run before; look at it, then give it with --problem" in capsys.readouterr().err
    edited(run / "run.json", "source", to={"name": str(made / "line.py")})
    assert main(["export", str(run), "--changed"]) == 2
    assert not any(mark.exists() for mark in marks)
    shutil.copy(made / "run" / "run.json", run)
    assert main(["export", str(run), "--problem", str(run / "problem.py")]) == 0 and marks[1].exists()
    (run / "problem.py").write_text(LINE + "# changed")
    assert main(["export", str(run), "--problem", str(run / "problem.py")]) == 2
    assert "is not the file that the run" in capsys.readouterr().err


def test_a_file_beside_a_problem_stands_for_no_module_of_the_standard_library(tmp_path, monkeypatch):
    (tmp_path / "tomllib.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "beside_it.py").write_text("ONE = 1.0\n")
    (tmp_path / "user.py").write_text(LINE.replace("import pathlib", "import pathlib, tomllib, beside_it"))
    monkeypatch.delitem(sys.modules, "tomllib", raising=False)
    load_problem(str(tmp_path / "user.py"))
    assert hasattr(sys.modules["tomllib"], "loads") and sys.modules["beside_it"].ONE == 1.0
