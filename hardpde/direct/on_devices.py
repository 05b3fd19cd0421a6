"""Dense least squares by JAX, on the device that holds the matrix or on several that share its rows.

Each device factors its rows, and all of them factor the triangles that were found (tall-skinny QR).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hardpde.formulation.sharded import AXIS, make_mesh

SHORTEST = 1e-13  # of the longest column: shorter ones are not scaled up as far
Either = TypeVar("Either", np.ndarray, Array)


def shared_rows(array: np.ndarray | Array, devices: int) -> Array:
    """An array (m, …) with its rows shared by the first devices there are, and rows of zeros to make equal shares."""
    short = -len(array) % devices
    padded = jnp.pad(jnp.asarray(array), [(0, short), *[(0, 0)] * (array.ndim - 1)])
    return jax.device_put(padded, NamedSharding(make_mesh(devices), PartitionSpec(AXIS)))


def _rows(matrix: Array) -> tuple[Mesh, str]:
    """The devices that share the rows of a matrix, and the name of their axis."""
    sharding = matrix.sharding
    if isinstance(sharding, NamedSharding) and sharding.spec and isinstance(sharding.spec[0], str):
        return sharding.mesh, sharding.spec[0]  # type: ignore[return-value]
    return Mesh(np.array(list(sharding.device_set)[:1]), (AXIS,)), AXIS


def scales(r: Either) -> tuple[Either, Either]:
    """The lengths of the columns of R (n,), by which they are scaled, and the diagonal of a ridge of 1 after that."""
    lengths = (r * r).sum(0) ** 0.5
    longest = lengths.max() + (lengths.max() == 0)
    lengths = lengths.clip(min=SHORTEST * longest)
    return lengths, longest / lengths


def reduced(matrix: Array, right: Array) -> tuple[Array, Array]:
    """R and Qᵀ b, on one device."""
    mesh, axis = _rows(matrix)
    r, c = _reduced(matrix, jax.device_put(right, NamedSharding(mesh, PartitionSpec(axis))), mesh, axis)
    return r.addressable_data(0), c.addressable_data(0)


@partial(jax.jit, static_argnames=("mesh", "axis"))
def _reduced(matrix: Array, right: Array, mesh: Mesh, axis: str) -> tuple[Array, Array]:
    n = matrix.shape[1]

    def own(matrix: Array, right: Array) -> tuple[Array, Array]:
        r = jnp.linalg.qr(jnp.concatenate([matrix, right], 1), mode="r")
        if mesh.size > 1:
            r = jnp.linalg.qr(jax.lax.all_gather(r, axis, tiled=True), mode="r")
        return r[:n, :n], r[:n, n:]

    each, everywhere = PartitionSpec(axis), PartitionSpec()
    return jax.shard_map(own, mesh=mesh, in_specs=each, out_specs=everywhere, check_vma=False)(matrix, right)


@jax.jit
def with_diagonal(r: Array, c: Array, diagonal: np.ndarray) -> Array:
    """The y (n, k) of least |R y − c|² + |diagonal y|²."""
    n = len(diagonal)
    below = jnp.concatenate([jnp.diag(diagonal), jnp.zeros((n, c.shape[1]))], 1)
    found = jnp.linalg.qr(jnp.concatenate([jnp.concatenate([r, c], 1), below]), mode="r")
    return solve_triangular(found[:n, :n], found[:n, n:])


def orthogonal(matrix: Array, ridge: float) -> tuple[Callable[[Any], Array], Callable[[Array], Array], Array]:
    """The functions Qᵀ b and R⁻¹ c for scaled columns on top of a ridge, and their lengths; Q stays on the devices.

    b may lack rows at the end, which are zero then.
    """
    mesh, axis = _rows(matrix)
    q, r, lengths = jax.block_until_ready(_orthogonal(matrix, ridge, mesh, axis))
    r = r.addressable_data(0)

    def project(right: Any) -> Array:
        whole = jnp.pad(jnp.asarray(right), [(0, len(q) - len(right)), *[(0, 0)] * (right.ndim - 1)])
        there = jax.device_put(whole, NamedSharding(mesh, PartitionSpec(axis)))
        return _times_transposed(q, there, mesh).addressable_data(0)

    return project, partial(_solve_triangular, r), lengths.addressable_data(0)


_solve_triangular = jax.jit(solve_triangular)


@partial(jax.jit, static_argnames="mesh")
def _times_transposed(q: Array, right: Array, mesh: Mesh) -> Array:
    return jax.lax.with_sharding_constraint(q.T @ right, NamedSharding(mesh, PartitionSpec()))


@partial(jax.jit, static_argnames=("mesh", "axis"))
def _orthogonal(matrix: Array, ridge: float, mesh: Mesh, axis: str) -> tuple[Array, Array, Array]:
    def own(matrix: Array) -> tuple[Array, Array, Array]:
        q, r = jnp.linalg.qr(matrix)
        triangles = jax.lax.all_gather(r, axis, tiled=True)
        lengths, diagonal = scales(triangles)
        small, both = jnp.linalg.qr(jnp.concatenate([triangles / lengths, jnp.diag(ridge * diagonal)]))
        first = jax.lax.axis_index(axis) * len(r)
        return q @ jax.lax.dynamic_slice_in_dim(small, first, len(r)), both, lengths

    each, everywhere = PartitionSpec(axis), PartitionSpec()
    return jax.shard_map(own, mesh=mesh, in_specs=each, out_specs=(each, everywhere, everywhere),
                         check_vma=False)(matrix)
