"""Errors of several methods with their intervals."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure
from hardpde.evaluation.statistics import (
    SHOWN,
    Baselines,
    Statistic,
    Summary,
    components_compared,
    error_rows,
    number_text,
)

HUGE = 1e100  # an error beyond it is not drawn


def error_bars(summary: Summary, baselines: Baselines | None = None,
               gradients: Sequence[str] = ()) -> Figure:
    """MAE of each method in the first few components: mean, its interval, and each seed as a small dot."""
    names, rows = components_compared(summary, gradients)[:SHOWN], error_rows(summary, baselines)
    figure = new_figure(10.0, 1.2 + 0.3 * max(2, len(rows)))
    axes = figure.subplots(1, max(1, len(names)), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, names):
        _draw_errors(axis, [(trivial, errors.get(name, {}).get("mae")) for _, trivial, errors in rows],
                     ticks=max(4, 10 // len(names)))
        axis.set_title(name, color=INK)
        axis.set_xlabel("MAE")
    if not names:
        axes[0].set_title("no reference is known", color=GREY)
        axes[0].set_xticks([])
    axes[0].set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes[0].set_ylim(max(1, len(rows)) - 0.5, -0.5)
    return figure


def _draw_errors(axis: Axes, rows: Sequence[tuple[bool, Statistic | None]], ticks: int) -> None:
    """Dots and intervals, one row each, on a logarithmic axis; what it cannot show is said."""
    drawn = [value for _, found in rows if found for value in (found["mean"], *found["values"])
             if value and value < HUGE]
    left, right = (min(drawn) / 2.5, max(drawn) * 2.5) if drawn else (0.1, 1.0)
    axis.set_xscale("log")
    axis.set_xlim(left, right)
    for place, (trivial, found) in enumerate(rows):
        mean = None if found is None else found["mean"]
        if found is None or not mean or mean > HUGE:
            text = "not known" if found is None else "not finite" if mean is None else number_text(mean)
            axis.annotate(text, (0.02, place), xycoords=("axes fraction", "data"), color=GREY, size=9, va="center")
            continue
        colour = GREY if trivial else COLOURS[0]
        if found["half_width"] is not None:
            low, high = max(mean - found["half_width"], left / 10), mean + found["half_width"]
            axis.plot([low, high], [place, place], color=colour, lw=2, solid_capstyle="butt", alpha=0.6)
        dots = [value for value in found["values"] if value]
        if len(found["values"]) > 1:
            axis.scatter(dots, [place + 0.28] * len(dots), s=6, color=GREY, lw=0, alpha=0.8)
        axis.scatter([mean], [place], s=24, marker="D" if trivial else "o", color=colour, lw=0, zorder=3)
    axis.grid(True, axis="x", color=FAINT, lw=0.6)
    axis.xaxis.set_major_locator(LogLocator(numticks=ticks))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
