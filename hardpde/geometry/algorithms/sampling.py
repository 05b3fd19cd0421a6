"""Uniform points by rejection, and measures by quasi-Monte-Carlo."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hardpde.geometry.algorithms.stacking import concrete
from hardpde.support.compiling import jit_simply

if TYPE_CHECKING:
    from hardpde.geometry.base import Shape

# Points per chunk: with a thousand solids a chunk of signed distances then stays below 100 MB.
CHUNK = 8192


def unit_points(n: int, dim: int) -> np.ndarray:
    """n low-discrepancy points (n, dim) of the open unit cube, no others at a later call."""
    return np.clip(_halton(n, dim, np.random.default_rng(0).spawn(1)[0]), 1e-12, 1 - 1e-12)


def _halton(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """The scrambled Halton sequence (n, dim), to the last digit that of SciPy, whose import takes a third of a second.

    Column k holds van der Corput's sequence in the k-th prime, each digit of its numbers permuted (Owen 2017).
    """
    columns = []
    for base in _primes(dim):
        column, rest, size = np.zeros(n), np.arange(n), 1 / base
        for _ in range(math.ceil(54 / math.log2(base)) - 1):  # digits that a double holds
            digits = np.arange(base)
            rng.shuffle(digits)
            rest, digit = np.divmod(rest, base)
            column += digits[digit] * size
            size /= base
        columns.append(column)
    return np.stack(columns, axis=1)


def _primes(n: int) -> list[int]:
    """The first n primes."""
    found: list[int] = []
    candidates = itertools.count(2)
    while len(found) < n:
        one = next(candidates)
        if all(one % prime for prime in found):
            found.append(one)
    return found


@partial(jit_simply, static_argnums=0)
def inside(shape: Shape, points: jax.Array) -> jax.Array:
    """Mask (n,) of points strictly inside, in chunks."""
    return _chunked(lambda x: shape.sdf(x) < 0, points)


@partial(jit_simply, static_argnums=0)
def depths(shape: Shape, points: jax.Array) -> jax.Array:
    """Signed distances (n,) of points."""
    return jax.vmap(shape.sdf)(points)


def _chunked(function: Callable, args: Any) -> jax.Array:
    """`vmap` over the leading axis, a chunk at a time where there are many points."""
    many = len(jax.tree.leaves(args)[0]) > CHUNK
    return lax.map(function, args, batch_size=CHUNK) if many else jax.vmap(function)(args)


@partial(jit_simply, static_argnums=0)
def check_survival(shape: Shape, points: jax.Array, normal: jax.Array, body: jax.Array) -> jax.Array:
    """Mask (n,) of the points of pieces that lie on the boundary of the shape, in chunks."""
    return _chunked(lambda args: shape.survives(*args), (points, normal, body))


def estimate_measure(shape: Shape, n: int = 2**17) -> float:
    """Quasi-Monte-Carlo volume from n fixed points."""
    lo, hi = (np.array(b) for b in shape.bounds)
    points = lo + (hi - lo) * unit_points(n, shape.dim)
    return float(np.mean(concrete(inside, shape, points)) * np.prod(hi - lo))


@partial(jit_simply, static_argnums=(0, 2))
def rejection_sample(shape: Shape, key: jax.Array, n: int) -> jax.Array:
    """n points (n, d) uniform inside: candidates from the bounds, the first n inside are kept.

    One round nearly always suffices; the loop draws further rounds until all n points are inside.
    """
    lo, hi = (np.array(b) for b in shape.bounds)
    ratio = shape.measure / float(np.prod(hi - lo))
    if not ratio > 0:
        raise ValueError("cannot sample an empty shape; check its bounds and what is subtracted from it")
    m = int(min(1.1 * n / ratio + 64, 8 * n + 4096))

    def more(state: tuple) -> tuple:
        key, points, count = state
        key, sub = jax.random.split(key)
        fresh = lo + (hi - lo) * jax.random.uniform(sub, (m, shape.dim))
        valid = jnp.concatenate([jnp.arange(n) < count, inside(shape, fresh)])
        order = jnp.argsort(~valid, stable=True)[:n]
        return key, jnp.concatenate([points, fresh])[order], jnp.minimum(n, valid.sum())

    start = (key, jnp.zeros((n, shape.dim)), jnp.asarray(0))
    return lax.while_loop(lambda s: s[2] < n, more, start)[1]


def allocate(key: jax.Array, n: int, weights: np.ndarray) -> jax.Array:
    """Index (n,) of the piece each point goes to: systematic sampling, so counts are n w_i up to one."""
    edges = np.cumsum(weights) / np.sum(weights)
    ticks = (jnp.arange(n) + jax.random.uniform(key)) / n
    return jnp.minimum(jnp.searchsorted(jnp.asarray(edges), ticks, side="right"), len(weights) - 1)


def redraw_until(key: jax.Array, draw: Callable[[jax.Array], tuple[jax.Array, jax.Array]]) -> jax.Array:
    """Points (n, d) of `draw(key) -> (points, valid)`, those that are not valid drawn again."""

    def again(state: tuple) -> tuple:
        key, points, valid = state
        key, sub = jax.random.split(key)
        fresh, good = draw(sub)
        return key, jnp.where(valid[:, None], points, fresh), valid | good

    points, valid = jax.eval_shape(draw, key)
    start = (key, jnp.zeros(points.shape), jnp.zeros(valid.shape, dtype=bool))
    return lax.while_loop(lambda s: ~jnp.all(s[2]), again, start)[1]
