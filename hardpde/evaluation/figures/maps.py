"""Scalar fields at nodes: reference, prediction and error at a few times; and close-ups of small holes."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike

from hardpde.evaluation.figures.base import (
    COLOURS,
    FAINT,
    FIELD,
    GREY,
    INK,
    as_cells,
    as_nodes,
    colourbar,
    frame,
    new_figure,
)
from hardpde.evaluation.figures.views import View, field_rows, middle_slice, view_of
from hardpde.geometry.algorithms.links import connected_parts, rim, sides


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
    if np.shape(prediction)[-1:] != (len(as_nodes(x)),):
        raise ValueError(f"the field has shape {np.shape(prediction)}, but there are {len(as_nodes(x))} nodes; pass "
                         f"one value per node")
    rows = field_rows(view, prediction, reference, times)
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
            colourbar(figure, drawn, list(line), values)
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
    nodes, simplices = as_nodes(x), as_cells(cells)
    if simplices is None or nodes.shape[1] != 2:
        return None
    every = np.sort(sides(simplices), axis=1)
    edge = rim(every)
    start, loop, body = edge[:, 0], connected_parts(len(nodes), edge), connected_parts(len(nodes), every)
    leftmost = [min(start[body[start] == k], key=lambda node: nodes[node, 0]) for k in np.unique(body[start])]
    holes = nodes[start[~np.isin(loop[start], loop[leftmost])]]  # what is not the outline of a body
    if not len(holes) or np.any(np.ptp(holes, axis=0) >= np.ptp(nodes, axis=0) / 3):
        return None
    low, high = holes.min(axis=0), holes.max(axis=0)
    pad = 0.35 * (high - low).max()
    return np.clip(np.stack([low - pad, high + pad]), nodes.min(axis=0), nodes.max(axis=0))


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
        frame(axis, view.frame)
        axis.set_xlabel(view.note, color=GREY, size=8)
        return drawn
    if x.shape[1] in (2, 3):
        return _draw_cloud(axis, x, values, scale)
    _draw_line(axis, x, values, limits, colours)
    return None


def _draw_cloud(axis: Axes, x: np.ndarray, values: np.ndarray, scale: dict) -> Any:
    """Points in colour; in three dimensions those nearest the middle plane of the last coordinate."""
    if x.shape[1] == 3:
        kept, note = middle_slice(x)
        x, values = x[kept], values[kept]
        axis.set_xlabel(note, color=GREY, size=8)
    frame(axis, x)
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


def _panel_size(view: View, width: float = 3.2, height: float = 3.8) -> tuple[float, float]:
    """Width and height of a panel in inches that fits the shape of the domain."""
    if view.x.shape[1] not in (2, 3):
        return width * 1.25, width
    size = np.maximum(np.ptp(view.frame[:, :2], axis=0), 1e-12)
    scale = min(width / size[0], height / size[1])
    return max(1.5, float(scale * size[0])), max(1.2, float(scale * size[1]))
