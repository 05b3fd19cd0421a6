"""Mappings: shapes that depend on parameters, as smooth displacements of one fixed domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .shapes import Ball

Number = float | Callable[[jax.Array], Any]


def moving(ball: Ball, within: float, *, by: Sequence[Number] | None = None,
           radius: Number | None = None) -> Callable[[jax.Array], jax.Array]:
    """A mapping that shifts a ball `by` a vector and gives it another `radius`; numbers, or parameters.

    What lies `within` that distance of its centre gives way smoothly, and nothing moves beyond. For several balls,
    `moving_all` adds what each does.
    """
    centre, size = jnp.asarray(ball.center, float), float(ball.radius)
    d = len(ball.center)
    if not within > size:
        raise ValueError(f"within is {within:g} and the radius of the ball {size:g}; what is around it must give way, "
                         f"so within must be larger")
    if by is not None and len(by) != d:
        raise ValueError(f"by has {len(by)} components; the ball is in {d}-D")

    def displaced(x: jax.Array) -> jax.Array:
        away = x[:d] - centre
        squared = (away**2).sum()
        r = jnp.sqrt(jnp.where(squared > 0, squared, 1.0)) * (squared > 0)
        s = jnp.clip((r - size) / (within - size), 0.0, 1.0)
        weight = (1 - s**2) ** 3
        shift = jnp.zeros(d) if by is None else jnp.stack([jnp.asarray(_value(b, x), x.dtype) for b in by])
        growth = 0.0 if radius is None else _value(radius, x) - size
        return x[:d] + weight * (shift + growth * away / jnp.maximum(r, size))

    return displaced


def moving_all(*mappings: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """The displacements of several mappings together."""

    def displaced(x: jax.Array) -> jax.Array:
        moved = [mapping(x) for mapping in mappings]
        return sum(moved) - (len(moved) - 1) * x[: moved[0].size]

    return displaced


def _value(data: Number, x: jax.Array) -> Any:
    return data(x) if callable(data) else data
