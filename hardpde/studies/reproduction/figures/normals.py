"""Figure 5: normals and the distance to an airfoil, extended from its wall."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hardpde.evaluation.figures.base import COLOURS, ERROR, FAINT, FIELD, GREY, INK, new_figure
from hardpde.studies.reproduction.figures.base import tidy


def extension_figure(*, references: np.ndarray, sample: np.ndarray, window: Any, outline: np.ndarray,
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
    tidy(axis)


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
