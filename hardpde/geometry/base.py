"""The contracts: kinds of smooth pieces, pieces, shapes, named boundaries and the initial time slice.

Every point function acts on one point, is traceable and differentiable; a point may carry more coordinates
than the shape's dimension d (time last), the geometry then sees x[:d].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.sampling import allocate, check_survival, redraw_until
from hardpde.geometry.algorithms.stacking import curvatures, distances, feet, normals, place, safe_norm
from hardpde.support.compiling import jit_simply

Bounds = tuple[tuple[float, ...], tuple[float, ...]]


class Kind(ABC):
    """A family of smooth pieces whose parameters are a flat vector p, so that many pieces stack."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension d of the space."""

    @abstractmethod
    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        """The point (d,) of the clamped piece nearest to x[:d]."""

    @abstractmethod
    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        """Unit normal (d,) at a point of the piece, out of the solid that made it."""

    @abstractmethod
    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        """The point (d,) at u (d,) in the unit cube; uniform u gives points uniform by measure."""

    @abstractmethod
    def measure(self, p: tuple[float, ...]) -> float:
        """Length, area, ...; 1 for a point."""

    @abstractmethod
    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        """How far from the piece, on the solid's inner or outer side, closest points stay unique."""

    def curvature(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        """Signed curvature n.dt/ds of a plane piece at one of its points, with the solid's n; 0 if it is straight.

        t is n turned by +90 degrees and s the arc length along t, so a disc of radius R has -1/R.
        """
        if self.dim != 2:
            raise ValueError(f"curvature is a number for plane boundaries only, and this one is in {self.dim}-D")
        return jnp.zeros(())

    def triangles(self, p: tuple[float, ...] | np.ndarray) -> np.ndarray | None:
        """The triangles (t, 3, 3) that a piece in 3-D is made of; None if it is curved or in another dimension."""
        return None

    def sample(self, p: jax.Array, key: jax.Array, n: int) -> jax.Array:
        """n points (n, d), uniform by measure."""
        return jax.vmap(self.place, (None, 0))(jnp.asarray(p), jax.random.uniform(key, (n, self.dim)))


@dataclass(frozen=True)
class Piece:
    """One smooth piece of a domain's boundary.

    body: index of the primitive (leaf of the CSG tree) that made it; flip: that solid was subtracted,
    so the domain's outward normal is minus the solid's; two_sided: the domain lies on both sides of it (see Inlay).
    """

    kind: Kind
    params: tuple[float, ...]
    name: str
    body: int = 0
    flip: bool = False
    two_sided: bool = False

    def closest(self, x: jax.Array) -> jax.Array:
        """Nearest point (d,) of the piece."""
        return self.kind.closest(jnp.asarray(self.params), x)

    def distance(self, x: jax.Array) -> jax.Array:
        """True distance, >= 0."""
        return safe_norm(x[: self.kind.dim] - self.closest(x))

    def normal(self, foot: jax.Array) -> jax.Array:
        """Outward unit normal (d,) of the domain at a point of the piece."""
        n = self.kind.normal(jnp.asarray(self.params), foot)
        return -n if self.flip else n

    def curvature(self, foot: jax.Array) -> jax.Array:
        """Signed curvature at a point of a plane piece, with the domain's normal (see Boundary.curvature)."""
        k = self.kind.curvature(jnp.asarray(self.params), foot)
        return -k if self.flip else k

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """n points (n, d), uniform on the whole piece (surviving or not)."""
        return self.kind.sample(jnp.asarray(self.params), key, n)

    @property
    def measure(self) -> float:
        """Measure of the whole piece."""
        return self.kind.measure(self.params)

    @property
    def reach(self) -> float:
        """How far into the domain closest points stay unique."""
        sides = (True, False) if self.two_sided else (not self.flip,)
        return min(self.kind.reach(self.params, inside) for inside in sides)


class Shape(ABC):
    """A solid: signed distance, bounds, measure, samples and a boundary made of named pieces."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Dimension d."""

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """Corners (lo, hi) of a box around the shape."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """Pieces of the boundary that survive, at least in part."""

    @property
    @abstractmethod
    def measure(self) -> float:
        """Length, area, volume, ..."""

    @abstractmethod
    def sdf(self, x: jax.Array) -> jax.Array:
        """Signed distance of one point, negative inside; a bound of it after `| & -`."""

    @abstractmethod
    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """n points (n, d), uniform inside; n is static under jit."""

    @property
    @abstractmethod
    def survival(self) -> tuple[float, ...]:
        """For each piece, the fraction of its measure that lies on the boundary of the shape."""

    @property
    @abstractmethod
    def whole(self) -> tuple[bool, ...]:
        """For each piece, whether all of it is known to survive."""

    @abstractmethod
    def survives(self, point: jax.Array, normal: jax.Array, body: jax.Array) -> jax.Array:
        """Whether a point of a piece of leaf `body`, with the domain's normal, is on the boundary."""

    def home(self, piece: Piece) -> Shape:
        """The solid whose boundary a piece lies on: the shape itself, but for inlays."""
        return self

    @property
    def size(self) -> float:
        """Largest extent of the bounds; tolerances are relative to it."""
        lo, hi = self.bounds
        return float(max(b - a for a, b in zip(lo, hi)))

    @property
    def boundaries(self) -> dict[str, Boundary]:
        """Named boundaries in order of appearance."""
        groups: dict[str, list[Piece]] = {}
        for piece in self.pieces:
            groups.setdefault(piece.name, []).append(piece)
        return {name: Boundary(name, tuple(members), self) for name, members in groups.items()}

    def shifted(self, by: Sequence[float]) -> Shape:
        """The shape, moved by a vector (d,)."""
        from hardpde.geometry.placed import shifted

        return shifted(self, by)

    def turned(self, degrees: float, axis: Sequence[float] | None = None,
               about: Sequence[float] | None = None) -> Shape:
        """The shape, turned about a point: in the plane counter-clockwise, in space about an axis by the right hand.
        """
        from hardpde.geometry.placed import turned

        return turned(self, degrees, axis, about)

    def __or__(self, other: Shape) -> Shape:
        from hardpde.geometry.csg import Union

        return Union(self, other)

    def __and__(self, other: Shape) -> Shape:
        from hardpde.geometry.csg import Intersection

        return Intersection(self, other)

    def __sub__(self, other: Shape) -> Shape:
        from hardpde.geometry.csg import Difference

        return Difference(self, other)


@dataclass(frozen=True)
class Boundary:
    """A named set of pieces of a domain."""

    name: str
    pieces: tuple[Piece, ...]
    shape: Shape

    def _nearest(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        points = feet(self.pieces, x)
        k = jnp.argmin(jnp.sum((x[: self.shape.dim] - points) ** 2, axis=1))
        return points, k

    def distance(self, x: jax.Array) -> jax.Array:
        """Distance >= 0 of one point to the nearest piece."""
        return jnp.min(distances(self.pieces, x))

    def closest(self, x: jax.Array) -> jax.Array:
        """Nearest point of the boundary; coordinates beyond d (time) are kept."""
        points, k = self._nearest(x)
        return jnp.concatenate([points[k], x[self.shape.dim :]])

    def normal(self, x: jax.Array) -> jax.Array:
        """Outward unit normal (d,) at the closest point."""
        points, k = self._nearest(x)
        return normals(self.pieces, points)[k]

    def curvature(self, x: jax.Array) -> jax.Array:
        """Signed curvature of a plane boundary at the closest point: k = n.dt/ds = -t.dn/ds.

        n is the domain's outward normal, t = (-n_y, n_x) is n turned by +90 degrees and s the arc length along t:
        -1/R where the domain is a disc of radius R, +1/R on a round hole in it, 0 on straight pieces.
        """
        points, k = self._nearest(x)
        return curvatures(self.pieces, points)[k]

    @partial(jit_simply, static_argnums=(0, 2))
    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """n points (n, d), uniform over the surviving parts of the pieces; n is static under jit."""
        first, later = jax.random.split(key)
        which = allocate(first, n, self._weights)
        body = jnp.asarray(np.array([p.body for p in self.pieces]))[which]

        def draw(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            points, normal = place(self.pieces, which, jax.random.uniform(key, (n, self.shape.dim)))
            return points, check_survival(self.shape, points, normal, body)

        whole = dict(zip(self.shape.pieces, self.shape.whole))
        if all(whole.get(p, False) for p in self.pieces):
            return place(self.pieces, which, jax.random.uniform(later, (n, self.shape.dim)))[0]
        return redraw_until(later, draw)

    @property
    def _weights(self) -> np.ndarray:
        alive = dict(zip(self.shape.pieces, self.shape.survival))
        return np.array([p.measure * alive.get(p, 1.0) for p in self.pieces])

    @property
    def measure(self) -> float:
        """Measure of the surviving parts."""
        return float(self._weights.sum())


def at_times(x: Any, t: Any) -> Any:
    """Points (n, d) with times, one for all or one for each, as their last coordinate, (n, d + 1); NumPy's stay so."""
    array = np if isinstance(x, np.ndarray) and not isinstance(t, jax.Array) else jnp
    return array.concatenate([x, array.broadcast_to(array.reshape(t, (-1, 1)), (len(x), 1))], axis=1)


@dataclass(frozen=True)
class TimeSlice:
    """The slice t = t0 of shape x time, a boundary for points (x, t, …)."""

    shape: Shape
    t0: float = 0.0
    name: str = "initial"

    def distance(self, x: jax.Array) -> jax.Array:
        """t - t0."""
        return x[self.shape.dim] - self.t0

    def closest(self, x: jax.Array) -> jax.Array:
        """(x, t0, …)."""
        return x.at[self.shape.dim].set(self.t0)

    def normal(self, x: jax.Array) -> jax.Array:
        """(0, ..., 0, -1), d + 1 components."""
        return jnp.zeros(self.shape.dim + 1).at[-1].set(-1.0)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """n points (n, d + 1), uniform in the shape, at t0."""
        return at_times(self.shape.sample(key, n), self.t0)

    @property
    def measure(self) -> float:
        """Measure of the shape."""
        return self.shape.measure
