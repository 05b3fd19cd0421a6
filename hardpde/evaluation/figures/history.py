"""Losses over the steps."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure
from hardpde.support.progress import total_steps


def history_plot(history: Mapping[str, Sequence]) -> Figure:
    """Loss and held-out residual over all steps, on a log scale, with the border of each stage.

    `history` holds lists of equal length: "step" (counted within its stage), "loss", "held_out", "stage" and,
    optionally, "seconds". Values that are not positive and finite are left out.
    """
    figure = new_figure(8.5, 3.6)
    axis = figure.subplots()
    steps, borders = total_steps(history)
    for key, label, colour, width in (
        ("loss", "training loss", COLOURS[0], 1.2),
        ("held_out", "held-out loss", COLOURS[1], 1.8),
    ):
        values = np.array([np.nan if v is None else v for v in history.get(key, [])], float)
        if len(values):
            axis.plot(steps, np.where(values > 0, values, np.nan), color=colour, lw=width, label=label)
    axis.set_yscale("log")
    axis.set_xlabel("step")
    axis.grid(True, axis="y", color=FAINT, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    _mark_stages(axis, borders, steps)
    if axis.lines:
        axis.legend(loc="upper right", frameon=False)
    if len(history.get("seconds", [])):
        axis.set_xlabel(f"step ({steps[-1]:,} in {history['seconds'][-1]:.4g} s)")
    return figure


def _mark_stages(axis: Axes, borders: list[tuple[int, str]], steps: np.ndarray) -> None:
    """A dashed line where a stage begins, its name above; names too close to each other take two lines."""
    width = max(1, int(steps[-1])) if len(steps) else 1
    axis.set_xlim(0, width)
    raised, before = False, -width
    for i, (start, name) in enumerate(borders):
        if i:
            axis.axvline(start, color=GREY, lw=0.8, ls=(0, (4, 3)))
        raised = not raised and start - before < 0.12 * width
        before = start
        axis.annotate(
            name,
            (start, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 16 if raised else 4),
            textcoords="offset points",
            va="bottom",
            color=INK,
            size=9,
            weight="bold",
        )
