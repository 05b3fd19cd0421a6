"""Jets: values and derivatives of functions of the point, carried through products and tanh together."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

# Widths are free: of all jets of a function, slots and points must agree. More axes may stand before them.
Jet = Float[Array, "*_lead _width slots n"]
JetPointsFirst = Float[Array, "*_lead slots n _width"]
MatrixJet = Float[Array, "*_lead _rows _columns slots n"]
Weights = Float[Array, "*_stack _in _out"]
Biases = Float[Array, "*_stack _out"]

GPU_SLOTS, CPU_SLOTS = -3, -2  # where slots are: before points and widths, or between widths and points
SEVERAL = 6  # slots of a jet that go through tanh one by one


def multiply(a: Jet, b: Jet, second: int = 0) -> Jet:
    """The product of two jets, whose leading axes broadcast.

    second: as in `MLP.jet`; then Δ(a b) = Δa b + 2 Σ_k ∂_k a ∂_k b + a Δb takes the last slot.
    """
    value = a[..., :1, :] * b[..., :1, :]
    tangents = a[..., 1:, :] * b[..., :1, :] + a[..., :1, :] * b[..., 1:, :]
    if second:
        space = slice(1, 1 + second)
        mixed = 2 * (a[..., space, :] * b[..., space, :]).sum(-2)
        tangents = tangents.at[..., -1, :].add(mixed)
    return jnp.concatenate([value, tangents], axis=-2)


class Slots(NamedTuple):
    """A jet: its value, the derivatives that a Laplacian sums over, the others, the Laplacian; each has a slot or more.
    """

    value: Array
    space: list[Array]
    rest: list[Array]
    laplacian: Any = None


def pieces(jet: Array, second: int, axis: int, one_by_one: bool = False) -> Slots:
    """A jet whose slots are along this axis. A few of them always come one by one: one thread of a GPU has them all,
    and a CPU has nothing to sum over. Many come together unless told otherwise."""
    slots = jet.shape[axis]
    single = one_by_one or slots <= SEVERAL
    borders = list(range(1, slots)) if single else [1, *sorted({1 + second, slots - 1} if second else ())]
    value, *tangents = jnp.split(jet, borders, axis=axis)
    if not second:
        return Slots(value, [], tangents)
    space = second if single else 1
    return Slots(value, tangents[:space], tangents[space:-1], tangents[-1])


def joined(jet: Slots | tuple[Slots, Slots], axis: int) -> Array:
    return jnp.concatenate(jax.tree.leaves(jet), axis=axis)


def total(pieces: list[Array], axis: int) -> Any:
    """The sum over all slots of all pieces, as one slot; 0 if there are none."""
    if axis == GPU_SLOTS:
        return sum(piece.sum(axis, keepdims=True) for piece in pieces)
    return sum(part for piece in pieces for part in jnp.split(piece, piece.shape[axis], axis))


def times_each(factor: Array, piece: Array, axis: int) -> Array:
    """One slot times each of a piece. On a CPU it is copied for each, so that its gradient adds slots one by one."""
    slots = piece.shape[axis]
    return factor * piece if axis == GPU_SLOTS or slots == 1 else jnp.concatenate([factor] * slots, axis) * piece


def tanh_of(z: Slots, axis: int) -> Slots:
    """The jet of tanh z: h' = 1 − h², h'' = −2 h h'."""
    h = jnp.tanh(z.value)
    s = 1 - h * h
    laplacian = None if z.laplacian is None else s * (z.laplacian - 2 * h * total([t * t for t in z.space], axis))
    return Slots(h, [times_each(s, t, axis) for t in z.space], [times_each(s, t, axis) for t in z.rest],
                 laplacian)


def dual_of_tanh(z: Slots, slopes: Slots, axis: int) -> tuple[Slots, Slots]:
    """The jet of tanh z, and that of its derivative (1 − tanh² z) ż along a direction, from the jets of z and ż."""
    h = jnp.tanh(z.value)
    s, change = 1 - h * h, -2 * h  # tanh', and the factor of derivatives of tanh in those of tanh'
    steep = slopes.value
    mixing = s * change * steep

    def mixed(tangents: list[Array], seconds: list[Array]) -> list[Array]:
        return [times_each(mixing, t, axis) + times_each(s, u, axis) for t, u in zip(tangents, seconds)]

    jet = Slots(h, [times_each(s, t, axis) for t in z.space], [times_each(s, t, axis) for t in z.rest])
    dual = Slots(s * steep, mixed(z.space, slopes.space), mixed(z.rest, slopes.rest))
    if z.laplacian is None:
        return jet, dual
    squares = total([t * t for t in z.space], axis)
    laplacian = s * (z.laplacian + change * squares)
    both = change * total([t * b for t, b in zip(z.space, slopes.space)], axis)
    last = (change * laplacian - 2 * s * s * squares) * steep + s * (slopes.laplacian + 2 * both)
    return jet._replace(laplacian=laplacian), dual._replace(laplacian=last)
