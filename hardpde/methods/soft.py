"""Formulations whose conditions are asked for by the loss: the network is the state, as it is."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Term, laplacian_over
from hardpde.formulation.batch import WHOLE, Batch, Part, cast, places_of, rows_of
from hardpde.formulation.formulation import Balance, Formulation, Model
from hardpde.formulation.penalties import condition_penalties, stated_penalties
from hardpde.formulation.points import uniform
from hardpde.formulation.scales import plain_scale
from hardpde.networks.grid import Grid, default_counts
from hardpde.networks.mlp import mlp
from hardpde.problem.fields import Schema
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients
from hardpde.support.checking import check_choice
from hardpde.support.hardware import default_chunks

ON_CPU = 256  # points of a part of a batch


def filled(problem: Problem, gradients: str) -> Problem:
    """The problem as such methods see it: gradient fields are derivatives of the network, or outputs of it."""
    check_choice("gradients", gradients, ("derivatives", "fields"))
    return without_gradients(problem, Hints()) if gradients == "derivatives" else problem


def plain_network(problem: Problem, layers, dtype: str) -> Callable[[Array], Model]:
    """One network from the coordinates, as they are, to the state."""
    sizes = [problem.schema.point, *layers, problem.schema.size]
    return lambda key: mlp(key, sizes, jnp.dtype(dtype))


def make_grid(problem: Problem, blocks: Sequence[int]) -> Grid:
    """A grid of blocks over the domain: as stated, or nearly square ones."""
    lower, upper = (tuple(map(float, bound)) for bound in problem.domain.bounds)
    if blocks and len(blocks) != len(lower):
        raise ValueError(f"blocks is {list(blocks)}; the domain has {len(lower)} dimensions, give a number for each")
    return Grid(lower, upper, tuple(blocks) or default_counts(lower, upper))


def soft(problem: Problem, init: Callable[[Array], Model], *, points: int, boundary: int, initial: int, dtype: str,
         chunk: int | None, devices: int, balance: Balance | None = None) -> Formulation:
    """The loss is the mean squared residual and, for every condition on every connected boundary, its mean square.

    init(key) makes a model with a method `jet`. points, boundary, initial: how many points in the domain, on the
    boundaries and at the start of time, all uniform. balance: how the weights of the terms follow the training.
    """
    schema = problem.schema
    chunks = default_chunks(points, chunk, ON_CPU, devices)
    points = max(1, round(points / chunks)) * chunks
    second = schema.dim if problem.order == 2 else 0
    scale = plain_scale(problem)
    penalties = (*condition_penalties(problem, boundary, initial, chunks),
                 *stated_penalties(problem, points, chunks, default=1.0, each=boundary))

    def state(model: Model, batch: Batch) -> Array:
        inputs = batch.terms[0].inputs
        return model.jet(inputs, laplacian_over(schema, inputs))

    @jax.jit
    def _draw(key: Array, part: Part) -> Batch:
        x = rows_of(part, uniform(problem, key, points), 0)
        parts = []
        for k, penalty in enumerate(penalties):
            y, data = places_of(part, penalty.draw(jax.random.fold_in(key, k + 1)))
            y = y.reshape(-1, schema.point)
            parts.append(Batch(y, None, (Term(needed(y, schema, penalty.needs, second), None),), None, (), data))
        return cast(Batch(x, None, (Term(coordinates(x, schema, True, second), None),), jax.vmap(scale, out_axes=1)(x),
                          tuple(parts)), dtype)

    def draw(key: Array, model: Model | None = None, part: Part = WHOLE) -> Batch:
        return _draw(key, part)

    @partial(jax.jit, static_argnums=1)
    def _at(x: Array, derivatives: bool) -> Batch:
        inputs = coordinates(x, schema, derivatives, second)
        return Batch(x, None, (Term(inputs, None),), jax.vmap(scale, out_axes=1)(x))

    def at(x: np.ndarray, derivatives: bool = False) -> Batch:
        return _at(jnp.asarray(x), derivatives)

    return Formulation(problem, init, draw, draw, state, at, points, jnp.dtype(dtype), chunks, penalties, balance,
                       devices=devices)


def coordinates(x: Array, schema: Schema, derivatives: bool, second: int) -> Array:
    """The coordinates and parameters of points (n, c) as jets: (c, slots, n)."""
    n, c = x.shape
    if not derivatives:
        return x.T[:, None]
    slopes = jnp.broadcast_to(jnp.eye(c, schema.coordinates, dtype=x.dtype)[:, :, None], (c, schema.coordinates, n))
    bends = [jnp.zeros((c, 1, n), x.dtype)] if second else []
    return jnp.concatenate([x.T[:, None], slopes, *bends], axis=1)


def needed(x: Array, schema: Schema, needs: int, second: int) -> Array:
    """The same with as many slots as the rows of a penalty read."""
    if needs > 1:
        return coordinates(x, schema, True, second)
    return coordinates(x, schema, True, 0)[:, : 1 + needs * schema.dim]
