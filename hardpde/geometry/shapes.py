"""The straight and round primitives: Box and Ball in any dimension, Interval, Polygon."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.planar import crossing_edges, signed_area, winds
from hardpde.geometry.algorithms.sampling import rejection_sample
from hardpde.geometry.algorithms.stacking import safe_norm
from hardpde.geometry.base import Bounds, Piece, Shape
from hardpde.geometry.kinds import Face, Segment, Sphere
from hardpde.support.checking import check_word, finite_numbers, one_number

SIDES = {"left": "-0", "right": "+0", "bottom": "-1", "top": "+1", "back": "-2", "front": "+2"}


class Primitive(Shape):
    """A leaf of a CSG tree. Leaves with equal `family` stack: their `params` are rows for `formula`."""

    name: str

    @property
    def family(self) -> Hashable:
        """Leaves of one family share a formula; None stands alone."""
        return None

    @property
    def params(self) -> tuple[float, ...]:
        """Parameters of the formula."""
        return ()

    @property
    def formula(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """sdf(params, x)."""
        return lambda p, x: self.sdf(x)

    @property
    def survival(self) -> tuple[float, ...]:
        return (1.0,) * len(self.pieces)

    @property
    def whole(self) -> tuple[bool, ...]:
        return (True,) * len(self.pieces)

    def survives(self, point: jax.Array, normal: jax.Array, body: jax.Array) -> jax.Array:
        return jnp.asarray(True)


def floats(array: np.ndarray) -> tuple[float, ...]:
    return tuple(float(v) for v in np.ravel(array))


def box_sdf(p: jax.Array, x: jax.Array) -> jax.Array:
    """Exact signed distance of the box p = (lo, hi)."""
    d = p.shape[0] // 2
    lo, hi = p[:d], p[d:]
    q = jnp.maximum(lo - x[:d], x[:d] - hi)
    return safe_norm(jnp.where(q > 0, q, 0.0)) + jnp.minimum(jnp.max(q), 0.0)


def ball_sdf(p: jax.Array, x: jax.Array) -> jax.Array:
    """Exact signed distance of the ball p = (centre, radius)."""
    d = p.shape[0] - 1
    return safe_norm(x[:d] - p[:d]) - p[d]


@jax.jit
def polygon_sdf(p: jax.Array, x: jax.Array) -> jax.Array:
    """Exact signed distance of the polygon with vertices p = (n, 2) flattened."""
    points = p.reshape(-1, 2)
    edges = jnp.concatenate([points, jnp.roll(points, -1, axis=0)], axis=1)
    foot = jax.vmap(Segment().closest, (0, None))(edges, x)
    distance = jnp.min(safe_norm(x[:2] - foot))
    return jnp.where(winds(points, x[:2]), -distance, distance)


@dataclass(frozen=True)
class Box(Primitive):
    """The box lo < x < hi in any dimension.

    All faces carry `name` unless `sides` names some: keys left, right, bottom, top, back, front,
    or "-k", "+k" for the lower and upper face of axis k.
    """

    lo: tuple[float, ...]
    hi: tuple[float, ...]
    name: str = "box"
    sides: Mapping[str, str] | tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        lo, hi = (np.atleast_1d(finite_numbers(v, "the corners of a Box")) for v in (self.lo, self.hi))
        check_word(self.name, "a Box")
        if lo.size == 0:
            raise ValueError("the corners of a Box need at least one coordinate")
        if lo.shape != hi.shape or lo.ndim != 1:
            raise ValueError(
                f"the corners of a Box must have equally many coordinates, got {self.lo} and {self.hi}"
            )
        if not np.all(lo < hi):
            raise ValueError(f"a Box needs lo < hi on every axis, got lo={floats(lo)}, hi={floats(hi)}")
        try:
            sides = tuple(dict(self.sides or {}).items())
        except (TypeError, ValueError):
            raise ValueError(f"sides is {self.sides!r}; it names faces, e.g. {{'left': 'inlet'}}") from None
        known = [*(s for s, k in SIDES.items() if int(k[1:]) < len(lo))]
        known += [sign + str(k) for k in range(len(lo)) for sign in "-+"]
        for side, name in sides:
            if side not in known:
                raise ValueError(f"a Box in {len(lo)}-D has no side {side!r}; choose from {', '.join(known)}")
            check_word(name, f"the side {side!r} of a Box")
        object.__setattr__(self, "lo", floats(lo))
        object.__setattr__(self, "hi", floats(hi))
        object.__setattr__(self, "sides", sides)

    @property
    def dim(self) -> int:
        return len(self.lo)

    @property
    def bounds(self) -> Bounds:
        return self.lo, self.hi

    @property
    def family(self) -> Hashable:
        return "box"

    @property
    def params(self) -> tuple[float, ...]:
        return self.lo + self.hi

    @property
    def formula(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return box_sdf

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        names = {SIDES.get(side, side): name for side, name in dict(self.sides or ()).items()}
        out = []
        for k in range(self.dim):
            for sign, plane in (("-", self.lo[k]), ("+", self.hi[k])):
                lo, hi, n = list(self.lo), list(self.hi), [0.0] * self.dim
                lo[k] = hi[k] = plane
                n[k] = float(sign + "1")
                out.append(Piece(Face(self.dim), (*lo, *hi, *n), names.get(f"{sign}{k}", self.name)))
        return tuple(out)

    def sdf(self, x: jax.Array) -> jax.Array:
        return box_sdf(jnp.asarray(self.params), x)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        lo, hi = np.array(self.lo), np.array(self.hi)
        # Open on both sides: the generator may return 0, which would be a point of the boundary.
        u = jax.random.uniform(key, (n, self.dim), minval=1e-12)
        return lo + (hi - lo) * u

    @property
    def measure(self) -> float:
        return math.prod(b - a for a, b in zip(self.lo, self.hi))


def Interval(
    a: float, b: float, name: str = "interval", left: str | None = None, right: str | None = None
) -> Box:
    """The interval a < x < b, a one-dimensional Box; `left` and `right` name its ends."""
    sides = {side: label for side, label in (("left", left), ("right", right)) if label is not None}
    return Box((a,), (b,), name, sides)


@dataclass(frozen=True)
class Ball(Primitive):
    """The ball |x - center| < radius in any dimension (an interval for d = 1, a disc for d = 2)."""

    center: tuple[float, ...]
    radius: float
    name: str = "ball"

    def __post_init__(self) -> None:
        center = np.atleast_1d(finite_numbers(self.center, "the center of a Ball"))
        check_word(self.name, "a Ball")
        if center.ndim != 1 or center.size == 0:
            raise ValueError(f"the center of a Ball is a point with at least one coordinate, got {self.center!r}")
        radius = one_number(self.radius, "the radius of a Ball")
        if radius <= 0:
            raise ValueError(f"a Ball needs radius > 0, got {radius}")
        object.__setattr__(self, "center", floats(center))
        object.__setattr__(self, "radius", radius)

    @property
    def dim(self) -> int:
        return len(self.center)

    @property
    def bounds(self) -> Bounds:
        return tuple(c - self.radius for c in self.center), tuple(c + self.radius for c in self.center)

    @property
    def family(self) -> Hashable:
        return "ball"

    @property
    def params(self) -> tuple[float, ...]:
        return (*self.center, self.radius)

    @property
    def formula(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return ball_sdf

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return (Piece(Sphere(self.dim), self.params, self.name),)

    def sdf(self, x: jax.Array) -> jax.Array:
        return ball_sdf(jnp.asarray(self.params), x)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        one, two = jax.random.split(key)
        v = jax.random.normal(one, (n, self.dim))
        u = jax.random.uniform(two, (n, 1)) ** (1 / self.dim) * (1 - 1e-12)
        return np.array(self.center) + self.radius * u * v / jnp.linalg.norm(v, axis=1, keepdims=True)

    @property
    def measure(self) -> float:
        return math.pi ** (self.dim / 2) / math.gamma(self.dim / 2 + 1) * self.radius**self.dim


def check_outline(points: object, what: str) -> np.ndarray:
    """Points (n, 2) of a closed curve, checked."""
    array = finite_numbers(points, f"the points of a {what}")
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"the points of a {what} must be an (n, 2) array, got shape {array.shape}")
    if len(array) < 3:
        raise ValueError(f"a {what} needs at least 3 points, got {len(array)}")
    gap = np.linalg.norm(array - np.roll(array, -1, axis=0), axis=1)
    if np.any(gap <= 1e-12 * np.ptp(array, axis=0).max()):
        i = int(np.argmin(gap))
        j = (i + 1) % len(array)
        raise ValueError(
            f"points {i} and {j} of a {what} coincide at {floats(array[i])}; remove one of them"
        )
    return array


def pairs(array: np.ndarray) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in array)


@dataclass(frozen=True)
class Polygon(Primitive):
    """The inside of a closed plane polygon, points (n, 2) in either orientation, stored counter-clockwise.

    `names` gives each edge (point i to point i + 1, as the points were given) its own name.
    """

    points: tuple[tuple[float, float], ...]
    name: str = "polygon"
    names: tuple[str, ...] | Sequence[str] | None = None

    def __post_init__(self) -> None:
        points = check_outline(self.points, "Polygon")
        check_word(self.name, "a Polygon")
        if self.names is not None and not isinstance(self.names, Sequence):
            raise ValueError(f"names is {self.names!r}; it has one name for each edge of the Polygon")
        names = tuple(self.names) if self.names is not None else (self.name,) * len(points)
        for k, name in enumerate(names):
            check_word(name, f"edge {k} of a Polygon")
        if len(names) != len(points):
            raise ValueError(
                f"names must have one entry per edge of the Polygon: {len(points)}, got {len(names)}"
            )
        crossing = crossing_edges(points)
        if crossing is not None:
            i, j = crossing
            raise ValueError(
                f"edges {i} and {j} of the Polygon {self.name!r} cross or touch; "
                "list the points in order along a simple outline"
            )
        if signed_area(points) < 0:
            points = points[::-1]
            names = (*names[-2::-1], names[-1])
        object.__setattr__(self, "points", pairs(points))
        object.__setattr__(self, "names", names)

    @property
    def dim(self) -> int:
        return 2

    @property
    def bounds(self) -> Bounds:
        array = np.array(self.points)
        return floats(array.min(axis=0)), floats(array.max(axis=0))

    def extrude(self, low: float, high: float, bottom: str | None = None, top: str | None = None) -> Shape:
        """The prism over it from z = low to z = high; edges name its sides, `bottom` and `top` its ends."""
        from hardpde.geometry.extruded import extruded

        return extruded(self, low, high, bottom, top)

    @property
    def family(self) -> Hashable:
        return "polygon", len(self.points)

    @property
    def params(self) -> tuple[float, ...]:
        return tuple(v for point in self.points for v in point)

    @property
    def formula(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return polygon_sdf

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        edges = zip(self.points, self.points[1:] + self.points[:1], self.names or ())
        return tuple(Piece(Segment(), a + b, name) for a, b, name in edges)

    def sdf(self, x: jax.Array) -> jax.Array:
        return polygon_sdf(jnp.asarray(self.params), x)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    @property
    def measure(self) -> float:
        return signed_area(np.array(self.points))
