"""Closed triangle meshes: whether they are closed, which way they turn, and their cut into flat and smooth pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardpde.geometry.algorithms.links import connected_parts
from hardpde.geometry.algorithms.triangles import corner_angles, crosses
from hardpde.geometry.base import Piece
from hardpde.geometry.shapes import floats
from hardpde.geometry.solids import Patch, Plate

if TYPE_CHECKING:
    from hardpde.geometry.solids import Solid

FLAT = 1e-6  # of the size: a face lies in the plane of its neighbour
FEW = 64  # triangles: up to here all plates of a solid are filled up to one number
TIP = 0.5  # cosine of the widest angle between a face and the normals of its smooth patch


def spell(point: np.ndarray) -> str:
    """Coordinates of a point, for messages."""
    return "(" + ", ".join(f"{v:.6g}" for v in point) + ")"


def half_edges(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (3 t, 2) at both ends of each face's edges, in the order in which it runs, and their faces (3 t,)."""
    pairs = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return pairs, np.tile(np.arange(len(faces)), 3)


def matched(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Edges (e, 2), how many faces each has (e,), and two of its faces and their half-edges, (e, 2) each."""
    pairs, owner = half_edges(faces)
    edges, number, counts = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(number.ravel(), kind="stable")
    first = np.append(0, np.cumsum(counts)[:-1])
    halves = order[np.stack([first, first + np.minimum(counts, 2) - 1], axis=1)]
    return edges, counts, owner[halves], halves


def check_closed(points: np.ndarray, faces: np.ndarray, what: str) -> None:
    """Every edge must belong to two faces that run along it in opposite ways, and every face must have an area."""
    if not len(faces):
        raise ValueError(f"{what} has no triangles; write a surface of triangles")
    size = float(np.ptp(points[faces].reshape(-1, 3), axis=0).max())
    area = np.linalg.norm(crosses(points[faces]), axis=1)
    if (thin := area <= 1e-14 * size**2).any():
        where = spell(points[faces[int(np.argmax(thin)), 0]])
        raise ValueError(f"{what} has {thin.sum()} triangles without area, the first at {where}; remove them from the "
                         f"mesh and close it again")
    edges, counts, _, halves = matched(faces)
    for bad, fault, remedy in ((counts == 1, "is not watertight: {} open edges", "close the surface"),
                               (counts > 2, "has {} edges with more than two faces", "keep one closed surface")):
        if bad.any():
            a, b = points[edges[int(np.argmax(bad))]]
            raise ValueError(f"{what} {fault.format(bad.sum())}, the first from {spell(a)} to {spell(b)}; {remedy}")
    starts = half_edges(faces)[0][:, 0]
    if (starts[halves[:, 0]] == starts[halves[:, 1]]).any():
        raise ValueError(f"{what} has faces that turn different ways; let all of them turn one way seen from outside")


def all_outward(faces: np.ndarray) -> np.ndarray | None:
    """The faces of a closed surface, turned so that neighbours agree; None if that cannot be."""
    starts = half_edges(faces)[0][:, 0]
    _, _, owners, halves = matched(faces)
    against = starts[halves[:, 0]] == starts[halves[:, 1]]
    if not against.any():
        return faces
    beside: list[list[tuple[int, bool]]] = [[] for _ in faces]
    for (i, j), flip in zip(owners.tolist(), against.tolist()):
        beside[i].append((j, flip))
        beside[j].append((i, flip))
    flips: dict[int, bool] = {}
    for seed in range(len(faces)):
        waiting = [] if seed in flips else [seed]
        flips.setdefault(seed, False)
        while waiting:
            i = waiting.pop()
            for j, flip in beside[i]:
                if j not in flips:
                    flips[j] = flips[i] != flip
                    waiting.append(j)
                elif flips[j] != (flips[i] != flip):
                    return None
    back = np.array([flips[i] for i in range(len(faces))])
    return np.where(back[:, None], faces[:, ::-1], faces)


def segments(solid: Solid) -> tuple[Piece, ...]:
    """The pieces of a solid: one for each flat face or smooth patch, and for each name on it."""
    points, faces = solid.points, solid.faces
    normals = crosses(points[faces])
    units = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    edges, _, owners, _ = matched(faces)
    one, two = owners.T
    along = np.sum(units[one] * units[two], axis=1)
    # Off its neighbour's plane by less than a millionth of the size is flat: files often hold single precision.
    apart = [np.abs(np.einsum("eki,ei->ek", points[faces[i]] - points[edges[:, :1]], units[j])).max(axis=1)
             for i, j in ((one, two), (two, one))]
    flat = (np.maximum(*apart) <= FLAT * solid.size) & (along > 0)
    angle = np.arctan2(np.linalg.norm(np.cross(units[one], units[two]), axis=1), along)
    smooth = flat | (angle <= np.radians(solid.corner_angle))
    level, patch = (connected_parts(len(faces), owners[which]) for which in (flat, smooth))
    if (inner := ~smooth & (patch[one] == patch[two])).any():
        a, b = points[edges[int(np.argmax(inner))]]
        raise ValueError(f"the surface of {solid.name!r} has a sharp edge from {spell(a)} to {spell(b)} that ends "
                         f"inside a smooth face; choose corner_angle above {np.degrees(angle[inner].max()) + 0.1:.1f} "
                         f"degrees, or refine the mesh there")
    names = np.array(solid.names)
    plates, pieces = [], []
    for k in range(patch.max() + 1):
        mine = np.flatnonzero(patch == k)
        parts = [(str(name), mine[names[mine] == name]) for name in dict.fromkeys(names[mine])]
        if len(set(level[mine])) == 1:
            n = normals[mine].sum(axis=0)
            plates += [(name, n / np.linalg.norm(n), points[faces[part]]) for name, part in parts]
        else:
            mean = _vertex_normals(solid, mine, normals, units)
            pieces += [_patch(points, mean, faces[part], name) for name, part in parts]
    counts = [1 << (len(triangles) - 1).bit_length() for _, _, triangles in plates]
    if max(counts, default=0) <= FEW:
        counts = [max(counts, default=0)] * len(counts)  # one kind is compiled sooner than several
    return (*[_plate(*plate, count) for plate, count in zip(plates, counts)], *pieces)


def _vertex_normals(solid: Solid, mine: np.ndarray, normals: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Normals (v, 3) of a smooth patch at its vertices: means over its faces, weighted by their areas and angles.

    The angles make the way in which a flat part is cut into triangles no matter; the areas leave a large flat part its
    normal where a fillet begins.
    """
    mean = np.zeros_like(solid.points)
    for k, angle in enumerate(corner_angles(solid.points[solid.faces[mine]]).T):
        np.add.at(mean, solid.faces[mine, k], angle[:, None] * normals[mine])
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    mean = mean / np.where(length > 0, length, 1.0)
    along = np.einsum("tki,ti->tk", mean[solid.faces[mine]], units[mine])
    if along.min() < TIP:
        tip = solid.faces[mine].ravel()[int(np.argmin(along))]
        raise ValueError(f"the surface of {solid.name!r} has a tip or a fold at {spell(solid.points[tip])}, where no "
                         f"normal fits; choose a smaller corner_angle than {solid.corner_angle:g} degrees, or refine "
                         f"the mesh there")
    return mean


def _patch(points: np.ndarray, normals: np.ndarray, faces: np.ndarray, name: str) -> Piece:
    used, local = np.unique(faces, return_inverse=True)
    return Piece(Patch(points[used], normals[used], local.reshape(-1, 3)), (), name)


def _plate(name: str, normal: np.ndarray, triangles: np.ndarray, count: int) -> Piece:
    """Filled up to so many triangles, so that plates stack."""
    sums = np.cumsum(np.linalg.norm(crosses(triangles), axis=1) / 2)
    fill = count - len(triangles)
    params = (floats(normal), floats(np.pad(sums, (0, fill), mode="edge")),
              floats(np.concatenate([triangles, np.repeat(triangles[-1:], fill, axis=0)])))
    return Piece(Plate(count), tuple(v for part in params for v in part), name)
