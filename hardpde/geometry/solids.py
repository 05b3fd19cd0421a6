"""Faceted surfaces: flat plates, smooth patches with interpolated normals, and solids inside closed triangle meshes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hardpde.geometry.algorithms.sampling import rejection_sample
from hardpde.geometry.algorithms.stacking import safe_norm
from hardpde.geometry.algorithms.triangles import (
    barycentric,
    closest_feature,
    corner_angles,
    crosses,
    frames,
    nearest,
    spot,
)
from hardpde.geometry.base import Bounds, Kind, Piece
from hardpde.geometry.kinds import direction
from hardpde.geometry.shapes import Primitive, floats
from hardpde.support.checking import finite_numbers

WALK = 64  # most triangles that a foot crosses on its way
EDGE = 1e-10  # weights of corners that count as not negative


@dataclass(frozen=True)
class Plate(Kind):
    """Flat face of a solid, of any outline and with any holes, as m triangles.

    p = (n, running sums of the areas (m,), corners (m, 3, 3)); repeated triangles without area fill it up.
    """

    count: int

    @property
    def dim(self) -> int:
        return 3

    def _triangles(self, p: jax.Array) -> jax.Array:
        return p[3 + self.count :].reshape(self.count, 3, 3)

    @partial(jax.jit, static_argnums=0)
    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        triangles = self._triangles(p)
        return closest_feature(triangles[nearest(frames(triangles), x[:3])], x[:3])[0]

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        return p[:3]

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        return spot(self._triangles(p), p[3 : 3 + self.count], u)

    def measure(self, p: tuple[float, ...]) -> float:
        return p[2 + self.count]

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        return math.inf

    def triangles(self, p: tuple[float, ...] | np.ndarray) -> np.ndarray:
        own = np.diff(np.asarray(p[3 : 3 + self.count]), prepend=0.0) > 0
        return np.asarray(p[3 + self.count :]).reshape(-1, 3, 3)[own]


class Content:
    """Arrays that never change, told apart by what they hold."""

    arrays: tuple[np.ndarray, ...]

    @cached_property
    def digest(self) -> str:
        parts = [type(self).__name__.encode(), *(np.ascontiguousarray(a).tobytes() for a in self.arrays)]
        return hashlib.sha256(b"|".join(parts)).hexdigest()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == other.digest  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, eq=False)
class Patch(Content, Kind):
    """Smooth patch of a surface as triangles, with a normal at every vertex and between them by interpolation.

    Feet are taken along the interpolated normals: the foot of x is the point y of the triangles with x = y + h n(y).
    Unlike the nearest point, it moves continuously with x on both sides, as far as the patch's reach; a point of the
    triangles is its own foot. Beyond the rim of the patch the foot is the nearest point. p is empty.
    """

    vertices: np.ndarray  # (v, 3)
    normals: np.ndarray  # (v, 3)
    faces: np.ndarray  # (t, 3)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        return self.vertices, self.normals, self.faces

    @property
    def dim(self) -> int:
        return 3

    @cached_property
    def _corners(self) -> np.ndarray:
        return self.vertices[self.faces]

    @cached_property
    def _frames(self) -> np.ndarray:
        return frames(self._corners)

    @cached_property
    def _next(self) -> np.ndarray:
        """Neighbours (t, 3) across the edges opposite to each corner, -1 at the rim."""
        found = np.full(self.faces.shape, -1)
        seen: dict[tuple[int, int], tuple[int, int]] = {}
        for t, face in enumerate(self.faces.tolist()):
            for k in range(3):
                a, b = face[(k + 1) % 3], face[(k + 2) % 3]
                if (other := seen.pop((min(a, b), max(a, b)), None)) is None:
                    seen[min(a, b), max(a, b)] = (t, k)
                else:
                    found[t, k], found[other] = other[0], t
        return found

    def _newton(self, k: jax.Array, x: jax.Array, state: jax.Array) -> jax.Array:
        """One step for y(b, c) + h n(b, c) = x on the plane of triangle k; state = (b, c, h)."""
        corner, normal = jnp.asarray(self._corners)[k], jnp.asarray(self.normals)[jnp.asarray(self.faces)[k]]
        b, c, h = state
        u, v = corner[1] - corner[0], corner[2] - corner[0]
        du, dv = normal[1] - normal[0], normal[2] - normal[0]
        one, two, three = u + h * du, v + h * dv, normal[0] + b * du + c * dv
        miss = x - (corner[0] + b * u + c * v + h * three)
        across = jnp.cross(two, three)
        volume = jnp.dot(one, across)
        volume = jnp.where(jnp.abs(volume) > 1e-300, volume, 1.0)
        steps = [jnp.dot(miss, part) for part in (across, jnp.cross(three, one), jnp.cross(one, two))]
        return state + jnp.stack(steps) / volume

    def _foot(self, k: jax.Array, x: jax.Array) -> jax.Array:
        """(b, c, h) on the plane of triangle k, from the foot along its own normal on."""
        corner = jnp.asarray(self._corners)[k]
        weights = barycentric(corner, x)
        height = jnp.dot(x - corner[0], direction(jnp.cross(corner[1] - corner[0], corner[2] - corner[0])))
        start = jnp.stack([weights[1], weights[2], height])
        return lax.fori_loop(0, 5, lambda _, s: self._newton(k, x, s), start)

    def _walk(self, k: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """From triangle k to the one that holds the foot: its number, (b, c, h), and whether it was found."""

        def low(state: jax.Array) -> tuple[jax.Array, jax.Array]:
            weights = jnp.stack([1 - state[0] - state[1], state[0], state[1]])
            corner = jnp.argmin(weights)
            return corner, weights[corner]

        def on(carry: tuple) -> jax.Array:
            count, k, state = carry
            corner, least = low(state)
            return (count < WALK) & (least < -EDGE) & (jnp.asarray(self._next)[k, corner] >= 0)

        def step(carry: tuple) -> tuple:
            count, k, state = carry
            k = jnp.asarray(self._next)[k, low(state)[0]]
            return count + 1, k, self._foot(k, x)

        _, k, state = lax.while_loop(on, step, (0, k, self._foot(k, x)))
        return k, state, low(state)[1] >= -EDGE

    @partial(jax.jit, static_argnums=0)
    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        x = x[:3]
        first = nearest(self._frames, x)
        plain = closest_feature(jnp.asarray(self._corners)[first], x)[0]
        frozen = lax.stop_gradient(x)
        k, state, found = self._walk(first, frozen)
        corner = jnp.asarray(self._corners)[k]
        state = lax.stop_gradient(state)
        # Two more steps carry the first and second derivatives.
        state = self._newton(k, x, self._newton(k, x, state))
        foot = corner[0] + state[0] * (corner[1] - corner[0]) + state[1] * (corner[2] - corner[0])
        far, near = safe_norm(frozen - foot), safe_norm(frozen - plain)
        size = float(np.ptp(self.vertices, axis=0).max())
        return jnp.where(found & (far <= 2 * near + 1e-12 * size), foot, plain)

    @partial(jax.jit, static_argnums=0)
    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        k = nearest(self._frames, foot[:3])
        weights = barycentric(jnp.asarray(self._corners)[k], foot[:3])
        return direction(weights @ jnp.asarray(self.normals)[jnp.asarray(self.faces)[k]])

    @cached_property
    def _areas(self) -> np.ndarray:
        return np.linalg.norm(crosses(self._corners), axis=1) / 2

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        return spot(jnp.asarray(self._corners), jnp.asarray(np.cumsum(self._areas)), u)

    def measure(self, p: tuple[float, ...]) -> float:
        return float(self._areas.sum())

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        """Smallest radius of curvature on that side, or of a ball that touches the patch twice, at the vertices."""
        towards = -self.normals if inside else self.normals
        pick = np.linspace(0, len(self.vertices) - 1, min(len(self.vertices), 2000)).astype(int)
        most, size = 0.0, float(np.ptp(self.vertices, axis=0).max())
        for k in pick:
            across = self.vertices - self.vertices[k]
            square = np.sum(across**2, axis=1)
            far = square > 1e-18 * size**2
            most = max(most, float(np.max(2 * (across[far] @ towards[k]) / square[far])))
        return 1 / most if most > 1e-9 / size else math.inf

    def triangles(self, p: tuple[float, ...] | np.ndarray) -> np.ndarray:
        return self._corners


@dataclass(frozen=True, eq=False)
class Solid(Content, Primitive):
    """The inside of a closed surface of triangles: points (v, 3), faces (t, 3) that turn one way seen from outside.

    Faces that lie in one plane make one flat piece. Faces that meet under an angle below `corner_angle` degrees make
    a smooth patch with interpolated normals. `names` gives each face a name of its own. Made by `read_surface`, which
    checks and repairs; here the surface must be closed already.
    """

    points: np.ndarray
    faces: np.ndarray
    name: str = "solid"
    names: tuple[str, ...] | None = None
    corner_angle: float = 30.0

    def __post_init__(self) -> None:
        from hardpde.geometry.algorithms.edges import check_closed

        points = finite_numbers(self.points, "the points of a Solid")
        faces = finite_numbers(self.faces, "the faces of a Solid")
        if points.ndim != 2 or points.shape[1:] != (3,) or faces.ndim != 2 or faces.shape[1:] != (3,):
            raise ValueError(f"a Solid needs points (v, 3) and faces (t, 3), got {points.shape} and {faces.shape}")
        if (bad := (faces != faces.astype(int)) | (faces < 0) | (faces >= len(points))).any():
            raise ValueError(f"a face of the Solid names the point {faces[bad][0]:g}; its {len(points)} points are "
                             f"numbered from 0")
        faces = faces.astype(int)
        check_closed(points, faces, f"the Solid {self.name!r}")
        names = (self.name,) * len(faces) if self.names is None else tuple(self.names)
        if len(names) != len(faces):
            raise ValueError(f"names must have one entry per face of the Solid: {len(faces)}, got {len(names)}")
        if not 0 < self.corner_angle < 60:
            raise ValueError(f"corner_angle is {self.corner_angle}; choose degrees between 0 and 60")
        for key, value in (("points", points), ("faces", faces), ("names", names)):
            object.__setattr__(self, key, value)
        assert self.pieces  # a surface that cannot be cut into pieces is refused here

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        return self.points, self.faces, np.array(self.names), np.array(self.corner_angle)

    @property
    def dim(self) -> int:
        return 3

    @property
    def bounds(self) -> Bounds:
        return floats(self.points.min(axis=0)), floats(self.points.max(axis=0))

    @cached_property
    def _corners(self) -> np.ndarray:
        return self.points[self.faces]

    @cached_property
    def _frames(self) -> np.ndarray:
        return frames(self._corners)

    @cached_property
    def measure(self) -> float:
        centred = self._corners - self.points.mean(axis=0)
        return float(np.sum(np.linalg.det(centred)) / 6)

    @cached_property
    def _outward(self) -> np.ndarray:
        """Normals (t, 7, 3) that tell the sides of the inside, edges and corners of each triangle.

        Those of edges are sums over both faces, those of corners are weighted by the angles of the faces.
        """
        flat = crosses(self._corners)
        flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
        at_corner = np.zeros_like(self.points)
        at_edge: dict[tuple[int, int], np.ndarray] = {}
        for k, angle in enumerate(corner_angles(self._corners).T):
            np.add.at(at_corner, self.faces[:, k], angle[:, None] * flat)
            for (a, b), n in zip(np.sort(self.faces[:, [k, (k + 1) % 3]], axis=1).tolist(), flat):
                at_edge[a, b] = at_edge.get((a, b), 0.0) + n
        edges = [[at_edge[min(f[k], f[k - 2]), max(f[k], f[k - 2])] for k in range(3)] for f in self.faces.tolist()]
        return np.concatenate([flat[:, None], np.array(edges), at_corner[self.faces]], axis=1)

    @partial(jax.jit, static_argnums=0)
    def sdf(self, x: jax.Array) -> jax.Array:
        k = nearest(self._frames, x[:3])
        foot, feature = closest_feature(jnp.asarray(self._corners)[k], x[:3])
        distance = safe_norm(x[:3] - foot)
        return jnp.where(jnp.dot(x[:3] - foot, jnp.asarray(self._outward)[k, feature]) < 0, -distance, distance)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        from hardpde.geometry.algorithms.edges import segments

        return segments(self)
