"""Pictures: fields on their mesh with the holes left empty, errors, training curves, the stated domain.

Every function returns a matplotlib `Figure` and touches no global state; `figure.savefig(path)` writes it.
In one dimension a field is a line, in two a map, in three the slice round the middle plane, above that a map of
nodes in a plane of the first two axes, if they come with triangles, or else the values over the distance from the
centre, so that any problem has a picture. Colours of a map do not follow values that lie far from all others on
one percent of its area; the colour bar says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from hardpde.evaluation.figures.outlines import chains
from hardpde.geometry.algorithms.planar import signed_area
from hardpde.problem.reference import shares

FIELD, ERROR = "viridis", "magma_r"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#444444")
INK, GREY, FAINT = "#1f2933", "#6b7785", "#d9dee4"
Cells = np.ndarray | None
FAR = 3.0  # times the range on 99 % of the area: a range that the colours do not follow


def field_map(
    x: ArrayLike, cells: ArrayLike | None, values: ArrayLike, title: str = "", label: str = ""
) -> Figure:
    """One scalar field (n,) at the nodes x (n, d); `cells` (c, d+1) are its simplices, if known."""
    return _single(x, cells, values, title, label, FIELD)


def error_map(
    x: ArrayLike, cells: ArrayLike | None, prediction: ArrayLike, reference: ArrayLike, title: str = ""
) -> Figure:
    """The absolute error |prediction - reference| (n,) at the nodes, on a scale from zero."""
    error = np.abs(np.asarray(prediction, float) - np.asarray(reference, float))
    return _single(x, cells, error, title, "|error|", ERROR)


def field_grid(
    x: ArrayLike,
    cells: ArrayLike | None,
    times: ArrayLike | None,
    prediction: ArrayLike,
    reference: ArrayLike | None = None,
    name: str = "",
    columns: int = 4,
    window: ArrayLike | None = None,
) -> Figure:
    """Reference, prediction and |error| in rows, up to `columns` of the times in columns.

    `prediction` and `reference` have shape (k, n) with `times` (k,), or (n,) with `times` None.
    A row shares one scale; reference and prediction share theirs. A `window` ((left, bottom), (right, top))
    of a plane mesh is drawn alone, with scales of its own.
    """
    view = view_of(x, cells, window)
    rows = rows_of(view, prediction, reference, times)
    instants = None if times is None else np.asarray(times, float)
    count = 1 if instants is None else len(instants)
    shown = np.unique(np.linspace(0, count - 1, min(columns, count)).round().astype(int))
    width, height = _panel_size(view)
    figure = new_figure(width * len(shown) + 1.0, height * len(rows) + 0.5)
    axes = figure.subplots(len(rows), len(shown), squeeze=False)
    for number, (line, (label, values, colours, limits)) in enumerate(zip(axes, rows)):
        for axis, i in zip(line, shown):
            drawn = _draw(axis, view, values[i], colours, limits)
            axis.set_title("" if number or instants is None else f"t = {instants[i]:g}", color=INK)
            axis.tick_params(labelleft=axis is line[0], labelbottom=number == len(rows) - 1)
            axis.set_xlabel(axis.get_xlabel() if number == len(rows) - 1 else "")
        if drawn is not None:
            _colourbar(figure, drawn, list(line), values)
        if instants is None:
            line[0].set_title(row_name(label, name), color=INK)
        else:
            line[0].set_ylabel(row_name(label, name), weight="bold", color=INK, labelpad=8)
    return figure


def row_name(label: str, name: str) -> str:
    """What a picture of a field is called."""
    return label if label == "|error|" else f"{label} {name}".strip()


def hole_window(x: ArrayLike, cells: ArrayLike | None) -> np.ndarray | None:
    """The window ((left, bottom), (right, top)) round the holes of a plane mesh, for a close-up; None if there are
    none, or if they spread over a third of the domain or more."""
    nodes, simplices = _nodes(x), _cells(cells)
    if simplices is None or nodes.shape[1] != 2:
        return None
    sides = np.sort(simplices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    sides, count = np.unique(sides, axis=0, return_counts=True)
    edge = sides[count == 1]  # belongs to one triangle only
    start, loop, body = edge[:, 0], _linked(edge, len(nodes)), _linked(sides, len(nodes))
    leftmost = [min(start[body[start] == k], key=lambda node: nodes[node, 0]) for k in np.unique(body[start])]
    holes = nodes[start[~np.isin(loop[start], loop[leftmost])]]  # what is not the outline of a body
    if not len(holes) or np.any(np.ptp(holes, axis=0) >= np.ptp(nodes, axis=0) / 3):
        return None
    low, high = holes.min(axis=0), holes.max(axis=0)
    pad = 0.35 * (high - low).max()
    return np.clip(np.stack([low - pad, high + pad]), nodes.min(axis=0), nodes.max(axis=0))


def _linked(pairs: np.ndarray, count: int) -> np.ndarray:
    """A number for each node (count,), the same for nodes that the pairs link."""
    links = coo_array((np.ones(len(pairs)), tuple(pairs.T)), (count, count))
    return connected_components(links, directed=False)[1]


def agreement_plot(times: ArrayLike | None, prediction: ArrayLike, reference: ArrayLike, name: str = "",
                   columns: int = 4) -> Figure:  # fmt: skip
    """Every value against the known one, and what is between them, at up to `columns` of the times.

    Shapes as in `field_grid`; for solutions of many variables, of which no map shows everything.
    """
    p, r = np.asarray(prediction, float), np.asarray(reference, float)
    if times is None:
        p, r = p[None], r[None]
    shown = np.unique(np.linspace(0, len(p) - 1, min(columns, len(p))).round().astype(int))
    figure = new_figure(3.0 * len(shown) + 0.6, 5.6)
    axes = figure.subplots(2, len(shown), squeeze=False, sharex="col")
    for (above, below), i in zip(axes.T, shown):
        known = np.array([r[i].min(), r[i].max()])
        above.plot(known, known, color=GREY, lw=0.8)
        above.scatter(r[i], p[i], s=3, color=COLOURS[0], lw=0, alpha=0.5, rasterized=True)
        below.axhline(0, color=GREY, lw=0.8)
        below.scatter(r[i], p[i] - r[i], s=3, color=COLOURS[1], lw=0, alpha=0.5, rasterized=True)
        above.set_title("" if times is None else f"t = {np.asarray(times, float)[i]:g}", color=INK)
        below.set_xlabel(f"known {name}".strip())
        below.ticklabel_format(axis="y", scilimits=(-2, 3))
        for axis in (above, below):
            axis.grid(True, color=FAINT, lw=0.6)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_axisbelow(True)
            axis.tick_params(labelsize=8)
    axes[0, 0].set_ylabel(f"prediction of {name}" if name else "prediction")
    axes[1, 0].set_ylabel("prediction − known")
    return figure


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


def total_steps(history: Mapping[str, Sequence]) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Steps counted through all stages (n,), and the (first step, name) of each stage."""
    steps = np.asarray(history.get("step", []), int)
    names = [str(name) for name in history.get("stage", [""] * len(steps))]
    total, borders, offset = np.zeros(len(steps), int), [], 0
    for i, (step, name) in enumerate(zip(steps, names)):
        if i == 0 or name != names[i - 1] or step <= steps[i - 1]:
            offset = int(total[i - 1]) if i else 0
            borders.append((offset, name))
        total[i] = offset + step
    return total, borders


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
    samples = {name: _nodes(points) for name, points in boundaries.items()}
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

    def runs(self) -> list[np.ndarray]:
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
    outline = _filled([side.x[run] for side in sides if not side.both for run in side.runs()])
    if outline is not None:
        axis.add_patch(PathPatch(outline, fc="#f3f5f7", ec="none", zorder=0))
    near = everything[np.all((everything >= frame[0] - 0.1 * extent) & (everything <= frame[1] + 0.1 * extent), axis=1)]
    for side in sides:
        runs = side.runs()
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
    _quiet(axis)


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
    _quiet(axis)
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


class View(NamedTuple):
    """What is drawn: nodes (n, d), their simplices, which of all nodes they are, the frame, a note below it."""

    x: np.ndarray
    cells: Cells
    kept: np.ndarray | slice
    frame: np.ndarray
    note: str


def view_of(x: ArrayLike, cells: ArrayLike | None, window: ArrayLike | None = None) -> View:
    """Nodes and simplices as they are drawn, in a `window` those that are seen in it."""
    nodes, simplices, note = _nodes(x), _cells(cells), ""
    if nodes.shape[1] > 3 and simplices is not None and simplices.shape[1] == 3:
        nodes, note = nodes[:, :2], "the plane of x₁ and x₂ through the centre"
    frame = np.stack([nodes.min(axis=0), nodes.max(axis=0)])
    if window is None:
        return View(nodes, simplices, slice(None), frame, note)
    low, high = np.asarray(window, float)
    if simplices is None or nodes.shape[1] != 2:
        raise ValueError("a window is of a plane mesh; pass triangles as cells")
    corners = nodes[simplices]
    seen = np.all((corners.max(axis=1) >= low) & (corners.min(axis=1) <= high), axis=1)
    if not seen.any():
        raise ValueError("the window shows nothing of the mesh")
    kept, renumbered = np.unique(simplices[seen], return_inverse=True)
    return View(nodes[kept], renumbered.reshape(-1, 3), kept, np.stack([low, high]), note)


def _single(
    x: ArrayLike, cells: ArrayLike | None, values: ArrayLike, title: str, label: str, colours: str
) -> Figure:
    view = view_of(x, cells)
    scalar = np.asarray(values, float)
    if scalar.shape != (len(view.x),):
        raise ValueError(
            f"values have shape {scalar.shape}, but there are {len(view.x)} nodes; pass one per node"
        )
    width, height = _panel_size(view, 6.0, 5.5)
    figure = new_figure(width + 1.2, height + 0.5)
    axis = figure.subplots()
    drawn = _draw(axis, view, scalar, colours, _limits(view, scalar, colours))
    axis.set_title(title)
    if drawn is not None:
        _colourbar(figure, drawn, [axis], scalar, label)
    elif label:
        axis.set_ylabel(label)
    return figure


def rows_of(view: View, prediction: ArrayLike, reference: ArrayLike | None, times: ArrayLike | None) -> list[tuple]:
    """(label, values (k, n), colours, limits) of reference, prediction and error, as far as known."""
    p = np.asarray(prediction, float)
    p = p[None] if times is None else p
    if p.ndim != 2 or (times is not None and len(p) != len(np.asarray(times))):
        raise ValueError(
            f"the field has shape {np.shape(prediction)}; pass (k, n) with k times, or (n,) with None"
        )
    if reference is None:
        p = p[:, view.kept]
        return [("", p, FIELD, _limits(view, p, FIELD))]
    r = np.asarray(reference, float).reshape(p.shape)[:, view.kept]
    p = p[:, view.kept]
    error = np.abs(p - r)
    limits = _limits(view, r, FIELD)
    return [
        ("reference", r, FIELD, limits),
        ("prediction", p, FIELD, limits),
        ("|error|", error, ERROR, _limits(view, error, ERROR)),
    ]


def _limits(view: View, values: np.ndarray, colours: str) -> tuple[float, float]:
    """The scale of a picture; that of a map is the range on 99 % of its area if the other values lie far off."""
    known = np.isfinite(values)
    finite = values[known]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if finite.size and view.x.shape[1] in (2, 3):
        areas = np.ones(len(view.x)) if view.cells is None else shares(view.x, view.cells)
        order, weights = np.argsort(finite), np.broadcast_to(areas, values.shape)[known]
        filled = np.cumsum(weights[order])
        ends = np.searchsorted(filled, np.array([0.005, 0.995]) * filled[-1])
        least, most = map(float, finite[order[ends]])
        if high - low > FAR * (most - least) > 1e-6 * (high - low):
            low, high = least, most
    low = 0.0 if colours == ERROR else low
    return (low, high) if high > low else (low, low + max(abs(low), 1e-12))


def _draw(axis: Axes, view: View, values: np.ndarray, colours: str, limits: tuple[float, float]) -> Any:
    """Draw one scalar field; the mappable for a colourbar, or None for a line."""
    x = view.x
    scale: dict[str, Any] = {"vmin": limits[0], "vmax": limits[1], "cmap": colours}
    if x.shape[1] == 2 and view.cells is not None:
        mesh = Triangulation(x[:, 0], x[:, 1], view.cells)
        broken = ~np.isfinite(values)
        if broken.any():
            mesh.set_mask(broken[mesh.triangles].any(axis=1))
            values = np.where(broken, 0.0, values)
        drawn = axis.tripcolor(mesh, values, shading="gouraud", rasterized=True, **scale)
        _frame(axis, view.frame)
        axis.set_xlabel(view.note, color=GREY, size=8)
        return drawn
    if x.shape[1] in (2, 3):
        return _draw_cloud(axis, x, values, scale)
    _draw_line(axis, x, values, limits, colours)
    return None


def flattened(view: View) -> tuple[str, np.ndarray, np.ndarray, str]:
    """How a field is drawn without a solid picture: as "mesh", "points", "line" or "scatter"; which nodes are shown,
    where in the plane (k, 2), and a note. Values of lines and scatters are heights over the first coordinate."""
    x = view.x
    everything = np.arange(len(x))
    if x.shape[1] == 2:
        return ("points" if view.cells is None else "mesh"), everything, x, view.note
    if x.shape[1] == 3:
        kept, note = _slice(x)
        return "points", np.flatnonzero(kept), x[kept, :2], note
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        return "line", order, np.pad(x[order], [(0, 0), (0, 1)]), "over x"
    radius = np.linalg.norm(x - (x.min(axis=0) + x.max(axis=0)) / 2, axis=1)
    return "scatter", everything, np.stack([radius, 0 * radius], axis=1), "over the distance from the centre"


def _slice(x: np.ndarray) -> tuple[np.ndarray, str]:
    """Which nodes (n, 3) are nearest the middle plane of the last coordinate, and a note that says so."""
    middle = (x[:, 2].min() + x[:, 2].max()) / 2
    off = np.abs(x[:, 2] - middle)
    band = max(0.04 * np.ptp(x[:, 2]), np.partition(off, min(len(off) - 1, 300))[min(len(off) - 1, 300)])
    return off <= band, f"slice z = {middle:.3g} ± {band:.1g}"


def _draw_cloud(axis: Axes, x: np.ndarray, values: np.ndarray, scale: dict) -> Any:
    """Points in colour; in three dimensions those nearest the middle plane of the last coordinate."""
    if x.shape[1] == 3:
        kept, note = _slice(x)
        x, values = x[kept], values[kept]
        axis.set_xlabel(note, color=GREY, size=8)
    _frame(axis, x)
    size = float(np.clip(25000 / len(x), 1.5, 40))
    return axis.scatter(x[:, 0], x[:, 1], c=values, s=size, lw=0, rasterized=True, clip_on=False, **scale)


def _draw_line(axis: Axes, x: np.ndarray, values: np.ndarray, limits: tuple, colours: str) -> None:
    """Values over the coordinate, or in many dimensions over the distance from the centre."""
    colour = COLOURS[0] if colours == FIELD else COLOURS[1]
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        axis.plot(x[order, 0], values[order], color=colour, lw=1.6)
        axis.set_xlabel("x")
    else:
        radius = np.linalg.norm(x - (x.min(axis=0) + x.max(axis=0)) / 2, axis=1)
        axis.scatter(radius, values, s=4, color=colour, lw=0, alpha=0.5, rasterized=True)
        axis.set_xlabel("distance from the centre")
    pad = 0.05 * (limits[1] - limits[0])
    axis.set_ylim(limits[0] - pad, limits[1] + pad)
    axis.grid(True, color=FAINT, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)


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


def _panel_size(view: View, width: float = 3.2, height: float = 3.8) -> tuple[float, float]:
    """Width and height of a panel in inches that fits the shape of the domain."""
    if view.x.shape[1] not in (2, 3):
        return width * 1.25, width
    size = np.maximum(np.ptp(view.frame[:, :2], axis=0), 1e-12)
    scale = min(width / size[0], height / size[1])
    return max(1.5, float(scale * size[0])), max(1.2, float(scale * size[1]))


def new_figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", dpi=110, facecolor="white")


def _colourbar(figure: Figure, drawn: Any, axes: list[Axes], values: np.ndarray, label: str = "") -> None:
    """The scale of all `values`; arrows and their range say that some lie beyond it."""
    low, high = drawn.get_clim()
    finite = values[np.isfinite(values)]
    least, most = (finite.min(), finite.max()) if finite.size else (low, high)
    slack = 0.02 * (high - low)
    below, above = bool(least < low - slack), bool(most > high + slack)
    words = {(False, False): ("neither", ""), (True, False): ("min", f"down to {least:.3g}"),
             (False, True): ("max", f"up to {most:.3g}"), (True, True): ("both", f"from {least:.3g} to {most:.3g}")}
    extend, beyond = words[below, above]
    bar = figure.colorbar(drawn, ax=axes, label=label, fraction=0.05, pad=0.02, aspect=30, extend=extend)
    if beyond:
        bar.set_label(f"{label}  {beyond}".strip(), color=GREY, size=8)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(length=2, labelsize=8, color=GREY)


def _frame(axis: Axes, x: np.ndarray) -> None:
    """Equal scales, and limits at the domain's own."""
    (left, bottom), (right, top) = x[:, :2].min(axis=0), x[:, :2].max(axis=0)
    if left < right and bottom < top:
        axis.set(xlim=(left, right), ylim=(bottom, top))
    axis.set_aspect("equal")
    axis.locator_params(nbins=5)
    _quiet(axis)


def _quiet(axis: Axes) -> None:
    """Leave the field alone on the page: no frame, small ticks."""
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.tick_params(length=2, labelsize=8, color=FAINT, labelcolor=GREY)


def _nodes(x: ArrayLike) -> np.ndarray:
    nodes = np.asarray(x, float)
    if nodes.ndim != 2 or not nodes.shape[1] or not len(nodes):
        raise ValueError(f"points have shape {nodes.shape}; pass an array (n, d)")
    return nodes


def _cells(cells: ArrayLike | None) -> Cells:
    return None if cells is None else np.asarray(cells)
