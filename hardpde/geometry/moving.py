"""Mappings: shapes that depend on parameters, as smooth displacements of one fixed domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from hardpde.geometry.shapes import Ball
from hardpde.support.checking import one_number

Number = float | Callable[[jax.Array], Any]


def moving(ball: Ball, within: float, *, by: Sequence[Number] | None = None,
           radius: Number | None = None) -> Callable[[jax.Array], jax.Array]:
    """A mapping that shifts a ball `by` a vector and gives it another `radius`; numbers, or parameters.

    What lies `within` that distance of its centre gives way smoothly, and nothing moves beyond. For several balls,
    `moving_all` adds what each does.
    """
    if not isinstance(ball, Ball):
        raise ValueError(f"{ball!r} is not a Ball; a hole that moves is one, like Ball((0, 0), 0.3)")
    centre, size = jnp.asarray(ball.center, float), float(ball.radius)
    d = len(ball.center)
    within = one_number(within, "within")
    if not within > size:
        raise ValueError(f"within is {within:g} and the radius of the ball {size:g}; what is around it must give way, "
                         f"so within must be larger")
    if by is not None and not isinstance(by, Iterable):
        raise ValueError(f"by is {by!r}; it is a vector of {d} numbers or parameters")
    shifts = None if by is None else [_data(part, "by") for part in by]
    if shifts is not None and len(shifts) != d:
        raise ValueError(f"by has {len(shifts)} components; the ball is in {d}-D")
    if radius is not None:
        radius = _data(radius, "radius")

    def displaced(x: jax.Array) -> jax.Array:
        away = x[:d] - centre
        squared = (away**2).sum()
        r = jnp.sqrt(jnp.where(squared > 0, squared, 1.0)) * (squared > 0)
        s = jnp.clip((r - size) / (within - size), 0.0, 1.0)
        weight = (1 - s**2) ** 3
        shift = jnp.zeros(d) if shifts is None else jnp.stack([jnp.asarray(_value(b, x), x.dtype) for b in shifts])
        growth = 0.0 if radius is None else _value(radius, x) - size
        return x[:d] + weight * (shift + growth * away / jnp.maximum(r, size))

    return displaced


def moving_all(*mappings: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """The displacements of several mappings together."""
    if not mappings or not all(map(callable, mappings)):
        raise ValueError("moving_all adds mappings, at least one; write moving_all(moving(…), moving(…))")

    def displaced(x: jax.Array) -> jax.Array:
        moved = [mapping(x) for mapping in mappings]
        return sum(moved) - (len(moved) - 1) * x[: moved[0].size]

    return displaced


def _data(data: Any, what: str) -> Number:
    return data if callable(data) else one_number(data, what)


def _value(data: Number, x: jax.Array) -> Any:
    return data(x) if callable(data) else data
