"""Plane domains from drawings: DXF and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hardpde.geometry.base import Shape
from hardpde.geometry.read.parsing import about, existing, need, parsing
from hardpde.geometry.read.tracing import Strand, chain, shape_of, turning

STEP = 4.0  # degrees between the points of an arc
MOST = 256  # points along a Bézier curve, or between two knots of a spline

_LABEL = "{http://www.inkscape.org/namespaces/inkscape}label"


def read_outline(path: str | Path, name: str = "outline", corner_angle: float = 5.0) -> Shape:
    """The plane domain inside the closed curves of a `.dxf` or `.svg` drawing; closed curves inside others are holes.

    In a DXF the layers name the boundaries, but for layer 0, which is called `name`; in an SVG the label, the id or the
    class of an element does, in this order, and lengths are those of the viewBox with y turned upwards (y becomes −y).
    A boundary may be put together from lines, arcs and curves of several names that meet at their ends.

    Circles become exact Balls and straight lines sides of Polygons. Other curves become cubic splines through
    points on them, smooth where they meet under less than `corner_angle` degrees. Text, hatches and dimensions of a DXF
    are left out.
    """
    path = existing(path, (".dxf", ".svg"), "read_outline")
    if not 0 < corner_angle < 90:
        raise ValueError(f"corner_angle is {corner_angle}; choose degrees between 0 and 90")
    strands = list((_dxf if path.suffix.lower() == ".dxf" else _svg)(path, name))
    if not strands:
        raise ValueError(f"{path.name} holds no closed outline; draw one with lines, arcs, circles or curves")
    with about(path):
        if not all(np.isfinite(s.points).all() for s in strands):
            raise ValueError("some coordinates are not finite numbers; write the file again")
        return shape_of(chain(strands, corner_angle), path)


def _along(function: Callable[[Any], Any], spans: np.ndarray, count: int = 8) -> np.ndarray:
    """Points (k, 2) of a curve, so many in each span of its parameter, and more until it turns little at each."""
    while True:
        parts = [np.linspace(a, b, count + 1)[:-1] for a, b in pairwise(spans)]
        points = np.array([tuple(function(float(t)))[:2] for t in np.append(np.concatenate(parts), spans[-1])], float)
        if count >= MOST or np.abs(turning(points)[1:-1]).max() < 2 * STEP:
            return points
        count *= 2


def _count(sweep: float) -> int:
    return max(8, math.ceil(abs(sweep) / STEP))


# -- DXF --------------------------------------------------------------------------------------------


def _dxf(path: Path, name: str) -> Iterable[Strand]:
    ezdxf = need("ezdxf", path)
    with parsing(path, "DXF"):
        document = ezdxf.readfile(path)
        found = [strand for entity in document.modelspace() for strand in _entity(entity, name)]
    return found


def _entity(entity: Any, name: str) -> Iterable[Strand]:
    """The strands of a drawing's entity; polylines and blocks are taken apart."""
    kind = entity.dxftype()
    if kind in ("LWPOLYLINE", "POLYLINE", "INSERT"):
        for part in entity.virtual_entities():
            yield from _entity(part, name)
        return
    points = _PLOT[kind](entity) if kind in _PLOT else None
    if points is not None:
        layer = entity.dxf.layer
        yield Strand(points, name if layer == "0" else layer, kind != "LINE")


def _arc(entity: Any) -> np.ndarray:
    """Points of a circle or an arc."""
    centre, radius = entity.ocs().to_wcs(entity.dxf.center), entity.dxf.radius
    start, end = (entity.dxf.start_angle, entity.dxf.end_angle) if entity.dxftype() == "ARC" else (0.0, 360.0)
    sweep = (end - start) % 360 or 360.0
    angle = np.radians(start + sweep * np.linspace(0, 1, _count(sweep) + 1))
    mirror = -1.0 if entity.dxf.extrusion.z < 0 else 1.0
    points = np.stack([centre.x + mirror * radius * np.cos(angle), centre.y + radius * np.sin(angle)], axis=1)
    if sweep == 360.0:
        points[-1] = points[0]
    return points


def _ellipse(entity: Any) -> np.ndarray:
    start, end = entity.dxf.start_param, entity.dxf.end_param
    sweep = (end - start) % math.tau or math.tau
    parameters = start + sweep * np.linspace(0, 1, _count(math.degrees(sweep)) + 1)
    return np.array([(v.x, v.y) for v in entity.vertices(parameters)])


def _spline(entity: Any) -> np.ndarray:
    curve = entity.construction_tool()
    return _along(curve.point, np.unique(np.asarray(curve.knots(), float)))


_PLOT: dict[str, Callable[[Any], np.ndarray]] = {
    "LINE": lambda e: np.array([(v.x, v.y) for v in (e.dxf.start, e.dxf.end)]),
    "ARC": _arc,
    "CIRCLE": _arc,
    "ELLIPSE": _ellipse,
    "SPLINE": _spline,
}


# -- SVG --------------------------------------------------------------------------------------------


def _svg(path: Path, name: str) -> Iterable[Strand]:
    svg = need("svgelements", path)
    with parsing(path, "SVG"):
        drawing = svg.SVG.parse(str(path), reify=True)
        back = ~svg.Matrix(drawing.viewbox_transform or "")
        found: list[Strand] = []
        for element in drawing.elements():
            if isinstance(element, svg.Shape):
                values = element.values
                called = values.get(_LABEL) or element.id or values.get("class") or name
                for part in (svg.Path(element) * back).reify().as_subpaths():
                    found += _subpath(svg, svg.Path(part), called)
    return found


def _subpath(svg: Any, path: Any, name: str) -> Iterable[Strand]:
    """The strands of one subpath, y turned upwards."""
    for segment in path:
        if isinstance(segment, svg.Move) or segment.start is None or segment.end is None:
            continue
        if isinstance(segment, svg.Line | svg.Close):
            points = np.array([tuple(segment.start), tuple(segment.end)], float)
        elif isinstance(segment, svg.Arc):
            points = _along(segment.point, np.array([0.0, 1.0]), _count(math.degrees(segment.sweep)))
        else:
            points = _along(segment.point, np.array([0.0, 1.0]))
        if np.ptp(points, axis=0).max() > 0:
            yield Strand(points * [1.0, -1.0], name, not isinstance(segment, svg.Line | svg.Close))
