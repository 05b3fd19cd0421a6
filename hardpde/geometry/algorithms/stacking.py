"""Many pieces at once: pieces of one kind are stacked and evaluated by one `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.support.compiling import compiled_quickly, tracing

if TYPE_CHECKING:
    from hardpde.geometry.base import Kind, Piece


def safe_root(square: jax.Array) -> jax.Array:
    """√square; at 0 the first derivative is 0, not infinite."""
    zero = square == 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))


def safe_norm(v: jax.Array) -> jax.Array:
    """|v| along the last axis; at v = 0 the value and the first derivative are 0, not NaN."""
    return safe_root(jnp.sum(v * v, axis=-1))


def clamp(x: jax.Array, lo: Any, hi: Any) -> jax.Array:
    """x limited to [lo, hi]; at the limits the derivative is the one from within (1), not an average."""
    return jnp.where(x < lo, lo, jnp.where(x > hi, hi, x))


def concrete(function: Callable, *args: Any) -> Any:
    """NumPy result of a (jitted) function of concrete arguments, also while a caller is being traced."""
    with compiled_quickly():
        if not tracing():
            return jax.tree.map(np.asarray, function(*args))
        # Only where needed: it makes JAX run the constant parts of `function` one operation at a time.
        with jax.ensure_compile_time_eval():
            return jax.tree.map(np.asarray, function(*args))


@dataclass(frozen=True, eq=False)
class Group:
    """n pieces of one kind: params (n, k), index (n,) in the original order, sign (n,) (-1: flipped)."""

    kind: Kind
    params: np.ndarray
    index: np.ndarray
    sign: np.ndarray


def partition(keys: Sequence[Hashable]) -> list[np.ndarray]:
    """Positions of equal keys, one index array per distinct key, in order of appearance."""
    places: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    return [np.array(p) for p in places.values()]


@lru_cache(maxsize=256)
def stack(pieces: tuple[Piece, ...]) -> tuple[Group, ...]:
    """Group pieces by kind and stack their parameters."""
    groups = []
    for index in partition([p.kind for p in pieces]):
        members = [pieces[i] for i in index]
        params = np.array([p.params for p in members], dtype=float)
        sign = np.array([-1.0 if p.flip else 1.0 for p in members])
        groups.append(Group(members[0].kind, params, index, sign))
    return tuple(groups)


def original_order(indices: Sequence[np.ndarray]) -> np.ndarray | None:
    """Permutation that undoes a concatenation by groups; None where it is the identity."""
    order = np.concatenate(indices)
    if np.array_equal(order, np.arange(len(order))):
        return None
    return np.argsort(order)


def unstack(parts: Sequence[jax.Array], indices: Sequence[np.ndarray]) -> jax.Array:
    """Concatenate per-group results along axis 0, in the original order."""
    joined = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
    order = original_order(indices)
    return joined if order is None else joined[order]


def feet(pieces: tuple[Piece, ...], x: jax.Array) -> jax.Array:
    """Closest points of all pieces to one point: (n_pieces, d)."""
    groups = stack(pieces)
    parts = [jax.vmap(g.kind.closest, (0, None))(jnp.asarray(g.params), x) for g in groups]
    return unstack(parts, [g.index for g in groups])


def normals(pieces: tuple[Piece, ...], points: jax.Array) -> jax.Array:
    """Outward normals of the domain, of each piece at its own point (n_pieces, d): (n_pieces, d)."""
    groups = stack(pieces)
    parts = [
        jax.vmap(g.kind.normal)(jnp.asarray(g.params), points[g.index]) * g.sign[:, None] for g in groups
    ]
    return unstack(parts, [g.index for g in groups])


def curvatures(pieces: tuple[Piece, ...], points: jax.Array) -> jax.Array:
    """Signed curvatures of plane pieces, each at its own point (n_pieces, 2): (n_pieces,)."""
    groups = stack(pieces)
    parts = [jax.vmap(g.kind.curvature)(jnp.asarray(g.params), points[g.index]) * g.sign for g in groups]
    return unstack(parts, [g.index for g in groups])


def distances(pieces: tuple[Piece, ...], x: jax.Array) -> jax.Array:
    """Distances of one point to all pieces: (n_pieces,)."""
    near = feet(pieces, x)
    return safe_norm(x[: near.shape[1]] - near)


def place(pieces: tuple[Piece, ...], which: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Points and outward normals, (n, d) each, of piece `which` (n,) at unit-cube coordinates u (n, d)."""
    points = normal = jnp.zeros_like(u)
    for g in stack(pieces):
        local = np.full(len(pieces), -1)
        local[g.index] = np.arange(len(g.index))
        row = jnp.asarray(local)[which]
        params = jnp.asarray(g.params)[row] if len(g.index) > 1 else jnp.asarray(g.params[0])
        axis = 0 if len(g.index) > 1 else None
        y = jax.vmap(g.kind.place, (axis, 0))(params, u)
        n = jax.vmap(g.kind.normal, (axis, 0))(params, y) * jnp.asarray(g.sign)[row][:, None]
        mine = (row >= 0)[:, None]
        points, normal = jnp.where(mine, y, points), jnp.where(mine, n, normal)
    return points, normal
