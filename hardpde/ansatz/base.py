"""Ansätze: how network outputs become a state that satisfies the conditions.

Both ansätze are affine in the network outputs,

    q(x) = c(x) + Σ_s M_s(x) N_s(y_s(x)),

with c, M_s and y_s known functions of the point alone. They are evaluated once for each set of points,
with their derivatives, so that training differentiates networks only (`combine`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.networks.jets import Jet, MatrixJet
from hardpde.networks.tiles import Tiled
from hardpde.problem.fields import Schema
from hardpde.support.hardware import on_cpu


class Term(NamedTuple):
    """Network evaluations of one kind, as jets: `inputs` (f, 1 + c, n) and `matrix` (m, o, 1 + c, n).

    A stack of k networks has matrices (k, m, o, 1 + c, n). Jets of second order have 2 + c slots. With `dual`,
    derivatives of the inputs along the normal, the matrix acts on the outputs and their normal derivatives (2 o).
    Without a matrix the outputs are the state.
    """

    inputs: Jet
    matrix: MatrixJet | None
    dual: Jet | None = None


def laplacian_over(schema: Schema, jet: Jet) -> int:
    """How many coordinates the Laplacian at the end of a jet sums over; 0 if there is none."""
    return schema.dim if jet.shape[-2] == schema.coordinates + 2 else 0


def combine(offset: Jet, terms: Sequence[Term | Tiled], outputs: Sequence[Array], second: int = 0) -> Jet:
    """The state and its derivatives, a jet (m, 1 + c, n), from the networks' output jets (o, 1 + c, n).

    second: as in `MLP.jet`; then Δ(M N) = ΔM N + 2 Σ_k ∂_k M ∂_k N + M ΔN takes the last slot.
    """
    state = offset
    for term, out in zip(terms, outputs):
        if isinstance(term, Tiled):
            part = term.collected((act_on_cpu if on_cpu() else act)(term.matrix, out, second))
        else:
            assert term.matrix is not None
            part = act(term.matrix, out, second)
            part = part if part.ndim == state.ndim else part.sum(0)
        points = part.shape[-1]
        state = state + part if points == state.shape[-1] else state.at[..., :points].add(part)
    return state


def act(matrix: MatrixJet, out: Jet, second: int) -> Jet:
    """The jets (…, m, slots, n) of M N: sums of products, not batched matrix products, as the matrices are tiny and
    this fuses."""
    out = out[..., None, :, :, :]
    value = _short_sum(matrix[..., :1, :] * out[..., :1, :], -3)
    tangents = _short_sum(matrix[..., 1:, :] * out[..., :1, :] + matrix[..., :1, :] * out[..., 1:, :], -3)
    if second:
        space = slice(1, 1 + second)
        mixed = 2 * _short_sum(matrix[..., space, :] * out[..., space, :], -3).sum(-2)
        tangents = tangents.at[..., -1, :].add(mixed)
    return jnp.concatenate([value, tangents], axis=-2)


act_on_cpu = jax.custom_vjp(act, nondiff_argnums=(2,))


def _act_forward(matrix: Array, out: Array, second: int) -> tuple[Array, Array]:
    return act(matrix, out, second), matrix


def _act_backward(second: int, matrix: Array, g: Array) -> tuple[None, Array]:
    """By the outputs alone; the matrices are known. JAX would sum over m, which takes ten times longer on a CPU."""
    g = g[..., None, :, :]
    value = _short_sum(_short_sum(matrix * g, -4), -2)[..., None, :]
    tangents = _short_sum(matrix[..., :1, :] * g[..., 1:, :], -4)
    if second:
        mixed = 2 * _short_sum(matrix[..., 1 : 1 + second, :] * g[..., -1:, :], -4)
        tangents = tangents.at[..., :second, :].add(mixed)
    return None, jnp.concatenate([value, tangents], axis=-2)


act_on_cpu.defvjp(_act_forward, _act_backward)


def _short_sum(array: Array, axis: int) -> Array:
    """The sum along a short axis; on a CPU one by one, as XLA takes twenty times longer to reduce such an array."""
    if not on_cpu():
        return array.sum(axis)
    return sum(jnp.split(array, array.shape[axis], axis)).squeeze(axis)  # type: ignore[union-attr]


def jets(function: Callable, x: Array, differentiate: bool = True, second: int = 0,
         coordinates: int | None = None) -> Any:
    """Value and derivatives of a function of one point: every output gets a last axis 1 + c, or 1 for values.

    coordinates: the derivatives are by so many, the first ones; by all unless stated.
    second: so many coordinates, the first ones, make a Laplacian, in one more slot; 0: none.
    """
    if not differentiate:
        return jax.tree.map(lambda v: v[..., None], function(x))

    def along(e: Array) -> Any:
        return jax.jvp(function, (x,), (e,))

    def twice(e: Array) -> Any:
        return jax.jvp(lambda y: jax.jvp(function, (y,), (e,))[1], (x,), (e,))[1]

    directions = jnp.eye(coordinates or x.size, x.size)
    value, tangents = jax.vmap(along, out_axes=(None, -1))(directions)
    parts = [jax.tree.map(lambda v: v[..., None], value), tangents]
    if second:
        seconds = jax.vmap(twice, out_axes=-1)(directions[:second])
        parts.append(jax.tree.map(lambda d: d.sum(-1, keepdims=True), seconds))
    return jax.tree.map(lambda *slots: jnp.concatenate(slots, axis=-1), *parts)
