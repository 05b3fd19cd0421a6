"""How nodes of any dimension are drawn, and with which scales."""

from typing import NamedTuple

import numpy as np
from matplotlib.tri import Triangulation
from numpy.typing import ArrayLike
from scipy.spatial import Delaunay

from hardpde.evaluation.figures.base import ERROR, FIELD, Cells, as_cells, as_nodes
from hardpde.geometry.algorithms.links import rim, sides
from hardpde.problem.reference import shares

FAR = 3.0  # times the range on 99 % of the area: a range that the colours do not follow


class View(NamedTuple):
    """What is drawn: nodes (n, d), their simplices, which of all nodes they are, the frame, a note below it."""

    x: np.ndarray
    cells: Cells
    kept: np.ndarray | slice
    frame: np.ndarray
    note: str


def view_of(x: ArrayLike, cells: ArrayLike | None, window: ArrayLike | None = None) -> View:
    """Nodes and simplices as they are drawn, in a `window` those that are seen in it."""
    nodes, simplices, note = as_nodes(x), as_cells(cells), ""
    if nodes.shape[1] > 2 and simplices is not None and simplices.shape[1] == 3:
        note = f"slice z = {nodes[0, 2]:.3g}" if nodes.shape[1] == 3 else "the plane of x₁ and x₂ through the centre"
        nodes = nodes[:, :2]
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


def field_rows(view: View, prediction: ArrayLike, reference: ArrayLike | None, times: ArrayLike | None) -> list[tuple]:
    """(label, values (k, n), colours, limits) of reference, prediction and error, as far as known."""
    p = np.asarray(prediction, float)
    p = p[None] if times is None else p
    if p.ndim != 2 or (times is not None and len(p) != len(np.asarray(times))):
        raise ValueError(
            f"the field has shape {np.shape(prediction)}; pass (k, n) with k times, or (n,) with None"
        )
    if reference is None:
        p = p[:, view.kept]
        return [("", p, FIELD, limits_of(view, p, FIELD))]
    r = np.asarray(reference, float).reshape(p.shape)[:, view.kept]
    p = p[:, view.kept]
    error = np.abs(p - r)
    limits = limits_of(view, r, FIELD)
    return [
        ("reference", r, FIELD, limits),
        ("prediction", p, FIELD, limits),
        ("|error|", error, ERROR, limits_of(view, error, ERROR)),
    ]


def limits_of(view: View, values: np.ndarray, colours: str) -> tuple[float, float]:
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


def flattened(view: View) -> tuple[str, np.ndarray, np.ndarray, str]:
    """How a field is drawn without a solid picture: as "mesh", "points", "line" or "scatter"; which nodes are shown,
    where in the plane (k, 2), and a note. Values of lines and scatters are heights over the first coordinate."""
    x = view.x
    everything = np.arange(len(x))
    if x.shape[1] == 2:
        return ("points" if view.cells is None else "mesh"), everything, x, view.note
    if x.shape[1] == 3:
        kept, note = middle_slice(x)
        return "points", np.flatnonzero(kept), x[kept, :2], note
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0])
        return "line", order, np.pad(x[order], [(0, 0), (0, 1)]), "over x"
    radius = np.linalg.norm(x - (x.min(axis=0) + x.max(axis=0)) / 2, axis=1)
    return "scatter", everything, np.stack([radius, 0 * radius], axis=1), "over the distance from the centre"


def middle_slice(x: np.ndarray) -> tuple[np.ndarray, str]:
    """Which nodes (n, 3) are nearest the middle plane of the last coordinate, and a note that says so."""
    middle = (x[:, 2].min() + x[:, 2].max()) / 2
    off = np.abs(x[:, 2] - middle)
    band = max(0.04 * np.ptp(x[:, 2]), np.partition(off, min(len(off) - 1, 300))[min(len(off) - 1, 300)])
    return off <= band, f"slice z = {middle:.3g} ± {band:.1g}"


def thinned_mesh(x: np.ndarray, cells: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """About so many nodes of a plane mesh, those of its edge among them, and triangles of these that lie in it."""
    edge = np.unique(rim(sides(cells)))
    others = np.setdiff1d(np.unique(cells), edge)
    some = np.random.default_rng(0).permutation(others)[: max(0, most - len(edge))]
    chosen = np.sort(np.concatenate([edge, some]))
    simplices = Delaunay(x[chosen]).simplices
    middle = x[chosen][simplices].mean(axis=1)
    inside = np.asarray(Triangulation(x[:, 0], x[:, 1], cells).get_trifinder()(middle[:, 0], middle[:, 1])) >= 0
    return chosen, simplices[inside]
