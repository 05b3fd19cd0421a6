"""Formulations: a model, its points, and what is minimised."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch, compiled_split, is_cut, split_batch, uncut
from hardpde.formulation.energy import PointFunction
from hardpde.formulation.free_levels import levelled
from hardpde.formulation.jacobian import jacobian
from hardpde.formulation.objective import Model, Terms
from hardpde.formulation.penalties import Penalty
from hardpde.formulation.predict import Evaluation
from hardpde.problem.problem import Problem

# weights (1 + p,) of the terms of the loss, their gradients by term (equations first), model, batch → new weights
Balance = Callable[[Array, Model, Model, Batch], Array]


@dataclass(frozen=True, eq=False)
class Formulation:
    """What a method makes of a problem.

    init(key): a model. draw(key, model, shard): points with all that is needed there, drawn where the model's residual
    is large if the method is told so; of a draw, only a shard may be wanted. state(model, batch): the state as a jet.
    at(x, order): the batch of given points, with derivatives up to that order (2: the Laplacian, where the equations
    have one). chunks: into how many parts a batch is cut on the way (on a CPU small parts stay in the cache).
    penalties: what the loss asks for at boundary points, beside the equations.
    balance: how the weights of the terms follow the training; None: they stay as they are. separable: the state at a
    point depends on that point of the batch alone. devices: how many may share the points evenly
    (`hardpde.formulation.sharded`). energy: a density whose integral is minimised, in place of squared residuals.
    """

    problem: Problem
    init: Callable[[Array], Model]
    draw: Callable[..., Batch]
    draw_held_out: Callable[..., Batch]
    state: Callable[[Model, Batch], Array]
    at: Callable[..., Batch]
    points: int
    dtype: Any
    chunks: int = 1
    penalties: tuple[Penalty, ...] = ()
    balance: Balance | None = None
    separable: bool = True
    devices: int = 1
    energy: PointFunction | None = None

    mesh: ClassVar = None  # all is computed on one device

    @cached_property
    def terms(self) -> Terms:
        """The terms of the loss."""
        return Terms(self.problem, self.state, self.penalties, self.dtype, self.energy)

    @property
    def weights(self) -> np.ndarray:
        """The weights (1 + p,) of the terms of the loss as training starts: the equations, then what is penalised."""
        return self.terms.weights

    def residuals(self, model: Model, batch: Batch) -> Array:
        """All residuals, scaled, (e, n)."""
        return self.terms.residuals(model, batch)

    def in_parts(self, batch: Batch) -> Batch:
        """The batch cut into its chunks, (chunks, …) on every array: once, and not in every step."""
        return batch if self.chunks == 1 else compiled_split(batch, self.chunks)

    def loss(self, model: Model, batch: Batch) -> Array:
        """Mean over the points of the sum of squared residuals, and the penalties, each with its weight."""
        if self.chunks == 1:
            return self.terms.loss(model, batch)
        return jax.lax.map(partial(self.terms.loss, model), self._weighted_parts(batch)).mean()

    def value_and_grad(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The loss and its gradient, part by part."""
        return self._over_chunks(jax.value_and_grad(self.terms.loss), model, batch)

    def term_gradients(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The terms of the loss without their weights, (1 + p,), and their gradients, (1 + p, …) on every array."""
        return self._over_chunks(self.terms.gradients, model, batch)

    def rebalance(self, model: Model, batch: Batch) -> tuple[Array, Array, Model]:
        """New weights of the terms, then the loss with them and its gradient."""
        return self.reweighed(*self.term_gradients(model, batch), model, uncut(batch))

    def reweighed(self, losses: Array, gradients: Model, model: Model, batch: Batch) -> tuple[Array, Array, Model]:
        """New weights, the loss and its gradient from the terms and their gradients."""
        assert self.balance is not None
        weights = self.balance(self.terms.weights_of(batch), gradients, model, batch)
        gradient = jax.tree.map(lambda g: jnp.tensordot(weights, g, axes=1), gradients)
        return weights, (weights * losses).sum(), gradient

    def residual_vector(self, model: Model, batch: Batch) -> Array:
        """Residuals and what is penalised as one vector r with loss = r·r."""
        return self.terms.vector(model, uncut(batch))

    def jacobian(self, model: Model, batch: Batch) -> Model:
        """Derivative of `residual_vector` by every weight, (e · n, *weight)."""
        if not self.separable:
            return jax.jacrev(self.residual_vector)(model, batch)
        return jacobian(self.terms, model, uncut(batch))

    def jet(self, model: Model, x: np.ndarray, order: int = 2) -> np.ndarray:
        """The state and its derivatives (n, m, slots) at points (n, c), in double precision; order 2: with the
        Laplacian where the equations have one."""
        found = self._evaluation.jet(model, x, order)
        return levelled(self.problem, lambda x: self._evaluation.jet(model, x, 1), np.asarray(x, float), found)

    def batches(self, x: np.ndarray, order: int = 2) -> Iterator[tuple[Batch, int]]:
        """The batches of points (n, c), in blocks of a few sizes, and how many of the points of each count."""
        return self._evaluation.batches(x, order)

    def predict(self, model: Model, x: np.ndarray) -> np.ndarray:
        """The state (n, m) at points (n, c), in double precision."""
        found = self._evaluation.value(model, x)[..., None]
        return levelled(self.problem, lambda x: self._evaluation.value(model, x)[..., None], np.asarray(x, float),
                        found)[..., 0]

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self.state, self.at, self.problem.schema.coordinates)

    def _over_chunks(self, part: Callable[[Model, Batch], Any], model: Model, batch: Batch) -> Any:
        """The mean of a function over the parts of a batch, one after the other."""
        if self.chunks == 1:
            return part(model, batch)
        parts = self._weighted_parts(batch)

        def add(total: Any, chunk: Batch) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, part(model, chunk)), None

        first = jax.eval_shape(part, model, jax.tree.map(lambda a: a[0], parts))
        total, _ = jax.lax.scan(add, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), first), parts)
        return jax.tree.map(lambda a: a / self.chunks, total)

    def _weighted_parts(self, batch: Batch) -> Batch:
        """The parts of a batch, cut already or not, each with the weights of the terms."""
        parts = batch if is_cut(batch) else split_batch(batch, self.chunks)
        return parts._replace(weights=None if batch.weights is None else jnp.broadcast_to(
            batch.weights, (self.chunks, *batch.weights.shape)))
