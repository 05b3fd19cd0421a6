"""The terms of a loss and their weights: what the equations ask inside the domain, then what each penalty asks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch, by_term
from hardpde.formulation.energy import PointFunction
from hardpde.formulation.penalties import Penalty
from hardpde.problem.problem import Problem

Model = Any  # a pytree of arrays


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a loss, (1 + p,): the mean squared residual, then for each term of each penalty its mean square.

    energy: a density whose mean is minimised in place of the squared residuals; what penalties ask for is then a
    part of it, and counts as it is, without squares.
    """

    problem: Problem
    state: Callable[[Model, Batch], Array]
    penalties: tuple[Penalty, ...]
    dtype: Any
    energy: PointFunction | None = None

    @property
    def weights(self) -> np.ndarray:
        """The weights (1 + p,) of the terms as training starts: the equations, then what is penalised."""
        return np.array([1.0, *[w for penalty in self.penalties for w in penalty.weights]], self.dtype)

    def weights_of(self, batch: Batch) -> Array:
        return jnp.asarray(self.weights) if batch.weights is None else batch.weights

    def parts(self, batch: Batch) -> Iterator[tuple[Penalty, Batch, slice]]:
        """Each penalty with its points and the slice of its weights."""
        start = 1
        for penalty, part in zip(self.penalties, batch.penalised):
            yield penalty, part, slice(start, start + len(penalty.weights))
            start += len(penalty.weights)

    def residuals(self, model: Model, batch: Batch) -> Array:
        """All residuals, scaled, (e, n)."""
        return scaled_residuals(self.problem, self.state(model, batch), batch)

    def penalty_rows(self, model: Model, penalty: Penalty, part: Batch) -> Array:
        """What a penalty asks to be zero, (r, places)."""
        jet = self.state(model, part)
        jet = jet.reshape(*jet.shape[:2], penalty.points, -1)
        x = part.x.reshape(penalty.points, -1, part.x.shape[-1])
        return jax.vmap(penalty.rows, (1, 3, -1), 1)(x, jnp.moveaxis(jet, 2, 0), part.data)

    def loss(self, model: Model, batch: Batch) -> Array:
        """All terms, each with its weight."""
        return (self.weights_of(batch) * self.losses(model, batch)).sum()

    def losses(self, model: Model, batch: Batch) -> Array:
        """The terms without their weights, (1 + p,)."""
        found = [self.equation_loss(model, batch)[None]]
        for penalty, part, _ in self.parts(batch):
            rows = self._at_places(model, penalty, part)
            found.append(rows.reshape(len(penalty.weights), -1).mean(1))
        return jnp.concatenate(found)

    def equation_loss(self, model: Model, batch: Batch) -> Array:
        """The first term: the mean over the points of the sum of squared residuals, or of the energy."""
        if self.energy is None:
            return (self.residuals(model, batch) ** 2).sum(0).mean()
        jet = self.state(model, batch)
        return jax.vmap(self.energy, (0, 1, 2))(batch.x, jet[:, 0], jnp.swapaxes(jet[:, 1:], 0, 1)).mean()

    def _at_places(self, model: Model, penalty: Penalty, part: Batch) -> Array:
        rows = self.penalty_rows(model, penalty, part)
        return (rows**2 if self.energy is None else rows).sum(0)

    def gradients(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The terms without their weights, (1 + p,), and their gradients, (1 + p, …) on every array.

        Every term has points of its own, so that all gradients together cost as much as that of their sum.
        """
        found = [jax.tree.map(lambda a: a[None], jax.value_and_grad(self.equation_loss)(model, batch))]
        for penalty, part, _ in self.parts(batch):
            def one(term: Batch, penalty: Penalty = penalty) -> tuple[Array, Model]:
                return jax.value_and_grad(lambda m: self._at_places(m, penalty, term).mean())(model)

            found.append(jax.vmap(one)(by_term(part, penalty)))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *found)

    def vector(self, model: Model, batch: Batch) -> Array:
        """Residuals and what is penalised as one vector r with loss = r·r."""
        self.check_squares()
        roots = jnp.sqrt(self.weights_of(batch))
        rows = self.residuals(model, batch)
        parts = [roots[0] * rows.ravel() / np.sqrt(rows.shape[-1])]
        for penalty, part, where in self.parts(batch):
            rows = self.penalty_rows(model, penalty, part)
            rows = rows.reshape(len(rows), len(penalty.weights), -1) * roots[where, None]
            parts.append(rows.ravel() / np.sqrt(rows.shape[-1]))
        return jnp.concatenate(parts)

    def check_squares(self) -> None:
        if self.energy is not None:
            raise ValueError("an energy is not a sum of squares, so levenberg_marquardt cannot minimise it; use adam, "
                             "lbfgs or ssbroyden in the stages")


def scaled_residuals(problem: Problem, jet: Array, batch: Batch) -> Array:
    """The residuals of a problem where the state has this jet, times their factors, (e, n)."""
    derivatives = jnp.swapaxes(jet[:, 1:], 0, 1)
    return jax.vmap(problem.residuals, (0, 1, 2), 1)(batch.x, jet[:, 0], derivatives) * batch.scale
