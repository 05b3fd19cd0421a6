"""Solids of revolution, cylinders and cones: straight profiles turned about an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.planar import crossing_edges, signed_area, winds
from hardpde.geometry.algorithms.sampling import rejection_sample
from hardpde.geometry.algorithms.stacking import safe_norm
from hardpde.geometry.base import Bounds, Kind, Piece, Shape
from hardpde.geometry.kinds import Segment, direction
from hardpde.geometry.placed import along, placed
from hardpde.geometry.shapes import Primitive, check_outline, floats, pairs
from hardpde.support.checking import check_word, finite_numbers, one_number


@dataclass(frozen=True)
class Turn(Kind):
    """A straight edge turned about the third axis, a piece of a cone, a cylinder or a ring: p = (r, z) of both ends."""

    @property
    def dim(self) -> int:
        return 3

    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        foot = Segment().closest(p, jnp.stack([safe_norm(x[:2]), x[2]]))
        return jnp.append(foot[0] * direction(x[:2]), foot[1])

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        n = Segment().normal(p, foot[:2])
        return jnp.append(n[0] * direction(foot[:2]), n[1])

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        one, two = p[0], p[2]
        flat = jnp.abs(two - one) <= 1e-12 * (one + two)
        r = jnp.sqrt(one**2 + u[0] * (two**2 - one**2))
        s = jnp.where(flat, u[0], (r - one) / jnp.where(flat, 1.0, two - one))
        angle = 2 * jnp.pi * u[1]
        return jnp.stack([r * jnp.cos(angle), r * jnp.sin(angle), p[1] + s * (p[3] - p[1])])

    def measure(self, p: tuple[float, ...]) -> float:
        return math.pi * (p[0] + p[2]) * math.dist(p[:2], p[2:])

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        """As far as the axis, on the side on which it lies."""
        towards = (p[3] - p[1]) / math.dist(p[:2], p[2:]) * (1.0 if inside else -1.0)
        return min(p[0], p[2]) / towards if towards > 1e-12 else math.inf


@dataclass(frozen=True)
class Revolved(Primitive):
    """The solid that a plane outline makes when it is turned about the z axis, points (n, 2) as (r, z) with r ≥ 0.

    `names` gives the surface of each edge (point i to point i + 1, as the points were given) its own name. An edge that
    reaches the axis is perpendicular to it, or lies on it: a cone ends in a small disc.
    """

    points: tuple[tuple[float, float], ...]
    name: str = "revolved"
    names: tuple[str, ...] | Sequence[str] | None = None

    def __post_init__(self) -> None:
        points = check_outline(self.points, "Revolved")
        check_word(self.name, "a Revolved")
        names = tuple(self.names) if self.names is not None else (self.name,) * len(points)
        for k, name in enumerate(names):
            check_word(name, f"edge {k} of a Revolved")
        if len(names) != len(points):
            raise ValueError(f"names must have one entry per edge of the Revolved: {len(points)}, got {len(names)}")
        if points[:, 0].min() < 0:
            raise ValueError(f"the points of a Revolved are (r, z) with r ≥ 0, got r = {points[:, 0].min():g}")
        if crossing_edges(points) is not None:
            raise ValueError("the edges of a Revolved cross or touch; list the points in order along a simple outline")
        for (r, z), (s, y) in zip(points, np.roll(points, -1, axis=0)):
            if (r == 0) != (s == 0) and z != y:
                raise ValueError(f"the edge from ({r:g}, {z:g}) to ({s:g}, {y:g}) of a Revolved ends in a tip on the "
                                 f"axis, where no normal is; cut the tip off by a small disc")
        if signed_area(points) < 0:
            points, names = points[::-1], (*names[-2::-1], names[-1])
        object.__setattr__(self, "points", pairs(points))
        object.__setattr__(self, "names", names)

    @property
    def dim(self) -> int:
        return 3

    @cached_property
    def bounds(self) -> Bounds:
        array = np.array(self.points)
        r, low, high = float(array[:, 0].max()), float(array[:, 1].min()), float(array[:, 1].max())
        return (-r, -r, low), (r, r, high)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        edges = zip(self.points, self.points[1:] + self.points[:1], self.names or ())
        return tuple(Piece(Turn(), a + b, name) for a, b, name in edges if a[0] > 0 or b[0] > 0)

    def sdf(self, x: jax.Array) -> jax.Array:
        flat = jnp.stack([safe_norm(x[:2]), x[2]])
        edges = jnp.asarray([piece.params for piece in self.pieces])
        distance = jnp.min(safe_norm(flat - jax.vmap(Segment().closest, (0, None))(edges, flat)))
        tiny = 1e-12 * max(self.bounds[1])  # points on the axis are beside an edge of the outline
        inside = winds(jnp.asarray(self.points), jnp.stack([jnp.maximum(flat[0], tiny), flat[1]]))
        return jnp.where(inside, -distance, distance)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    @property
    def measure(self) -> float:
        (r, z), (s, y) = np.array(self.points).T, np.roll(np.array(self.points), -1, axis=0).T
        return float(2 * math.pi * np.sum((r + s) * (r * y - s * z)) / 6)


def Cylinder(start: Sequence[float], end: Sequence[float], radius: float, name: str = "cylinder",
             ends: Sequence[str] | None = None) -> Shape:
    """The cylinder about the line from start to end, points of space; `ends` names the discs there."""
    return Cone(start, end, (radius, radius), name, ends)


def Cone(start: Sequence[float], end: Sequence[float], radii: Sequence[float], name: str = "cone",
         ends: Sequence[str] | None = None) -> Shape:
    """The cut cone about the line from start to end, points of space, with a radius at each; `ends` names the discs."""
    one, two = (finite_numbers(point, "the ends of a Cone or Cylinder") for point in (start, end))
    if one.shape != (3,) or two.shape != (3,) or not np.linalg.norm(two - one) > 0:
        raise ValueError(f"a Cone or Cylinder goes from one point of space to another, got {start!r} and {end!r}")
    if np.shape(radii) != (2,):
        raise ValueError(f"a Cone has two radii, one at each end, got {radii!r}")
    r, s = (one_number(radius, "a radius of a Cone or Cylinder") for radius in radii)
    if min(r, s) <= 0:
        raise ValueError(f"a Cone or Cylinder needs radii > 0, got {min(r, s):g}; a tip is cut off by a small disc")
    names = (name, name) if ends is None else tuple(ends)
    if isinstance(ends, str) or len(names) != 2:
        raise ValueError(f"ends is {ends!r}; it names both discs, the one at the start first")
    height = float(np.linalg.norm(two - one))
    upright = Revolved(((0, 0), (r, 0), (s, height), (0, height)), name, (names[0], name, names[1], name))
    return placed(upright, along(two - one), floats(one))
