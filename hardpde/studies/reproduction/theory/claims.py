"""What the paper proves and assumes, measured: Theorem 4.1 and appendices A.1–A.4, A.6, A.7 of Liu et al. (2022)."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import FAINT, INK, new_figure
from hardpde.studies.reproduction.base import Outcome, Work, table
from hardpde.studies.reproduction.theory.condition_numbers import _condition_rows, condition_numbers, draw_conditions
from hardpde.studies.reproduction.theory.gradient_bounds import (
    _gradient_rows,
    _gradient_text,
    draw_gradients,
    draw_ratios,
    gradient_bounds,
)
from hardpde.studies.reproduction.theory.ranks import _rank_rows, draw_ranks, ranks
from hardpde.studies.reproduction.theory.time_blend import _time_rows, _time_text, draw_time, time_blend
from hardpde.studies.reproduction.theory.violations import _hardness_rows, _hardness_text, draw_hardness, hardness


def theory(work: Work) -> Outcome:
    """Every statement of the paper that a computation can check, beside what came out."""
    data: dict[str, Any] = {}
    for name, measure in (("gradients", gradient_bounds), ("condition", condition_numbers), ("rank", ranks),
                          ("hardness", hardness), ("time", time_blend)):
        work.say(f"theory: {name}")
        data[name] = measure(work.quick)
    return Outcome("The paper's theory, measured", text(data), data, {"": theory_figure(data)})


def text(data: Mapping[str, Any]) -> str:
    """What the paper states, what was measured, whether it holds."""
    rows = [*_gradient_rows(data["gradients"]), *_condition_rows(data["condition"]), *_rank_rows(data["rank"]),
            *_hardness_rows(data["hardness"]), *_time_rows(data["time"])]
    parts = ["All numbers are computed here, in double precision; only the columns named \"paper\" are quoted.",
             table(["the paper's statement", "measured", "holds?"], rows),
             _gradient_text(data["gradients"]), _hardness_text(data["hardness"]), _time_text(data["time"])]
    return "\n\n".join(parts) + "\n"


def theory_figure(data: Mapping[str, Any]) -> Figure:
    """Gradients and bounds, their ratios, condition numbers, ranks, violations over β_s, errors over β_t."""
    figure = new_figure(13.5, 8.4)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.14)  # type: ignore[union-attr, call-arg]
    panels = (
        (draw_gradients, "gradients", "Theorem 4.1: gradient of the PDE loss"),
        (draw_ratios, "gradients", "Theorem 4.1: largest gradient / bound"),
        (draw_conditions, "condition", "A.7.3: condition number in training (Adam)"),
        (draw_ranks, "rank", "A.1: a basis that loses rank"),
        (draw_hardness, "hardness", r"A.4: boundary conditions over $\beta_s$"),
        (draw_time, "time", "A.6: error left by the time blend"))
    for axis, (draw, part, title) in zip(figure.subplots(2, 3).flat, panels):
        draw(axis, data[part])
        axis.set_title(title, color=INK, size=11)
        axis.grid(True, color=FAINT, lw=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(frameon=False, fontsize=8)
    return figure
