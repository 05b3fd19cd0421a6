"""How residuals fall with the number of unknowns, and the singular values of what is solved."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, FAINT, new_figure

LEAST = 1e-17  # a residual that is drawn


def sizes_plot(sizes: Sequence[Mapping[str, Any]], singular: np.ndarray | None = None) -> Figure:
    """Residuals over the unknowns of each size that was solved, and beside it the singular values (n,) of the largest.

    sizes: rows of a history, with mean squares of the residuals in "loss" and "held_out".
    """
    figure = new_figure(8.5 if singular is not None else 5.0, 3.4)
    axes = figure.subplots(1, 1 if singular is None else 2, squeeze=False)[0]
    unknowns = [row["step"] for row in sizes]
    for key, label, colour in (("loss", "at points fitted to", COLOURS[0]), ("held_out", "held out", COLOURS[1])):
        residuals = np.maximum(np.sqrt([row[key] for row in sizes]), LEAST)
        axes[0].plot(unknowns, residuals, "o-", color=colour, lw=1.6, ms=4, label=label)
    axes[0].set_xscale("log")
    axes[0].set_xticks(sorted(set(unknowns)), [f"{n:,}" for n in sorted(set(unknowns))])
    axes[0].minorticks_off()
    axes[0].legend(frameon=False)
    _tidy(axes[0], "unknowns", "residual")
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))  # whole decades
    if singular is not None:
        axes[1].plot(np.arange(1, len(singular) + 1), singular, color=COLOURS[2], lw=1.6)
        _tidy(axes[1], "number", "singular values, columns scaled")
    return figure


def _tidy(axis: Axes, across: str, title: str) -> None:
    axis.set_yscale("log")
    axis.set_xlabel(across)
    axis.set_title(title, loc="left")
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
