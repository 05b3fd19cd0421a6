"""Penalty-free neural networks (Sheng & Yang, 2021): the energy of a problem is minimised, not its residual."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.formulation.batch import Batch
from hardpde.formulation.built_in import built_in
from hardpde.formulation.energy import Energy, find_energy
from hardpde.formulation.formulation import Formulation, Model
from hardpde.formulation.penalties import Penalty, bodies, share
from hardpde.formulation.points import on_pieces
from hardpde.networks.mlp import mlp
from hardpde.problem.hints import Hints
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients


def pfnn(problem: Problem, *, layers: Sequence[int] = (50, 50, 50, 50), points: int = 8192, boundary: int = 512,
         dtype: str = "float32", chunk: int | None = None, devices: int = 1) -> Formulation:
    """Values on boundaries and at the start hold by construction; conditions with slopes are part of an energy.

    The energy is found from the residual and the conditions; where a problem has none, the method refuses. boundary:
    points on all boundaries whose conditions have slopes.
    """
    return ritz(problem, lambda key, i, o: mlp(key, [i, *layers, o], jnp.dtype(dtype)), points=points,
                boundary=boundary, dtype=dtype, chunk=chunk, devices=devices)


@dataclass(frozen=True, eq=False)
class Ritz(Formulation):
    """A formulation whose loss is an energy over the volume of the domain (and the time span)."""

    energy: Energy | None = None

    def term_losses(self, model: Model, batch: Batch) -> Array:
        """The mean energy inside, then the mean on each boundary; their weights are |boundary| / |domain|."""
        assert self.energy is not None
        jet = self.state(model, batch)
        inside = jax.vmap(self.energy.density, (0, 1, 2))(batch.x, jet[:, 0], jnp.swapaxes(jet[:, 1:], 0, 1))
        found = [inside.mean()[None]]
        for penalty, part, _ in self._parts(batch):
            rows = self.penalty_rows(model, penalty, part).sum(0)
            found.append(rows.reshape(len(penalty.weights), -1).mean(1))
        return jnp.concatenate(found)

    def residual_vector(self, model: Model, batch: Batch) -> Array:
        raise ValueError("an energy is not a sum of squares, so levenberg_marquardt cannot minimise it; use adam, "
                         "lbfgs or ssbroyden in the stages")

    def jacobian(self, model: Model, batch: Batch) -> Model:
        return self.residual_vector(model, batch)


def ritz(problem: Problem, network: Callable[[Array, int, int], Model], *, points: int, boundary: int, dtype: str,
         chunk: int | None, devices: int) -> Formulation:
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

    base = built_in(essential, network, lambda x: x, points=points, dtype=dtype, adaptive=False, sampling="uniform",
                    chunk=chunk, devices=devices, penalise=edges)
    given = {f.name: getattr(base, f.name) for f in fields(Formulation)}
    return Ritz(**{**given, "problem": plain}, energy=energy)


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
