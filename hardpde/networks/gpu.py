"""Layers on jets with the points first, as one product for value and derivatives, as a GPU wants it."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.networks.jets import (
    GPU_SLOTS,
    Biases,
    JetPointsFirst,
    Slots,
    Weights,
    dual_of_tanh,
    joined,
    pieces,
    tanh_of,
    total,
)
from hardpde.support.hardware import has_tensor_cores_for_bfloat16

NARROW = 5  # inputs or outputs of a layer, the constant among them
EVEN = 4  # hidden widths are multiples of it on a GPU
FEW = 1024  # rows that a product has at least, if it is cut into parts
CERTAIN = 30.0  # its tanh is 1 in any precision


def points_first(layers: list[tuple[Weights, Biases]], inputs: JetPointsFirst, second: int = 0,
                 dual: bool = False) -> JetPointsFirst:
    """Layers on jets, value and tangents in one product.

    dual: twice as many slots; the jets of derivatives along a direction follow, and so they do in what comes out.
    """
    *lead, c, n, _ = inputs.shape
    stack = layers[0][0].ndim == 3
    biases: list[Array | None]
    if stack or any(w.shape[-1] % EVEN for w, _ in layers[:-1]):
        matrices, biases = _with_constant(layers), [None] * len(layers)
        one = jnp.zeros((c, n, 1), inputs.dtype).at[0].set(1.0)
        jet = jnp.concatenate([inputs, jnp.broadcast_to(one, (*lead, c, n, 1))], axis=-1)
    else:
        matrices, biases, jet = [w for w, _ in layers], [b for _, b in layers], inputs
    if stack and not lead:
        jet = jnp.broadcast_to(jet, (matrices[0].shape[0], *jet.shape))
    for k, (w, b) in enumerate(zip(matrices, biases)):
        rows = jet.reshape(*jet.shape[:-3], c * n, jet.shape[-1])
        z = _rows_product(rows, w)
        z = z.reshape(*z.shape[:-2], c, n, w.shape[-1])
        if b is not None:
            z = jnp.concatenate([z[..., :1, :, :] + b, z[..., 1:, :, :]], axis=-3)
        jet = (tanh_dual if dual else tanh_jet)(z, second) if k < len(matrices) - 1 else z
    return jet


def full_precision(array: Array) -> Any:
    """How a product keeps full precision: single precision is three numbers of bfloat16, whose products run on tensor
    cores where there are such; the six that count are added up."""
    six = array.dtype == jnp.float32 and has_tensor_cores_for_bfloat16()
    return jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6 if six else "highest"


def _with_constant(layers: list[tuple[Weights, Biases]]) -> list[Weights]:
    """Layers as matrices alone: a constant 1 among the inputs of each has the biases as its weights.

    Hidden layers pass it on by a unit of their own, tanh(CERTAIN) = 1, whose derivatives vanish. So a gradient by the
    biases comes with that by the weights, and is not a sum over all points by itself. More units, which are and stay
    zero, make hidden widths that suit the memory of a GPU.
    """
    matrices = []
    before = layers[0][0].shape[-2]  # the number of the constant among the inputs
    for k, (w, b) in enumerate(layers):
        both = jnp.concatenate([w, b[..., None, :]], axis=-2)
        lead, after = [(0, 0)] * (w.ndim - 2), w.shape[-1]
        if k > 0:
            both = jnp.pad(both, [*lead, (0, EVEN - before % EVEN - 1), (0, 0)])
        if k < len(layers) - 1:
            both = jnp.pad(both, [*lead, (0, 0), (0, EVEN - after % EVEN)])
            unit = np.zeros(both.shape[-2:], both.dtype)
            unit[before, after] = CERTAIN
            both = both + unit
        matrices.append(both)
        before = after
    return matrices


@jax.custom_vjp
def _rows_product(jet: Array, w: Array) -> Array:
    """(…, rows, i) (…, i, o) → (…, rows, o), in full precision. For few inputs it is a sum, which fuses with others."""
    if w.shape[-2] > NARROW:
        return jnp.matmul(jet, w, precision=full_precision(jet))
    z = jet[..., 0, None] * w[..., None, 0, :]
    for i in range(1, w.shape[-2]):
        z = z + jet[..., i, None] * w[..., None, i, :]
    return z


def _rows_forward(jet: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _rows_product(jet, w), (jet, w)


def _rows_backward(factors: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """The gradient by the weights is a sum over all rows. That of a stack is taken in a few parts where there are many
    rows: a small matrix for each network would occupy few cores of a GPU."""
    jet, w = factors
    back = _rows_product(g, jnp.swapaxes(w, -1, -2))
    rows = jet.shape[-2]
    parts = 1 if w.ndim == 2 else next(p for p in (16, 8, 4, 2, 1) if rows % p == 0 and (rows >= p * FEW or p == 1))
    if parts > 1:
        jet, g = (a.reshape(*a.shape[:-2], parts, rows // parts, a.shape[-1]) for a in (jet, g))
    # The narrow factor first, which takes half the time; the barrier keeps the compiler from turning it round.
    if jet.shape[-1] <= g.shape[-1]:
        sums = _transposed_product(jet, g)
    else:
        sums = jnp.swapaxes(jax.lax.optimization_barrier(_transposed_product(g, jet)), -1, -2)
    return back, sums.sum(-3) if parts > 1 else sums


def _transposed_product(a: Array, b: Array) -> Array:
    return jnp.matmul(jnp.swapaxes(a, -1, -2), b, precision="highest")


_rows_product.defvjp(_rows_forward, _rows_backward)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def tanh_jet(z: JetPointsFirst, second: int) -> JetPointsFirst:
    """The jets of tanh z. Its gradient is written out, to be read and written once."""
    return joined(tanh_of(pieces(z, second, GPU_SLOTS), GPU_SLOTS), GPU_SLOTS)


def _tanh_forward(z: Array, second: int) -> tuple[Array, Array]:
    jet = tanh_jet(z, second)
    return jet, jet


def _tanh_backward(second: int, jet: Array, g: Array) -> tuple[Array]:
    """With h = tanh z₀ and s = 1 − h² the jet is h, a_k = s z_k, and b = s z_Δ − 2 h s Σ z_k² for the Laplacian; then
    ∂a_k/∂z₀ = −2 h a_k, ∂b/∂z₀ = −2 h b − 2 Σ a_k², ∂b/∂z_k = −4 h a_k: z itself is not needed any more."""
    h, space, rest, laplacian = pieces(jet, second, GPU_SLOTS)
    g_value, g_space, g_rest, g_laplacian = pieces(g, second, GPU_SLOTS)
    s = 1 - h * h
    g_slope = total([a * b for a, b in zip((*g_space, *g_rest), (*space, *rest))], GPU_SLOTS)
    back = [s * a for a in g_rest]
    if not second:
        return (joined(Slots(s * g_value - 2 * h * g_slope, [], back), GPU_SLOTS),)
    squares = total([t * t for t in space], GPU_SLOTS)
    g_slope = g_slope + g_laplacian * laplacian
    gradient = Slots(s * g_value - 2 * h * g_slope - 2 * squares * g_laplacian,
                     [s * a - 4 * h * g_laplacian * t for a, t in zip(g_space, space)], back, s * g_laplacian)
    return (joined(gradient, GPU_SLOTS),)


tanh_jet.defvjp(_tanh_forward, _tanh_backward)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def tanh_dual(z: JetPointsFirst, second: int) -> JetPointsFirst:
    """The jets of tanh z and those of its derivative along a direction, one after the other, from both of z."""
    return _dual_of_tanh(z, second)


def _dual_of_tanh(z: JetPointsFirst, second: int) -> JetPointsFirst:
    plain, slopes = (pieces(half, second, GPU_SLOTS, one_by_one=True) for half in jnp.split(z, 2, axis=GPU_SLOTS))
    return joined(dual_of_tanh(plain, slopes, GPU_SLOTS), GPU_SLOTS)


def _tanh_dual_forward(z: Array, second: int) -> tuple[Array, Array]:
    return _dual_of_tanh(z, second), z


def _tanh_dual_backward(second: int, z: Array, g: Array) -> tuple[Array]:
    """All that the gradient needs is found again from z: reading it would take longer."""
    return jax.vjp(lambda z: _dual_of_tanh(z, second), z)[1](g)


tanh_dual.defvjp(_tanh_dual_forward, _tanh_dual_backward)
