"""What a finished run leaves in its folder: figures of merit, files, the report."""

import csv
import re
from pathlib import Path
from typing import Any

from hardpde.evaluation.base import Solved
from hardpde.evaluation.certificate import certify, profiles, violation
from hardpde.evaluation.errors import (
    checked_reference,
    errors_of,
    family_errors,
    measure_baselines,
    measure_errors,
    typical_solution,
)
from hardpde.evaluation.export import export_vtu
from hardpde.evaluation.figures.base import save_figure
from hardpde.evaluation.figures.pictures import AGREEMENT, HISTORY, history_columns, pictures
from hardpde.evaluation.nodes import Seen, nodes, seen_at
from hardpde.evaluation.report.report import write_report
from hardpde.problem.parameters import middle
from hardpde.problem.reference import Reference
from hardpde.support.files import replacing, write_json


def finish(solution: Solved, folder: Path, provenance: dict[str, Any]) -> dict[str, Any]:
    """Measure a solution and write everything about it into its run folder; returns the figures of merit."""
    problem = solution.problem
    reference = checked_reference(problem)
    seen = seen_at(solution, nodes(problem, reference))
    if reference is not None and seen.grid is reference:
        found = errors_of(problem, seen.values, reference)
    else:
        found = measure_errors(solution, reference)
    certificate = certify(solution.formulation, [solution.training.model])
    settings, training = solution.settings, solution.training
    first = next(iter(found.values()), {})
    result = {
        "problem": problem.name, "method": settings["method_name"], "preset": settings["preset"],
        "seed": settings["seed"], "parameters": solution.parameters, "mae": first.get("mae"), "errors": found,
        "boundary_violation": violation(certificate), "certificate": certificate, "endings": training.endings,
        "seconds": training.seconds, "first_step_seconds": training.first_step,
        "loss": training.history[-1]["loss"], "held_out": training.history[-1]["held_out"],
    }
    if baselines := measure_baselines(problem, reference):
        result["baselines"] = baselines
    if problem.parameters:
        result["at"] = middle(problem.parameters)
        result["family"] = family_errors(solution) if problem.exact is not None else []
    solution.save(folder / "model.eqx")
    write_history(folder / "history.csv", training.history)
    write_json(folder / "metrics.json", {**result, **provenance})
    if problem.schema.dim <= 3:
        export_vtu(solution, folder / "solution", reference, seen)
    show(solution, folder, result, certificate, reference, provenance, seen)
    return result


def show(solution: Solved, folder: Path, result: dict[str, Any], certificate: list[dict[str, Any]],
         reference: Reference | None, provenance: dict[str, Any], seen: Seen | None = None) -> None:
    """Pictures and the report."""
    drawn, figures = pictures(solution, reference, seen)
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in figures.items():
        save_figure(figure, folder / "figures" / f"{_safe(name)}.png")
    settings = solution.settings
    write_report(
        folder / "report.html", f"{settings['problem']} by {settings['method_name']}",
        {"preset": settings["preset"], "seed": settings["seed"], "weights": solution.parameters,
         "seconds": round(solution.training.seconds, 1), **_said(settings, provenance),
         **({"shown at": result["at"]} if result.get("at") else {}), "method": settings["method"],
         **{f"stage {k + 1}": stage for k, stage in enumerate(settings["stages"])}, "provenance": provenance},
        result["errors"], certificate, history_columns(solution.training.history), drawn,
        {**{name: figure for name, figure in figures.items() if name.endswith(AGREEMENT)},
         "The domain, its boundaries, normals and collars": figures["domain"]},
        solution.training.endings, result.get("baselines"),
        profiles(typical_solution(solution).formulation, solution.training.model))


def _said(settings: dict, provenance: dict) -> dict[str, Any]:
    """What the first line of a report says beside the figures, as far as it is known."""
    known = {"schedule": settings.get("schedule"), "device": provenance.get("device"),
             "commit": provenance.get("commit")}
    return {key: value for key, value in known.items() if value}


def write_history(path: Path, history: list[dict]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, HISTORY)
        writer.writeheader()
        writer.writerows(history)


def _safe(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
