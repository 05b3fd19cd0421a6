"""Plane domains from gmsh meshes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardpde.geometry.algorithms.links import rim, sides
from hardpde.geometry.base import Shape
from hardpde.geometry.read.parsing import about, existing, need, parsing
from hardpde.geometry.read.tracing import polygon_ring, shape_of

TAG = "gmsh:physical"


def read_mesh(path: str | Path, name: str = "boundary", smooth: bool = True, corner_angle: float = 30.0) -> Shape:
    """The plane domain that a gmsh `.msh` file covers, with holes.

    Physical groups of lines name the boundaries; edges in none are called `name`. Edges in line, of one name, make one
    side. Where the boundary turns by less than `corner_angle` degrees at a time it is a smooth curve: an exact circle
    if all its points lie on one (to 1e-6 of the radius), else a cubic spline through the points. smooth=False takes
    every edge as it is.
    """
    path = existing(path, (".msh",), "read_mesh")
    if not 0 < corner_angle < 90:
        raise ValueError(f"corner_angle is {corner_angle}; choose degrees between 0 and 90")
    mesh = read_gmsh(path)
    points = np.asarray(mesh.points, float)
    if points.shape[1] == 3 and np.ptp(points[:, 2]) > 1e-9 * np.ptp(points, axis=0).max():
        raise ValueError(f"{path.name} is a mesh in 3-D; read its surface with read_surface")
    lines, labels = physical_names(mesh, ("line",), 2, 1)
    cells = [physical_names(mesh, (kind,), corners, 2)[0] for kind, corners in (("triangle", 3), ("quad", 4))]
    edges = rim(np.concatenate([sides(c) for c in cells])) if any(map(len, cells)) else lines
    if not len(edges):
        raise ValueError(f"{path.name} holds neither triangles nor lines; save the plane mesh, and the elements of its "
                         f"physical groups")
    known = {tuple(sorted(line)): label for line, label in zip(lines.tolist(), labels)}
    with about(path):
        rings = []
        for loop in _loops(edges, points):
            names = [known.get(tuple(sorted(edge))) or name for edge in zip(loop, [*loop[1:], loop[0]])]
            rings.append(polygon_ring(points[loop, :2], names, smooth, corner_angle))
        return shape_of(rings, path)


def read_gmsh(path: Path) -> Any:
    """The mesh of a gmsh file."""
    gmsh = need("meshio.gmsh", path)
    with parsing(path, "a gmsh mesh"):
        try:
            mesh = gmsh.read(str(path))
        except ValueError as error:
            if "Incompatible cell data" not in str(error):
                raise
            raise ValueError("in format 4 all elements must be in physical groups, or none; save format 2.2") from None
        if not len(mesh.points):
            raise ValueError("no points")
        if not np.isfinite(mesh.points).all():
            raise ValueError("coordinates that are not finite")
    return mesh


def physical_names(mesh: Any, kinds: Sequence[str], corners: int, dim: int) -> tuple[np.ndarray, list[str | None]]:
    """Corners (k, corners) of the cells of some kinds (of any order), and the names of their physical groups."""
    names = {int(tag): name for name, (tag, d) in mesh.field_data.items() if int(d) == dim}
    tags = mesh.cell_data.get(TAG) or [np.zeros(len(block.data), int) for block in mesh.cells]
    cells, labels = [np.zeros((0, corners), int)], []
    for block, tag in zip(mesh.cells, tags):
        if block.type.rstrip("0123456789") in kinds:
            cells.append(np.asarray(block.data, int)[:, :corners])
            labels += [names.get(int(t), f"group {t}") if t else None for t in tag]
    return np.concatenate(cells), labels


def _loops(edges: np.ndarray, points: np.ndarray) -> list[list[int]]:
    """Closed loops of vertices; where other than two edges meet there is none."""
    beside: dict[int, list[int]] = {}
    for a, b in edges.tolist():
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    for vertex, others in beside.items():
        if len(others) != 2:
            x, y = points[vertex, :2]
            fault = "is open" if len(others) == 1 else "touches itself"
            raise ValueError(f"the boundary of the mesh {fault} at ({x:.6g}, {y:.6g}); mesh a domain whose boundary is "
                             f"made of simple closed curves")
    found = []
    while beside:
        start = next(iter(beside))
        loop, last, here = [start], start, beside[start][0]
        while here != start:
            loop.append(here)
            one, two = beside.pop(here)
            last, here = here, (two if one == last else one)
        del beside[start]
        found.append(loop)
    return found
