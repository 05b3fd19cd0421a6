"""Penalty-free neural networks (Sheng & Yang, 2021): the energy of a problem is minimised, not its residual."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.formulation.built_in import built_in
from hardpde.formulation.energy import Energy, find_energy
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model
from hardpde.formulation.penalties import Penalty, bodies, share
from hardpde.formulation.points import on_pieces
from hardpde.networks.mlp import mlp
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients


def pfnn(problem: Problem, *, layers: Sequence[int] = (50, 50, 50, 50), boundary: int = 512,
         engine: Engine = Engine(8192, "float32")) -> Formulation:
    """Values on boundaries and at the start hold by construction; conditions with slopes are part of an energy.

    The energy is found from the residual and the conditions; where a problem has none, the method refuses. boundary:
    points on all boundaries whose conditions have slopes.
    """
    return ritz(problem, lambda key, i, o: mlp(key, [i, *layers, o], jnp.dtype(engine.dtype)), boundary=boundary,
                engine=engine)


def ritz(problem: Problem, network: Callable[[Array, int, int], Model], *, boundary: int,
         engine: Engine) -> Formulation:
    """The energy of a problem, on any network of the coordinates as they are."""
    if problem.measurements:
        raise ValueError("an energy has no place for measurements; use --method exact")
    if problem.mapping is not None:
        raise ValueError("an energy needs second derivatives, which a mapping does not give; use --method exact")
    hints = Hints(decay=False, root_time=False, near=0.0, early=0.0, scale=lambda x: 1.0)
    plain = without_gradients(problem, hints)
    energy = find_energy(plain)
    free = tuple(name for name in plain.domain.boundaries if name not in {c.on for c in energy.essential})
    essential = plain.derived(conditions=energy.essential, free=free, hints=hints, origin=problem)

    def edges(problem: Problem, total: int, chunks: int) -> tuple[Penalty, ...]:
        return _edges(plain, energy, boundary, chunks)

    base = built_in(essential, network, lambda x: x, engine=engine, sampling="uniform", penalise=edges)
    return replace(base, problem=plain, energy=energy.density)


def _edges(problem: Problem, energy: Energy, boundary: int, chunks: int) -> tuple[Penalty, ...]:
    """The energy of conditions with slopes, one term for each condition on each connected boundary."""
    parts = [(condition, edge, pieces) for condition, edge in zip(energy.natural, energy.edge)
             for pieces in bodies(problem.domain.boundaries[condition.on])]
    if not parts:
        return ()
    each, shape = share(boundary / len(parts), chunks), problem.domain
    alive = dict(zip(shape.pieces, shape.survival))
    sizes = [sum(piece.measure * alive.get(piece, 1.0) for piece in pieces) for _, _, pieces in parts]

    def draw(key: Array) -> tuple[Array, tuple[Array, Array]]:
        """Points, and the energy there as ½ q·P q + l·q: P (m, m, n) and l (m, n)."""
        x, n = on_pieces(problem, tuple(pieces for _, _, pieces in parts), key, each)
        zero = jnp.zeros(problem.schema.size)
        forms = []
        for k, (_, edge, _) in enumerate(parts):
            where = slice(k * each, (k + 1) * each)
            forms.append(jax.vmap(lambda x, n, e=edge: (jax.hessian(e, 2)(x, n, zero), jax.grad(e, 2)(x, n, zero)),
                                  out_axes=-1)(x[where], n[where]))
        p, l = (jnp.concatenate(kind, axis=-1) for kind in zip(*forms))
        return x[None], (p, l)

    def rows(x: Array, jet: Array, data: tuple[Array, Array]) -> Array:
        q, (p, l) = jet[0, :, 0], data
        return (0.5 * (p * q[:, None] * q).sum() + (l * q).sum())[None]

    return (Penalty(draw, rows, tuple(float(size / shape.measure) for size in sizes), each),)
