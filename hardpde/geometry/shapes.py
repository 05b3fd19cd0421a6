"""The primitives: Box and Ball in any dimension, Interval, Polygon, Spline."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

from .base import Bounds, Piece, Shape
from .kinds import Arc, Face, Segment, Sphere
from .planar import crossing_edges, signed_area, winds
from .sampling import rejection_sample
from .stacking import safe_norm

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


def _finite(values: object, what: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be finite numbers, got {array.tolist()}")
    return array


def _floats(array: np.ndarray) -> tuple[float, ...]:
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
        lo, hi = (np.atleast_1d(_finite(v, "the corners of a Box")) for v in (self.lo, self.hi))
        if lo.shape != hi.shape or lo.ndim != 1:
            raise ValueError(
                f"the corners of a Box must have equally many coordinates, got {self.lo} and {self.hi}"
            )
        if not np.all(lo < hi):
            raise ValueError(f"a Box needs lo < hi on every axis, got lo={_floats(lo)}, hi={_floats(hi)}")
        sides = tuple(dict(self.sides or {}).items())
        known = [*(s for s, k in SIDES.items() if int(k[1:]) < len(lo))]
        known += [sign + str(k) for k in range(len(lo)) for sign in "-+"]
        for side, _ in sides:
            if side not in known:
                raise ValueError(f"a Box in {len(lo)}-D has no side {side!r}; choose from {', '.join(known)}")
        object.__setattr__(self, "lo", _floats(lo))
        object.__setattr__(self, "hi", _floats(hi))
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
        center = np.atleast_1d(_finite(self.center, "the center of a Ball"))
        radius = float(_finite(self.radius, "the radius of a Ball"))
        if radius <= 0:
            raise ValueError(f"a Ball needs radius > 0, got {radius}")
        object.__setattr__(self, "center", _floats(center))
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


def _outline(points: object, what: str) -> np.ndarray:
    """Points (n, 2) of a closed curve, checked."""
    array = _finite(points, f"the points of a {what}")
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"the points of a {what} must be an (n, 2) array, got shape {array.shape}")
    if len(array) < 3:
        raise ValueError(f"a {what} needs at least 3 points, got {len(array)}")
    gap = np.linalg.norm(array - np.roll(array, -1, axis=0), axis=1)
    if np.any(gap <= 1e-12 * np.ptp(array, axis=0).max()):
        i = int(np.argmin(gap))
        j = (i + 1) % len(array)
        raise ValueError(
            f"points {i} and {j} of a {what} coincide at {_floats(array[i])}; remove one of them"
        )
    return array


def _pairs(array: np.ndarray) -> tuple[tuple[float, float], ...]:
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
        points = _outline(self.points, "Polygon")
        names = tuple(self.names) if self.names is not None else (self.name,) * len(points)
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
        object.__setattr__(self, "points", _pairs(points))
        object.__setattr__(self, "names", names)

    @property
    def dim(self) -> int:
        return 2

    @property
    def bounds(self) -> Bounds:
        array = np.array(self.points)
        return _floats(array.min(axis=0)), _floats(array.max(axis=0))

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


@dataclass(frozen=True)
class Spline(Primitive):
    """The inside of a closed curve through points (n, 2): a cubic spline in chord length, C2.

    `corners` are indices of points where the tangent may break; each arc between corners is one piece.
    """

    points: tuple[tuple[float, float], ...]
    name: str = "spline"
    corners: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        points = _outline(self.points, "Spline")
        n = len(points)
        corners = np.array(sorted(set(self.corners)), dtype=int)
        if np.any((corners < 0) | (corners >= n)):
            raise ValueError(f"corners of a Spline with {n} points lie in 0..{n - 1}, got {self.corners}")
        if signed_area(points) < 0:
            points, corners = points[::-1], np.sort(n - 1 - corners)
        object.__setattr__(self, "points", _pairs(points))
        object.__setattr__(self, "corners", tuple(int(c) for c in corners))
        crossing = crossing_edges(self.outline)
        if crossing is not None:
            x, y = self.outline[crossing[0]]
            raise ValueError(
                f"the Spline {self.name!r} crosses itself near ({x:.4g}, {y:.4g}); "
                "reorder its points, add more of them there, or mark corners"
            )

    @property
    def dim(self) -> int:
        return 2

    @cached_property
    def bounds(self) -> Bounds:
        array = np.concatenate([_extremes(p) for p in self.pieces])
        return _floats(array.min(axis=0)), _floats(array.max(axis=0))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        array = np.array(self.points)
        if not self.corners:
            return (_arc(np.concatenate([array, array[:1]]), self.name, closed=True),)
        turned = np.roll(array, -self.corners[0], axis=0)
        turned = np.concatenate([turned, turned[:1]])
        cuts = [c - self.corners[0] for c in self.corners] + [len(array)]
        return tuple(_arc(turned[i : j + 1], self.name, closed=False) for i, j in pairwise(cuts))

    @cached_property
    def outline(self) -> np.ndarray:
        """A fine polygon (k, 2) along the curve, counter-clockwise, the corners among its vertices."""
        return np.concatenate([_fine_points(p)[:-1] for p in self.pieces])

    @partial(jax.jit, static_argnums=0)
    def sdf(self, x: jax.Array) -> jax.Array:
        # Near a smooth part the normal tells the side, at a corner the winding of the outline does:
        # the outline cuts the curve's sagitta off, but never where a corner is the closest point.
        views = [_view(p, x[:2]) for p in self.pieces]
        near, height, end = (jnp.stack(parts) for parts in zip(*views))
        k = jnp.argmin(near)
        inside = height[k] < 0
        if self.corners:
            inside = jnp.where(end[k], winds(jnp.asarray(self.outline), x[:2]), inside)
        return jnp.where(inside, -near[k], near[k])

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    @cached_property
    def measure(self) -> float:
        return sum(_swept_area(p) for p in self.pieces)


def _arc(points: np.ndarray, name: str, closed: bool) -> Piece:
    if len(points) == 2:
        return Piece(Segment(), _floats(points), name)
    knots = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    curve = CubicSpline(knots, points, bc_type="periodic" if closed else "not-a-knot")
    if len(curve.x) != len(knots):  # three points make one parabola, stored by scipy on fewer knots
        knots = curve.x
    params = _floats(knots) + _floats(curve.c)
    return Piece(Arc(len(knots) - 1, closed), params, name)


def _fine_points(piece: Piece, per_interval: int = 8) -> np.ndarray:
    """Points (k, 2) along a planar piece, both ends included."""
    if not isinstance(piece.kind, Arc):
        return np.array(piece.params).reshape(2, 2)
    m = piece.kind.intervals
    per_interval = max(per_interval, math.ceil(64 / m))
    knots = np.array(piece.params[: m + 1])
    t = np.arange(per_interval) / per_interval
    s = np.append((knots[:-1, None] + np.diff(knots)[:, None] * t).ravel(), knots[-1])
    return piece.kind.polynomial(piece.params)(s)


def _extremes(piece: Piece) -> np.ndarray:
    """Points of a planar piece among which are its extremes along the axes."""
    ends = _fine_points(piece)
    if not isinstance(piece.kind, Arc):
        return ends
    curve = piece.kind.polynomial(piece.params)
    flat = np.concatenate([np.ravel(r) for r in curve.derivative().roots(extrapolate=False)])
    return np.concatenate([ends, curve(flat[np.isfinite(flat)])])


def _swept_area(piece: Piece) -> float:
    """Its share of the area, the integral of (x dy - y dx) / 2: Gauss with 4 points is exact for cubics."""
    if not isinstance(piece.kind, Arc):
        (a, b), (c, d) = np.array(piece.params).reshape(2, 2)
        return float(0.5 * (a * d - c * b))
    nodes, weights = np.polynomial.legendre.leggauss(4)
    knots = np.array(piece.params[: piece.kind.intervals + 1])
    half = np.diff(knots) / 2
    s = knots[:-1, None] + half[:, None] * (1 + nodes)
    curve = piece.kind.polynomial(piece.params)
    y, v = curve(s), curve(s, 1)
    return float(0.5 * np.sum(half[:, None] * weights * (y[..., 0] * v[..., 1] - y[..., 1] * v[..., 0])))


def _view(piece: Piece, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Distance of x (2,), a number with the sign of its side, and whether the foot is an end of the piece."""
    p = jnp.asarray(piece.params)
    if isinstance(piece.kind, Arc):
        s = piece.kind.parameter(p, x)
        foot, along, _ = piece.kind.curve(p, s)
        end = jnp.asarray(False) if piece.kind.closed else (s <= p[0]) | (s >= p[piece.kind.intervals])
    else:
        foot, along = piece.closest(x), p[2:] - p[:2]
        t = jnp.dot(x - p[:2], along)
        end = (t <= 0) | (t >= jnp.dot(along, along))
    off = x - foot
    return safe_norm(off), off[0] * along[1] - off[1] * along[0], end
