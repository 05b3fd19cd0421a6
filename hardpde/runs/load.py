"""What a run left, read again: its problem, settings, history, figures of merit and solution."""

import csv
import importlib.util
import inspect
import json
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardpde.evaluation.errors import checked_reference
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems import PROBLEMS
from hardpde.runs.folder import REFERENCE, SEALED, recover, seal
from hardpde.runs.trusted import is_known
from hardpde.solving.solution import Solution
from hardpde.support.checking import is_whole, unlike_default
from hardpde.support.files import sha256_of
from hardpde.training import Training


def load_problem(name: str, options: dict[str, Any] | None = None,
                 beside: bool = True) -> tuple[Problem, dict[str, Any]]:
    """A built-in problem by name, or the `problem` of a user's .py file; and where it came from.

    `options` go to the function that makes the problem; beside: whether the file may import what lies beside it.
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
    problem = _from_file(path, options, beside)
    if problem.name == "problem":
        problem = problem.renamed(path.stem)
    return problem, {"path": str(path.resolve()), "sha256": sha256_of(path), "options": options}


def with_reference_file(problem: Problem, source: dict[str, Any], file: str) -> tuple[Problem, dict[str, Any]]:
    """The problem with the reference that a file holds, and where both came from."""
    problem = problem.with_reference(Reference.load(file))
    checked_reference(problem)
    return problem, {**source, "reference": {"path": str(Path(file).resolve()), "sha256": sha256_of(Path(file))}}


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


def _from_file(path: Path, options: dict[str, Any], beside: bool) -> Problem:
    spec = importlib.util.spec_from_file_location(f"_hardpde_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses of the file look for it there
    folder = str(path.resolve().parent)
    if beside:
        sys.path.insert(_after_standard_library(), folder)
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


def _after_standard_library() -> int:
    """Where in sys.path the standard library ends: what lies beside a user's file stands for none of its modules."""
    library = Path(sysconfig.get_path("stdlib"))
    ours = [k for k, entry in enumerate(sys.path) if Path(entry) in (library, library / "lib-dynload")]
    return max(ours, default=-1) + 1


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


def read_run(folder: Path, stated: str | None = None, changed: bool = False) -> tuple[dict[str, Any], Problem]:
    """run.json and the problem of a run; stated: the file of the problem, if its user names it; changed: whether the
    settings and the problem need not be those that the run began with."""
    recover(folder)
    path = folder / "run.json"
    try:
        run = json.loads(path.read_text())
        source = run["source"]
        for key in ("problem", "method_name", "method", "preset", "seed", "stages"):
            run["settings"][key]
        run["status"], run["provenance"], source["name" if "name" in source else "sha256"]
        name, options = source["name" if "name" in source else "path"], source.get("options") or {}
        kinds = isinstance(name, str) and isinstance(options, dict) and isinstance(run["provenance"], dict)
        if not kinds or not is_whole(run["settings"]["seed"], 0) or run["settings"]["seed"] >= 2**32:
            raise TypeError("its problem, its seed or its provenance is not one")
    except FileNotFoundError:
        raise ValueError(f"'{folder}' is not a run folder: it has no run.json") from None
    except (OSError, json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); start the run again") from None
    if not changed and run.get("sha256", known := seal(run["settings"], source)) != known:
        raise ValueError(f"the settings or the problem in '{path}' were changed since the run began; with --changed it "
                         f"is taken as it is")
    if "name" in source:
        if name not in PROBLEMS:
            raise ValueError(f"'{path}' is damaged (there is no problem '{name}'); start the run again")
        return run, _judged(folder, source, load_problem(name, options)[0])
    file, beside = _file_of(folder, source, stated, changed)
    problem = load_problem(str(file), options, beside)[0].renamed(run["settings"]["problem"])
    return run, _judged(folder, source, problem)


def _judged(folder: Path, source: dict[str, Any], problem: Problem) -> Problem:
    """The problem with the reference that its run was given, which lies in its folder."""
    if "reference" not in source:
        return problem
    copy = folder / REFERENCE
    if not copy.is_file() or sha256_of(copy) != source["reference"]["sha256"]:
        raise ValueError(f"'{copy}' is missing or damaged: it is not the reference that the run was given")
    return problem.with_reference(Reference.load(copy))


def _file_of(folder: Path, source: dict[str, Any], stated: str | None, changed: bool) -> tuple[Path, bool]:
    """The file of a run's problem, if its user names it or has run it before, and whether it may import what lies
    beside it: nothing else that a run folder names is executed."""
    if stated is not None:
        file = Path(stated)
        if not file.is_file():
            raise ValueError(f"there is no file '{stated}'")
        if sha256_of(file) != source["sha256"] and not changed:
            raise ValueError(f"'{stated}' is not the file that the run in '{folder}' began with; with --changed it is "
                             f"taken all the same")
        return file, True
    original, copy = Path(source["path"]), folder / "problem.py"
    same = [file for file in (original, copy) if file.is_file() and sha256_of(file) == source["sha256"]]
    if not same:
        raise ValueError(f"neither '{original}' nor '{copy}' is the file that the run in '{folder}' began with; give "
                         f"it with --problem FILE")
    if not is_known(source["sha256"]):
        raise ValueError(f"'{folder}' names '{same[0]}', which is code that you have not run before; look at it, then "
                         f"give it with --problem {same[0]}")
    return same[0], same[0] == original


def check_files(folder: Path, run: dict[str, Any]) -> None:
    """What a finished run has found is as it was written; runs of before have no checksums."""
    for name, digest in run.get("files", {}).items():
        if name in SEALED and (folder / name).is_file() and sha256_of(folder / name) != digest:
            raise ValueError(f"'{folder / name}' is damaged: it is not what the run wrote; solve again")


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


def read_finished(folder: Path, stated: str | None = None,
                  changed: bool = False) -> tuple[Solution, dict[str, Any], dict[str, Any]]:
    """A finished run: its solution, run.json and metrics; stated, changed: see `read_run`."""
    about, problem = read_run(folder, stated, changed)
    if about["status"] != "finished":
        raise ValueError(f"'{folder}' is not finished; go on with `hardpde resume {folder}`")
    check_files(folder, about)
    metrics = read_metrics(folder)
    solution = Solution.load(folder / "model.eqx", problem)
    training = Training(solution.training.model, read_history(folder), metrics["endings"], metrics["seconds"])
    return Solution(problem, solution.formulation, about["settings"], training), about, metrics
