"""The paper's method (Liu et al., NeurIPS 2022): a main network, one sub-network for each boundary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.base import Term, combine, jets, laplacian_over
from hardpde.ansatz.paper import Paper
from hardpde.formulation.batch import Batch, Shard, join_batch, split_batch
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.penalties import Penalty, stated_penalties
from hardpde.formulation.points import uniform
from hardpde.formulation.scales import plain_scale
from hardpde.formulation.uniform import uniform_points, uniformly_drawn
from hardpde.networks.mlp import MLP, mlp
from hardpde.networks.tiles import TILE, WORTH, Plan, Tiled, plan
from hardpde.problem.fields import Schema
from hardpde.problem.problem import Problem
from hardpde.support.compiling import compiled_quickly

SAMPLE = 4096  # points that show how far the parts of sub-networks reach
ON_CPU, ON_CPU_TILED = 256, 1024  # points of a part of a batch


def hc(problem: Problem, *, main: Sequence[int] = (50, 50, 50, 50), sub: Sequence[int] = (20, 20, 20),
       beta_s: float = 5.0, beta_t: float = 10.0, softmin_beta: float = 4.0, basis: str = "low-dimensional",
       engine: Engine = Engine(8192, "float32")) -> Formulation:
    """Conditions hold up to e^{−β}: exact in the limit of hard weights only. Kept as printed, for comparison.

    In training a sub-network is left out at points where its part is below rounding.
    The paper has no ansatz for periodic conditions: they are penalties in the loss, of weight 1 unless stated.
    """
    if two := [piece.name for piece in problem.layout.pieces if piece.two_sided]:
        raise ValueError(f"the paper has no ansatz for an interface like '{two[0]}'; use --method exact")
    ansatz = Hard(problem, Paper(problem, beta_s, beta_t, softmin_beta, basis))
    chunks = engine.chunks(ON_CPU_TILED)
    plans = _plans(ansatz, engine.points // chunks, engine.dtype)
    if not any(plans):
        chunks = engine.chunks(ON_CPU)
    points = engine.rounded(chunks)
    penalties = stated_penalties(problem, points, chunks, default=1.0)

    def tiled(batch: Batch) -> Batch:
        main, *subs = batch.terms
        return batch._replace(terms=(main, *[term if plan is None else plan.tiled(term.inputs, term.matrix)
                                             for term, plan in zip(subs, plans)]))

    def sample(key: Array, shard: Shard) -> Batch:
        batch = ansatz.sample(points, penalties, key, shard)
        if not any(plans):
            return batch
        inside = join_batch(jax.vmap(tiled)(split_batch(batch._replace(penalised=()), chunks // shard.count)))
        return inside._replace(penalised=batch.penalised)

    return uniformly_drawn(problem, partial(ansatz.networks, main, sub, engine.dtype),
                           partial(paper_state, problem.schema), sample, ansatz.at, points, engine.dtype,
                           chunks=chunks, penalties=penalties, devices=engine.devices)


@dataclass(frozen=True, eq=False)
class Hard:
    """The paper's ansatz for a problem: its networks and batches; betas: in place of its own β_s and β_t."""

    problem: Problem
    ansatz: Paper

    def networks(self, main: Sequence[int], sub: Sequence[int], dtype: str, key: Array) -> list[MLP]:
        """The main network, then a stack for each group of sub-networks."""
        numbers, size = self.problem.schema.point, self.problem.schema.size
        keys = jax.random.split(key, 1 + len(self.ansatz.subnetworks))
        networks = [mlp(keys[0], [numbers, *main, size], jnp.dtype(dtype))]
        for k, (out, _, number) in zip(keys[1:], self.ansatz.subnetworks):
            networks.append(mlp(k, [numbers, *sub, out], jnp.dtype(dtype), stack=number))
        return networks

    def at(self, x: Array, derivatives: bool, betas: Any = None) -> Batch:
        """The batch of points (n, c), with all networks at all of them."""
        schema, scale = self.problem.schema, plain_scale(self.problem)
        second = schema.dim if self.problem.order == 2 else 0

        def one(x: Array) -> Any:
            return jets(lambda x: (*self.ansatz.coefficients(x, betas), x), x, derivatives, second, schema.coordinates)

        c, matrix, groups, inputs = jax.vmap(one, out_axes=-1)(x)
        terms = [Term(inputs, matrix), *[Term(inputs, group) for group in groups]]
        return Batch(x, c, tuple(terms), jax.vmap(scale, out_axes=1)(x))

    def sample(self, points: int, penalties: Sequence[Penalty], key: Array, shard: Shard, betas: Any = None) -> Batch:
        """Points that are uniform, as the paper draws them."""
        inside, *penalised = [self.at(x, True, betas)._replace(data=data) for x, data
                              in uniform_points(self.problem, points, penalties, key, shard)]
        return inside._replace(penalised=tuple(penalised))


def paper_state(schema: Schema, model: list[MLP], batch: Batch) -> Array:
    """The state as a jet, (m, slots, n)."""
    over = laplacian_over(schema, batch.offset)
    used = [term.networks(network) if isinstance(term, Tiled) else network
            for network, term in zip(model, batch.terms)]
    return combine(batch.offset, batch.terms,
                   [network.jet(term.inputs, over) for network, term in zip(used, batch.terms)], over)


def _plans(ansatz: Hard, points: int, dtype: str) -> list[Plan | None]:
    """Lists for each group of sub-networks, of the points where their parts are above rounding."""
    if TILE > WORTH * points:  # a tile each would be too much
        return []
    problem = ansatz.problem
    keys = jax.random.split(jax.random.key(0), 1 + len(problem.domain.boundaries))

    def matrix(group: int) -> Callable[[Array], Array]:
        return lambda x: ansatz.at(x, True).terms[1 + group].matrix

    with compiled_quickly():
        edges = problem.everywhen(jnp.concatenate([boundary.sample(key, SAMPLE // 4) for key, boundary
                                                   in zip(keys[1:], problem.domain.boundaries.values())]))
        inside = uniform(problem, keys[0], SAMPLE)
        groups = len(jax.eval_shape(lambda x: ansatz.at(x, True), inside).terms) - 1
        return [plan(matrix(group), inside, edges, points, dtype) for group in range(groups)]
