"""Formulations: a model, its points, and what is minimised."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz import Batch
from hardpde.geometry.stacking import feet
from hardpde.problem import Problem

Model = Any  # a pytree of arrays


@dataclass(frozen=True, eq=False)
class Formulation:
    """What a method makes of a problem.

    init(key): a model. draw(key, n, adaptive, model): n points with all that is needed there; `adaptive`
    points are drawn where the model's residual is large. state(model, batch): the state as a jet.
    values(x): the same as `draw` for given points, without derivatives. chunks: into how many parts a batch
    is cut on the way (on a CPU small parts stay in the cache).
    """

    problem: Problem
    init: Callable[[Array], Model]
    draw: Callable[[Array, Model | None], Batch]
    draw_held_out: Callable[[Array], Batch]
    state: Callable[[Model, Batch], Array]
    at: Callable[[np.ndarray], Batch]
    points: int
    dtype: Any
    chunks: int = 1

    def residuals(self, model: Model, batch: Batch) -> Array:
        """All residuals, scaled, (e, n)."""
        jet = self.state(model, batch)
        derivatives = jnp.swapaxes(jet[:, 1:], 0, 1)
        values = jax.vmap(self.problem.residuals, (0, 1, 2), 1)(batch.x, jet[:, 0], derivatives)
        return values * batch.scale

    def residual_vector(self, model: Model, batch: Batch) -> Array:
        """Residuals as one vector r with loss = r·r."""
        r = self.residuals(model, batch)
        return r.ravel() / np.sqrt(r.shape[-1])

    def loss(self, model: Model, batch: Batch) -> Array:
        """Mean over the points of the sum of squared residuals."""
        if self.chunks == 1:
            return self._part(model, batch)
        parts = jax.lax.map(partial(self._part, model), split(batch, self.chunks))
        return parts.mean()

    def _part(self, model: Model, batch: Batch) -> Array:
        return (self.residuals(model, batch) ** 2).sum(0).mean()

    def value_and_grad(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The loss and its gradient, part by part."""
        part = jax.value_and_grad(self._part)
        if self.chunks == 1:
            return part(model, batch)

        def add(total, chunk):
            return jax.tree.map(jnp.add, total, part(model, chunk)), None

        zero = (jnp.zeros((), self.dtype), jax.tree.map(jnp.zeros_like, model))
        total, _ = jax.lax.scan(add, zero, split(batch, self.chunks))
        return jax.tree.map(lambda a: a / self.chunks, total)

    def jacobian(self, model: Model, batch: Batch) -> Model:
        """Derivative of `residual_vector` by every weight, (e · n, *weight), point by point.

        The residuals of a point depend on the network at that point and its feet alone, so this costs e
        gradients of one point for each, not one of the whole batch for each row.
        """
        lengths = [term.inputs.shape[-1] for term in batch.terms]
        borders = sorted({0, *lengths})
        parts = []
        for start, stop in pairwise(borders):
            terms = tuple(term for term, length in zip(batch.terms, lengths) if length >= stop)
            rest = jax.tree.map(lambda a, w=slice(start, stop): jnp.moveaxis(a[..., w], -1, 0),
                                (batch.offset, terms, batch.scale))

            def one(point):
                x, (offset, terms, scale) = point
                single = Batch(x[None], *jax.tree.map(lambda a: a[..., None], (offset, terms, scale)))
                return jax.jacrev(lambda m: self.residuals(m, single)[:, 0])(model)

            parts.append(jax.lax.map(one, (batch.x[start:stop], rest), batch_size=256))
        scale = 1 / np.sqrt(len(batch.x))

        def stack(*rows: Array) -> Array:
            whole = jnp.swapaxes(jnp.concatenate(rows), 0, 1)  # (e, n, *weight)
            return scale * whole.reshape(-1, *whole.shape[2:])

        return jax.tree.map(stack, *parts)

    @cached_property
    def _value(self):
        return jax.jit(lambda model, batch: self.state(model, batch)[:, 0].T)

    def predict(self, model: Model, x: np.ndarray, block: int = 16384) -> np.ndarray:
        """The state (n, m) at points (n, c), in double precision."""
        model = jax.tree.map(lambda a: a.astype(jnp.float64), model)
        x = np.asarray(x, float)
        parts = []
        for start in range(0, len(x), block):
            part = x[start : start + block]
            # Every block has the same size, so that one compilation serves all.
            padded = np.concatenate([part, np.repeat(part[-1:], (block if len(x) > block else len(x)) - len(part), 0)])
            parts.append(np.asarray(self._value(model, self.at(padded)))[: len(part)])
        return np.concatenate(parts)


def split(batch: Batch, parts: int) -> Batch:
    """Cut a batch into parts, (parts, …) on every array; part j takes rows j, j + parts, …

    Points with corrections come first in a batch, so every part gets its share of them.
    """

    def cut(array: Array, axis: int = -1) -> Array:
        rows = jnp.moveaxis(array, axis, 0)
        rows = rows.reshape(rows.shape[0] // parts, parts, *rows.shape[1:])
        return jnp.moveaxis(jnp.swapaxes(rows, 0, 1), 1, axis)

    return Batch(cut(batch.x, 0 - batch.x.ndim), *jax.tree.map(cut, (batch.offset, batch.terms, batch.scale)))


def plain_scale(problem: Problem) -> Callable[[Array], Array]:
    """All factors of the residuals are 1, (e,)."""
    schema = problem.schema
    size = jax.eval_shape(problem.residuals, jnp.zeros(schema.coordinates), jnp.zeros(schema.size),
                          jnp.zeros((schema.coordinates, schema.size))).shape
    return lambda x: jnp.ones(size)


def residual_scale(problem: Problem) -> Callable[[Array], Array]:
    """The factors of the residuals at a point, (e,): those stated, or those the geometry suggests.

    Where boundary and initial data meet, a solution has a layer of width √t and its equations grow like 1/ℓ
    with ℓ² = t + distance² (in units of the time span and the collar). The user's equations are scaled by
    min(1, ℓ) there, so that no single corner of space-time rules the loss.
    """
    schema, layout, stated, ones = problem.schema, problem.layout, problem.hints.scale, plain_scale(problem)
    if stated is not None:
        return lambda x: ones(x) * jnp.asarray(stated(x))
    if not layout.initial or not layout.pieces or problem.time is None:
        return ones
    start, end = problem.time
    collar = jnp.asarray(layout.collar)
    gradients = sum(int(np.prod(schema.shapes[name])) for name, _ in schema.gradients)

    def scale(x: Array) -> Array:
        squared = ((feet(layout.pieces, x) - x[: schema.dim]) ** 2).sum(-1) / collar**2
        length = jnp.sqrt(jnp.minimum((x[-1] - start) / (end - start) + squared.min(), 1.0))
        factors = ones(x)
        return factors.at[: factors.size - gradients].set(length)

    return scale


def cast(batch: Batch, dtype) -> Batch:
    return jax.tree.map(lambda a: a.astype(dtype), batch)


def default_chunks(points: int, chunk: int | None, on_cpu: int) -> int:
    """Into how many parts a batch is cut: of `chunk` points if stated, else of `on_cpu` on a CPU, else one."""
    if chunk is None:
        chunk = on_cpu if jax.default_backend() == "cpu" else points
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    return max(1, round(points / chunk))


def adaptive_choice(key: Array, score: Array, n: int) -> Array:
    """n numbers without repetition, chosen with probability ∝ |score|/mean + 1 (RAD, Wu et al. 2023)."""
    weight = score / jnp.maximum(score.mean(), 1e-300) + 1.0
    noise = jax.random.gumbel(key, score.shape)
    return jax.lax.top_k(jnp.log(weight) + noise, n)[1]
