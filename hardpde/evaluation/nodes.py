"""Where a solution is looked at: the nodes of a reference, of the domain, or of a plane."""

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from scipy.spatial import Delaunay, QhullError

from hardpde.evaluation.base import Solved
from hardpde.evaluation.certificate import boundary_points
from hardpde.evaluation.errors import predict_on, typical
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference, known_values
from hardpde.support.compiling import jit_simply

MANY = 300  # scattered nodes that make a picture
BEYOND = 0.1  # of the longest side of a triangle
FLAT = 1e-9  # of the domain's size cubed: four nodes of one wall make no tetrahedron


def nodes(problem: Problem, reference: Reference | None, points: int = 4000) -> Reference:
    """Where to look at a solution: the reference's mesh, or one of the domain, with the known solution on it."""
    dim = problem.schema.dim
    if reference is not None and (reference.cells is not None or dim > 3 or (dim != 2 and problem.exact is None)):
        return reference
    if reference is not None and problem.exact is None and len(reference.x) >= MANY:
        return _triangulated(problem, reference)
    times = None if problem.time is None else np.linspace(*problem.time, 11)
    cells = None
    if dim > 3:
        x = np.asarray(problem.domain.sample(jax.random.key(21), points))
    elif dim == 1:
        (lo,), (hi,) = problem.domain.bounds
        x, cells = np.linspace(lo, hi, 401)[:, None], np.stack([np.arange(400), np.arange(1, 401)], axis=1)
    else:
        edge = [boundary_points(problem, name, 600)[0] for name in problem.domain.boundaries]
        x = np.concatenate([np.asarray(problem.domain.sample(jax.random.key(21), points)), *edge])
        x = x[np.unique(np.round(x, 9), axis=0, return_index=True)[1]]
        cells = Delaunay(x).simplices
        inside = np.asarray(jit_simply(jax.vmap(problem.domain.sdf))(x[cells].mean(axis=1))) < 1e-9
        cells = cells[inside & (_volumes(x, cells) > FLAT * (problem.domain.size**dim if dim == 3 else 0.0))]
    if problem.mapping is not None:
        x = typical(problem).places(x)
    return Reference(x, known_solution(problem, x, times), times, cells)


def _triangulated(problem: Problem, reference: Reference) -> Reference:
    """A reference at scattered nodes in the plane, with triangles between them that lie in the domain."""
    x = np.asarray(reference.x, float)
    try:
        cells = Delaunay(x).simplices
    except QhullError:  # too few nodes, or all on one line
        return reference
    if problem.mapping is None:
        corners = x[cells]
        looked_at = np.stack([corners.mean(axis=1), *((corners[:, k] + corners[:, k - 1]) / 2 for k in range(3))])
        depth = np.asarray(jit_simply(jax.vmap(problem.domain.sdf))(looked_at.reshape(-1, 2))).reshape(4, -1)
        longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1)
        cells = cells[(depth <= BEYOND * longest).all(axis=0)]  # chords of a curved boundary may lie beyond it a little
    return replace(reference, cells=cells) if len(cells) else reference


def _volumes(x: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Volumes of simplices (c,), times as many as there are orders of their edges."""
    return np.abs(np.linalg.det(x[cells[:, 1:]] - x[cells[:, :1]]))


class Seen(NamedTuple):
    """A solution at nodes, with what is known there."""

    grid: Reference
    values: dict[str, np.ndarray]


def seen_at(solution: Solved, grid: Reference) -> Seen:
    """All fields of a solution at the nodes of a grid."""
    return Seen(grid, predict_on(solution, grid.x, grid.times))


def known_solution(problem: Problem, x: np.ndarray, times: np.ndarray | None) -> dict[str, np.ndarray]:
    """The known solution, if there is one, at nodes (n, d): shapes as in `predict_on`."""
    if problem.exact is None:
        return {}
    return known_values(typical(problem), x, times)


def plane(problem: Problem, points: int = 81) -> Reference | None:
    """Nodes in the plane of the first two axes through the middle of the domain, with triangles and the known
    solution; None where the domain has no part there."""
    low, high = (np.asarray(bound, float) for bound in problem.domain.bounds)
    first, second = (np.linspace(low[k], high[k], points) for k in range(2))
    flat = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)

    def lifted(y: np.ndarray) -> np.ndarray:
        return np.concatenate([y, np.broadcast_to((low + high)[2:] / 2, (len(y), len(low) - 2))], axis=1)

    def sdf(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = jit_simply(jax.vmap(jax.value_and_grad(problem.domain.sdf)))(lifted(y))
        return np.asarray(value), np.asarray(slope)[:, :2]

    value, _ = sdf(flat)
    rim = flat[(value > 0) & (value < max(first[1] - first[0], second[1] - second[0]))]
    for _ in range(3 if len(rim) else 0):  # outside points near the boundary move onto it
        value_there, slope = sdf(rim)
        rim = rim - value_there[:, None] * slope / np.maximum((slope**2).sum(1, keepdims=True), 1e-12)
    rim = rim[np.abs(sdf(rim)[0]) < 1e-9] if len(rim) else rim
    flat = np.concatenate([flat[value <= 0], rim])
    flat = flat[np.unique(np.round(flat, 9), axis=0, return_index=True)[1]]
    if len(flat) < 100:
        return None
    cells = Delaunay(flat).simplices
    cells = cells[sdf(flat[cells].mean(axis=1))[0] <= 0]
    times = None if problem.time is None else np.linspace(*problem.time, 11)
    return Reference(lifted(flat), known_solution(problem, lifted(flat), times), times, cells)
