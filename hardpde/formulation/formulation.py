"""Formulations: a model, its points, and what is minimised."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Batch, unlisted
from hardpde.formulation.penalties import Penalty
from hardpde.geometry import Nearby
from hardpde.networks.tiles import cut, glue
from hardpde.problem.problem import Problem

Model = Any  # a pytree of arrays
FEWEST, MOST = 64, 8192  # points that are evaluated at once
WASTE = 16  # times as many as needed may be, rather than compile again


# weights (1 + p,) of the terms of the loss, their gradients by term (equations first), model, batch → new weights
Balance = Callable[[Array, Model, Model, Batch], Array]


@partial(jax.tree_util.register_dataclass, data_fields=["number"], meta_fields=["of"])
@dataclass(frozen=True)
class Part:
    """Which points of a draw are meant: number, number + of, number + 2 of, … (the number may be traced)."""

    number: Any = 0
    of: int = 1


WHOLE = Part()


@dataclass(frozen=True, eq=False)
class Formulation:
    """What a method makes of a problem.

    init(key): a model. draw(key, model, part): points with all that is needed there, drawn where the model's residual
    is large if the method is told so; of a draw, only a part may be wanted. state(model, batch): the state as a jet.
    at(x, derivatives): the same as `draw` for given points. chunks: into how many parts a batch is cut on the way (on
    a CPU small parts stay in the cache). penalties: what the loss asks for at boundary points, beside the equations.
    balance: how the weights of the terms follow the training; None: they stay as they are. separable: the state at a
    point depends on that point of the batch alone. devices: how many may
    share the points evenly (`hardpde.formulation.sharded`).
    """

    problem: Problem
    init: Callable[[Array], Model]
    draw: Callable[..., Batch]
    draw_held_out: Callable[..., Batch]
    state: Callable[[Model, Batch], Array]
    at: Callable[[np.ndarray, bool], Batch]
    points: int
    dtype: Any
    chunks: int = 1
    penalties: tuple[Penalty, ...] = ()
    balance: Balance | None = None
    separable: bool = True
    devices: int = 1

    mesh: ClassVar = None  # all is computed on one device

    @property
    def weights(self) -> np.ndarray:
        """The weights (1 + p,) of the terms of the loss as training starts: the equations, then what is penalised."""
        return np.array([1.0, *[w for penalty in self.penalties for w in penalty.weights]], self.dtype)

    def residuals(self, model: Model, batch: Batch) -> Array:
        """All residuals, scaled, (e, n)."""
        jet = self.state(model, batch)
        derivatives = jnp.swapaxes(jet[:, 1:], 0, 1)
        values = jax.vmap(self.problem.residuals, (0, 1, 2), 1)(batch.x, jet[:, 0], derivatives)
        return values * batch.scale

    def penalty_rows(self, model: Model, penalty: Penalty, part: Batch) -> Array:
        """What a penalty asks to be zero, (r, places)."""
        jet = self.state(model, part)
        jet = jet.reshape(*jet.shape[:2], penalty.points, -1)
        x = part.x.reshape(penalty.points, -1, part.x.shape[-1])
        return jax.vmap(penalty.rows, (1, 3, -1), 1)(x, jnp.moveaxis(jet, 2, 0), part.data)

    def in_parts(self, batch: Batch) -> Batch:
        """The batch cut into its chunks, (chunks, …) on every array: once, and not in every step."""
        return batch if self.chunks == 1 else _cut(batch, self.chunks)

    def residual_vector(self, model: Model, batch: Batch) -> Array:
        """Residuals and what is penalised as one vector r with loss = r·r."""
        batch = whole(batch)
        roots = jnp.sqrt(self._weights(batch))
        rows = self.residuals(model, batch)
        parts = [roots[0] * rows.ravel() / np.sqrt(rows.shape[-1])]
        for penalty, part, where in self._parts(batch):
            rows = self.penalty_rows(model, penalty, part)
            rows = rows.reshape(len(rows), len(penalty.weights), -1) * roots[where, None]
            parts.append(rows.ravel() / np.sqrt(rows.shape[-1]))
        return jnp.concatenate(parts)

    def term_losses(self, model: Model, batch: Batch) -> Array:
        """The terms of the loss without their weights, (1 + p,): equations first, then what is penalised."""
        found = [self.equation_loss(model, batch)[None]]
        for penalty, part, _ in self._parts(batch):
            rows = (self.penalty_rows(model, penalty, part) ** 2).sum(0)
            found.append(rows.reshape(len(penalty.weights), -1).mean(1))
        return jnp.concatenate(found)

    def equation_loss(self, model: Model, batch: Batch) -> Array:
        """The first term: the mean over the points of the sum of squared residuals."""
        return (self.residuals(model, batch) ** 2).sum(0).mean()

    def loss(self, model: Model, batch: Batch) -> Array:
        """Mean over the points of the sum of squared residuals, and the penalties, each with its weight."""
        if self.chunks == 1:
            return self._part(model, batch)
        return jax.lax.map(partial(self._part, model), self._weighted_parts(batch)).mean()

    def _part(self, model: Model, batch: Batch) -> Array:
        return (self._weights(batch) * self.term_losses(model, batch)).sum()

    def _weights(self, batch: Batch) -> Array:
        return jnp.asarray(self.weights) if batch.weights is None else batch.weights

    def _parts(self, batch: Batch):
        """Each penalty with its points and the slice of its weights."""
        start = 1
        for penalty, part in zip(self.penalties, batch.penalised):
            yield penalty, part, slice(start, start + len(penalty.weights))
            start += len(penalty.weights)

    def value_and_grad(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The loss and its gradient, part by part."""
        return self._over_chunks(jax.value_and_grad(self._part), model, batch)

    def term_gradients(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The terms of the loss without their weights, (1 + p,), and their gradients, (1 + p, …) on every array.

        Every term has points of its own, so that all gradients together cost as much as that of their sum.
        """
        return self._over_chunks(self._term_gradients, model, batch)

    def _term_gradients(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        found = [jax.tree.map(lambda a: a[None], jax.value_and_grad(self.equation_loss)(model, batch))]
        for penalty, part, _ in self._parts(batch):
            def one(term: Batch, penalty: Penalty = penalty) -> tuple[Array, Model]:
                return jax.value_and_grad(
                    lambda m: (self.penalty_rows(m, penalty, term) ** 2).sum(0).mean())(model)

            found.append(jax.vmap(one)(_by_term(part, penalty)))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *found)

    def term_traces(self, model: Model, batch: Batch, sample: int) -> Array:
        """The mean over at most `sample` places of each term of the squared derivatives of its rows by all weights:
        the trace of its neural tangent kernel over the number of places, (1 + p,).

        Places of a term come piece by piece, so those that are looked at are spread over all of them.
        """

        def trace(rows: Callable[[Model, Batch], Array], part: Batch, places: int) -> Array:
            def one(place: Batch) -> Array:
                rates = jax.jacrev(lambda m: rows(m, place)[:, 0])(model)
                return jax.tree.reduce(jnp.add, jax.tree.map(lambda a: (a**2).sum(), rates))

            chosen = np.arange(min(sample, places)) * places // min(sample, places)
            return jax.vmap(one)(jax.tree.map(lambda a: a[chosen], split(part, places))).mean()

        found = [trace(self.residuals, batch._replace(penalised=(), weights=None), len(batch.x))[None]]
        for penalty, part, _ in self._parts(batch):
            rows = partial(self.penalty_rows, penalty=penalty)
            found.append(jax.vmap(lambda term, rows=rows, n=penalty.each:
                                  trace(lambda m, p: rows(m, part=p), term, n))(_by_term(part, penalty)))
        return jnp.concatenate(found)

    def rebalance(self, model: Model, batch: Batch) -> tuple[Array, Array, Model]:
        """New weights of the terms, then the loss with them and its gradient."""
        return self.reweighed(*self.term_gradients(model, batch), model, whole(batch))

    def reweighed(self, losses: Array, gradients: Model, model: Model, batch: Batch) -> tuple[Array, Array, Model]:
        """The same from the terms and their gradients."""
        assert self.balance is not None
        weights = self.balance(self._weights(batch), gradients, model, batch)
        gradient = jax.tree.map(lambda g: jnp.tensordot(weights, g, axes=1), gradients)
        return weights, (weights * losses).sum(), gradient

    def _over_chunks(self, part: Callable[[Model, Batch], Any], model: Model, batch: Batch) -> Any:
        """The mean of a function over the parts of a batch, one after the other."""
        if self.chunks == 1:
            return part(model, batch)
        parts = self._weighted_parts(batch)

        def add(total, chunk):
            return jax.tree.map(jnp.add, total, part(model, chunk)), None

        first = jax.eval_shape(part, model, jax.tree.map(lambda a: a[0], parts))
        total, _ = jax.lax.scan(add, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), first), parts)
        return jax.tree.map(lambda a: a / self.chunks, total)

    def _weighted_parts(self, batch: Batch) -> Batch:
        """The parts of a batch, cut already or not, each with the weights of the terms."""
        parts = batch if _is_cut(batch) else split(batch, self.chunks)
        return parts._replace(weights=None if batch.weights is None else jnp.broadcast_to(
            batch.weights, (self.chunks, *batch.weights.shape)))

    def jacobian(self, model: Model, batch: Batch) -> Model:
        """Derivative of `residual_vector` by every weight, (e · n, *weight), point by point.

        The residuals of a point depend on the network at that point and its feet alone, so this costs e
        gradients of one point for each, not one of the whole batch for each row.
        """
        if not self.separable:
            return jax.jacrev(self.residual_vector)(model, batch)
        batch = unlisted(whole(batch))
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

        roots = jnp.sqrt(self._weights(batch))
        blocks = [jax.tree.map(lambda a: roots[0] * a, jax.tree.map(stack, *parts))]
        for penalty, part, where in self._parts(batch):
            blocks.append(self._penalty_jacobian(model, penalty, part, roots[where]))
        return jax.tree.map(lambda *rows: jnp.concatenate(rows), *blocks)

    def _penalty_jacobian(self, model: Model, penalty: Penalty, part: Batch, roots: Array) -> Model:
        """The rows of `jacobian` that belong to one penalty, place by place."""
        places = split(part, len(part.x) // penalty.points)

        def one(place: Batch) -> Model:
            return jax.jacrev(lambda m: self.penalty_rows(m, penalty, place)[:, 0])(model)

        rows = jax.lax.map(one, places, batch_size=256)  # (places, r, *weight)
        scale = jnp.repeat(roots / np.sqrt(penalty.each), len(part.x) // penalty.points // len(roots))

        def stack(a: Array) -> Array:
            a = a * scale.reshape(-1, *[1] * (a.ndim - 1))
            return jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])

        return jax.tree.map(stack, rows)

    @cached_property
    def _jet(self):
        return jax.jit(lambda model, batch: jnp.moveaxis(self.state(model, batch), -1, 0))

    @cached_property
    def _value(self):
        return jax.jit(lambda model, batch: self.state(model, batch)[:, 0].T)

    @cached_property
    def _sizes(self) -> dict[bool, set[int]]:
        return {False: set(), True: set()}

    def jet(self, model: Model, x: np.ndarray) -> np.ndarray:
        """The state and its derivatives (n, m, slots) at points (n, c), in double precision."""
        return self._in_blocks(self._jet, model, x, derivatives=True)

    def predict(self, model: Model, x: np.ndarray) -> np.ndarray:
        """The state (n, m) at points (n, c), in double precision."""
        return self._in_blocks(self._value, model, x, derivatives=False)

    def _in_blocks(self, function: Callable, model: Model, x: np.ndarray, derivatives: bool) -> np.ndarray:
        """Points are taken in blocks of a few sizes, so that few compilations serve any number of points.

        A size that was compiled before and is not much too large serves again: compiling takes seconds.
        """
        model = jax.tree.map(lambda a: a.astype(jnp.float64), model)
        x = np.asarray(x, float)
        least = min(max(1 << (max(len(x), 1) - 1).bit_length(), FEWEST), MOST)
        known = self._sizes[derivatives]
        block = min((size for size in known if least <= size <= WASTE * least), default=least)
        known.add(block)
        parts = []
        for start in range(0, max(len(x), 1), block):
            part = x[start : start + block]
            filling = part[-1:] if len(part) else np.zeros((1, x.shape[1]))
            padded = np.concatenate([part, np.repeat(filling, block - len(part), 0)])
            parts.append(np.asarray(function(model, self.at(padded, derivatives)))[: len(part)])
        return np.concatenate(parts)


def split(batch: Batch, parts: int) -> Batch:
    """Cut a batch into parts, (parts, …) on every array; part j takes rows j, j + parts, …

    Points with corrections come first in a batch, so every part gets its share of them.
    """

    offset, terms, scale, data = jax.tree.map(lambda a: cut(a, parts),
                                              (batch.offset, batch.terms, batch.scale, batch.data))
    return Batch(cut(batch.x, parts, 0 - batch.x.ndim), offset, terms, scale,
                 tuple(split(part, parts) for part in batch.penalised), data)


_cut = jax.jit(split, static_argnums=1)


def _is_cut(batch: Batch) -> bool:
    return batch.x.ndim == 3


def whole(batch: Batch) -> Batch:
    """The batch, put together if it was cut."""
    return join(batch) if _is_cut(batch) else batch


def join(batch: Batch) -> Batch:
    """The batch of which `split` made these parts; they share their weights."""
    offset, terms, scale, data = jax.tree.map(glue, (batch.offset, batch.terms, batch.scale, batch.data))
    return Batch(glue(batch.x, 1 - batch.x.ndim), offset, terms, scale, tuple(map(join, batch.penalised)), data,
                 batch.weights)


def rows_of(part: Part, array: Array, axis: int = -1) -> Array:
    """The rows of one part along an axis, of an array that has those of all parts."""
    if part.of == 1:
        return array
    rows = jnp.moveaxis(array, axis, 0)
    rows = rows.reshape(rows.shape[0] // part.of, part.of, *rows.shape[1:])
    return jnp.moveaxis(jax.lax.dynamic_index_in_dim(rows, part.number, 1, keepdims=False), 0, axis)


def places_of(part: Part, drawn: tuple[Array, Any]) -> tuple[Array, Any]:
    """The places (k, n, c) of one part, and what is known there, of those a penalty has drawn."""
    x, data = drawn
    return rows_of(part, x, -2), jax.tree.map(partial(rows_of, part), data)


def _by_term(part: Batch, penalty: Penalty) -> Batch:
    """The points of a penalty cut by terms, (terms, …) on every array."""
    terms = len(penalty.weights)

    def cut(array: Array, axis: int = -1, points: int = penalty.points) -> Array:
        rows = jnp.moveaxis(array, axis, 0)
        rows = jnp.moveaxis(rows.reshape(points, terms, -1, *rows.shape[1:]), 1, 0)
        return jnp.moveaxis(rows.reshape(terms, -1, *rows.shape[3:]), 1, axis)

    offset, inputs, scale = jax.tree.map(cut, (part.offset, part.terms, part.scale))
    data = jax.tree.map(lambda a: cut(a, points=1), part.data)
    return Batch(cut(part.x, 0 - part.x.ndim), offset, inputs, scale, (), data)


def plain_scale(problem: Problem) -> Callable[[Array], Array]:
    """All factors of the residuals are 1, (e,)."""
    schema = problem.schema
    size = jax.eval_shape(problem.residuals, jnp.zeros(schema.point), jnp.zeros(schema.size),
                          jnp.zeros((problem.derivatives, schema.size))).shape
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
    nearby, collar = Nearby(layout.pieces, layout.collar, problem.domain.bounds), jnp.asarray(layout.collar)
    gradients = sum(int(np.prod(schema.shapes[name])) for name, _ in schema.gradients)

    def scale(x: Array) -> Array:
        numbers, feet = nearby.feet(x)
        squared = jnp.where(numbers < 0, jnp.inf, ((feet - x[: schema.dim]) ** 2).sum(-1) / collar[numbers] ** 2)
        length = jnp.sqrt(jnp.minimum((x[schema.dim] - start) / (end - start) + squared.min(), 1.0))
        factors = ones(x)
        return factors.at[: factors.size - gradients].set(length)

    return scale


def cast(batch: Batch, dtype) -> Batch:
    """The same with its numbers, not its indices, in another precision."""
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, batch)


def default_chunks(points: int, chunk: int | None, on_cpu: int, devices: int) -> int:
    """Into how many parts a batch is cut: of `chunk` points if stated, else of `on_cpu` on a CPU, else one; as many
    for each device."""
    if chunk is None:
        chunk = on_cpu if jax.default_backend() == "cpu" else points
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    return max(1, round(points / devices / chunk)) * devices


def adaptive_choice(key: Array, score: Array, n: int) -> Array:
    """n numbers without repetition, chosen with probability ∝ |score|/mean + 1 (RAD, Wu et al. 2023)."""
    weight = score / jnp.maximum(score.mean(), 1e-300) + 1.0
    noise = jax.random.gumbel(key, score.shape)
    return jax.lax.top_k(jnp.log(weight) + noise, n)[1]
