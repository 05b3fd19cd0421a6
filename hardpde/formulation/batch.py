"""Batches: points with all that a formulation needs there; cut into parts and put together."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from hardpde.ansatz.base import Term
from hardpde.formulation.penalties import Penalty
from hardpde.networks.jets import Jet
from hardpde.networks.tiles import Tiled, cut, glue

Points = Float[Array, "*_parts _points _coordinates"]
Scales = Float[Array, "*_parts _equations _points"]


class Batch(NamedTuple):
    """A set of points with all that an ansatz needs there; jets: value, then derivatives by coordinate, then the
    Laplacian where the problem is of second order.

    Points come last in every array but x. The first points have corrections: term s > 0 of the exact ansatz
    belongs to the first points only. `penalised` are the points of each penalty, with `data` that its rows need
    there. `weights` are those of the terms of the loss, the equations' first; None: those that the penalties state.
    """

    x: Points
    offset: Jet | Any  # None where a method needs none
    terms: tuple[Any, ...]
    scale: Scales | Any  # factors of the residuals; None where they have others
    penalised: tuple["Batch", ...] = ()
    data: Any = None
    weights: Array | None = None


def up_to(batch: Batch, slots: int) -> Batch:
    """A batch of an ansatz without the slots of its jets after so many."""
    offset, terms = jax.tree.map(lambda jet: jet[..., :slots, :], (batch.offset, batch.terms))
    return batch._replace(offset=offset, terms=terms)


@partial(jax.tree_util.register_dataclass, data_fields=["index"], meta_fields=["count"])
@dataclass(frozen=True)
class Shard:
    """Which points of a draw are meant: index, index + count, index + 2 count, … (the index may be traced)."""

    index: Any = 0
    count: int = 1


ALL_POINTS = Shard()


def shard_rows(shard: Shard, array: Array, axis: int = -1) -> Array:
    """The rows of one shard along an axis, of an array that has those of all."""
    if shard.count == 1:
        return array
    rows = jnp.moveaxis(array, axis, 0)
    rows = rows.reshape(rows.shape[0] // shard.count, shard.count, *rows.shape[1:])
    return jnp.moveaxis(jax.lax.dynamic_index_in_dim(rows, shard.index, 1, keepdims=False), 0, axis)


def penalty_places(penalty: Penalty, key: Array, shard: Shard) -> tuple[Array, Any]:
    """Points (k · n, c) of one shard of what a penalty draws, the k of a place n apart, and what is known there."""
    x, data = penalty.draw(key)
    x = shard_rows(shard, x, -2)
    return x.reshape(-1, x.shape[-1]), jax.tree.map(partial(shard_rows, shard), data)


def split_batch(batch: Batch, parts: int) -> Batch:
    """Cut a batch into parts, (parts, …) on every array; part j takes rows j, j + parts, …

    Points with corrections come first in a batch, so every part gets its share of them.
    """

    offset, terms, scale, data = jax.tree.map(lambda a: cut(a, parts),
                                              (batch.offset, batch.terms, batch.scale, batch.data))
    return Batch(cut(batch.x, parts, 0 - batch.x.ndim), offset, terms, scale,
                 tuple(split_batch(part, parts) for part in batch.penalised), data)


compiled_split = jax.jit(split_batch, static_argnums=1)


def is_cut(batch: Batch) -> bool:
    """Whether `split_batch` made it."""
    return batch.x.ndim == 3


def uncut(batch: Batch) -> Batch:
    """The batch, put together if it was cut."""
    return join_batch(batch) if is_cut(batch) else batch


def join_batch(batch: Batch) -> Batch:
    """The batch of which `split_batch` made these parts; they share their weights."""
    offset, terms, scale, data = jax.tree.map(glue, (batch.offset, batch.terms, batch.scale, batch.data))
    return Batch(glue(batch.x, 1 - batch.x.ndim), offset, terms, scale, tuple(map(join_batch, batch.penalised)), data,
                 batch.weights)


def untiled(batch: Batch) -> Batch:
    """The batch with all networks at all points, so that every point can be taken by itself."""
    inputs = batch.terms[0].inputs
    return batch._replace(terms=tuple(Term(inputs, term.everywhere()) if isinstance(term, Tiled) else term
                                      for term in batch.terms))


def by_term(part: Batch, penalty: Penalty) -> Batch:
    """The points of a penalty cut by terms, (terms, …) on every array."""
    terms = len(penalty.weights)

    def cut(array: Array, axis: int = -1, points: int = penalty.points) -> Array:
        rows = jnp.moveaxis(array, axis, 0)
        rows = jnp.moveaxis(rows.reshape(points, terms, -1, *rows.shape[1:]), 1, 0)
        return jnp.moveaxis(rows.reshape(terms, -1, *rows.shape[3:]), 1, axis)

    offset, inputs, scale = jax.tree.map(cut, (part.offset, part.terms, part.scale))
    data = jax.tree.map(lambda a: cut(a, points=1), part.data)
    return Batch(cut(part.x, 0 - part.x.ndim), offset, inputs, scale, (), data)


def cast(batch: Batch, dtype: Any) -> Batch:
    """The batch with its numbers, not its indices, in another precision."""
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, batch)
