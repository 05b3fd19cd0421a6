"""Plane shapes inside a closed outline of arcs and segments: Spline through points, Loop of given pieces."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from numbers import Integral

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

from hardpde.geometry.algorithms.planar import crossing_edges, signed_area, winds
from hardpde.geometry.algorithms.sampling import rejection_sample
from hardpde.geometry.algorithms.stacking import safe_norm
from hardpde.geometry.base import Bounds, Kind, Piece
from hardpde.geometry.kinds import Arc, Segment
from hardpde.geometry.shapes import Primitive, check_outline, floats, pairs
from hardpde.support.checking import check_word


class Outline(Primitive):
    """The inside of a closed plane curve whose pieces are arcs and segments, one after the other, counter-clockwise."""

    @property
    def dim(self) -> int:
        return 2

    @cached_property
    def bounds(self) -> Bounds:
        array = np.concatenate([_extremes(p) for p in self.pieces])
        return floats(array.min(axis=0)), floats(array.max(axis=0))

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
        if not all(isinstance(p.kind, Arc) and p.kind.closed for p in self.pieces):
            inside = jnp.where(end[k], winds(jnp.asarray(self.outline), x[:2]), inside)
        return jnp.where(inside, -near[k], near[k])

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return rejection_sample(self, key, n)

    @cached_property
    def measure(self) -> float:
        return sum(_swept_area(p) for p in self.pieces)

    def _check_simple(self, remedy: str) -> None:
        crossing = crossing_edges(self.outline)
        if crossing is not None:
            x, y = self.outline[crossing[0]]
            raise ValueError(
                f"the {type(self).__name__} {self.name!r} crosses itself near ({x:.4g}, {y:.4g}); {remedy}"
            )


@dataclass(frozen=True)
class Spline(Outline):
    """The inside of a closed curve through points (n, 2): a cubic spline in chord length, C2.

    `corners` are indices of points where the tangent may break; each arc between corners is one piece.
    """

    points: tuple[tuple[float, float], ...]
    name: str = "spline"
    corners: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        points = check_outline(self.points, "Spline")
        n = len(points)
        check_word(self.name, "a Spline")
        if not isinstance(self.corners, Iterable) or not all(isinstance(c, Integral) for c in self.corners):
            raise ValueError(f"corners of a Spline are numbers of its points like (0, 4), got {self.corners!r}")
        corners = np.array(sorted(set(self.corners)), dtype=int)
        if np.any((corners < 0) | (corners >= n)):
            raise ValueError(f"corners of a Spline with {n} points lie in 0..{n - 1}, got {self.corners}")
        if signed_area(points) < 0:
            points, corners = points[::-1], np.sort(n - 1 - corners)
        object.__setattr__(self, "points", pairs(points))
        object.__setattr__(self, "corners", tuple(int(c) for c in corners))
        self._check_simple("reorder its points, add more of them there, or mark corners")

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        array = np.array(self.points)
        if not self.corners:
            return (_arc(np.concatenate([array, array[:1]]), self.name, closed=True),)
        turned = np.roll(array, -self.corners[0], axis=0)
        turned = np.concatenate([turned, turned[:1]])
        cuts = [c - self.corners[0] for c in self.corners] + [len(array)]
        return tuple(_arc(turned[i : j + 1], self.name, closed=False) for i, j in pairwise(cuts))


@dataclass(frozen=True)
class Loop(Outline):
    """The inside of a closed curve made of given arcs and segments (kind, parameters), counter-clockwise.

    `names` gives each of them its own name.
    """

    arcs: tuple[tuple[Kind, tuple[float, ...]], ...]
    name: str = "loop"
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_word(self.name, "a Loop")
        if not isinstance(self.arcs, tuple) or not self.arcs or not all(
                isinstance(arc, tuple) and len(arc) == 2 and isinstance(arc[0], Arc | Segment) for arc in self.arcs):
            raise ValueError(f"the Loop {self.name!r} must be made of arcs and segments, at least one")
        if self.names is not None and len(self.names) != len(self.arcs):
            raise ValueError(
                f"names must have one entry per piece of the Loop: {len(self.arcs)}, got {len(self.names)}"
            )
        ends = [_fine_points(p)[[0, -1]] for p in self.pieces]
        for (_, last), (first, _) in zip(ends, [*ends[1:], ends[0]]):
            if np.linalg.norm(last - first) > 1e-9 * self.size:
                raise ValueError(
                    f"the Loop {self.name!r} has a gap between {floats(last)} and {floats(first)}; "
                    "let every piece begin where the one before ends"
                )
        self._check_simple("list its pieces in order along a simple outline")
        if self.measure < 0:
            raise ValueError(f"the Loop {self.name!r} runs clockwise; turn its pieces round")

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        names = self.names or (self.name,) * len(self.arcs)
        return tuple(Piece(kind, params, name) for (kind, params), name in zip(self.arcs, names))


def _arc(points: np.ndarray, name: str, closed: bool) -> Piece:
    if len(points) == 2:
        return Piece(Segment(), floats(points), name)
    knots = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    curve = CubicSpline(knots, points, bc_type="periodic" if closed else "not-a-knot")
    if len(curve.x) != len(knots):  # three points make one parabola, stored by scipy on fewer knots
        knots = curve.x
    params = floats(knots) + floats(curve.c)
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
    """Its share of the area, the integral of (x dy - y dx) / 2, by a Gauss rule that is exact."""
    if not isinstance(piece.kind, Arc):
        (a, b), (c, d) = np.array(piece.params).reshape(2, 2)
        return float(0.5 * (a * d - c * b))
    nodes, weights = np.polynomial.legendre.leggauss(piece.kind.degree + 1)
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
