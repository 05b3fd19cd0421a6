"""Derivatives of what the loss squares by all weights of the model, place by place."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch, by_term, split_batch, untiled
from hardpde.formulation.objective import Model, Terms
from hardpde.formulation.penalties import Penalty

AT_ONCE = 256  # places


def jacobian(terms: Terms, model: Model, batch: Batch) -> Model:
    """Derivative of `Terms.vector` by every weight, (e · n, *weight), point by point.

    The residuals of a point depend on the network at that point and its feet alone, so this costs e
    gradients of one point for each, not one of the whole batch for each row.
    """
    terms.check_squares()
    batch = untiled(batch)
    lengths = [term.inputs.shape[-1] for term in batch.terms]
    parts = []
    for start, stop in pairwise(sorted({0, *lengths})):
        there = tuple(term for term, length in zip(batch.terms, lengths) if length >= stop)
        rest = jax.tree.map(lambda a, w=slice(start, stop): jnp.moveaxis(a[..., w], -1, 0),
                            (batch.offset, there, batch.scale))

        def one(point: tuple[Array, Any]) -> Model:
            x, (offset, there, scale) = point
            single = Batch(x[None], *jax.tree.map(lambda a: a[..., None], (offset, there, scale)))
            return jax.jacrev(lambda m: terms.residuals(m, single)[:, 0])(model)

        parts.append(jax.lax.map(one, (batch.x[start:stop], rest), batch_size=AT_ONCE))
    scale = 1 / np.sqrt(len(batch.x))

    def stack(*rows: Array) -> Array:
        by_row = jnp.swapaxes(jnp.concatenate(rows), 0, 1)  # (e, n, *weight)
        return scale * by_row.reshape(-1, *by_row.shape[2:])

    roots = jnp.sqrt(terms.weights_of(batch))
    blocks = [jax.tree.map(lambda a: roots[0] * a, jax.tree.map(stack, *parts))]
    for penalty, part, where in terms.parts(batch):
        blocks.append(_penalty_jacobian(terms, model, penalty, part, roots[where]))
    return jax.tree.map(lambda *rows: jnp.concatenate(rows), *blocks)


def _penalty_jacobian(terms: Terms, model: Model, penalty: Penalty, part: Batch, roots: Array) -> Model:
    """The rows that belong to one penalty, place by place."""
    places = split_batch(part, len(part.x) // penalty.points)

    def one(place: Batch) -> Model:
        return jax.jacrev(lambda m: terms.penalty_rows(m, penalty, place)[:, 0])(model)

    rows = jax.lax.map(one, places, batch_size=AT_ONCE)  # (places, r, *weight)
    scale = jnp.repeat(roots / np.sqrt(penalty.each), len(part.x) // penalty.points // len(roots))

    def stack(a: Array) -> Array:
        a = a * scale.reshape(-1, *[1] * (a.ndim - 1))
        return jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])

    return jax.tree.map(stack, rows)


def kernel_traces(terms: Terms, model: Model, batch: Batch, sample: int) -> Array:
    """The mean over at most `sample` places of each term of the squared derivatives of its rows by all weights:
    the trace of its neural tangent kernel over the number of places, (1 + p,).

    Places of a term come piece by piece, so those that are looked at are spread over all of them.
    """

    def trace(rows: Callable[[Model, Batch], Array], part: Batch, places: int) -> Array:
        def one(place: Batch) -> Array:
            rates = jax.jacrev(lambda m: rows(m, place)[:, 0])(model)
            return jax.tree.reduce(jnp.add, jax.tree.map(lambda a: (a**2).sum(), rates))

        chosen = np.arange(min(sample, places)) * places // min(sample, places)
        return jax.vmap(one)(jax.tree.map(lambda a: a[chosen], split_batch(part, places))).mean()

    found = [trace(terms.residuals, batch._replace(penalised=(), weights=None), len(batch.x))[None]]
    for penalty, part, _ in terms.parts(batch):
        rows = partial(terms.penalty_rows, penalty=penalty)
        found.append(jax.vmap(lambda term, rows=rows, n=penalty.each:
                              trace(lambda m, p: rows(m, part=p), term, n))(by_term(part, penalty)))
    return jnp.concatenate(found)
