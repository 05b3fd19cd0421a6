"""The kinds of pieces: axis-aligned faces, spheres, segments and spline arcs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtri
from scipy.interpolate import PPoly

from hardpde.geometry.algorithms.stacking import clamp, safe_norm
from hardpde.geometry.base import Kind


def first_axis(dim: int) -> np.ndarray:
    """e_0, the direction taken where every direction is as good."""
    return np.eye(dim)[0]


def direction(v: jax.Array) -> jax.Array:
    """v / |v|, and e_0 at v = 0."""
    r = safe_norm(v)
    return jnp.where(r > 0, v / jnp.where(r > 0, r, 1.0), first_axis(v.shape[-1]))


@dataclass(frozen=True)
class Face(Kind):
    """Axis-aligned rectangle (a box flat along one axis): p = (lo, hi, n), d numbers each."""

    d: int

    @property
    def dim(self) -> int:
        return self.d

    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        lo, hi = p[: self.d], p[self.d : 2 * self.d]
        # Along the flat axis the foot does not move, also where x lies on the face.
        return jnp.where(lo < hi, clamp(x[: self.d], lo, hi), lo)

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        return p[2 * self.d :]

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        return p[: self.d] + u * (p[self.d : 2 * self.d] - p[: self.d])

    def measure(self, p: tuple[float, ...]) -> float:
        return math.prod(b - a for a, b, n in zip(p, p[self.d :], p[2 * self.d :]) if n == 0)

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        return math.inf

    def triangles(self, p: tuple[float, ...] | np.ndarray) -> np.ndarray | None:
        if self.d != 3:
            return None
        lo, hi = np.array(p[:3]), np.array(p[3:6])
        flat = int(np.argmin(hi - lo))
        one, two = (np.where(np.arange(3) == k, hi, lo) for k in range(3) if k != flat)
        return np.array([[lo, one, hi], [lo, hi, two]])


@dataclass(frozen=True)
class Sphere(Kind):
    """Sphere in any dimension (two points for d = 1, a circle for d = 2): p = (centre, radius)."""

    d: int

    @property
    def dim(self) -> int:
        return self.d

    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        return p[: self.d] + p[self.d] * direction(x[: self.d] - p[: self.d])

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        return direction(foot[: self.d] - p[: self.d])

    def curvature(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        return super().curvature(p, foot) - 1 / p[self.d]

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        if self.d == 2:
            angle = 2 * jnp.pi * u[0]
            unit = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        else:
            unit = direction(ndtri(jnp.clip(u, 1e-15, 1 - 1e-15)))
        return p[: self.d] + p[self.d] * unit

    def measure(self, p: tuple[float, ...]) -> float:
        return 2 * math.pi ** (self.d / 2) / math.gamma(self.d / 2) * p[self.d] ** (self.d - 1)

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        return p[self.d] if inside else math.inf


@dataclass(frozen=True)
class Segment(Kind):
    """Straight edge of a counter-clockwise outline: p = (a, b), two numbers each."""

    @property
    def dim(self) -> int:
        return 2

    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        a, edge = p[:2], p[2:] - p[:2]
        return a + clamp(jnp.dot(x[:2] - a, edge) / jnp.dot(edge, edge), 0.0, 1.0) * edge

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        edge = p[2:] - p[:2]
        return jnp.stack([edge[1], -edge[0]]) / safe_norm(edge)

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        return p[:2] + u[0] * (p[2:] - p[:2])

    def measure(self, p: tuple[float, ...]) -> float:
        return math.dist(p[:2], p[2:])

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        return math.inf


@dataclass(frozen=True)
class Arc(Kind):
    """Piecewise polynomial plane curve, counter-clockwise, with m intervals.

    p = (knots (m+1,), coefficients (degree+1, m, 2)) flattened, as in scipy's PPoly: highest power first.
    """

    intervals: int
    closed: bool
    degree: int = 3

    @property
    def dim(self) -> int:
        return 2

    @property
    def _fine(self) -> int:
        """Table points per interval: at least 8, and at least 128 in all."""
        return max(8, math.ceil(128 / self.intervals))

    def curve(self, p: jax.Array, s: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Position, velocity and acceleration, (2,) each, at the parameter s."""
        m = self.intervals
        knots, c = p[: m + 1], p[m + 1 :].reshape(self.degree + 1, m, 2)
        if self.closed:
            s = knots[0] + jnp.mod(s - knots[0], knots[m] - knots[0])
        i = jnp.clip(jnp.searchsorted(knots, lax.stop_gradient(s), side="right") - 1, 0, m - 1)
        h, powers = s - knots[i], c[:, i]
        y = v = a = jnp.zeros_like(powers[0])
        for k in range(self.degree + 1):  # Horner's rule, differentiated twice
            y, v, a = y * h + powers[k], v * h + y, a * h + 2 * v
        return y, v, a

    def table(self, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Fine parameters (k,) and their points (k, 2), the end of the curve included."""
        knots = p[: self.intervals + 1]
        t = jnp.arange(self._fine) / self._fine
        s = jnp.append((knots[:-1, None] + jnp.diff(knots)[:, None] * t).ravel(), knots[-1])
        return s, jax.vmap(lambda s: self.curve(p, s)[0])(s)

    def parameter(self, p: jax.Array, x: jax.Array) -> jax.Array:
        """Parameter of the closest point; derivatives in x by the implicit function theorem."""
        lo, hi = p[0], p[self.intervals]

        def newton(s: jax.Array, x: jax.Array) -> jax.Array:
            y, v, a = self.curve(p, s)
            speed = jnp.dot(v, v)
            slope = speed + jnp.dot(y - x, a)
            # Near a centre of curvature the slope vanishes; a Gauss-Newton step stays finite there.
            step = -jnp.dot(y - x, v) / jnp.where(slope > 1e-3 * speed, slope, speed)
            step = clamp(step, -limit, limit)
            return s + step if self.closed else clamp(s + step, lo, hi)

        frozen = lax.stop_gradient(x[:2])
        s_table, points = self.table(p)
        k = jnp.argmin(jnp.sum((points - frozen) ** 2, axis=1))
        limit = lax.stop_gradient(jnp.max(jnp.diff(s_table)))
        s = lax.fori_loop(0, 10, lambda _, s: newton(s, frozen), s_table[k])
        s = lax.stop_gradient(s)
        # One differentiable step gives exact first derivatives, the second one exact second derivatives.
        return newton(newton(s, x[:2]), x[:2])

    @partial(jax.jit, static_argnums=0)
    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        return self.curve(p, self.parameter(p, x))[0]

    @partial(jax.jit, static_argnums=0)
    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        _, v, _ = self.curve(p, self.parameter(p, foot))
        return direction(jnp.stack([v[1], -v[0]]))

    @partial(jax.jit, static_argnums=0)
    def curvature(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        _, v, a = self.curve(p, self.parameter(p, foot))
        return (v[1] * a[0] - v[0] * a[1]) / safe_norm(v) ** 3

    @partial(jax.jit, static_argnums=0)
    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        s, points = self.table(p)
        length = jnp.append(0.0, jnp.cumsum(safe_norm(jnp.diff(points, axis=0))))
        return self.curve(p, jnp.interp(u[0] * length[-1], length, s))[0]

    def polynomial(self, p: tuple[float, ...]) -> PPoly:
        """The curve as a scipy object."""
        m = self.intervals
        return PPoly(np.array(p[m + 1 :]).reshape(self.degree + 1, m, 2), np.array(p[: m + 1]))

    def measure(self, p: tuple[float, ...]) -> float:
        nodes, weights = np.polynomial.legendre.leggauss(16)
        knots = np.array(p[: self.intervals + 1])
        half = np.diff(knots) / 2
        s = knots[:-1, None] + half[:, None] * (1 + nodes)
        speed = np.linalg.norm(self.polynomial(p).derivative()(s), axis=-1)
        return float(np.sum(half[:, None] * weights * speed))

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        """Smallest radius of curvature on that side, or of a circle that touches the curve twice."""
        knots = p[: self.intervals + 1]
        s = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(knots)]))
        curve = self.polynomial(p)
        y, v, a = curve(s), curve(s, 1), curve(s, 2)
        speed = np.linalg.norm(v, axis=1)
        side = 1.0 if inside else -1.0
        curvature = side * (v[:, 0] * a[:, 1] - v[:, 1] * a[:, 0]) / speed**3
        towards = side * np.stack([-v[:, 1], v[:, 0]], axis=1) / speed[:, None]
        across = y[None] - y[:, None]
        height = np.einsum("ijk,ik->ij", across, towards)
        square = np.sum(across**2, axis=-1)
        far = square > 1e-12 * square.max()
        pair = np.where(far, 2 * height / np.where(far, square, 1.0), 0.0)
        # Round-off bends a straight arc by about 1e-12 / size; that counts as straight.
        most = max(float(curvature.max()), float(pair.max()))
        return 1 / most if most > 1e-9 / np.sqrt(square.max()) else math.inf
