"""How the losses of several methods fall: over the steps and over the seconds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure
from hardpde.evaluation.statistics import Record
from hardpde.support.progress import total_steps

HUGE = 1e100  # a loss beyond it is not drawn


def convergence_plot(records: Sequence[Record]) -> Figure:
    """Held-out loss of each method over the steps and, below, over the seconds: median of the seeds, with a band from
    the smallest to the largest.

    A loss that is zero or negative somewhere is taken for an energy; such methods have panels of their own, with a
    linear axis.
    """
    energies = [bool((_column(record, "held_out") <= 0).any()) for record in records]
    titles = {False: "held-out loss", True: "held-out energy (may be negative; linear axis)"}
    groups = [(titles[kind], [i for i, energy in enumerate(energies) if energy == kind])
              for kind in sorted(set(energies))] or [(titles[False], [])]
    rows = -(-len(records) // 5)
    figure = new_figure(9.0 if len(groups) == 1 else 12.0, 7.2 + 0.25 * rows)
    axes = figure.subplots(2, len(groups), squeeze=False, width_ratios=[5, 3][: len(groups)])
    lines: dict[int, Any] = {}
    for column, (title, members) in enumerate(groups):
        for axis, key in zip(axes[:, column], ("step", "seconds")):
            medians = [_draw_seeds(axis, records[i], key, _style(i)) for i in members]
            _limit(axis, medians, linear=title == titles[True])
            _tidy(axis, "step, through all stages" if key == "step" else "seconds of training, all seeds together")
        lines |= dict(zip(members, axes[0, column].lines))
        axes[0, column].set_title(title, color=INK, pad=28)
        _mark_changes(axes[0, column], [records[i] for i in members])
    for i, line in lines.items():
        line.set_label(_label(records[i]))
    if lines:
        figure.legend(handles=[lines[i] for i in sorted(lines)], loc="outside lower center",
                      ncols=min(5, len(lines)), frameon=False)
    return figure


def _style(number: int) -> dict[str, Any]:
    """A colour that all eyes tell from the others; after the last one the same, dashed."""
    again, place = divmod(number, len(COLOURS))
    return {"color": COLOURS[place], "ls": ("-", (0, (5, 2)), (0, (1, 1.5)))[again % 3]}


def _draw_seeds(axis: Axes, record: Record, key: str, style: dict[str, Any]) -> np.ndarray:
    """The median over the seeds and the band round it; returns the medians."""
    curves = [_curve(run, key) for run in record["runs"]]
    grid = np.unique(np.concatenate([x for x, _, _ in curves])) if curves else np.zeros(0)
    lines = np.full((len(curves), len(grid)), np.nan)
    for line, (x, y, ended) in zip(lines, curves):
        if len(x):  # a seed that ended early stays where it ended, one that diverged is drawn no further
            line[:] = np.interp(grid, x, y, left=np.nan, right=y[-1] if ended else np.nan)
    known = np.isfinite(lines).any(axis=0) if len(lines) else np.zeros(0, bool)
    grid, lines = grid[known], lines[:, known]
    middle = np.nanmedian(lines, axis=0) if len(grid) else grid
    axis.plot(grid, middle, lw=1.8, zorder=3, marker="o" if len(grid) == 1 else "", **style)
    if len(grid) and len(lines) > 1:
        low, high = np.nanmin(lines, axis=0), np.nanmax(lines, axis=0)
        axis.fill_between(grid, low, high, color=style["color"], alpha=0.15, lw=0)
    return middle


def _curve(run: Record, key: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Where the held-out loss is finite, its values there, and whether the last value is one of them."""
    history = run.get("history") or []
    y = _numbers(row["held_out"] for row in history)
    x = _steps(run)[0].astype(float) if key == "step" else _numbers(row[key] for row in history)
    known = np.isfinite(x) & (np.abs(y) < HUGE)
    return x[known], y[known], bool(len(y)) and bool(np.abs(y[-1]) < HUGE)


def _steps(run: Record) -> tuple[np.ndarray, list[tuple[int, str]]]:
    history = run.get("history") or []
    return total_steps({key: [row[key] for row in history] for key in ("step", "stage", "seconds")})


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)


def _column(record: Record, key: str) -> np.ndarray:
    """The finite values of a column of the history, of all seeds."""
    values = _numbers(row[key] for run in record["runs"] for row in run.get("history") or [])
    return values[np.isfinite(values)]


def _limit(axis: Axes, medians: Sequence[np.ndarray], linear: bool) -> None:
    """An axis that follows the medians, a linear one the last two thirds of them: a seed that went astray or the
    first steps do not flatten everything else."""
    values = np.concatenate([each[len(each) // 3 if linear else 0 :] for each in medians] or [np.zeros(0)])
    if linear and len(values):
        pad = 0.1 * float(np.ptp(values)) or 1.0
        axis.set_ylim(values.min() - pad, values.max() + pad)
    elif len(values):
        axis.set_yscale("log")
        axis.set_ylim(values.min() / 3, values.max() * 3)


def _mark_changes(axis: Axes, records: Sequence[Record]) -> None:
    """A dotted line where a stage begins, if it is the same step for all methods."""
    borders = [max((_steps(run)[1] for run in record["runs"]), key=len, default=[]) for record in records]
    borders = [each for each in borders if each]
    if len({tuple(start for start, _ in each) for each in borders}) != 1 or len(borders[0]) < 2:
        return
    raised, before, width = False, -np.inf, axis.get_xlim()[1]
    for number, starts in enumerate(zip(*borders)):
        start, names = starts[0][0], list(dict.fromkeys(name for _, name in starts))
        if number:
            axis.axvline(start, color=GREY, lw=1.0, ls=":")
        raised = not raised and start - before < 0.12 * width  # names too close to each other take two lines
        before = start
        axis.annotate(" / ".join(names), (start, 1.0), xycoords=("data", "axes fraction"),
                      xytext=(2, 14 if raised else 3), textcoords="offset points", color=GREY, size=9)


def _label(record: Record) -> str:
    lost = sum(not _curve(run, "step")[2] for run in record["runs"])
    return record["method"] + (f" ({lost} of {len(record['runs'])} diverged)" if lost else "")


def _tidy(axis: Axes, label: str) -> None:
    axis.set_xlabel(label)
    axis.set_xlim(left=0)
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
