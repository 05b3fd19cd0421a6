"""Figures 4 and 6: how much the gradients of a training oscillate, without and with extra fields."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, INK, new_figure
from hardpde.studies.reproduction.figures.base import tidy


def ratio_history(panels: Mapping[str, Sequence[tuple[str, np.ndarray]]], window: int) -> Figure:
    """{title: [(name, ratios (seeds, n))]}: the median of the seeds over the steps, with a band of the middle half.

    The first ratio is of the steps up to 2 window − 1.
    """
    figure = new_figure(11.0, 4.6)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items()):
        for i, (name, ratios) in enumerate(curves):
            steps = 2 * window - 1 + np.arange(ratios.shape[1])
            if len(ratios) > 1:
                axis.fill_between(steps, *np.quantile(ratios, [0.25, 0.75], axis=0), color=COLOURS[i], alpha=0.13, lw=0)
            axis.plot(steps, np.median(ratios, axis=0), color=COLOURS[i], lw=1.6, label=name)
        axis.axhline(1.0, color=INK, lw=1.0, ls=(0, (5, 3)))
        _log_scale(axis)
        axis.set_title(title, color=INK)
        axis.set_xlabel("step of Adam (the last of its window)")
        tidy(axis)
    axes[0].set_ylabel("MovVar without / MovVar with extra fields")
    _shared_legend(figure, axes)
    return figure


def paired_bars(panels: Mapping[str, Sequence[tuple[str, np.ndarray, np.ndarray]]], label: str) -> Figure:
    """{title: [(name, values without, values with)]}, values (seeds,): bars of medians, whiskers over all seeds."""
    figure = new_figure(10.0, 4.4)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, rows) in zip(axes, panels.items()):
        for i, kind in enumerate(("without extra fields", "with extra fields")):
            values = np.stack([row[1 + i] for row in rows])
            middle, x = np.median(values, axis=1), np.arange(len(rows)) + (i - 0.5) * 0.38
            axis.bar(x, middle, 0.36, color=COLOURS[i], label=kind)
            if values.shape[1] > 1:
                axis.errorbar(x, middle, [middle - values.min(1), values.max(1) - middle], fmt="none", ecolor=INK,
                              elinewidth=1.0, capsize=3)
        axis.set_xticks(range(len(rows)), [row[0] for row in rows])
        axis.set_title(title, color=INK)
        axis.set_ylim(bottom=0)
        tidy(axis)
    axes[0].set_ylabel(label)
    _shared_legend(figure, axes)
    return figure


def _log_scale(axis: Axes) -> None:
    """A logarithmic axis with plain numbers, also at 2 and 5 where it spans little."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if high < 100 * low and f"{x:e}"[0] in "25" else "")


def _shared_legend(figure: Figure, axes: Any) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
