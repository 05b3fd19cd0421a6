"""What a run left, read again: its problem, settings, history, figures of merit and solution."""

import csv
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS
from hardpde.runs.folder import recover
from hardpde.solving.solution import Solution
from hardpde.support.checking import unlike_default
from hardpde.training import Training


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


def read_run(folder: Path) -> tuple[dict[str, Any], Problem]:
    """run.json and the problem of a run."""
    recover(folder)
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


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The history of a finished run, row by row."""
    kinds = {"stage": str, "step": int, "steps": int}
    path = folder / "history.csv"
    try:
        with open(path, newline="") as file:
            return [{key: kinds.get(key, float)(value) for key, value in row.items()} for row in csv.DictReader(file)]
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(f"'{path}' is damaged ({error}); solve again") from None


def read_finished(folder: Path) -> tuple[Solution, dict[str, Any], dict[str, Any]]:
    """A finished run: its solution, run.json and metrics."""
    about, problem = read_run(folder)
    if about["status"] != "finished":
        raise ValueError(f"'{folder}' is not finished; go on with `hardpde resume {folder}`")
    metrics = read_metrics(folder)
    solution = Solution.load(folder / "model.eqx", problem)
    training = Training(solution.training.model, read_history(folder), metrics["endings"], metrics["seconds"])
    return Solution(problem, solution.formulation, about["settings"], training), about, metrics
