"""Pictures of the paper's ablations: oscillations of gradients, and functions extended off an airfoil."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, ERROR, FAINT, FIELD, GREY, INK, new_figure

Curves = Mapping[str, Sequence[tuple[str, np.ndarray]]]


# --- Extra fields ----------------------------------------------------------------------------------------------


def ratio_history(panels: Curves, window: int) -> Figure:
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
        _tidy(axis)
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
        _tidy(axis)
    axes[0].set_ylabel(label)
    _shared_legend(figure, axes)
    return figure


def _log_scale(axis: Axes) -> None:
    """A logarithmic axis with plain numbers, also at 2 and 5 where it spans little."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(lambda x, _: f"{x:g}" if high < 100 * low and f"{x:e}"[0] in "25" else "")


def _tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, axis="y", color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", labelsize=9, labelcolor=GREY, color=GREY)


def _shared_legend(figure: Figure, axes: Any) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


# --- The airfoil -----------------------------------------------------------------------------------------------


def airfoil_extension(*, references: np.ndarray, sample: np.ndarray, window: Any, outline: np.ndarray,
                      angle: np.ndarray, true_normal: np.ndarray, normal_along: Mapping[str, np.ndarray],
                      arrows_at: np.ndarray, arrows: Mapping[str, np.ndarray], grid: np.ndarray,
                      true_distance: np.ndarray, learned_distance: np.ndarray) -> Figure:
    """Reference points and angles; normals along the wall and around it, by each way; the learned distance.

    outline (n, 2) is sorted by `angle` (n,) in degrees about the first reference, normals are (n, 2); arrows_at (k, 2)
    with arrows {way: (k, 2)}; grid (ny, nx, 2) with distances (ny, nx), NaN inside the airfoil.
    """
    figure = new_figure(13.0, 10.0)
    axes = figure.subplots(3, 2)
    _reference_points(axes[0, 0], outline, references, sample, window)
    _normals_along(axes[0, 1], angle, true_normal, normal_along)
    for axis, (name, vectors) in zip(axes[1], arrows.items()):
        drawn = _arrows(axis, arrows_at, vectors, outline, window)
        axis.set_title(f"normals by {name}", color=INK)
        figure.colorbar(drawn, ax=axis, label="$n_1$", fraction=0.03, pad=0.01)
    _contours(axes[2, 0], grid, true_distance, learned_distance, outline, window)
    error = axes[2, 1].pcolormesh(grid[..., 0], grid[..., 1], np.abs(learned_distance - true_distance), cmap=ERROR,
                                  vmin=0.0, rasterized=True, shading="gouraud")
    axes[2, 1].set_title("|learned − true distance|", color=INK)
    _airfoil(axes[2, 1], outline, window)
    figure.colorbar(error, ax=axes[2, 1], fraction=0.03, pad=0.01)
    return figure


def _airfoil(axis: Axes, outline: np.ndarray, window: Any) -> None:
    """The airfoil in a window with equal scales."""
    axis.fill(*outline.T, facecolor=FAINT, edgecolor=INK, lw=0.9, zorder=3)
    (left, bottom), (right, top) = window
    axis.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axis.tick_params(length=2, labelsize=8, color=FAINT, labelcolor=GREY)
    axis.spines[:].set_visible(False)


def _reference_points(axis: Axes, outline: np.ndarray, references: np.ndarray, sample: np.ndarray,
                      window: Any) -> None:
    """Rays from both reference points to a sample point, their angles, and where they leave the airfoil."""
    _airfoil(axis, outline, window)
    for i, (centre, radius) in enumerate(zip(references, (0.17, 0.13))):
        ray, colour = sample - centre, COLOURS[i]
        theta = np.arctan2(ray[1], ray[0])
        axis.plot(*np.stack([centre, sample]).T, color=colour, lw=1.4, zorder=4)
        axis.hlines(centre[1], centre[0], centre[0] + radius + 0.06, color=colour, lw=0.9, ls=(0, (3, 2)), zorder=4)
        turn = np.linspace(0, theta, 60)
        axis.plot(centre[0] + radius * np.cos(turn), centre[1] + radius * np.sin(turn), color=colour, lw=1.2, zorder=4)
        axis.plot(*centre, "o", ms=5, color=colour, zorder=5)
        axis.annotate(f"$x_{i}$", tuple(centre), (0, -6), textcoords="offset points", ha="center", va="top",
                      color=colour, size=12, zorder=6)
        middle = centre + (radius + 0.02) * np.array([np.cos(theta / 2), np.sin(theta / 2)])
        axis.annotate(f"$\\theta_{i}$", tuple(middle), color=colour, ha="left", va="bottom", size=12, zorder=6)
        halfway = centre + 0.68 * ray
        axis.annotate(f"$r_{i}$", tuple(halfway), (-8 if i == 0 else 8, 4), textcoords="offset points",
                      ha="right" if i == 0 else "left", color=colour, size=12)
        seen = np.arctan2(*(outline - centre).T[::-1])
        axis.plot(*outline[np.abs(seen - theta).argmin()], "o", ms=5, mfc="white", color=colour, mew=1.4, zorder=5)
    axis.plot(*sample, "o", ms=5, color=INK, zorder=5)
    axis.annotate("$x$", tuple(sample), (0, 5), textcoords="offset points", ha="center", color=INK, size=12)
    axis.set_title("polar coordinates about two reference points", color=INK)
    axis.set_xlabel("interpolation takes the values at the white points", color=GREY, size=9)


def _normals_along(axis: Axes, angle: np.ndarray, true: np.ndarray, ways: Mapping[str, np.ndarray]) -> None:
    """Both components of the normals over the angle about the first reference point."""
    for k, style in enumerate(("-", (0, (4, 2)))):
        axis.plot(angle, true[:, k], color=FAINT, lw=6, solid_capstyle="butt", label="true" if k == 0 else None)
        for i, (name, values) in enumerate(ways.items()):
            axis.plot(angle, values[:, k], color=COLOURS[i], lw=1.3, ls=style, label=name if k == 0 else None)
    axis.set(xlim=(-180, 180), xticks=[-180, -90, 0, 90, 180], ylim=(-1.15, 1.15))
    axis.set_xlabel(r"$\theta_0$ in degrees; solid $n_1$, dashed $n_2$")
    axis.set_title("normals on the wall", color=INK)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=4, frameon=False, fontsize=9)
    _tidy(axis)


def _arrows(axis: Axes, x: np.ndarray, vectors: np.ndarray, outline: np.ndarray, window: Any) -> Any:
    """Unit vectors as arrows of one length, coloured by their first component."""
    _airfoil(axis, outline, window)
    return axis.quiver(*x.T, *vectors.T, vectors[:, 0], cmap=FIELD, clim=(-1, 1), angles="xy", scale=24, width=0.0032,
                       pivot="middle")


def _contours(axis: Axes, grid: np.ndarray, true: np.ndarray, learned: np.ndarray, outline: np.ndarray,
              window: Any) -> None:
    """Level lines of the learned distance over those of the true one."""
    levels = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4]
    x, y = grid[..., 0], grid[..., 1]
    axis.contour(x, y, true, levels=levels, colors=FAINT, linewidths=5)
    lines = axis.contour(x, y, learned, levels=levels, cmap=FIELD, linewidths=1.4)
    axis.clabel(lines, levels[2:-1], fontsize=8)
    _airfoil(axis, outline, window)
    axis.set_title("level lines of the distance: true (grey, wide), learned (colour)", color=INK)
