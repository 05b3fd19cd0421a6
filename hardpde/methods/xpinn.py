"""Extended PINNs (Jagtap & Karniadakis, 2020): a network for each block, joined at the faces between blocks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import laplacian_over
from hardpde.formulation.batch import Batch, Shard
from hardpde.formulation.engine import UNCUT, Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.penalties import Penalty, condition_penalties, share, stated_penalties
from hardpde.formulation.points import anytime
from hardpde.formulation.scales import plain_scale
from hardpde.formulation.uniform import uniform_points, uniformly_drawn
from hardpde.methods.soft import coordinates, filled, make_grid, needed
from hardpde.networks.grid import Grid, face_points, group, live_faces
from hardpde.networks.mlp import MLP, mlp
from hardpde.problem.problem import Problem

ROOT = 2.0**0.5


class Sorted(NamedTuple):
    """Points sorted by block, as jets (blocks, c, slots, capacity), and where each point of the batch went, (n,)."""

    inputs: Array
    place: Array


class Marked(NamedTuple):
    """Points in their own order, as jets (c, slots, n), and which block each is in, (blocks, n)."""

    inputs: Array
    inside: Array


def xpinn(problem: Problem, *, blocks: Sequence[int] = (), layers: Sequence[int] = (30, 30, 30), boundary: int = 512,
          initial: int = 512, interface: int = 512, gradients: str = "derivatives",
          engine: Engine = Engine(8192, "float32", UNCUT)) -> Formulation:
    """A network for each block of a grid; neighbours agree, by terms of the loss, in value and in residual.

    blocks: how many along each axis; nearly square ones, at most 24, unless stated. interface: points on all faces
    between blocks; each face has a term of its own, for the difference of each side from their mean and for the
    difference of the residuals of both sides, in the loss of both blocks.
    """
    if engine.chunk != UNCUT and engine.chunk is not None:
        raise ValueError("xpinn takes all points at once; leave chunk out")
    problem = filled(problem, gradients)
    schema, grid = problem.schema, make_grid(problem, blocks)
    scale, devices = plain_scale(problem), engine.devices
    points = share(engine.points, devices)
    sizes = [schema.point, *layers, schema.size]
    conditions = (*condition_penalties(problem, boundary, initial, devices),
                  *stated_penalties(problem, points, devices, default=1.0, each=boundary))
    faces = np.flatnonzero(live_faces(grid, problem.domain))
    each = share(interface / max(len(faces), 1), devices)
    joints = (_joint(problem, grid, faces, each),) if len(faces) else ()
    penalties = (*conditions, *joints)

    def sort(x: Array, ids: Array, capacity: int, needs: int) -> tuple[Sorted, Array]:
        """Points (n, c) by block, and whether there was room for them, (n,)."""
        order, mask = group(ids, grid.number, capacity)
        order, mask = order.ravel(), mask.ravel()
        inputs = needed(x[order], problem, needs)  # (c, slots, blocks · capacity)
        inputs = jnp.moveaxis(inputs.reshape(*inputs.shape[:2], grid.number, capacity), 2, 0)
        target = jnp.where(mask, order, len(x))  # what is not a point of the block goes beyond the end
        place = jnp.zeros(len(x) + 1, int).at[target].set(jnp.arange(len(order)))[:-1]
        return Sorted(inputs, place), jnp.zeros(len(x) + 1, bool).at[target].set(True)[:-1]

    def points_of(key: Array, shard: Shard) -> list[tuple[Array, Array, Any]]:
        """The points of a draw: inside the domain, then those of each penalty, with their blocks and data."""
        found = [(x, jax.vmap(grid.block)(x), data)
                 for x, data in uniform_points(problem, points, penalties, key, shard)]
        if joints:  # each point of a face lies in both blocks
            pairs = [np.repeat(side[faces], each // shard.count) for side in (grid.faces.a, grid.faces.b)]
            x, _, data = found[-1]
            found[-1] = x, jnp.asarray(np.concatenate(pairs)), data
        return found

    def make_rooms(of: int) -> list[int]:
        """The most points of a block in a few draws, and some more: a draw has fixed shapes."""
        looks = jax.jit(lambda key: [jnp.bincount(ids, length=grid.number).max()
                                     for _, ids, _ in points_of(key, Shard(0, of))])
        counts = np.max([looks(key) for key in jax.random.split(jax.random.key(11), 8)], axis=0)
        found = [int(count + 4 * np.sqrt(count) + 1) for count in counts]
        return [*found[:-1], int(counts[-1])] if joints else found  # as many at joints always

    rooms = {of: make_rooms(of) for of in {1, devices}}

    def init(key: Array) -> MLP:
        return mlp(key, sizes, jnp.dtype(engine.dtype), stack=grid.number)

    def state(model: MLP, batch: Batch) -> Array:
        term = batch.terms[0]
        jet = model.jet(term.inputs, laplacian_over(schema, term.inputs))  # (blocks, m, slots, …)
        if isinstance(term, Sorted):
            return jnp.moveaxis(jet, 0, 2).reshape(*jet.shape[1:3], -1)[..., term.place]
        return jnp.where(term.inside[:, None, None], jet, 0.0).sum(0)

    def sample(key: Array, shard: Shard) -> Batch:
        parts = []
        for k, ((x, ids, data), room) in enumerate(zip(points_of(key, shard), rooms[shard.count])):
            term, kept = sort(x, ids, room, penalties[k - 1].needs if k else 2)
            # What found no room counts as nothing.
            factors = jax.vmap(scale, out_axes=1)(x) * kept if k == 0 else None
            places = kept.reshape(1 if k == 0 else penalties[k - 1].points, -1).all(0)
            data = jax.tree.map(lambda a, places=places: a * places, data)
            parts.append(Batch(x, None, (term,), factors, (), data))
        return parts[0]._replace(penalised=tuple(parts[1:]))

    def at(x: Array, derivatives: bool) -> Batch:
        inside = jax.vmap(grid.block)(x) == jnp.arange(grid.number)[:, None]
        inputs = coordinates(x, problem) if derivatives else x.T[:, None]
        return Batch(x, None, (Marked(inputs, inside),), jax.vmap(scale, out_axes=1)(x))

    return uniformly_drawn(problem, init, state, sample, at, points, engine.dtype, penalties=penalties,
                           separable=False, devices=devices)


def _joint(problem: Problem, grid: Grid, faces: np.ndarray, each: int) -> Penalty:
    """The terms that join neighbouring blocks: one for each face."""

    def draw(key: Array) -> tuple[Array, Array]:
        x = face_points(grid, key, each)[faces]
        inside = jax.vmap(lambda x: problem.domain.sdf(x) < 0)(x.reshape(-1, grid.dim)).reshape(x.shape[:2])
        share = jnp.sqrt(each / jnp.maximum(inside.sum(1, keepdims=True), 1))
        x = anytime(problem, jax.random.fold_in(key, 1), x.reshape(-1, grid.dim))
        return jnp.stack([x, x]), (inside * share).ravel()

    def rows(x: Array, jet: Array, share: Array) -> Array:
        one, two = (problem.residuals(x[k], jet[k, :, 0], jet[k, :, 1:].T) for k in range(2))
        # |q − mean|² of both sides and |R − R'|² in the losses of both blocks.
        return share * jnp.concatenate([(jet[0, :, 0] - jet[1, :, 0]) / ROOT, ROOT * (one - two)])

    return Penalty(draw, rows, (1.0,) * len(faces), each, points=2, needs=2)
