"""Solids from files of surfaces: STL, OBJ and PLY, and the triangles of a gmsh mesh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hardpde.geometry.algorithms.edges import all_outward, check_closed, matched, spell
from hardpde.geometry.algorithms.links import connected_parts, rim
from hardpde.geometry.algorithms.triangles import crosses, passes, point_gaps
from hardpde.geometry.base import Shape
from hardpde.geometry.read.meshes import physical_names, read_gmsh
from hardpde.geometry.read.parsing import about, existing, need, nest, parsing
from hardpde.geometry.shapes import Ball, floats
from hardpde.geometry.solids import Patch, Solid

ROUND = 1e-5  # of the radius: so far from a sphere vertices may lie

Namer = Callable[[np.ndarray, np.ndarray], str]


def read_surface(
    path: str | Path, name: str = "surface", names: Namer | None = None, corner_angle: float = 30.0
) -> Shape:
    """The solid inside the closed surface of an `.stl`, `.obj`, `.ply` or gmsh `.msh` file, in the file's own units.

    Physical groups of surfaces in a `.msh` name the boundaries; names(centre, normal) may name every triangle of any
    file, and the rest is called `name`. Closed surfaces inside others are cavities. What becomes of the triangles:

    - A surface whose vertices all lie on a sphere (to 1e-5 of its radius) becomes an exact Ball.
    - Neighbours in one plane make one flat piece, with its edges and holes.
    - Neighbours that meet under less than `corner_angle` degrees make a smooth patch. The domain ends at its
      triangles, and conditions hold on these, with normals interpolated between the means at the vertices.

    A surface that is not watertight, crosses itself or has a sharp edge or tip inside a smooth patch is refused.
    """
    path = existing(path, (".stl", ".obj", ".ply", ".msh"), "read_surface")
    points, faces, labels = _from_gmsh(path) if path.suffix.lower() == ".msh" else _from_trimesh(path)
    with about(path):
        points, faces = _welded(points, faces)
        check_closed(points, oriented := _oriented(points, faces, path), path.name)
        _check_crossing(points, oriented, path)
        centres, normals = points[oriented].mean(axis=1), crosses(points[oriented])
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        given = [label or (names(x, n) if names else None) or name for label, x, n in zip(labels, centres, normals)]
        _, _, owners, _ = matched(oriented)
        body = connected_parts(len(faces), owners)
        bodies = [np.flatnonzero(body == k) for k in range(body.max() + 1)]
        shapes = [_shape(points, oriented[b], name, tuple(given[i] for i in b), corner_angle) for b in bodies]
        soups = [points[oriented[b]] for b in bodies]
        return nest(shapes, lambda i, j: _winding(soups[j], soups[i][0, 0]) > 0.5)


def _from_trimesh(path: Path) -> tuple[np.ndarray, np.ndarray, list[str | None]]:
    trimesh = need("trimesh", path)
    kind = path.suffix[1:].upper()
    if kind == "STL":
        _check_stl(path)
    with parsing(path, kind):
        mesh = trimesh.load_mesh(path, process=False)
        mesh = mesh.to_mesh() if hasattr(mesh, "to_mesh") else mesh
        points, faces = np.array(mesh.vertices, float), np.array(mesh.faces, int).reshape(-1, 3)
    if not len(faces):
        raise ValueError(f"{path.name} holds no triangles; write a surface of triangles as {kind}")
    return points, faces, [None] * len(faces)


def _check_stl(path: Path) -> None:
    """A binary file must be as long as it says, one of text must come to its end."""
    raw = path.read_bytes()
    if raw[:5] == b"solid" and b"facet" in raw[:2000]:
        if b"endsolid" not in raw[-400:]:
            raise ValueError(f"{path.name} is cut off: 'endsolid' is missing at its end; write the file again")
        return
    count = int.from_bytes(raw[80:84], "little") if len(raw) >= 84 else -1
    if count < 0 or len(raw) < 84 + 50 * count:
        raise ValueError(f"{path.name} is no STL file, or is cut off: it is {len(raw)} bytes long, and announces "
                         f"{max(count, 0)} triangles; write the file again")


def _from_gmsh(path: Path) -> tuple[np.ndarray, np.ndarray, list[str | None]]:
    """The triangles of a mesh; of a mesh of tetrahedra only those on its boundary."""
    mesh = read_gmsh(path)
    faces, labels = physical_names(mesh, ("triangle",), 3, 2)
    solid, _ = physical_names(mesh, ("tetra",), 4, 3)
    if len(solid):
        known = {tuple(sorted(face)): label for face, label in zip(faces.tolist(), labels)}
        faces = rim(np.concatenate([solid[:, list(side)] for side in ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1))]))
        labels = [known.get(tuple(sorted(face))) for face in faces.tolist()]
    if not len(faces):
        raise ValueError(f"{path.name} holds no triangles; save the surface mesh, and the elements of its physical "
                         f"groups")
    points = np.asarray(mesh.points, float)
    if np.ptp(points[:, 2]) <= 1e-9 * np.ptp(points, axis=0).max():
        raise ValueError(f"{path.name} is a plane mesh; read it with read_mesh")
    return points, faces, labels


def _welded(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points that coincide made one; triangles that have then lost an edge left out."""
    if not np.isfinite(points[faces]).all():
        raise ValueError("some coordinates are not finite numbers; write the file again")
    size = float(np.ptp(points[faces].reshape(-1, 3), axis=0).max())
    grid = np.round(points / (1e-8 * size or 1.0))
    _, first, number = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    faces = number.ravel()[faces]
    if (same := (faces == np.roll(faces, 1, axis=1)).any(axis=1)).any():
        where = spell(points[first[faces[int(np.argmax(same)), 0]]])
        raise ValueError(f"{same.sum()} triangles have no area, the first at {where}; remove them from the mesh")
    return points[first], faces


def _oriented(points: np.ndarray, faces: np.ndarray, path: Path) -> np.ndarray:
    """The faces, neighbours turned alike and each closed surface with its normals out of what it encloses."""
    _, counts, owners, _ = matched(faces)
    if (counts != 2).any():
        return faces  # said by check_closed
    found = all_outward(faces)
    if found is None:
        raise ValueError(f"{path.name} has one side only, so that it encloses nothing; write a surface that does")
    body = connected_parts(len(found), owners)
    centred = points[found] - points.mean(axis=0)
    volume = np.bincount(body, np.linalg.det(centred) / 6)
    size = float(np.ptp(points, axis=0).max())
    if (np.abs(volume) <= 1e-12 * size**3).any():
        raise ValueError(f"{path.name} has a closed surface that encloses no volume; remove it")
    return np.where((volume < 0)[body][:, None], found[:, ::-1], found)


def _check_crossing(points: np.ndarray, faces: np.ndarray, path: Path) -> None:
    """No edge may pass through a triangle that it has no corner in common with."""
    shapely = need("shapely", path)
    soup, edges = points[faces], matched(faces)[0]
    ends = points[edges]

    def flat(lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        return shapely.box(lo[:, 0], lo[:, 1], hi[:, 0], hi[:, 1])

    tree = shapely.STRtree(flat(soup.min(1), soup.max(1)))
    e, t = tree.query(flat(ends.min(1), ends.max(1)))
    near = (ends.min(1)[e, 2] <= soup.max(1)[t, 2]) & (ends.max(1)[e, 2] >= soup.min(1)[t, 2])
    near &= ~(edges[e][:, :, None] == faces[t][:, None, :]).any(axis=(1, 2))
    e, t = e[near], t[near]
    hit = passes(ends[e], soup[t])
    if hit.any():
        where = spell(ends[e[int(np.argmax(hit))]].mean(axis=0))
        raise ValueError(f"{path.name} crosses itself near {where}; unite its parts into one surface first")


def _shape(points: np.ndarray, faces: np.ndarray, name: str, names: tuple[str, ...], corner_angle: float) -> Shape:
    """A Ball where all vertices lie on a sphere and the surface is smooth, else a Solid."""
    used, local = np.unique(faces, return_inverse=True)
    solid = Solid(points[used], local.reshape(-1, 3), names[0] if len(set(names)) == 1 else name, names, corner_angle)
    if len(solid.pieces) > 1 or not isinstance(solid.pieces[0].kind, Patch):
        return solid
    x = solid.points
    fit = np.linalg.lstsq(np.concatenate([2 * x, np.ones((len(x), 1))], axis=1), np.sum(x**2, axis=1))[0]
    centre = fit[:3]
    radii = np.linalg.norm(x - centre, axis=1)
    radius = float(radii.mean())
    if np.abs(radii - radius).max() > ROUND * radius:
        return solid
    return Ball(floats(centre), radius, names[0])


def _winding(soup: np.ndarray, x: np.ndarray) -> float:
    """How often a closed surface (t, 3, 3) winds about a point; 0 on it."""
    if point_gaps(x[None], soup)[0] == 0:
        return 0.0
    a, b, c = np.moveaxis(soup - x, 1, 0)
    la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    dots = [np.sum(u * v, axis=1) for u, v in ((a, b), (b, c), (c, a))]
    below = la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb
    return float(np.sum(np.arctan2(np.linalg.det(np.stack([a, b, c], axis=1)), below)) / (2 * np.pi))
