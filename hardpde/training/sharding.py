"""Where the arrays of a training lie when several devices share it; without a mesh all stay where they are."""

from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hardpde.support.hardware import current_device

_TAKEN = RLock()


def alone(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """Nobody else in this process uses several devices at once: programs of two threads that wait for messages would
    wait for each other, on some devices one of them and on others the other."""
    return nullcontext() if mesh is None else _TAKEN


def stacked(mesh: Mesh | None, trees: list[Any]) -> Any:
    """Trees as one, along a new first axis; with a mesh, what lay on the devices stays there."""
    if mesh is None:
        return _stack(trees)
    return jax.jit(_stack, out_shardings=NamedSharding(mesh, PartitionSpec(None, *mesh.axis_names)))(trees)


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def everywhere(mesh: Mesh | None, tree: Any) -> Any:
    """All devices have all of it."""
    return tree if mesh is None else jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, PartitionSpec()))


def settled(mesh: Mesh | None, tree: Any) -> Any:
    """The tree, bound to the device that computes: a function is compiled again for arguments that are bound and were
    not."""
    return tree if mesh is not None else jax.device_put(tree, current_device())


def laid_out(mesh: Mesh | None, state: Any, weights: int) -> Any:
    """The state of an optimiser between blocks: each device has some rows of a matrix of weights × weights.

    They are padded with zeros to as many for each device.
    """
    return state if mesh is None else jax.tree.map(lambda a: _padded(mesh, a, weights), state)


def in_use(mesh: Mesh | None, state: Any, weights: int) -> Any:
    """The state of an optimiser in a block, from how it lies between blocks: matrices without what fills them up."""
    return state if mesh is None else jax.tree.map(lambda a: _trimmed(mesh, a, weights), state)


def gathered(mesh: Mesh | None, product: Array) -> Array:
    """A matrix by rows times a vector: each device has some entries, then all of them have all."""
    return product if mesh is None else everywhere(mesh, _by_rows(mesh, product))


def _padded(mesh: Mesh, array: Array, weights: int) -> Array:
    if array.shape != (weights, weights):
        return everywhere(mesh, array)
    return _by_rows(mesh, jnp.pad(array, ((0, -weights % mesh.size), (0, 0))))


def _trimmed(mesh: Mesh, array: Array, weights: int) -> Array:
    if array.shape not in ((weights, weights), (weights + -weights % mesh.size, weights)):
        return everywhere(mesh, array)
    return _by_rows(mesh, array[:weights])


def _by_rows(mesh: Mesh, matrix: Array) -> Array:
    return jax.lax.with_sharding_constraint(matrix, NamedSharding(mesh, PartitionSpec(*mesh.axis_names)))


def on_one_device(mesh: Mesh | None, array: Array) -> Array:
    """An array that all devices have, on one device of this process."""
    return array if mesh is None else jnp.asarray(np.asarray(array))


def to_host(array: Array) -> np.ndarray:
    """All of an array, of which other processes may have parts, in the memory of this one."""
    if array.is_fully_addressable:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)


def placed_like(found: np.ndarray, like: Array) -> Array:
    """An array on the same devices as another one."""
    if len(like.sharding.device_set) == 1:
        return jnp.asarray(found)
    return jax.make_array_from_callback(found.shape, like.sharding, lambda index: found[index])
