"""Shapes that are turned and shifted: x → R x + s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.base import Bounds, Kind, Piece, Shape
from hardpde.geometry.csg import Compound
from hardpde.geometry.inlay import Inlay
from hardpde.geometry.shapes import Ball, Box, Polygon, Primitive, floats, pairs
from hardpde.support.checking import finite_numbers, one_number

ROUND = 1e-12


@dataclass(frozen=True)
class PlacedKind(Kind):
    """A kind that is turned and shifted: p = (that of the kind, R (d, d), s (d,))."""

    inner: Kind

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def _own(self) -> int:
        return self.dim * (self.dim + 1)

    def _parts(self, p: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        d = self.dim
        return p[: -self._own], p[-self._own : -d].reshape(d, d), p[-d:]

    def closest(self, p: jax.Array, x: jax.Array) -> jax.Array:
        q, turn, shift = self._parts(p)
        return turn @ self.inner.closest(q, turn.T @ (x[: self.dim] - shift)) + shift

    def normal(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        q, turn, shift = self._parts(p)
        return turn @ self.inner.normal(q, turn.T @ (foot[: self.dim] - shift))

    def place(self, p: jax.Array, u: jax.Array) -> jax.Array:
        q, turn, shift = self._parts(p)
        return turn @ self.inner.place(q, u) + shift

    def curvature(self, p: jax.Array, foot: jax.Array) -> jax.Array:
        q, turn, shift = self._parts(p)
        return self.inner.curvature(q, turn.T @ (foot[: self.dim] - shift))

    def measure(self, p: tuple[float, ...]) -> float:
        return self.inner.measure(p[: -self._own])

    def reach(self, p: tuple[float, ...], inside: bool) -> float:
        return self.inner.reach(p[: -self._own], inside)

    def triangles(self, p: tuple[float, ...] | np.ndarray) -> np.ndarray | None:
        d, array = self.dim, np.asarray(p)
        found = self.inner.triangles(array[: -self._own])
        return None if found is None else found @ array[-self._own : -d].reshape(d, d).T + array[-d:]


@dataclass(frozen=True)
class Placed(Primitive):
    """A primitive that is turned by R and shifted by s."""

    base: Primitive
    rotation: tuple[float, ...]
    shift: tuple[float, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.base.name

    @property
    def dim(self) -> int:
        return self.base.dim

    @property
    def _turn(self) -> np.ndarray:
        return np.array(self.rotation).reshape(self.dim, self.dim)

    @cached_property
    def bounds(self) -> Bounds:
        corners = np.array(list(product(*zip(*self.base.bounds)))) @ self._turn.T + np.array(self.shift)
        return floats(corners.min(axis=0)), floats(corners.max(axis=0))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(replace(piece, kind=PlacedKind(piece.kind), params=(*piece.params, *self.rotation, *self.shift))
                     for piece in self.base.pieces)

    def sdf(self, x: jax.Array) -> jax.Array:
        return self.base.sdf(jnp.asarray(self._turn).T @ (x[: self.dim] - jnp.asarray(self.shift)))

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return self.base.sample(key, n) @ jnp.asarray(self._turn).T + jnp.asarray(self.shift)

    @property
    def measure(self) -> float:
        return self.base.measure


def placed(shape: Shape, turn: np.ndarray, shift: Sequence[float]) -> Shape:
    """The shape at R x + s; names stay."""
    s, straight = np.asarray(shift, float), bool(np.abs(turn - np.eye(shape.dim)).max() < ROUND)
    if isinstance(shape, Compound):
        return type(shape)(*(placed(part, turn, shift) for part in shape.operands))  # type: ignore[call-arg]
    if isinstance(shape, Inlay):
        return Inlay(placed(shape.base, turn, shift), placed(shape.inner, turn, shift))
    if isinstance(shape, Ball):
        return Ball(floats(turn @ np.array(shape.center) + s), shape.radius, shape.name)
    if isinstance(shape, Polygon):
        return Polygon(pairs(np.array(shape.points) @ turn.T + s), shape.name, shape.names)
    if isinstance(shape, Box) and straight:
        return Box(floats(np.array(shape.lo) + s), floats(np.array(shape.hi) + s), shape.name, shape.sides)
    if isinstance(shape, Box) and shape.dim == 2:
        (left, bottom), (right, top) = shape.lo, shape.hi
        corners = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
        west, east, south, north = (piece.name for piece in shape.pieces)
        return Polygon(pairs(corners @ turn.T + s), shape.name, (south, east, north, west))
    if isinstance(shape, Placed):
        return Placed(shape.base, floats(turn @ np.array(shape.rotation).reshape(turn.shape)),
                      floats(turn @ np.array(shape.shift) + s))
    assert isinstance(shape, Primitive)
    return Placed(shape, floats(turn), floats(s))


def shifted(shape: Shape, by: Sequence[float]) -> Shape:
    """The shape, moved by a vector."""
    vector = finite_numbers(by, "by")
    if vector.shape != (shape.dim,):
        raise ValueError(f"by is {by!r}; a shape in {shape.dim}-D is shifted by {shape.dim} numbers")
    return placed(shape, np.eye(shape.dim), floats(vector))


def turned(shape: Shape, degrees: float, axis: Sequence[float] | None = None,
           about: Sequence[float] | None = None) -> Shape:
    """The shape, turned about a point: in the plane counter-clockwise, in space about an axis by the right hand."""
    d, angle = shape.dim, np.deg2rad(one_number(degrees, "degrees"))
    centre = np.zeros(d) if about is None else finite_numbers(about, "about")
    if d not in (2, 3) or (axis is None) != (d == 2):
        raise ValueError(f"shapes are turned in the plane, or in space about an axis; this one is in {d}-D and the "
                         f"axis is {axis!r}")
    if centre.shape != (d,):
        raise ValueError(f"about is {about!r}; it is a point with {d} coordinates")
    if axis is None:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    else:
        line = finite_numbers(axis, "the axis")
        if line.shape != (3,) or not np.linalg.norm(line) > 0:
            raise ValueError(f"the axis is {axis!r}; it is a direction in space, like (0, 0, 1)")
        n = line / np.linalg.norm(line)
        cross = np.array([[0, -n[2], n[1]], [n[2], 0, -n[0]], [-n[1], n[0], 0]])
        turn = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return placed(shape, turn, floats(centre - turn @ centre))


def along(line: np.ndarray) -> np.ndarray:
    """A rotation that takes the third axis to the direction of a line."""
    n = line / np.linalg.norm(line)
    side = np.cross(n, np.eye(3)[int(np.abs(n).argmin())])
    side /= np.linalg.norm(side)
    turn = np.stack([side, np.cross(n, side), n], axis=1)
    return np.eye(3) if abs(n[2] - 1) < ROUND else turn
