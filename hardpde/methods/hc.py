"""The paper's method (Liu et al., NeurIPS 2022): a main network, one sub-network for each boundary."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Term, combine, jets, laplacian_over
from hardpde.ansatz.paper import Paper
from hardpde.formulation.batch import WHOLE, Batch, Part, cast, join, places_of, rows_of, split
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.penalties import stated_penalties
from hardpde.formulation.points import uniform
from hardpde.formulation.scales import plain_scale
from hardpde.networks.mlp import MLP, mlp
from hardpde.networks.tiles import TILE, WORTH, Plan, Tiled, plan
from hardpde.problem.problem import Problem
from hardpde.support.compiling import compiled_quickly
from hardpde.support.hardware import default_chunks

SAMPLE = 4096  # points that show how far the parts of sub-networks reach


class Hard(NamedTuple):
    """A model with a hardness of its own: β_s and β_t, which training leaves as they are."""

    networks: list[MLP]
    betas: Array


def hc(problem: Problem, *, main: Sequence[int] = (50, 50, 50, 50), sub: Sequence[int] = (20, 20, 20),
       points: int = 8192, beta_s: float = 5.0, beta_t: float = 10.0, softmin_beta: float = 4.0,
       basis: str = "low-dimensional", dtype: str = "float32", chunk: int | None = None,
       devices: int = 1) -> Formulation:
    """Conditions hold up to e^{−β}: exact in the limit of hard weights only. Kept as printed, for comparison.

    In training a sub-network is left out at points where its part is below rounding.
    The paper has no ansatz for periodic conditions: they are penalties in the loss, of weight 1 unless stated.
    """
    return _formulation(problem, main, sub, points, beta_s, beta_t, softmin_beta, basis, dtype, chunk, devices, False)


def hc_each(problem: Problem, *, main: Sequence[int] = (50, 50, 50, 50), sub: Sequence[int] = (20, 20, 20),
            points: int = 8192, softmin_beta: float = 4.0, basis: str = "low-dimensional", dtype: str = "float32",
            chunk: int | None = None) -> Formulation:
    """The same where every model has a hardness of its own (`Hard`), so that several are trained side by side.

    `at` is told the hardness: at(x, derivatives, model.betas).
    """
    return _formulation(problem, main, sub, points, 5.0, 10.0, softmin_beta, basis, dtype, chunk, 1, True)


def _formulation(problem: Problem, main: Sequence[int], sub: Sequence[int], points: int, beta_s: float, beta_t: float,
                 softmin_beta: float, basis: str, dtype: str, chunk: int | None, devices: int,
                 own: bool) -> Formulation:
    if two := [piece.name for piece in problem.layout.pieces if piece.two_sided]:
        raise ValueError(f"the paper has no ansatz for an interface like '{two[0]}'; use --method exact")
    ansatz = Paper(problem, beta_s, beta_t, softmin_beta, basis)
    numbers, size = problem.schema.point, problem.schema.size
    scale = plain_scale(problem)
    second = problem.schema.dim if problem.order == 2 else 0

    def init(key: Array) -> list[MLP] | Hard:
        keys = jax.random.split(key, 1 + len(ansatz.subnetworks))
        networks = [mlp(keys[0], [numbers, *main, size], jnp.dtype(dtype))]
        for k, (out, _, number) in zip(keys[1:], ansatz.subnetworks):
            networks.append(mlp(k, [numbers, *sub, out], jnp.dtype(dtype), stack=number))
        return Hard(networks, jnp.array([beta_s, beta_t], dtype)) if own else networks

    def state(model: list[MLP] | Hard, batch: Batch) -> Array:
        networks = model.networks if isinstance(model, Hard) else model
        over = laplacian_over(problem.schema, batch.offset)
        used = [term.networks(network) if isinstance(term, Tiled) else network
                for network, term in zip(networks, batch.terms)]
        return combine(batch.offset, batch.terms,
                       [network.jet(term.inputs, over) for network, term in zip(used, batch.terms)], over)

    def assemble(x: Array, differentiate: bool, betas: Array | None = None) -> Batch:
        def one(x):
            return jets(lambda x: (*ansatz.coefficients(x, betas), x), x, differentiate, second,
                        problem.schema.coordinates)

        c, matrix, groups, inputs = jax.vmap(one, out_axes=-1)(x)
        terms = [Term(inputs, matrix), *[Term(inputs, group) for group in groups]]
        return Batch(x, c, tuple(terms), jax.vmap(scale, out_axes=1)(x))

    chunks = default_chunks(points, chunk, 1024, devices)
    plans = [] if own else _plans(problem, assemble, points // chunks, dtype)
    if not any(plans):
        chunks = default_chunks(points, chunk, 256, devices)
    points = max(1, round(points / chunks)) * chunks
    penalties = stated_penalties(problem, points, chunks, default=1.0)

    def shortened(batch: Batch) -> Batch:
        main, *subs = batch.terms
        return batch._replace(terms=(main, *[term if plan is None else plan.tiled(term.inputs, term.matrix)
                                             for term, plan in zip(subs, plans)]))

    @jax.jit
    def _draw(key: Array, part: Part, betas: Array | None) -> Batch:
        inside = assemble(rows_of(part, uniform(problem, key, points), 0), True, betas)
        if any(plans):
            inside = join(jax.vmap(shortened)(split(inside, chunks // part.of)))
        edges = [places_of(part, penalty.draw(jax.random.fold_in(key, k + 1))) for k, penalty in enumerate(penalties)]
        penalised = tuple(assemble(x.reshape(-1, x.shape[-1]), True, betas)._replace(data=data) for x, data in edges)
        return cast(inside._replace(penalised=penalised), dtype)

    def draw(key: Array, model: list[MLP] | Hard | None = None, part: Part = WHOLE) -> Batch:
        """Fresh points, uniform, as the paper draws them."""
        return _draw(key, part, model.betas.astype(float) if isinstance(model, Hard) else None)

    @partial(jax.jit, static_argnums=1)
    def _at(x: Array, derivatives: bool, betas: Array | None) -> Batch:
        return assemble(x, derivatives, betas)

    def at(x: np.ndarray, derivatives: bool = False, betas: Array | None = None) -> Batch:
        return _at(jnp.asarray(x), derivatives, betas)

    return Formulation(problem, init, draw, draw, state, at, points, jnp.dtype(dtype), chunks, penalties,
                       devices=devices)


def _plans(problem: Problem, assemble: Callable[[Array, bool], Batch], points: int, dtype: str) -> list[Plan | None]:
    """Lists for each group of sub-networks, of the points where their parts are above rounding."""
    if TILE > WORTH * points:  # a tile each would be too much
        return []
    keys = jax.random.split(jax.random.key(0), 1 + len(problem.domain.boundaries))
    with compiled_quickly():
        edges = problem.everywhen(jnp.concatenate([boundary.sample(key, SAMPLE // 4) for key, boundary
                                                   in zip(keys[1:], problem.domain.boundaries.values())]))
        inside = uniform(problem, keys[0], SAMPLE)
        groups = len(jax.eval_shape(lambda x: assemble(x, True), inside).terms) - 1
        return [plan(lambda x, g=g: assemble(x, True).terms[1 + g].matrix, inside, edges, points, dtype)  # type: ignore[misc]
                for g in range(groups)]
