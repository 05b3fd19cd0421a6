"""The domain with its boundaries, normals and collars."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from hardpde.evaluation.boundaries import chains
from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, as_nodes, new_figure, quiet
from hardpde.geometry.algorithms.planar import signed_area


def domain_plot(
    boundaries: Mapping[str, ArrayLike],
    normals: Mapping[str, ArrayLike] | None = None,
    collars: Mapping[str, ArrayLike] | None = None,
    title: str = "",
    labels: Mapping[str, str] | None = None,
    window: ArrayLike | None = None,
    both: Sequence[str] = (),
) -> Figure:
    """The named boundaries as stated: points (n, d), outward normals (n, d), widths of the collars, one or (n,).

    Every boundary has a colour and an entry in the legend, `labels` says what stands there. In two dimensions
    points are joined in their order, rows of NaN part them; the domain is shaded and its holes are left empty, arrows
    show where normals point, the tinted strip along a boundary is its collar (on two sides of those named in `both`),
    and a `window` ((left, bottom), (right, top)) is drawn larger beside it. In one dimension boundaries are marks on a
    line; in three one looks through the walls in front; in more there are words.
    """
    samples = {name: as_nodes(points) for name, points in boundaries.items()}
    if not samples:
        raise ValueError("there are no boundaries to draw; pass at least one name with its points")
    dim = next(iter(samples.values())).shape[1]
    drawn = []
    for i, (name, points) in enumerate(samples.items()):
        n = None if normals is None or name not in normals else np.asarray(normals[name], float).reshape(points.shape)
        width = (collars or {}).get(name)
        width = None if width is None else np.broadcast_to(np.asarray(width, float), len(points))
        label = name if labels is None else labels.get(name, name)
        if width is not None:
            label += f", collar {np.nanmax(width):.2g}"
        drawn.append(_Side(points, n, width, label, COLOURS[i % len(COLOURS)], name in both))
    if dim > 3:
        return _domain_words(drawn, dim, title)
    if dim == 3:
        return _domain_solid(drawn, title)
    return _domain_plane(drawn, title, window) if dim == 2 else _domain_line(drawn, title)


class _Side(NamedTuple):
    """A boundary to draw: points (n, d), normals, widths of its collar, its words and colour, if it has two sides."""

    x: np.ndarray
    normal: np.ndarray | None
    width: np.ndarray | None
    label: str
    colour: str
    both: bool

    @property
    def tint(self) -> tuple:
        """The colour of the collar, light enough for lines on it."""
        return tuple(1 - 0.22 * (1 - c) for c in to_rgb(self.colour))

    def lines(self) -> list[np.ndarray]:
        """Numbers of the points between rows of NaN."""
        here = np.isfinite(self.x).all(axis=1)
        parts = np.split(np.arange(len(self.x)), np.flatnonzero(np.diff(here.astype(int))) + 1)
        return [part for part in parts if here[part[0]]]


def _domain_plane(sides: list[_Side], title: str, window: ArrayLike | None) -> Figure:
    everything = np.concatenate([side.x[np.isfinite(side.x).all(axis=1)] for side in sides])
    frames = [np.stack([everything.min(axis=0), everything.max(axis=0)])]
    frames += [] if window is None else [np.asarray(window, float)]
    size = np.maximum(np.ptp(frames[0], axis=0), 1e-12)
    wide = size[0] > 1.2 * size[1]  # a close-up then stands below, not beside
    scale = min((8.6 if wide or window is None else 5.6) / size[0], 7.0 / size[1])
    width, height = max(4.5, scale * size[0] + 0.9), scale * size[1] + 0.9
    second = 0.0 if window is None else min(height, 5.0) if wide else 4.6
    whole = width + (0 if wide else second)
    columns = max(1, min(len(sides), int(whole / (0.6 + 0.085 * max(len(side.label) for side in sides)))))
    rows = -(-len(sides) // columns)
    figure = new_figure(whole, height + (second if wide else 0) + 0.3 + 0.27 * rows)
    ratios = [height, second] if wide else [width, second]
    grid = {"height_ratios" if wide else "width_ratios": ratios[: len(frames)]}
    axes = figure.subplots(*((len(frames), 1) if wide else (1, len(frames))), squeeze=False, gridspec_kw=grid).ravel()
    for axis, frame, name in zip(axes, frames, (title, "close-up")):
        _draw_sides(axis, sides, frame, everything)
        axis.set_title(name, color=INK)
    if window is not None:
        (left, bottom), (right, top) = frames[1]
        axes[0].add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, ec=INK, lw=0.8, ls=":"))
    handles = [Patch(fc="#f3f5f7" if side.width is None else side.tint, ec=side.colour, lw=2, label=side.label)
               for side in sides]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=1.2)
    return figure


def _draw_sides(axis: Axes, sides: list[_Side], frame: np.ndarray, everything: np.ndarray) -> None:
    """One view of a plane domain: what lies in the frame, lengths of arrows and strengths of lines to suit it."""
    extent = np.ptp(frame, axis=0).max() or 1.0
    outline = _filled([side.x[run] for side in sides if not side.both for run in side.lines()])
    if outline is not None:
        axis.add_patch(PathPatch(outline, fc="#f3f5f7", ec="none", zorder=0))
    near = everything[np.all((everything >= frame[0] - 0.1 * extent) & (everything <= frame[1] + 0.1 * extent), axis=1)]
    for side in sides:
        runs = side.lines()
        if side.width is not None and side.normal is not None:
            strips = []
            for run in runs:
                x, off = side.x[run], side.width[run, None] * side.normal[run]
                strips += [np.concatenate([x + (off if side.both else 0), (x - off)[::-1]])]
            axis.add_collection(PolyCollection(strips, facecolor=side.colour, edgecolor="none", alpha=0.2, zorder=1))
        axis.add_collection(LineCollection([side.x[run] for run in runs], colors=side.colour, linewidths=1.8, zorder=3))
        if side.normal is None:
            continue
        some = np.concatenate([run[_apart(side.x[run], 0.045 * extent)] for run in runs])
        here = np.all((side.x[some] >= frame[0]) & (side.x[some] <= frame[1]), axis=1)
        if some[here].size:
            x, n = side.x[some[here]], side.normal[some[here]]
            length = _arrow(x, n, near, 0.04 * extent)
            axis.quiver(*x.T, *n.T, color=side.colour, angles="xy", scale_units="xy", scale=1 / length, width=0.0025,
                        headwidth=4, headlength=4.5, headaxislength=4, zorder=2)  # fmt: skip
    pad = 0.07 * extent
    axis.set(xlim=(frame[0, 0] - pad, frame[1, 0] + pad), ylim=(frame[0, 1] - pad, frame[1, 1] + pad))
    axis.set_aspect("equal")
    axis.locator_params(nbins=5)
    quiet(axis)


def _apart(x: np.ndarray, gap: float) -> np.ndarray:
    """Numbers of points about `gap` apart along a curve, its ends left out; none on a curve too short to show any."""
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(x, axis=0), axis=1)))
    count = max(int(along[-1] / gap), 4 if along[-1] > 1.8 * gap else 0)
    return np.searchsorted(along, (np.arange(count) + 0.5) * along[-1] / max(count, 1))


def _filled(curves: list[np.ndarray]) -> Path | None:
    """The area between closed curves; None where they do not close."""
    vertices, codes = [], []
    for chain in chains(curves):
        loop = np.concatenate([curves[k][::-1] if back else curves[k] for k, back in chain])
        steps = np.linalg.norm(np.diff(loop, axis=0), axis=1)
        if np.linalg.norm(loop[0] - loop[-1]) > 2 * steps.max(initial=0.0):
            return None
        loop = loop if signed_area(loop) > 0 else loop[::-1]
        vertices.append(loop)
        codes.append([Path.MOVETO] + [Path.LINETO] * (len(loop) - 2) + [Path.CLOSEPOLY])
    if not vertices:
        return None
    low, high = (np.array([end(loop, axis=0) for loop in vertices]) for end in (np.min, np.max))
    turned = []
    for k, loop in enumerate(vertices):  # one inside an odd number of others is a hole: it runs the other way round
        around = np.flatnonzero(np.all((low <= low[k]) & (high >= high[k]), axis=1))
        count = sum(bool(Path(vertices[i]).contains_point(loop[0])) for i in around if i != k)
        turned.append(loop[::-1] if count % 2 else loop)
    return Path(np.concatenate(turned), np.concatenate(codes))


def _domain_line(sides: list[_Side], title: str) -> Figure:
    """Marks on a line with arrows, collars as strips."""
    everything = np.concatenate([side.x[:, 0] for side in sides])
    low, high = float(everything.min()), float(everything.max())
    extent = high - low or 1.0
    figure = new_figure(7.5, 2.2)
    axis = figure.subplots()
    axis.plot([low, high], [0, 0], color=FAINT, lw=6, solid_capstyle="butt", zorder=0)
    for side in sides:
        x = side.x[:, 0]
        if side.normal is not None:
            n = side.normal[:, 0]
            if side.width is not None:
                for at, end in zip(x, x - side.width * n):
                    axis.plot([at, end], [0, 0], color=side.tint, lw=6, solid_capstyle="butt", zorder=1)
            axis.quiver(x, 0 * x, n, 0 * n, color=side.colour, angles="xy", scale_units="xy", scale=1 / (0.06 * extent),
                        width=0.004)  # fmt: skip
        axis.plot(x, 0 * x, "o", color=side.colour, label=side.label, zorder=3)
    axis.set(xlim=(low - 0.12 * extent, high + 0.12 * extent), ylim=(-1, 1), yticks=[])
    axis.set_title(title, color=INK)
    quiet(axis)
    figure.legend(loc="outside lower center", ncols=min(len(sides), 3), frameon=False, handletextpad=0.3)
    return figure


def _domain_solid(sides: list[_Side], title: str) -> Figure:
    """The boundaries of a solid: of each the parts whose normals point away, as if the walls in front were glass."""
    figure = new_figure(7.5, 6.6)
    axis: Any = figure.add_subplot(projection="3d", elev=22, azim=-58)
    extents = np.ptp(np.concatenate([side.x for side in sides]), axis=0)
    axis.set_box_aspect(np.maximum(extents, 1e-12))
    axis.locator_params(nbins=4)
    axis.tick_params(labelsize=8, labelcolor=GREY)
    for each in (axis.xaxis, axis.yaxis, axis.zaxis):
        each.pane.set_visible(False)
        each._axinfo["grid"].update(color=FAINT, linewidth=0.6)
    elevation, azimuth = np.radians([22, -58])
    to_eye = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    points, colours = [], []
    for side in sides:
        away = np.full(len(side.x), True) if side.normal is None else side.normal @ to_eye <= (1 if side.both else 0.05)
        light = np.full(len(side.x), 0.7) if side.normal is None else 0.35 + 0.6 * np.abs(side.normal @ to_eye)
        base = np.array(to_rgb(side.colour))
        points.append(side.x[away])
        colours.append(np.clip(1 - light[away, None] * (1 - base), 0, 1))
        axis.plot([], [], [], "o", color=side.colour, label=side.label)
        if side.normal is not None and away.any():
            some = np.flatnonzero(away)[_spread(side.x[away], 0.16 * extents.max())]
            axis.quiver(*side.x[some].T, *side.normal[some].T, length=0.07 * extents.max(), color=side.colour, lw=1.1,
                        arrow_length_ratio=0.35)  # fmt: skip
    axis.scatter(*np.concatenate(points).T, s=9, c=np.concatenate(colours), lw=0, alpha=0.9, depthshade=False)
    axis.set_title(title, color=INK)
    columns = max(1, min(len(sides), int(7.5 / (0.6 + 0.085 * max(len(side.label) for side in sides)))))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, handletextpad=0.3)
    return figure


def _domain_words(sides: list[_Side], dim: int, title: str) -> Figure:
    """What can be said of boundaries that nobody can see."""
    figure = new_figure(7.0, 0.9 + 0.32 * len(sides))
    axis = figure.subplots()
    axis.axis("off")
    axis.set_title(f"{title}: {dim} dimensions, which no picture shows; its boundaries in words", color=INK, loc="left")
    for k, side in enumerate(sides):
        axis.text(0.02, 1 - (k + 0.5) / len(sides), side.label, color=side.colour, va="center",
                  transform=axis.transAxes)  # fmt: skip
    return figure


def _spread(points: np.ndarray, gap: float) -> np.ndarray:
    """Indices of points at least about `gap` apart, at most one per square of a grid."""
    _, first = np.unique(np.floor(points / gap).astype(int), axis=0, return_index=True)
    return np.sort(first)


def _arrow(points: np.ndarray, n: np.ndarray, everything: np.ndarray, length: float) -> float:
    """A length of arrows, at most `length`, that stay well off the boundary on the other side of a hole."""
    tree = cKDTree(everything)
    for _ in range(4):
        if np.mean(tree.query(points + 1.5 * length * n)[0] > 1.4 * length) > 0.7:
            break
        length /= 1.5
    return length
