"""The paper's method (Liu et al., NeurIPS 2022): a main network, one sub-network for each boundary."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz import Batch, Paper, Term, combine, jets
from hardpde.formulation import Formulation, cast, default_chunks, plain_scale
from hardpde.networks import MLP, mlp
from hardpde.problem import Problem
from hardpde.sampling import uniform


def hc(problem: Problem, *, main: Sequence[int] = (50, 50, 50, 50), sub: Sequence[int] = (20, 20, 20),
       points: int = 8192, beta_s: float = 5.0, beta_t: float = 10.0, softmin_beta: float = 4.0,
       basis: str = "low-dimensional", dtype: str = "float32", chunk: int | None = None) -> Formulation:
    """Conditions hold up to e^{−β}: exact in the limit of hard weights only. Kept as printed, for comparison."""
    ansatz = Paper(problem, beta_s, beta_t, softmin_beta, basis)
    coordinates, size = problem.schema.coordinates, problem.schema.size
    scale = plain_scale(problem)
    chunks = default_chunks(points, chunk, 256)
    points = max(1, round(points / chunks)) * chunks

    def init(key: Array) -> list[MLP]:
        keys = jax.random.split(key, 1 + len(ansatz.subnetworks))
        networks = [mlp(keys[0], [coordinates, *main, size], jnp.dtype(dtype))]
        for k, (out, _, number) in zip(keys[1:], ansatz.subnetworks):
            networks.append(mlp(k, [coordinates, *sub, out], jnp.dtype(dtype), stack=number))
        return networks

    def state(model: list[MLP], batch: Batch) -> Array:
        return combine(batch.offset, batch.terms,
                       [network.jet(term.inputs) for network, term in zip(model, batch.terms)])

    def assemble(x: Array, differentiate: bool) -> Batch:
        def one(x):
            return jets(lambda x: (*ansatz.coefficients(x), x), x, differentiate)

        c, matrix, groups, inputs = jax.vmap(one, out_axes=-1)(x)
        terms = [Term(inputs, matrix), *[Term(inputs, group) for group in groups]]
        return Batch(x, c, tuple(terms), jax.vmap(scale, out_axes=1)(x))

    @jax.jit
    def _draw(key: Array) -> Batch:
        return cast(assemble(uniform(problem, key, points), True), dtype)

    def draw(key: Array, model=None) -> Batch:
        """Fresh points, uniform, as the paper draws them."""
        return _draw(key)

    @jax.jit
    def _at(x: Array) -> Batch:
        return assemble(x, False)

    def at(x: np.ndarray) -> Batch:
        return _at(jnp.asarray(x))

    return Formulation(problem, init, draw, draw, state, at, points, jnp.dtype(dtype), chunks)
