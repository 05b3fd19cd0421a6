"""Steps of a stage that are compiled as one function: a block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from hardpde.networks.mlp import count
from hardpde.training import sharding
from hardpde.training.ahead import ahead, looking_ahead
from hardpde.training.base import Batch, Model, Objective, Observe, Stage
from hardpde.training.status import status


class Point(NamedTuple):
    """Where a training is between two steps: the model, the weights of the terms, the state of the optimiser."""

    model: Model
    weights: Array
    state: Any


class Seen(NamedTuple):
    """Of every step of a block: the loss before it, the model and weights before it as one vector, what is observed."""

    losses: Array
    visited: Array
    observed: Any


class Block(NamedTuple):
    """What a block leaves: the model, the weights, the state, what it has seen, the status of the optimiser."""

    model: Model
    weights: Array
    state: Any
    seen: Seen
    code: Array


def lifted(many: int) -> Callable[[Callable], Callable]:
    """What makes a function of one model one of so many, along the first axis: `jax.vmap`; one alone is compiled as
    the function is."""
    return jax.vmap if many > 1 else _first_alone


def _first_alone(function: Callable) -> Callable:
    def lifted(*arguments: Any) -> Any:
        result = function(*jax.tree.map(lambda a: a[0], arguments))
        return jax.tree.map(lambda a: jnp.asarray(a)[None], result)

    return lifted


def make_block(objective: Objective, stage: Stage, many: int, jit: Callable, observe: Observe | None,
               length: int) -> Callable[..., Block]:
    """A compiled block: (model, weights, state, batch, key, fresh, active) → Block; all of them with the models along
    their first axis. Of many, those not active stay."""
    steps = _Steps(objective, stage, many, observe)
    # The state is given up to the result: it may hold a large matrix that must not exist twice.
    return jit(lifted(many)(partial(steps.block, length)), donate_argnums=2)


@dataclass(frozen=True, eq=False)
class _Steps:
    """The steps of a stage that one model of `many` takes."""

    objective: Objective
    stage: Stage
    many: int
    observe: Observe | None

    @property
    def weighing(self) -> bool:
        return self.stage.reweigh and self.objective.balance is not None

    def block(self, length: int, model: Model, weights: Array, state: Any, batch: Batch, key: Array, fresh: Array,
              active: Array) -> Block:
        """So many steps, on the points of the stage or on those that are drawn on the way."""
        mesh, number = self.objective.mesh, count(model)
        point = Point(model, weights, sharding.in_use(mesh, state, number))
        if self.stage.inside:
            point, seen = self.periods(point, jax.random.split(key, self.stage.draws(length)), active, length)
        else:
            point, seen = self.take(point, batch, fresh, active, length)
        model, weights, seen, code = sharding.everywhere(mesh, (point.model, point.weights, seen, status(point.state)))
        return Block(model, weights, sharding.laid_out(mesh, point.state, number), seen, code)

    def periods(self, point: Point, keys: Array, active: Array, length: int) -> tuple[Point, Seen]:
        """A part of the steps on the points of each key."""

        def period(point: Point, key: Array) -> tuple[Point, Seen]:
            batch = self.objective.in_parts(self.objective.draw(key, point.model))
            if ahead(point.state) and not self.weighing:
                known = self.objective.value_and_grad(point.model, batch._replace(weights=point.weights))
                point = point._replace(state=looking_ahead(point.state, known))
            return self.take(point, batch, jnp.asarray(True), active, length // len(keys))

        point, seen = jax.lax.scan(period, point, keys)
        return point, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), seen)

    def take(self, point: Point, batch: Batch, fresh: Array, active: Array, length: int) -> tuple[Point, Seen]:
        """So many steps on the same points."""

        def step(before: tuple[Point, Array], _: None) -> tuple[tuple[Point, Array], Seen]:
            after, seen = self.step(*before, batch)
            later = after, jnp.asarray(False)
            if self.many > 1:
                later = jax.tree.map(lambda new, old: jnp.where(active, new, old), later, before)
            return later, seen

        (point, _), seen = jax.lax.scan(step, (point, fresh), length=length)
        return point, seen

    def step(self, point: Point, fresh: Array, batch: Batch) -> tuple[Point, Seen]:
        """One step; fresh: whether the points are new to the optimiser."""
        objective, (model, weights, state) = self.objective, point
        batch = batch._replace(weights=weights)
        terms = objective.term_gradients(model, batch) if self.observe else None
        if self.weighing:
            weights, value, gradient = objective.rebalance(model, batch)
            batch = batch._replace(weights=weights)
        elif terms:
            value = (weights * terms[0]).sum()
            gradient = jax.tree.map(lambda g: jnp.tensordot(weights, g, axes=1), terms[1])
        else:
            value, gradient = ahead(state) or objective.value_and_grad(model, batch)
        updates, state = self.stage.optimiser.update(
            gradient, state, model, value=value, fresh=fresh,
            value_fn=lambda m: objective.loss(m, batch),
            value_and_grad_fn=lambda m: objective.value_and_grad(m, batch),
            residual_fn=lambda m: objective.residual_vector(m, batch),
            jacobian_fn=lambda m: objective.jacobian(m, batch),
            gather=partial(sharding.gathered, objective.mesh))
        visited = ravel_pytree((model, weights))[0]
        state = sharding.in_use(objective.mesh, state, count(model))
        observed = self.observe(value, *terms, updates) if self.observe and terms else None
        return Point(optax.apply_updates(model, updates), weights, state), Seen(value, visited, observed)
