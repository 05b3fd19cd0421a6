"""What shows a finished run: VTU files, pictures and the report."""

import re
from pathlib import Path
from typing import Any

from hardpde.evaluation.base import Solved, history_columns, is_size, told_decision
from hardpde.evaluation.certificate import profiles
from hardpde.evaluation.errors import typical_solution
from hardpde.evaluation.export import export_vtu
from hardpde.evaluation.figures.base import save_figure
from hardpde.evaluation.figures.pictures import AGREEMENT, RESIDUAL, SIZES, drawn_inside, drawn_members, pictures
from hardpde.evaluation.nodes import Seen, nodes, seen_at
from hardpde.evaluation.report.how import how_it_was_solved
from hardpde.evaluation.report.report import write_report
from hardpde.evaluation.untrained import rows_solved
from hardpde.problem.reference import Reference
from hardpde.support.compiling import runs_once

SHOWN = {SIZES: "The residual of every size that was solved, at the points it was fitted to and at others; and the "
                "singular values of the equations' matrix with columns of length one",
         RESIDUAL: "Where the residual is: the logarithm to base ten of all equations together, in units of their "
                   "terms"}


def write_nodes(solution: Solved, folder: Path, reference: Reference | None, known: Seen | None = None) -> Seen:
    """VTU files of a solution in up to three dimensions; returns it at the nodes, where pictures show it too.

    known: the solution at the reference's nodes, which may be the same.
    """
    with runs_once():
        grid = nodes(solution.problem, reference)
        seen = known if known is not None and known.grid is grid else seen_at(solution, grid)
        if solution.problem.schema.dim <= 3:
            export_vtu(solution, folder / "solution", reference, seen)
    return seen


def show(solution: Solved, folder: Path, result: dict[str, Any], certificate: list[dict[str, Any]],
         reference: Reference | None, provenance: dict[str, Any], seen: Seen | None = None) -> None:
    """Pictures and the report."""
    with runs_once():
        drawn, figures = pictures(solution, reference, seen)
        drawn, family = drawn_members(solution, drawn)
        inside = drawn_inside(solution, reference, seen)
        courses = profiles(typical_solution(solution).formulation, solution.training.model)
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in figures.items():
        save_figure(figure, folder / "figures" / f"{_safe(name)}.png")
    settings = solution.settings
    write_report(
        folder / "report.html", f"{settings['problem']} by {settings['method_name']}",
        {**_chosen(settings), "seed": settings["seed"], "weights": solution.parameters,
         "seconds": round(solution.training.seconds, 1), **_said(settings, provenance),
         **({"shown at": result["at"]} if result.get("at") else {}), "method": settings["method"],
         **{f"stage {k + 1}": stage for k, stage in enumerate(settings["stages"])}, "provenance": provenance},
        result["errors"], certificate, history_columns(solution.training.history), drawn,
        {**{name: figure for name, figure in figures.items() if name.endswith(AGREEMENT)},
         "The domain, its boundaries, normals and collars": figures["domain"]},
        solution.training.endings, result.get("baselines"), courses, result, result.get("error_bar"),
        how_it_was_solved(settings, told_decision(solution), rows_solved(solution.training.history),
                          {caption: figures[name] for name, caption in SHOWN.items() if name in figures}),
        None if family is None else family.parameters, inside)


def _chosen(settings: dict) -> dict[str, Any]:
    """What the first line of a report says was chosen: of a training its preset."""
    if is_size(solver := settings.get("solver", "train")):
        return {"solver": solver}
    return {"preset": settings["preset"], **({"schedule": settings["schedule"]} if "schedule" in settings else {})}


def _said(settings: dict, provenance: dict) -> dict[str, Any]:
    """What the first line of a report says beside the figures, as far as it is known."""
    known = {"device": provenance.get("device"), "commit": provenance.get("commit")}
    return {key: value for key, value in known.items() if value}


def _safe(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
