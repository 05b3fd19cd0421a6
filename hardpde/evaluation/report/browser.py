"""What a page draws by itself: fields on their mesh and curves, as plain data small enough to be in the page.

Values are 16 bits between the least and the largest of their frame; errors are stored beside the predictions, so that
small ones keep their digits; what is known is their difference.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardpde.evaluation.figures.base import ERROR, FIELD, colour_table
from hardpde.evaluation.figures.maps import hole_window, row_name
from hardpde.evaluation.figures.views import View, field_rows, flattened, thinned_mesh, view_of
from hardpde.geometry.algorithms.links import rim

MOST_FRAMES, MOST_NODES = 41, 30_000
MOST_TURNED = 65_535  # nodes of tetrahedra
NOT_A_NUMBER = 65535  # the code of a value that is not there


def packed(drawn: Mapping[str, tuple], parameters: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
    """Fields by label, each (x, cells, times, prediction, known values or None) with shapes as in
    `figures.maps.field_grid`, as meshes, values, views on them and the labels of the frames.

    With parameters, {name: values}, there are such rows for each combination of their values, the last one's after one
    another.
    """
    page: dict[str, Any] = {"meshes": [], "values": [], "views": [], "labels": [], "times": None, "colours": {
        name: _text(colour_table(name)) for name in (FIELD, ERROR)}, "parameters": [
            {"name": name, "values": [float(v) for v in values], "labels": [f"{name} = {v:.4g}" for v in values]}
            for name, values in (parameters or {}).items()]}
    found: dict[int, tuple] = {}
    for label, (x, cells, times, prediction, known) in drawn.items():
        frames: Any = slice(None)
        if times is not None:
            frames = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_FRAMES)).round().astype(int))
            page["times"] = [float(t) for t in np.asarray(times)[frames]]
        if id(x) not in found:
            found[id(x)] = _mesh(page, x, cells)
        number, view, chosen, kind, flat, windows = found[id(x)]
        rows = (-1, 1 if times is None else len(times), len(x))
        p, r = (None if values is None else np.asarray(values, float).reshape(rows)[:, frames].reshape(-1, len(x))
                for values in (prediction, known))
        assert p is not None
        page["values"].append({"prediction": [_quantised(v) for v in p[:, chosen]]} | (
            {} if r is None else {"error": [_quantised(v) for v in (p - r)[:, chosen]]}))
        for window in windows:
            shown = view if window is None else view_of(x, cells, window)
            page["views"].append({
                "title": label + (", close-up" if window is not None else ""), "kind": kind, "mesh": number,
                "values": len(page["values"]) - 1, "note": view.note,
                "frame": _frame(shown.frame if kind == "mesh" else flat), "panels": _panels(shown, label, p, r)})
    page["labels"] = ["steady state"] if page["times"] is None else [f"t = {t:g}" for t in page["times"]]
    return page


def solids(drawn: Mapping[str, tuple], times: Sequence[float] | None) -> dict[str, Any]:
    """Fields by label at nodes (n, 3) of tetrahedra, for surfaces on which they are constant: {} where there are none.

    times: those of the page's frames; of the fields' times the nearest ones are taken.
    """
    found: dict[str, Any] = {"fields": []}
    for label, (x, cells, own, prediction, _) in drawn.items():
        if cells is None or np.shape(cells)[1] != 4 or len(x) > MOST_TURNED:
            return {}
        frames = [0] if times is None else [int(np.abs(np.asarray(own) - t).argmin()) for t in times]
        values = np.asarray(prediction, float).reshape(-1, len(x))
        finite = values[np.isfinite(values)]
        if not finite.size:
            continue
        found["fields"].append({"label": label, "limits": [float(finite.min()), float(finite.max())],
                                "values": [_quantised(values[k]) for k in frames]})
        centre, size = (x.max(0) + x.min(0)) / 2, float(np.ptp(x, axis=0).max())
        found |= {"colours": FIELD, "x": _text(np.asarray((x - centre) / size, np.float32)), "size": size,
                  "cells": _text(np.asarray(cells, np.uint16)), "skin": _text(skin(cells).astype(np.uint16))}
    return found if found["fields"] else {}


def skin(cells: np.ndarray) -> np.ndarray:
    """The triangles (t, 3) of tetrahedra (c, 4) that belong to one of them only."""
    faces = np.concatenate([np.delete(cells, k, axis=1) for k in range(4)])
    return rim(faces)


def _panels(view: View, label: str, p: np.ndarray, r: np.ndarray | None) -> list[dict[str, Any]]:
    """Known values, prediction and error with their scales, as far as there are any."""
    rows = field_rows(view, p, r, np.arange(len(p)))
    what = {"reference": "reference", "|error|": "error"}
    panels = []
    for name, values, colours, limits in rows:
        finite = values[np.isfinite(values)]
        slack = 0.02 * (limits[1] - limits[0])
        ends = [f"down to {finite.min():.3g}"] if finite.size and finite.min() < limits[0] - slack else []
        ends += [f"up to {finite.max():.3g}"] if finite.size and finite.max() > limits[1] + slack else []
        panels.append({"label": row_name(name, label), "what": what.get(name, "prediction"), "colours": colours,
                       "limits": list(limits), "beyond": ", ".join(ends)})
    return panels


def _mesh(page: dict, x: np.ndarray, cells: np.ndarray | None) -> tuple:
    """Put nodes into the page: their number there, what `plots` sees of them, which are kept, how they are drawn and
    where in the plane, and in which windows: the whole, and a close-up of small holes."""
    view = view_of(x, cells)
    kind, chosen, flat, note = flattened(view)
    simplices = view.cells if kind == "mesh" else None
    if simplices is not None and len(flat) > MOST_NODES:
        chosen, simplices = thinned_mesh(flat, simplices, MOST_NODES)
        flat = flat[chosen]
    stored: dict[str, Any] = {"x": _text(np.asarray(flat, np.float32))}
    if simplices is not None:
        wide = len(flat) > 65535
        stored |= {"cells": _text(np.asarray(simplices, np.uint32 if wide else np.uint16)), "wide": wide}
    page["meshes"].append(stored)
    near = hole_window(x, cells) if kind == "mesh" and x.shape[1] == 2 else None
    windows = [None] if near is None else [None, near]
    return len(page["meshes"]) - 1, view._replace(note=note), chosen, kind, flat, windows


def chart(title: str, label: str, lines: Sequence[tuple[str, Any, Any]], *, said: str = "",
          marks: Sequence[tuple[float, str]] = (), breaks: Sequence[int] = (), height: int = 200) -> dict[str, Any]:
    """Lines (name, x, y) over one axis, on a log scale; `marks` (x, name) begin a stage, at `breaks` lines are cut."""
    xs = [float(v) for _, x, _ in lines for v in x] + [float(x) for x, _ in marks]
    start, end = (min(xs), max(xs)) if xs else (0.0, 1.0)
    return {"title": title, "label": label, "height": height, "said": said, "start": start,
            "end": end if end > start else start + 1, "breaks": [int(b) for b in breaks],
            "marks": [{"x": float(x), "label": name} for x, name in marks],
            "lines": [{"label": name, "x": [_digits(v, 6) for v in x], "y": [_digits(v, 4) for v in y]}
                      for name, x, y in lines]}


def _digits(value: Any, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if value is not None and np.isfinite(value) else None


def _frame(x: np.ndarray) -> list[list[float]]:
    low, high = np.min(x, axis=0), np.max(x, axis=0)
    high = np.where(high > low, high, low + 1)
    return [[float(v) for v in low[:2]], [float(v) for v in high[:2]]]


def _quantised(values: np.ndarray) -> list:
    """[least, largest, codes] of one frame."""
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 0.0)
    share = np.where(known, values - low, 0.0) / ((high - low) or 1.0)
    return [low, high, _text(np.where(known, np.round(65534 * share), NOT_A_NUMBER).astype(np.uint16))]


def _text(array: np.ndarray) -> str:
    return "base64," + base64.b64encode(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()).decode()
