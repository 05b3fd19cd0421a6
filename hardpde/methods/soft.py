"""Formulations whose conditions are asked for by the loss: the network is the state, as it is."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.base import Term, laplacian_over
from hardpde.formulation.batch import Batch, Shard
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model
from hardpde.formulation.penalties import condition_penalties, stated_penalties
from hardpde.formulation.scales import plain_scale
from hardpde.formulation.uniform import uniform_points, uniformly_drawn
from hardpde.networks.grid import Grid, default_counts
from hardpde.networks.mlp import MLP, mlp
from hardpde.problem.fields import Schema
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients
from hardpde.support.checking import check_choice

ON_CPU = 256  # points of a part of a batch


def filled(problem: Problem, gradients: str) -> Problem:
    """The problem as such methods see it: gradient fields are derivatives of the network, or outputs of it."""
    check_choice("gradients", gradients, ("derivatives", "fields"))
    return without_gradients(problem, Hints()) if gradients == "derivatives" else problem


def plain_network(problem: Problem, layers: Sequence[int], dtype: str) -> Callable[[Array], MLP]:
    """One network from the coordinates, as they are, to the state."""
    sizes = [problem.schema.point, *layers, problem.schema.size]
    return lambda key: mlp(key, sizes, jnp.dtype(dtype))


def make_grid(problem: Problem, blocks: Sequence[int]) -> Grid:
    """A grid of blocks over the domain: as stated, or nearly square ones."""
    lower, upper = (tuple(map(float, bound)) for bound in problem.domain.bounds)
    if blocks and len(blocks) != len(lower):
        raise ValueError(f"blocks is {list(blocks)}; the domain has {len(lower)} dimensions, give a number for each")
    return Grid(lower, upper, tuple(blocks) or default_counts(lower, upper))


def soft(problem: Problem, init: Callable[[Array], Model], *, boundary: int, initial: int,
         engine: Engine) -> Formulation:
    """The loss is the mean squared residual and, for every condition on every connected boundary, its mean square.

    init(key) makes a model with a method `jet`. boundary, initial: how many points on the boundaries and at the start
    of time; all points are uniform.
    """
    schema, scale = problem.schema, plain_scale(problem)
    chunks = engine.chunks(ON_CPU)
    points = engine.rounded(chunks)
    penalties = (*condition_penalties(problem, boundary, initial, chunks),
                 *stated_penalties(problem, points, chunks, default=1.0, each=boundary))

    def at(x: Array, derivatives: bool) -> Batch:
        inputs = coordinates(x, problem) if derivatives else x.T[:, None]
        return Batch(x, None, (Term(inputs, None),), jax.vmap(scale, out_axes=1)(x))

    def sample(key: Array, shard: Shard) -> Batch:
        (x, _), *places = uniform_points(problem, points, penalties, key, shard)
        penalised = [Batch(y, None, (Term(needed(y, problem, penalty.needs), None),), None, (), data)
                     for penalty, (y, data) in zip(penalties, places)]
        return at(x, True)._replace(penalised=tuple(penalised))

    return uniformly_drawn(problem, init, partial(network_state, schema), sample, at, points, engine.dtype,
                           chunks=chunks, penalties=penalties, devices=engine.devices)


def network_state(schema: Schema, model: Model, batch: Batch) -> Array:
    """The state as a jet, (m, slots, n): what the network says."""
    inputs = batch.terms[0].inputs
    return model.jet(inputs, laplacian_over(schema, inputs))


def coordinates(x: Array, problem: Problem) -> Array:
    """The coordinates and parameters of points (n, c) as jets: (c, slots, n)."""
    slopes = _slopes(x, problem)
    laplacians = [jnp.zeros((x.shape[1], 1, len(x)), x.dtype)] if problem.order == 2 else []
    return jnp.concatenate([slopes, *laplacians], axis=1)


def needed(x: Array, problem: Problem, needs: int) -> Array:
    """The coordinates of points as jets with as many slots as the rows of a penalty read."""
    return coordinates(x, problem) if needs > 1 else _slopes(x, problem)[:, : 1 + needs * problem.schema.dim]


def _slopes(x: Array, problem: Problem) -> Array:
    """The coordinates and parameters of points (n, c) with their first derivatives: (c, 1 + coordinates, n)."""
    n, c = x.shape
    number = problem.schema.coordinates
    slopes = jnp.broadcast_to(jnp.eye(c, number, dtype=x.dtype)[:, :, None], (c, number, n))
    return jnp.concatenate([x.T[:, None], slopes], axis=1)
