"""Figures of the paper, drawn again."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure


def loss_curves(curves: Mapping[str, Mapping[str, Sequence]], right: str) -> Figure:
    """Losses {method: {step, loss, stage}} over steps; the loss of the method `right` has the axis on the right."""
    figure = new_figure(7.2, 4.2)
    left = figure.subplots()
    other = left.twinx()
    for number, (name, curve) in enumerate(curves.items()):
        axis = other if name == right else left
        axis.semilogy(curve["step"], curve["loss"], color=COLOURS[number], label=name, linewidth=1.3)
    changes = {step for curve in curves.values()
               for step, stage, after in zip(curve["step"], curve["stage"], curve["stage"][1:]) if stage != after}
    for step in changes:
        left.axvline(step, color=GREY, linestyle=":", linewidth=1)
    left.set_xlabel("step", color=INK)
    left.set_ylabel("held-out loss of the others", color=INK)
    other.set_ylabel(f"held-out loss of {right}", color=INK)
    left.grid(color=FAINT, linewidth=0.6)
    lines = [*left.get_lines()[: len(curves) - 1], *other.get_lines()]
    figure.legend(lines, [str(line.get_label()) for line in lines], loc="outside upper center", ncols=len(lines),
                  frameon=False)
    return figure


def errors_over_hardness(cells: Sequence[Mapping[str, Any]], published: Mapping[tuple[float, float], float]) -> Figure:
    """MAE over β_t, a line for each β_s: of cells {beta_s, beta_t, mae}, and as published, {(β_s, β_t): MAE}."""
    figure = new_figure(6.4, 4.4)
    axis = figure.subplots()
    for number, beta_s in enumerate(sorted({cell["beta_s"] for cell in cells})):
        row = sorted((cell["beta_t"], cell["mae"]) for cell in cells if cell["beta_s"] == beta_s)
        printed = sorted((t, mae) for (s, t), mae in published.items() if s == beta_s)
        colour = COLOURS[number]
        axis.loglog(*np.transpose(row), "o-", color=colour, label=f"β_s = {beta_s:g}", linewidth=1.3, markersize=4)
        axis.loglog(*np.transpose(printed), "x--", color=colour, linewidth=0.9, markersize=5)
    axis.plot([], [], "x--", color=GREY, linewidth=0.9, markersize=5, label="published")
    axis.set_xlabel("β_t", color=INK)
    axis.set_ylabel("MAE of T", color=INK)
    ticks = sorted({cell["beta_t"] for cell in cells})
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.grid(color=FAINT, linewidth=0.6)
    figure.legend(loc="outside upper center", ncols=5, frameon=False)
    return figure
