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

from hardpde.formulation.batch import Batch, by_term, compiled_split, is_cut, split, untiled, whole
from hardpde.formulation.penalties import Penalty
from hardpde.problem.problem import Problem

Model = Any  # a pytree of arrays
FEWEST, MOST = 64, 8192  # points that are evaluated at once
WASTE = 16  # times as many as needed may be, rather than compile again
# weights (1 + p,) of the terms of the loss, their gradients by term (equations first), model, batch → new weights
Balance = Callable[[Array, Model, Model, Batch], Array]


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
        return scaled_residuals(self.problem, self.state(model, batch), batch)

    def penalty_rows(self, model: Model, penalty: Penalty, part: Batch) -> Array:
        """What a penalty asks to be zero, (r, places)."""
        jet = self.state(model, part)
        jet = jet.reshape(*jet.shape[:2], penalty.points, -1)
        x = part.x.reshape(penalty.points, -1, part.x.shape[-1])
        return jax.vmap(penalty.rows, (1, 3, -1), 1)(x, jnp.moveaxis(jet, 2, 0), part.data)

    def in_parts(self, batch: Batch) -> Batch:
        """The batch cut into its chunks, (chunks, …) on every array: once, and not in every step."""
        return batch if self.chunks == 1 else compiled_split(batch, self.chunks)

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

            found.append(jax.vmap(one)(by_term(part, penalty)))
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
                                  trace(lambda m, p: rows(m, part=p), term, n))(by_term(part, penalty)))
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
        parts = batch if is_cut(batch) else split(batch, self.chunks)
        return parts._replace(weights=None if batch.weights is None else jnp.broadcast_to(
            batch.weights, (self.chunks, *batch.weights.shape)))

    def jacobian(self, model: Model, batch: Batch) -> Model:
        """Derivative of `residual_vector` by every weight, (e · n, *weight), point by point.

        The residuals of a point depend on the network at that point and its feet alone, so this costs e
        gradients of one point for each, not one of the whole batch for each row.
        """
        if not self.separable:
            return jax.jacrev(self.residual_vector)(model, batch)
        batch = untiled(whole(batch))
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


def scaled_residuals(problem: Problem, jet: Array, batch: Batch) -> Array:
    """The residuals of a problem where the state has this jet, times their factors, (e, n)."""
    derivatives = jnp.swapaxes(jet[:, 1:], 0, 1)
    return jax.vmap(problem.residuals, (0, 1, 2), 1)(batch.x, jet[:, 0], derivatives) * batch.scale
