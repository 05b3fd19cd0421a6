"""Meshes of the shapes that users state: curved edges are exact, boundaries keep their names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry import Ball, Box, Difference, Inlay, Intersection, Loop, Polygon, Shape, Spline, Union, describe
from hardpde.geometry.algorithms.sampling import depths
from hardpde.problems.fem.base import mesh_points, ngsolve
from hardpde.problems.fem.flow import edge_radius, outline_edges
from hardpde.support.compiling import jit_simply

ON = 1e-6  # of the size: a point lies on a boundary
TIP = 0.1  # of the size of elements elsewhere: beside corners
GRADING = 0.3
PROBES = 256


@dataclass(frozen=True)
class Outlined:
    """A mesh, and what its parts of the boundary are called: {name: its name in the mesh}."""

    mesh: Any
    names: dict[str, str]
    shape: Shape

    def points(self, x: np.ndarray) -> np.ndarray:
        """The mesh points of `x` (n, d), or of the nearest found inside."""
        inwards = _inwards(self.shape)
        return mesh_points(self.mesh, x, lambda lost, length: lost + length * self.shape.size * inwards(lost))


def _inwards(shape: Shape) -> Callable[[np.ndarray], np.ndarray]:
    slope = jit_simply(jax.vmap(jax.grad(shape.sdf)))
    return lambda x: -np.nan_to_num(np.asarray(slope(jnp.asarray(x))))


def solid_of(shape: Shape) -> Any:
    """The shape for the mesher; ValueError where there is no way to make it."""
    if isinstance(shape, Union | Intersection):
        found = solid_of(shape.shapes[0])
        for other in shape.shapes[1:]:
            found = found + solid_of(other) if isinstance(shape, Union) else found * solid_of(other)
        return found
    if isinstance(shape, Difference):
        found = solid_of(shape.base)
        for hole in shape.holes:
            found = found - solid_of(hole)
        return found
    if isinstance(shape, Inlay):
        raise ValueError("finite elements are not offered for materials that meet at an Inlay")
    return _flat(shape) if shape.dim == 2 else _spatial(shape)


def _flat(shape: Shape) -> Any:
    from netgen.occ import Circle, Face, Pnt, Segment, Wire

    if isinstance(shape, Ball):
        return Circle(tuple(shape.center), shape.radius).Face()
    if isinstance(shape, Box):
        (left, bottom), (right, top) = shape.lo, shape.hi
        corners = [(left, bottom), (right, bottom), (right, top), (left, top)]
    elif isinstance(shape, Polygon):
        corners = [(float(x), float(y)) for x, y in shape.points]
    elif isinstance(shape, Loop | Spline):
        return Face(Wire(outline_edges(shape)))
    else:
        raise ValueError(f"finite elements are not offered for {describe(shape)}")
    ends = [*corners[1:], corners[0]]
    return Face(Wire([Segment(Pnt(*a, 0), Pnt(*b, 0)) for a, b in zip(corners, ends)]))


def _spatial(shape: Shape) -> Any:
    from netgen.occ import Box as Block
    from netgen.occ import Pnt, Sphere

    if isinstance(shape, Box):
        return Block(Pnt(*shape.lo), Pnt(*shape.hi))
    if isinstance(shape, Ball):
        return Sphere(Pnt(*shape.center), shape.radius)
    raise ValueError(f"finite elements are not offered for {describe(shape)}; in space they are for boxes and balls, "
                     f"joined, cut and subtracted")


def mesh_of(shape: Shape, maxh: float, order: int, bend: float = 0.5, tip: float = TIP) -> Outlined:
    """A mesh with elements of that size, at bends of so many radii of curvature and at corners smaller by a factor,
    curved to an order."""
    ng = ngsolve()
    from netgen.occ import OCCGeometry

    solid, names = solid_of(shape), {name: f"side{k}" for k, name in enumerate(shape.boundaries)}
    if shape.dim == 2:
        for edge in solid.edges:
            edge.name = names[_owner(shape, edge)]
            edge.maxh = min(maxh, bend * edge_radius(edge))
        for vertex in solid.vertices:
            if _is_corner(solid, np.array([vertex.p.x, vertex.p.y]), shape.size):
                vertex.maxh = tip * maxh
        geometry = OCCGeometry(solid, dim=2)
    else:
        geometry = OCCGeometry(solid)
    made = geometry.GenerateMesh(maxh=maxh, grading=GRADING)
    if shape.dim == 3:
        _name_faces(made, shape, names)
    mesh = ng.Mesh(made)
    mesh.Curve(order)
    found = Outlined(mesh, names, shape)
    _check_mesh(found)
    return found


def _owner(shape: Shape, edge: Any) -> str:
    """The name of the boundary on which an edge lies."""
    first, last = edge.parameter_interval
    inner = [edge.Value(first + part * (last - first)) for part in (0.31, 0.5, 0.83)]
    return _nearest_boundary(shape, np.array([(p.x, p.y) for p in inner]))


def _nearest_boundary(shape: Shape, points: np.ndarray) -> str:
    """The named boundary on which all of these points (n, d) lie."""
    off = {name: float(np.abs(np.asarray(jax.vmap(boundary.distance)(jnp.asarray(points)))).max())
           for name, boundary in shape.boundaries.items()}
    name = min(off, key=lambda name: off[name])
    if off[name] > ON * shape.size:
        raise ValueError(f"the mesh has an edge off the boundaries of the domain, by {off[name]:.1e}; finite elements "
                         f"are not offered for this shape")
    return name


def _is_corner(solid: Any, at: np.ndarray, size: float) -> bool:
    """Whether two edges meet at a point under an angle, or differ in name."""
    rays, names = [], set()
    for edge in solid.edges:
        for vertex, tangent, sign in ((edge.start, edge.start_tangent, 1), (edge.end, edge.end_tangent, -1)):
            if np.hypot(vertex.x - at[0], vertex.y - at[1]) < ON * size:
                ray = sign * np.array([tangent.x, tangent.y])
                rays.append(ray / np.linalg.norm(ray))
                names.add(edge.name)
    return len(names) > 1 or any(np.linalg.norm(rays[0] + ray) > 1e-3 for ray in rays[1:2])


def _name_faces(made: Any, shape: Shape, names: dict[str, str]) -> None:
    """Faces of a mesh in space get the names of the boundaries on which their nodes lie."""
    corners = made.Coordinates()
    nodes: dict[int, list[np.ndarray]] = {}
    for element in made.Elements2D():
        nodes.setdefault(element.index, []).append(np.mean([corners[v.nr - 1] for v in element.vertices], axis=0))
    for face, middles in nodes.items():
        feet = {name: jax.vmap(boundary.distance)(jnp.asarray(np.array(middles)))
                for name, boundary in shape.boundaries.items()}
        name = min(feet, key=lambda name: float(np.asarray(feet[name]).mean()))
        made.SetBCName(face - 1, names[name])


def _check_mesh(found: Outlined) -> None:
    """The mesh has the domain's boundaries and holds its points."""
    mesh, shape = found.mesh, found.shape
    missing = [name for name, own in found.names.items() if own not in mesh.GetBoundaries()]
    if missing or not set(mesh.GetBoundaries()) <= set(found.names.values()):
        raise ValueError(f"the mesh does not have the boundaries of the domain ({', '.join(missing)}); finite elements "
                         f"are not offered for this shape")
    ng = ngsolve()
    for name, own in found.names.items():
        ends = {v.nr for e in mesh.Elements(ng.BND) if e.mat == own for v in e.vertices}
        x = np.array([mesh.vertices[k].point for k in sorted(ends)])
        off = np.asarray(jax.vmap(shape.boundaries[name].distance)(jnp.asarray(x))).max()
        if off > ON * shape.size:
            raise ValueError(f"the mesh is off the boundary '{name}' by {off:.1e}; finite elements are not offered for "
                             f"this shape")
    x = np.asarray(shape.sample(jax.random.key(3), PROBES))
    deep = x[np.asarray(depths(shape, x)) < -0.05 * shape.size]
    inside = np.asarray(mesh(*deep.T)["nr"]) >= 0 if len(deep) else np.ones(1, bool)
    if not inside.all():
        raise ValueError("the mesh does not cover the domain; finite elements are not offered for this shape")
