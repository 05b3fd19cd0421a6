"""What a finished run leaves in its folder: figures of merit and weights first, then files that show them."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hardpde.evaluation.base import HISTORY, Solved, told_decision
from hardpde.evaluation.certificate import certify, violation
from hardpde.evaluation.errors import checked_reference, errors_of, family_errors, measure_baselines
from hardpde.evaluation.nodes import Seen, seen_at
from hardpde.evaluation.verdict import judge
from hardpde.problem.parameters import middle
from hardpde.problem.reference import Reference
from hardpde.support.compiling import runs_once
from hardpde.support.files import replacing, write_json

DIRECT = ("unknowns", "rows", "held_out", "estimated_error", "steps")  # figures of a direct solve


class Measured(NamedTuple):
    """The figures of merit of a solution, with what it was compared with and its values there."""

    result: dict[str, Any]
    reference: Reference | None
    seen: Seen | None


def finish(solution: Solved, folder: Path, provenance: dict[str, Any]) -> dict[str, Any]:
    """Measure a solution and write everything about it into its run folder; returns the figures of merit."""
    measured = measure(solution)
    keep(solution, folder, measured.result, provenance)
    present(solution, folder, measured, provenance)
    return measured.result


def measure(solution: Solved, told: Callable[[dict[str, Any]], None] = lambda result: None) -> Measured:
    """The figures of merit of a solution; told: the first of them, errors and violations, before it is judged."""
    with runs_once():
        found = _figures(solution)
        told(found.result)
        found.result.update(_judged(solution, found.result))
        return found


def _figures(solution: Solved) -> Measured:
    """What was solved and how, errors and violations."""
    problem, settings, training = solution.problem, solution.settings, solution.training
    reference = checked_reference(problem)
    seen = None if reference is None else seen_at(solution, reference)
    found = {} if seen is None else errors_of(problem, seen.values, seen.grid)
    certificate = certify(solution.formulation, [training.model])
    first = next(iter(found.values()), {})
    direct = settings.get("found", {})
    result = {
        "problem": problem.name, "method": settings["method_name"], "preset": settings["preset"],
        "seed": settings["seed"], "parameters": solution.parameters, "mae": first.get("mae"), "errors": found,
        "boundary_violation": violation(certificate), "certificate": certificate, "endings": training.endings,
        "seconds": training.seconds, "first_step_seconds": training.first_step,
        "loss": training.history[-1]["loss"], "held_out": training.history[-1]["held_out"],
        "solver": settings.get("solver", "train"), "decision": told_decision(solution),
        "direct": {key: direct.get(key) for key in DIRECT},
    }
    if baselines := measure_baselines(problem, reference):
        result["baselines"] = baselines
    return Measured(result, reference, seen)


def _judged(solution: Solved, result: dict[str, Any]) -> dict[str, Any]:
    """What the answer is worth, its error bar, and the errors all over a family."""
    problem = solution.problem
    off = result["boundary_violation"]
    judged, bar = judge(solution, result["errors"], off), solution.error_bar(off)
    found: dict[str, Any] = {"verdict": judged.verdict, "because": judged.because, "judged_by": judged.figures,
                             "conservation": judged.conservation, "error_bar": bar.plain}
    if problem.parameters:
        found["at"] = middle(problem.parameters)
        found["family"] = family_errors(solution) if problem.exact is not None else []
    return found


def keep(solution: Solved, folder: Path, result: dict[str, Any], provenance: dict[str, Any]) -> None:
    """Write weights, history and figures of merit."""
    solution.save(folder / "model.eqx")
    write_history(folder / "history.csv", solution.training.history)
    write_json(folder / "metrics.json", {**result, **provenance})


def present(solution: Solved, folder: Path, measured: Measured, provenance: dict[str, Any]) -> None:
    """Write what shows a solution: VTU files, pictures and the report."""
    from hardpde.runs.show import show, write_nodes  # brings matplotlib, which takes a second

    result, reference, seen = measured
    seen = write_nodes(solution, folder, reference, seen)
    show(solution, folder, result, result["certificate"], reference, provenance, seen)


def write_history(path: Path, history: list[dict]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, HISTORY)
        writer.writeheader()
        writer.writerows(history)
