"""The pieces near a point, found without looking at all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.stacking import Group, concrete, safe_norm, stack, unstack
from hardpde.geometry.base import Bounds, Kind, Piece
from hardpde.support.compiling import jit_simply
from hardpde.support.hardware import cpu_device

FEW = 32  # so many pieces are all looked at
CELLS_PER_PIECE, MOST_CELLS, BLOCK = 4, 2**16, 1024


class Nearby:
    """Pieces of which a point is within range, each with a range of its own.

    The bounds are cut into cells, and each cell knows the pieces that come within range of it. Where pieces are few, or
    the space has more than three dimensions, all of them count as near.
    """

    def __init__(self, pieces: tuple[Piece, ...], ranges: np.ndarray, bounds: Bounds):
        self.pieces, self.groups = pieces, stack(pieces)
        lo, hi = map(np.asarray, bounds)
        self._lo, self._counts = lo, np.ones(len(lo), int)
        self._lists: list[np.ndarray] | None = None
        if len(pieces) > FEW and len(lo) <= 3:
            edge = (np.prod(hi - lo) / min(CELLS_PER_PIECE * len(pieces), MOST_CELLS)) ** (1 / len(lo))
            self._counts = np.maximum(1, np.round((hi - lo) / edge)).astype(int)
        self._step = (hi - lo) / self._counts
        if self._counts.prod() > 1:
            self._lists = [self._members(group, ranges[group.index]) for group in self.groups]

    def map(self, function: Callable[[Kind, jax.Array, jax.Array], Any], x: jax.Array) -> tuple[jax.Array, Any]:
        """Numbers (k,) of the pieces that may be near x, −1 for none, and what function(kind, params, number) finds for
        each, (k, …). What it finds for none is of no meaning."""
        numbers, values = [], []
        for k, group in enumerate(self.groups):
            params, index = jnp.asarray(group.params), jnp.asarray(group.index)
            if self._lists is not None:
                members = jnp.asarray(self._lists[k])[self._cell(x)]
                params = params[members]  # −1: the last one
                index = jnp.where(members < 0, -1, index[members])
            numbers.append(index)
            values.append(jax.vmap(partial(function, group.kind))(params, index))
        if self._lists is not None:
            return jnp.concatenate(numbers), jax.tree.map(lambda *parts: jnp.concatenate(parts), *values)
        places = [group.index for group in self.groups]
        return unstack(numbers, places), jax.tree.map(lambda *parts: unstack(parts, places), *values)

    def feet(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Numbers (k,) of the pieces that may be near x, −1 for none, and their closest points (k, d)."""
        return self.map(lambda kind, p, number: kind.closest(p, x), x)

    def _cell(self, x: jax.Array) -> jax.Array:
        """The number of the cell that holds a point; one outside belongs to the nearest."""
        place = jnp.floor((x[: len(self._lo)] - self._lo) / self._step).astype(int)
        return jnp.ravel_multi_index(tuple(jnp.clip(place, 0, self._counts - 1)), tuple(self._counts), mode="clip")

    def _members(self, group: Group, ranges: np.ndarray) -> np.ndarray:
        """The members of a group within range of each cell, (cells, k), padded with −1."""
        places = np.stack(np.unravel_index(np.arange(self._counts.prod()), self._counts), axis=1)
        centres = self._lo + (places + 0.5) * self._step
        reach = ranges + 0.5 * (1 + 1e-9) * np.linalg.norm(self._step)
        # Every block has the same size, so that one compilation serves all.
        blocks = np.resize(centres, (-(-len(centres) // BLOCK), BLOCK, len(self._lo)))
        with jax.default_device(cpu_device()):
            found = [concrete(_within, group.kind, group.params, reach, block) for block in blocks]
        near = np.concatenate(found)[: len(centres)]
        first = np.argsort(~near, axis=1, kind="stable")[:, : max(1, int(near.sum(1).max()))]
        return np.where(np.take_along_axis(near, first, axis=1), first, -1)


@partial(jit_simply, static_argnums=0)
def _within(kind: Kind, params: jax.Array, reach: jax.Array, points: jax.Array) -> jax.Array:
    """Whether pieces are within reach of points, (points, pieces)."""

    def one(x: jax.Array) -> jax.Array:
        foot = jax.vmap(kind.closest, (0, None))(params, x)
        return safe_norm(foot - x) <= reach

    return jax.vmap(one)(points)
