"""Run folders: one folder holds everything about one solve, and is enough to go on with it."""

import hashlib
import importlib.util
import inspect
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS
from hardpde.support.checking import unlike_default
from hardpde.support.files import is_temporary, replacing, sweep, write_json

CHECKPOINT = "checkpoint.npz"
_OURS = ("run.json", "model.eqx", "history.csv", "metrics.json", "report.html", "problem.py", CHECKPOINT,
         "comparison.json", "table.md")
_FOLDERS = ("figures", "models", "records", "tensorboard")
_EARLIER = ".earlier"  # where a run waits until the one that replaces it is finished


def load_problem(name: str, options: dict[str, Any] | None = None) -> tuple[Problem, dict[str, Any]]:
    """A built-in problem by name, or the `problem` of a user's .py file; and where it came from.

    `options` go to the function that makes the problem.
    """
    options = options or {}
    if name in PROBLEMS:
        return _make(PROBLEMS[name], options, f"'{name}'"), {"name": name, "options": options}
    path = Path(name)
    if path.suffix != ".py":
        raise ValueError(f"there is no problem '{name}'; the problems are {', '.join(PROBLEMS)}, "
                         f"or give a .py file that defines `problem`")
    if not path.is_file():
        raise ValueError(f"there is no file '{name}'")
    problem = _from_file(path, options)
    if problem.name == "problem":
        problem = problem.renamed(path.stem)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return problem, {"path": str(path.resolve()), "sha256": digest, "options": options}


def _make(factory: Callable[..., Problem], options: dict[str, Any], what: str) -> Problem:
    """The problem that a function makes of options, once they are found to be its own."""
    known = inspect.signature(factory).parameters
    for key, value in options.items():
        if key not in known:
            raise ValueError(f"{what} has no option '{key}'; " + (f"its options are {', '.join(known)}" if known
                                                                 else "it has none"))
        if wished := unlike_default(known[key].default, value):
            raise ValueError(f"option '{key}' of {what} is {value!r}; it must be {wished}")
    return factory(**options)


def _from_file(path: Path, options: dict[str, Any]) -> Problem:
    spec = importlib.util.spec_from_file_location(f"_hardpde_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses of the file look for it there
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        problem = getattr(module, "problem", None)
        if callable(problem) and not isinstance(problem, Problem):
            problem = _make(problem, options, "`problem`")
        elif options:
            raise ValueError("`problem` is not a function, so it takes no options; write def problem(…): return …")
    except ValueError as error:
        raise ValueError(f"'{path}': {error}") from None
    except (Exception, SystemExit) as error:
        line = _line_in(error, path)
        raise ValueError(f"'{path}' cannot be run: {type(error).__name__}{line}: {error}") from None
    finally:
        with suppress(ValueError):  # the file may have changed the list
            sys.path.remove(folder)
    if not isinstance(problem, Problem):
        raise ValueError(f"'{path}' does not define `problem`; end it with problem = hardpde.Problem(…)")
    return problem


def _line_in(error: BaseException, path: Path) -> str:
    """' in line N' of the user's file, where the error passed through it."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    numbers = []
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).resolve() == path.resolve():
            numbers.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" in line {numbers[-1]}" if numbers else ""


def check_folder(folder: Path, force: bool) -> None:
    """A run may go into a new or empty folder and, if told so, into the folder of an earlier run."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"'{folder}' is a file; choose another folder with --out")
    _recover(folder)
    # A process that was killed as it began leaves an unfinished run.json.
    contents = [path for path in folder.iterdir() if not is_temporary(path)]
    if contents and not force:
        raise ValueError(f"'{folder}' exists; choose another folder with --out, or --force to replace it")
    if contents and not (folder / "run.json").exists():
        raise ValueError(f"'{folder}' is not a run folder, so --force does not touch it; choose another")


def prepare_folder(folder: Path) -> None:
    """Make the folder, or set an earlier run in it aside until this one is finished; files that are not the run's stay.

    run.json moves first and comes back last: where it is missing and a run is set aside, that one is put back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / _EARLIER
    if aside.is_dir() and _finished(folder):
        settle(folder)
    if aside.is_dir():  # the run in the folder was never finished: what it was to replace still waits
        _clear(folder)
    elif earlier := _ours(folder):
        aside.mkdir()
        for path in earlier:
            path.rename(aside / path.name)


def put_back(folder: Path) -> bool:
    """Put the run that was set aside back in its place, and say whether there was one."""
    aside = folder / _EARLIER
    if not aside.is_dir():
        return False
    if (folder / "run.json").exists():
        _clear(folder)
    for path in reversed(_ours(aside)):
        path.rename(folder / path.name)
    aside.rmdir()
    return True


def settle(folder: Path) -> None:
    """Leave nothing in the folder of a finished run but the run."""
    (folder / CHECKPOINT).unlink(missing_ok=True)
    shutil.rmtree(folder / _EARLIER, ignore_errors=True)
    sweep(folder)


def _ours(folder: Path) -> list[Path]:
    """What is the run's in a folder, run.json first."""
    drawn = [file for file in folder.glob("solution*") if file.suffix in (".vtu", ".pvd")]
    return [path for path in (*(folder / name for name in (*_OURS, *_FOLDERS)), *drawn) if path.exists()]


def _clear(folder: Path) -> None:
    for path in reversed(_ours(folder)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _finished(folder: Path) -> bool:
    try:
        return json.loads((folder / "run.json").read_text())["status"] == "finished"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _recover(folder: Path) -> None:
    """Put back what a process was killed at while it set it aside."""
    if not (folder / "run.json").exists():
        put_back(folder)


def write_run(folder: Path, settings: dict, source: dict, provenance: dict, status: str) -> None:
    """run.json, which makes a folder that of a run; then a user's problem is copied beside it."""
    write_json(folder / "run.json",
               {"status": status, "settings": settings, "source": source, "provenance": provenance})
    if "path" in source and not (folder / "problem.py").exists():
        with replacing(folder / "problem.py") as temporary:
            shutil.copyfile(source["path"], temporary)


def read_run(folder: Path) -> tuple[dict[str, Any], Problem]:
    """run.json and the problem of a run."""
    _recover(folder)
    path = folder / "run.json"
    try:
        run = json.loads(path.read_text())
        source = run["source"]
        for key in ("problem", "method_name", "method", "preset", "seed", "stages"):
            run["settings"][key]
        run["status"], run["provenance"], source["name" if "name" in source else "sha256"]
        name, options = source["name" if "name" in source else "path"], source.get("options") or {}
        if not (isinstance(name, str) and isinstance(options, dict) and isinstance(run["settings"]["seed"], int)):
            raise TypeError("its problem or its seed is not one")
    except FileNotFoundError:
        raise ValueError(f"'{folder}' is not a run folder: it has no run.json") from None
    except (OSError, json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); start the run again") from None
    if "name" in source:
        return run, load_problem(source["name"], source.get("options"))[0]
    original = Path(source["path"])
    same = original.is_file() and hashlib.sha256(original.read_bytes()).hexdigest() == source["sha256"]
    problem = load_problem(str(original if same else folder / "problem.py"), source.get("options"))[0]
    return run, problem.renamed(run["settings"]["problem"])


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' cannot be read ({error}); solve again or resume the run") from None


def read_metrics(folder: Path) -> dict[str, Any]:
    """The figures of merit of a finished run."""
    path = folder / "metrics.json"
    metrics = read_json(path)
    try:
        for key in ("problem", "method", "preset", "seed", "parameters", "mae", "certificate", "endings"):
            metrics[key]
        float(metrics["seconds"] + metrics["boundary_violation"] + metrics["held_out"])
        for found in metrics["errors"].values():
            found["mae"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); solve again") from None
    return metrics


def is_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison of methods, not a run."""
    try:
        return "plans" in json.loads((folder / "run.json").read_text())["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def save_record(folder: Path, record: dict[str, Any]) -> None:
    """Keep the record of one method of a comparison, so that it can go on from there."""
    (folder / "records").mkdir(exist_ok=True)
    write_json(folder / "records" / f"{record['method']}.json", record)


def read_records(folder: Path, asked: dict[str, Any], source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The records of a comparison that has begun, by method; it must have been asked for in the same way."""
    if not folder.exists():
        return {}
    if not is_comparison(folder):
        raise ValueError(f"'{folder}' is not a comparison, so --resume cannot go on with it; choose another folder "
                         f"with --out")
    run = read_json(folder / "run.json")
    stated, asked = run["settings"], json.loads(json.dumps(asked))
    again = "give the same, or --force to start again"
    if any(run.get("source", {}).get(key) != source.get(key) for key in ("name", "sha256", "options")):
        raise ValueError(f"'{folder}' was begun with another problem, or its file has changed; {again}")
    different = [name for name, plan in asked["plans"].items() if stated["plans"].get(name, plan) != plan]
    if stated.get("seeds") != asked["seeds"]:
        raise ValueError(f"'{folder}' was begun with {stated.get('seeds')} seeds, not {asked['seeds']}; {again}")
    if different:
        raise ValueError(f"'{folder}' was begun with other settings of {', '.join(different)}; {again}")
    files = {name: folder / "records" / f"{name}.json" for name in asked["plans"] if name in stated["plans"]}
    return {name: read_record(path) for name, path in files.items() if path.exists()}


def plans_begun(folder: Path) -> dict[str, Any]:
    """The settings of all methods that a comparison was asked for so far."""
    return read_json(folder / "run.json")["settings"]["plans"] if is_comparison(folder) else {}


def read_record(path: Path) -> dict[str, Any]:
    """What is known of one method of a comparison."""
    try:
        record = json.loads(path.read_text())
        return {**record, **{key: record[key] for key in ("method", "settings", "runs")}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); delete it, and the method is trained again") from None
