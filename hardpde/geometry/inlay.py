"""Inlays: boundaries inside a domain, where two materials meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp

from hardpde.geometry.base import Bounds, Piece, Shape


@dataclass(frozen=True)
class Inlay(Shape):
    """The solid `base` with the boundary of another solid, `inner`, drawn into it.

    The points are those of `base`; the boundary of `inner` is one more, with points of the domain on both sides and
    normals out of `inner`. It must not meet the boundary of `base`, its holes or other inlays; to draw several,
    use Inlay again. `| & -` with an inlay on the left act on its base.
    """

    base: Shape
    inner: Shape

    def __post_init__(self) -> None:
        for shape in (self.base, self.inner):
            if not isinstance(shape, Shape):
                raise ValueError(f"an Inlay is made of two shapes, got {shape!r}")
        if self.base.dim != self.inner.dim:
            raise ValueError(f"an Inlay needs shapes of one dimension; they are in {self.base.dim}-D and "
                             f"{self.inner.dim}-D")

    @property
    def dim(self) -> int:
        return self.base.dim

    @property
    def bounds(self) -> Bounds:
        return self.base.bounds

    @property
    def measure(self) -> float:
        return self.base.measure

    def sdf(self, x: jax.Array) -> jax.Array:
        return self.base.sdf(x)

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        return self.base.sample(key, n)

    @cached_property
    def _first(self) -> int:
        """The number of the first body of the inner solid."""
        return 1 + max(piece.body for piece in self.base.pieces)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        inner = [replace(piece, body=self._first + piece.body, two_sided=True) for piece in self.inner.pieces]
        return (*self.base.pieces, *inner)

    @property
    def survival(self) -> tuple[float, ...]:
        return (*self.base.survival, *self.inner.survival)

    @property
    def whole(self) -> tuple[bool, ...]:
        return (*self.base.whole, *self.inner.whole)

    def survives(self, point: jax.Array, normal: jax.Array, body: jax.Array) -> jax.Array:
        drawn = self.inner.survives(point, normal, body - self._first)
        return jnp.where(body >= self._first, drawn, self.base.survives(point, normal, body))

    def home(self, piece: Piece) -> Shape:
        if piece.body < self._first:
            return self.base.home(piece)
        return self.inner.home(replace(piece, body=piece.body - self._first))

    def __or__(self, other: Shape) -> Shape:
        return Inlay(self.base | other, self.inner)

    def __and__(self, other: Shape) -> Shape:
        return Inlay(self.base & other, self.inner)

    def __sub__(self, other: Shape) -> Shape:
        return Inlay(self.base - other, self.inner)
