"""Stacks of networks of which each is evaluated only at the points where it counts.

In the paper's ansatz the part of a sub-network fades with the distance to its boundary, and most of them lie below
rounding at most points. A list gives every network its own points, those where its part is largest, as many as are
above rounding in a sample; what is left out is what rounding would lose. Lists are cut into tiles of equal size, so
that networks with long lists and short ones run as one batched product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from hardpde.networks.jets import Jet, MatrixJet
from hardpde.networks.mlp import MLP

TILE = 128  # points
WORTH = 0.75  # of all points of all networks: lists must be shorter than this


@partial(jax.tree_util.register_dataclass, data_fields=["inputs", "matrix", "place", "there"], meta_fields=["owners"])
@dataclass(frozen=True)
class Tiled:
    """Network evaluations by tile, as jets: `inputs` (t, f, slots, c) and `matrix` (t, m, o, slots, c) of tile j
    belong to network owners[j].

    place (t, c): which point of the batch each is, or its number of points for one that does not count. there (k, n):
    where a point is found in the tiles, one after the other, or the number of all their points for nowhere. A batch of
    several parts has lists for each, and these numbers are those of the part; c = TILE × parts.
    """

    inputs: Jet
    matrix: MatrixJet
    place: Array
    there: Array
    owners: tuple[int, ...]

    def networks(self, stack: MLP) -> MLP:
        """The network of each tile. Copies are made by a product, whose gradient adds them up in a fixed order."""
        chosen = jnp.asarray(np.eye(stack.weights[0].shape[0])[list(self.owners)], stack.weights[0].dtype)
        return jax.tree.map(lambda a: jnp.tensordot(chosen, a, 1, precision="highest"), stack)

    def collected(self, parts: Array) -> Jet:
        """The sum of the parts (t, m, slots, c) of each point, (m, slots, n)."""

        def one(parts: Array, there: Array, place: Array) -> Array:
            return _collected(jnp.moveaxis(parts, 0, -2).reshape(*parts.shape[1:3], -1), there, place.reshape(-1))

        return self._by_part(one, parts, self.there, self.place)

    def everywhere(self) -> MatrixJet:
        """The lists undone: a matrix (k, m, o, slots, n) for all networks at all points."""
        owners = np.array(self.owners)[:, None]

        def one(matrix: Array, there: Array, place: Array) -> Array:
            whole = jnp.zeros((owners.max() + 1, there.shape[-1], *matrix.shape[1:4]), matrix.dtype)
            return jnp.moveaxis(whole.at[owners, place].set(jnp.moveaxis(matrix, -1, 1), mode="drop"), 1, -1)

        return self._by_part(one, self.matrix, self.there, self.place)

    def _by_part(self, function: Callable[..., Array], *arrays: Array) -> Array:
        parts = self.place.shape[-1] // TILE
        return function(*arrays) if parts == 1 else glue(jax.vmap(function)(*[cut(array, parts) for array in arrays]))


def cut(array: Array, parts: int, axis: int = -1) -> Array:
    """An array in parts, (parts, …); part j takes rows j, j + parts, … along the axis, which counts from the end."""
    rows = jnp.moveaxis(array, axis, 0)
    rows = rows.reshape(rows.shape[0] // parts, parts, *rows.shape[1:])
    return jnp.moveaxis(jnp.swapaxes(rows, 0, 1), 1, axis)


def glue(array: Array, axis: int = -1) -> Array:
    """The array of which `cut` made these parts."""
    rows = jnp.swapaxes(jnp.moveaxis(array, axis, 1), 0, 1)
    return jnp.moveaxis(rows.reshape(-1, *rows.shape[2:]), 0, axis)


@jax.custom_vjp
def _collected(parts: Array, there: Array, place: Array) -> Array:
    return _at(parts, there).sum(-2)


def _collected_forward(parts: Array, there: Array, place: Array) -> tuple[Array, Array]:
    return _collected(parts, there, place), place


def _collected_backward(place: Array, g: Array) -> tuple[Array, None, None]:
    """Every part belongs to one point: what is added there comes back, and nothing has to be added up.

    The barriers keep a GPU from finding it anew for each of its uses.
    """
    barrier = jax.lax.optimization_barrier
    return barrier(_at(barrier(g), place)), None, None


def _at(array: Array, numbers: Array) -> Array:
    """The columns of an array (…, n) with these numbers, (…, *numbers); zeros where a number is n.

    Taken row by row, which a GPU does in less time than whole columns.
    """
    n = array.shape[-1]
    rows, columns = array.reshape(-1, n), jnp.where(numbers < n, numbers, 0).reshape(1, -1)
    columns = jnp.broadcast_to(columns, (len(rows), columns.size))
    taken = jnp.take_along_axis(rows, columns, axis=1, mode="promise_in_bounds")
    return jnp.where(numbers < n, taken.reshape(*array.shape[:-1], *numbers.shape), 0)


_collected.defvjp(_collected_forward, _collected_backward)


@dataclass(frozen=True)
class Plan:
    """How long the lists of a stack are: the owners of its tiles, and how many networks may count at one point.

    scale (slots,): the largest coefficients of the value and of each derivative, against which parts are small.
    """

    owners: tuple[int, ...]
    most: int
    scale: np.ndarray

    def tiled(self, inputs: Jet, matrix: MatrixJet) -> Tiled:
        """Lists of the points of a batch: inputs (f, slots, n), shared by all networks, and matrix (k, m, o, slots, n).

        Each network gets the points where its coefficients are largest.
        """
        sizes = (_sizes(matrix) / self.scale[:, None]).max(1)
        n = sizes.shape[1]
        owners = np.array(self.owners)
        first = np.searchsorted(owners, np.arange(len(sizes)))  # tile of each network
        column = (np.arange(len(owners)) - first[owners])[:, None] * TILE + np.arange(TILE)
        order = jnp.argsort(-sizes, axis=1)
        point = order[owners[:, None], np.minimum(column, n - 1)]
        rank = jnp.zeros_like(order).at[np.arange(len(sizes))[:, None], order].set(np.arange(n), unique_indices=True)
        ends = TILE * np.bincount(owners, minlength=len(sizes))
        nowhere = owners.size * TILE
        slot = jnp.where(rank < ends[:, None], TILE * first[:, None] + rank, nowhere)
        there = jnp.take_along_axis(slot, jax.lax.top_k(sizes.T, self.most)[1].T, axis=0).astype(jnp.int32)
        back = jnp.full(nowhere, n, jnp.int32).at[there].set(jnp.arange(n, dtype=jnp.int32), mode="drop")
        by_tile = jnp.moveaxis(matrix[owners[:, None], :, :, :, point], 1, -1)
        return Tiled(jnp.moveaxis(inputs[..., point], -2, 0), by_tile, back.reshape(-1, TILE), there, self.owners)


def _sizes(matrix: MatrixJet) -> Array:
    """The largest coefficient of each network and slot, (k, slots, n)."""
    return jnp.abs(matrix).max((1, 2))


def plan(matrices: Callable[[Array], MatrixJet], inside: Array, edges: Array, points: int,
         dtype: DTypeLike) -> Plan | None:
    """Lists for `points` points with the distribution of those `inside`; None if they would not be much shorter than
    all points of all networks.

    matrices(x): (k, m, o, slots, n). edges: points of all boundaries, where many networks may count at once.
    """

    @jax.jit
    def sizes(x: Array) -> Array:
        return _sizes(matrices(x))

    def found(x: Array) -> np.ndarray:
        blocks = np.array_split(np.asarray(x), max(1, len(x) // 1024))
        return np.concatenate([np.asarray(sizes(block)) for block in blocks], axis=-1)

    within, along = found(inside), found(edges)
    scale = np.maximum(within.max((0, 2)), along.max((0, 2)))
    scale[scale == 0] = 1.0
    counts = [(size / scale[:, None]).max(1) > np.finfo(dtype).eps / 2 for size in (within, along)]
    tiles = np.maximum(1, np.ceil(points * counts[0].mean(1) / TILE)).astype(int)
    if tiles.sum() * TILE > WORTH * points * len(tiles):
        return None
    owners = tuple(int(i) for i in np.repeat(np.arange(len(tiles)), tiles))
    return Plan(owners, min(len(tiles), max(int(count.sum(0).max()) for count in counts) + 1), scale)
