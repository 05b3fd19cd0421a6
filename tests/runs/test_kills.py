"""Runs that are killed, full disks and folders that cannot be written: nothing is lost, and one sentence is said.

HARDPDE_KILLS says how often the run is killed (default 4).
"""

import builtins
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.cli.parser import main
from hardpde.evaluation.base import HISTORY
from hardpde.evaluation.export import write_vtu
from hardpde.problem.reference import Reference
from hardpde.runs.finish import write_history
from hardpde.runs.folder import prepare_folder, put_back, settle
from hardpde.runs.load import read_run
from hardpde.support.files import replacing, write_json
from hardpde.training import checkpoint

pytestmark = pytest.mark.usefixtures("quick_compilation")

KILLS = int(os.environ.get("HARDPDE_KILLS", 4))
BLOCKS = 15 * KILLS
LINE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="hole", right="rim"),
    fields="u",
    residual=lambda x, q, dq: -hp.laplacian(dq.u) - 4,
    conditions=[hp.robin("rim", "u", a=1, b=1, g=-1), hp.dirichlet("hole", "u", 1.75)],
    exact=lambda x: {"u": 2 - x @ x},
)
"""
FINISHING = ["model.eqx", "history.csv", "metrics.json", "solution.vtu", "figures", "report.html"]
SIZES = ["--set", "points=32", "--set", "width=4", "--set", "depth=1"]

# A command that kills itself. It counts what it does to files below a folder, and some seconds after the event with a
# given number the process gets SIGKILL, or as soon as it touches a file of a given name; a temporary file that is about
# to be flushed may lose its second half first.
CHILD = """
import os, signal, sys, threading
folder, event, delay, halve = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4] == "halve"
sys.argv[1:5] = []
count = 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def later():
    if delay == 0:
        die()
    threading.Timer(delay, die).start()

def watch(name, arguments):
    global count
    if name not in ("open", "os.rename", "os.remove", "os.mkdir") or not str(arguments[0]).startswith(folder):
        return
    count += 1
    if not event.isdigit():
        if event in str(arguments[0]):
            die()
        return
    if count < int(event):
        return
    if halve:
        if name == "open" and str(arguments[0]).endswith(".tmp") and arguments[1].startswith("r"):
            os.truncate(arguments[0], os.path.getsize(arguments[0]) // 2)
            die()
    elif count == int(event):
        later()

sys.addaudithook(watch)
if event == "0":
    later()
from hardpde.cli.parser import main
sys.exit(main())
"""


def command(folder, event, delay, halve, *words):
    """Run a command that kills itself; (exit status, stderr)."""
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder), str(event), str(delay), halve,
                           *map(str, words)], capture_output=True, text=True, timeout=400, env=environment)
    return done.returncode, done.stderr


def call(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.err.strip().splitlines()


def moments(kills):
    """When to kill: the event, seconds after it, and whether a file loses its second half.

    First the moment when the run begins, then random ones of the training and some before a process touches any file,
    and a fifth of them while the run is finished.
    """
    random = np.random.default_rng(7)
    last = max(1, kills // 5)
    yield str(random.integers(1, 6)), 0.0, "whole"
    for k in range(1, kills - last):
        if k % 5 == 3:
            yield "0", random.uniform(0.0, 2.0), "whole"
        else:
            event = str(random.integers(2, 13))
            yield event, random.choice([0.0, random.uniform(0.0, 0.05)]), ("whole", "halve")[k % 3 == 2]
    for name in random.choice(FINISHING, last, replace=False):
        yield name, 0.0, "whole"


def test_a_run_that_is_killed_again_and_again_loses_nothing(tmp_path):
    (tmp_path / "line.py").write_text(LINE)
    stages = json.dumps([{"optimiser": "adam", "steps": BLOCKS, "block": 1}])
    words = [tmp_path / "line.py", *SIZES, "--stages", stages, "--checkpoint-every", "1e-6"]
    code, said = command(tmp_path / "nowhere", "none", 0, "whole", "solve", *words, "--out", tmp_path / "whole")
    assert code == 0, said
    run = tmp_path / "killed"
    story, steps = [], [0]
    for event, delay, halve in moments(KILLS):
        begin = ["resume", run, "--checkpoint-every", "1e-6"] if (run / "run.json").exists() else [
            "solve", *words, "--out", run]
        code, said = command(run, event, delay, halve, *begin)
        story.append((event, delay, halve, code))
        assert code == -9, (story, steps, said)
        assert "Traceback" not in said
        if (run / "checkpoint.npz").exists():
            steps.append(checkpoint.read_meta(run / "checkpoint.npz")["step"])
    assert len(story) == KILLS
    assert steps == sorted(steps) and len(set(steps)) > 2  # it went on, and never back
    code, said = command(run, "none", 0, "whole", "resume", run)
    assert code == 0, said
    assert (run / "model.eqx").read_bytes() == (tmp_path / "whole" / "model.eqx").read_bytes()
    one, two = (json.loads((folder / "metrics.json").read_text()) for folder in (tmp_path / "whole", run))
    for key in ("errors", "loss", "held_out", "endings", "boundary_violation"):
        assert one[key] == two[key]
    rows = [[line.rsplit(",", 1)[0] for line in (folder / "history.csv").read_text().splitlines()]
            for folder in (tmp_path / "whole", run)]
    assert rows[0] == rows[1]  # all but the seconds
    assert contents(run).keys() == contents(tmp_path / "whole").keys()


# --- Full disks ------------------------------------------------------------------------------------------------

FULL = Path("/dev/full")
full_disk = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def fill(path):
    """Let the next file that is written for `path` find no space left."""
    path.with_name(f".{path.name}.{os.getpid()}.tmp").symlink_to(FULL)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """A folder with a problem and a finished run of it."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "line.py").write_text(LINE)
    assert main(["solve", str(folder / "line.py"), *SIZES, *FEW, "--out", str(folder / "run")]) == 0
    return folder


@pytest.fixture
def run(earlier, tmp_path):
    shutil.copytree(earlier / "run", tmp_path / "run")
    return tmp_path / "run"


FEW = ["--stages", '[{"optimiser": "adam", "steps": 6, "block": 2}]']


def refused(answer, *words):
    code, said = answer
    assert code == 2
    assert len([line for line in said if line.startswith("hardpde: ")]) == 1 and said[-1].startswith("hardpde: "), said
    assert not any("Traceback" in line for line in said)
    for word in words:
        assert word in said[-1]


WRITERS = {
    "checkpoint.npz": lambda path, big: checkpoint.save(path, {"a": jnp.arange(float(big))}, {"step": 1}),
    "metrics.json": lambda path, big: write_json(path, list(range(big))),
    "history.csv": lambda path, big: write_history(path, [dict.fromkeys(HISTORY, 1.0)] * big),
    "solution.vtu": lambda path, big: write_vtu(path, np.random.default_rng(0).random((big, 2)), None, {}),
    "known.npz": lambda path, big: Reference(np.random.default_rng(0).random((big, 2)), {}).save(path),
}


@full_disk
@pytest.mark.parametrize("big", [3, 30_000])  # in one buffer, which is flushed when the file is closed, or in many
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_does_not_fit_leaves_the_one_before(tmp_path, name, big):
    path = tmp_path / name
    WRITERS[name](path, 3)
    before = path.read_bytes()
    fill(path)
    with pytest.raises(OSError, match="No space left") as caught:
        WRITERS[name](path, big)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert contents(tmp_path) == {name: before}


def test_what_is_no_matter_of_the_disk_is_not_called_one(tmp_path):
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@full_disk
@pytest.mark.parametrize("name", ["run.json", "model.eqx"])
def test_a_full_disk_leaves_the_run_that_was_to_be_replaced(capsys, earlier, run, name):
    before = contents(run)
    fill(run / name)
    refused(call(capsys, "solve", earlier / "line.py", *SIZES, *FEW, "--out", run, "--force", "--seed", 1),
            f"No space left on device: '{run / name}'", "the earlier run is back in its place")
    assert contents(run) == before


@full_disk
def test_a_full_disk_leaves_the_last_checkpoint(capsys, earlier, run, monkeypatch):
    """And the earlier run waits until the new one is finished."""
    before, taken, write = contents(run), [], checkpoint.save

    def save(path, tree, meta):
        if len(taken) == 1:
            fill(path)
        write(path, tree, meta)
        taken.append((meta["step"], path.read_bytes()))

    monkeypatch.setattr(checkpoint, "save", save)
    every = ["--checkpoint-every", "1e-6"]
    refused(call(capsys, "solve", earlier / "line.py", *SIZES, *FEW, *every, "--out", run, "--force"),
            f"No space left on device: '{run / 'checkpoint.npz'}'", f"`hardpde resume {run}` goes on")
    (step, last), = taken
    assert step == 2 and (run / "checkpoint.npz").read_bytes() == last
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    assert contents(run / ".earlier") == before
    code, said = call(capsys, "resume", run)
    assert code == 0, said
    assert contents(run).keys() == before.keys() and contents(run)["model.eqx"] == before["model.eqx"]


@full_disk
@pytest.mark.parametrize("name", ["report.html", "figures/u.png"])
def test_a_full_disk_leaves_the_report_that_was_there(capsys, run, name):
    before = contents(run)
    fill(run / name)
    refused(call(capsys, "report", run), f"No space left on device: '{run / name}'")
    after = contents(run)
    assert after.keys() == before.keys() and after[name] == before[name]


# --- Folders that cannot be written ----------------------------------------------------------------------------


@pytest.fixture
def read_only(monkeypatch):
    """A function that makes a folder read-only, for every user: the system's calls are answered for it."""

    def lock(folder):
        def answer(function):
            def guarded(path, *arguments, **more):
                mode = str(arguments[0]) if arguments else str(more.get("mode", "r"))
                changes = function is not builtins_open or any(letter in mode for letter in "wax+")
                if changes and str(path).startswith(str(folder)):
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
                return function(path, *arguments, **more)

            return guarded

        for module, name in ((builtins, "open"), (io, "open"), (os, "rename"), (os, "replace"), (os, "mkdir"),
                             (os, "unlink"), (os, "rmdir")):
            monkeypatch.setattr(module, name, answer(getattr(module, name)))

    builtins_open = open
    return lock


def test_a_read_only_folder_keeps_what_it_holds(capsys, earlier, run, read_only):
    before = contents(run)
    read_only(run)
    refused(call(capsys, "solve", earlier / "line.py", *SIZES, *FEW, "--out", run, "--force"), "Read-only file system",
            str(run))
    refused(call(capsys, "report", run), "Read-only file system", str(run))
    refused(call(capsys, "export", run), "Read-only file system", str(run / "solution.vtu"))
    assert contents(run) == before


def test_a_folder_that_cannot_be_made(capsys, earlier, tmp_path, read_only):
    read_only(tmp_path / "locked")
    refused(call(capsys, "solve", earlier / "line.py", *SIZES, *FEW, "--out", tmp_path / "locked" / "run"),
            "Read-only file system", str(tmp_path / "locked"))
    assert not list(tmp_path.iterdir())


# --- An earlier run that is set aside --------------------------------------------------------------------------


def test_a_run_comes_back_from_any_moment_of_being_set_aside(earlier, tmp_path):
    """Killed before the k-th thing is moved, for every k."""
    before = contents(earlier / "run")
    moved = 0
    while True:
        run = tmp_path / f"run{moved}"
        shutil.copytree(earlier / "run", run)
        with pytest.MonkeyPatch.context() as patch:
            left = [moved]

            def rename(self, target, left=left, real=Path.rename):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                return real(self, target)

            patch.setattr(Path, "rename", rename)
            try:
                prepare_folder(run)
                break
            except KeyboardInterrupt:
                pass
        assert read_run(run)[0]["status"] == "finished"
        assert contents(run) == before
        moved += 1
    assert moved == len(list((earlier / "run").iterdir()))
    assert contents(run / ".earlier") == before
    prepare_folder(run)  # again, before anything was done
    assert contents(run / ".earlier") == before
    assert put_back(run) and contents(run) == before and not put_back(run)


def test_a_finished_run_keeps_nothing_of_what_it_replaced(run):
    prepare_folder(run)
    (run / "run.json").write_text('{"status": "finished"}')
    (run / "figures").mkdir()
    (run / "figures" / ".u.png.1.tmp").write_text("half")
    (run / ".metrics.json.1.tmp").write_text("half")
    prepare_folder(run)  # it was killed before it was settled: it is the one that waits now
    assert contents(run) == {".earlier/run.json": b'{"status": "finished"}'}
    settle(run)
    assert not list(run.iterdir())
