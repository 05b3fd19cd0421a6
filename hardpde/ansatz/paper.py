"""The paper's ansatz (Liu et al., NeurIPS 2022), as printed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.start import Start
from hardpde.geometry import Kind, Piece
from hardpde.geometry.algorithms.links import connected_parts
from hardpde.problem.conditions import Condition
from hardpde.problem.layout import stacked_rows
from hardpde.problem.problem import Problem
from hardpde.support.checking import check_choice
from hardpde.support.matrices import right_inverse, times
from hardpde.support.messages import first_line

SAMPLES = 400  # points of a piece that stand for all


def softmin(values: Array, beta: float) -> Array:
    """A smooth minimum: −LogSumExp(−β y)/β (paper, appendix A.8.1)."""
    return -jax.nn.logsumexp(-beta * values) / beta


class BoundaryGroup(NamedTuple):
    """k boundaries alike: faces of the same kinds under the same conditions, so that one `vmap` serves them."""

    kinds: tuple[Kind, ...]  # of the faces of one boundary
    params: tuple[np.ndarray, ...]  # (k, p) for each face
    sign: np.ndarray  # (k, faces) −1 where the solid was subtracted
    conditions: tuple[int, ...]
    rows: int
    name: str

    def distance(self, params: tuple[Array, ...], sign: Array, space: Array, beta: float) -> tuple[Array, Array]:
        """l of one boundary, blurred by SoftMin over its faces; and the normal of the nearest face."""
        feet = [kind.closest(p, space) for kind, p in zip(self.kinds, params)]
        normals = jnp.stack([s * kind.normal(p, foot) for s, kind, p, foot in zip(sign, self.kinds, params, feet)])
        signed = jnp.stack([n @ (foot - space) for n, foot in zip(normals, feet)])
        if len(feet) == 1:
            return signed[0], normals[0]
        squared = jnp.stack([((foot - space) ** 2).sum() for foot in feet])
        return softmin(signed, beta), normals[jnp.argmin(squared)]


class FieldBlock(NamedTuple):
    """Fields that conditions bind together; the paper builds each block's ansatz separately."""

    components: tuple[int, ...]  # of the state
    boundaries: tuple[BoundaryGroup, ...]


class Paper:
    """q = l NN_main + Σ_i exp(−α_i l_i) (B_i NN_i + A_i⁺ g_i), then u ← u(1 − e^{−β_t t}) + f e^{−β_t t}.

    Equations (10)–(12) and appendices A.2, A.6 of Liu et al., as printed. With basis="low-dimensional" the
    null spaces of A.2 replace B = I − ññᵀ for d = 1, 2. Distances and normals stated in the hints replace
    those of the geometry.
    """

    def __init__(self, problem: Problem, beta_s: float, beta_t: float, softmin_beta: float, basis: str):
        if beta_s <= 0 or beta_t <= 0 or softmin_beta <= 0:
            raise ValueError(f"beta_s = {beta_s:g}, beta_t = {beta_t:g} and softmin_beta = {softmin_beta:g} "
                             f"must be positive")
        check_choice("basis", basis, ("projection", "low-dimensional"))
        self.schema = problem.schema
        self.conditions = problem.pointwise
        self.beta_s, self.beta_t, self.softmin_beta, self.basis = beta_s, beta_t, softmin_beta, basis
        self.start = Start(self.schema, problem.pointwise, problem.layout, problem.time)
        self.stated_distances, self.stated_normals = problem.hints.distances, problem.hints.normals
        _check_stated(problem)
        self.blocks = _blocks(problem)
        self.gaps = [self._gaps(problem, block) for block in self.blocks]
        self.subnetworks = self._subnetworks()

    def distances(self, group: BoundaryGroup, x: Array) -> tuple[Array, Array]:
        """l (k,) and normals (k, d) of a group's boundaries at one point."""
        space = x[: self.schema.dim]
        distance, normal = self.stated_distances.get(group.name), self.stated_normals.get(group.name)
        if distance and normal:  # then the geometry, which may be costly, is not needed
            return jnp.reshape(distance(x), 1), jnp.reshape(normal(x), (1, -1))
        l, normals = jax.vmap(lambda params, sign: group.distance(params, sign, space, self.softmin_beta))(
            tuple(map(jnp.asarray, group.params)), jnp.asarray(group.sign))
        if distance:
            l = jnp.reshape(distance(x), 1)
        if normal:
            normals = jnp.broadcast_to(jnp.asarray(normal(x)), normals.shape)
        return l, normals

    def _gaps(self, problem: Problem, block: FieldBlock) -> list[np.ndarray]:
        """The least l_i on the block's other boundaries, so that α_i = β_s / gap (equation 12); ∞ if there are none."""
        boundaries = block.boundaries
        offsets = self._offsets(block)
        owners = np.concatenate([np.arange(len(group.sign)) + offset
                                 for group, offset in zip(boundaries, offsets) for _ in group.kinds])

        @jax.jit
        def nearest(key: Array) -> list[Array]:
            samples = [jax.vmap(lambda p, kind=kind: kind.sample(p, key, SAMPLES))(jnp.asarray(p))
                       for group in boundaries for kind, p in zip(group.kinds, group.params)]
            x = problem.everywhen(jnp.concatenate([s.reshape(-1, self.schema.dim) for s in samples]))

            # A piece at a time: there may be a thousand.
            def least(before: list[Array], piece: tuple[Array, Array]) -> tuple[list[Array], None]:
                x, owner = piece
                found = []
                for group, offset, known in zip(boundaries, offsets, before):
                    l = jax.vmap(lambda x, group=group: self.distances(group, x)[0])(x).min(0)
                    own = owner == jnp.arange(len(l)) + offset
                    found.append(jnp.where(own, known, jnp.minimum(known, l)))
                return found, None

            start = [jnp.full(len(group.sign), jnp.inf) for group in boundaries]
            return jax.lax.scan(least, start, (x.reshape(-1, SAMPLES, x.shape[-1]), jnp.asarray(owners)))[0]

        gaps = []
        for group, found in zip(boundaries, nearest(jax.random.key(0))):
            least = np.asarray(found)
            if group.name in self.stated_distances and least.min() <= 0:
                raise ValueError(f"the stated distance of '{group.name}' is {least.min():.2g} on another boundary; "
                                 f"it must be positive away from '{group.name}'")
            gaps.append(least)
        return gaps

    @staticmethod
    def _offsets(block: FieldBlock) -> np.ndarray:
        return np.cumsum([0, *[len(group.sign) for group in block.boundaries[:-1]]])

    def _subnetworks(self) -> list[tuple[int, list[tuple[int, int]], int]]:
        """Groups of sub-networks: (output size, their (block, group) numbers, how many networks).

        A condition that leaves nothing free needs none.
        """
        by_size: dict[int, list[tuple[int, int]]] = {}
        for b, block in enumerate(self.blocks):
            for i, group in enumerate(block.boundaries):
                free = len(block.components)
                if group.rows < free:
                    size = 1 if self._planar(block, group.rows) == 2 else free
                    by_size.setdefault(size, []).append((b, i))
        return [(size, members, sum(len(self.blocks[b].boundaries[i].sign) for b, i in members))
                for size, members in by_size.items()]

    def _planar(self, block: FieldBlock, rows: int) -> int | None:
        """The size of the block if a basis of appendix A.2 applies (one row on 2 or 3 components)."""
        size = len(block.components)
        return size if self.basis == "low-dimensional" and rows == 1 and size in (2, 3) else None

    def coefficients(self, x: Array, betas: Any = None) -> tuple[Array, Array, list[Array]]:
        """c (m,), the main network's matrix (m, m), and for each group of sub-networks (k, m, o).

        betas: β_s and β_t in place of those stated.
        """
        m = self.schema.size
        beta_s, beta_t = (self.beta_s, self.beta_t) if betas is None else betas
        c, main = jnp.zeros(m), jnp.eye(m)
        subs: dict[tuple[int, int], Array] = {}
        for b, block in enumerate(self.blocks):
            index = jnp.asarray(block.components)
            measured = [self.distances(group, x) for group in block.boundaries]
            every = jnp.concatenate([l for l, _ in measured])
            blur = every[0] if len(every) == 1 else softmin(every, self.softmin_beta)
            main = main.at[index, index].set(blur)
            for i, (group, (l, normals)) in enumerate(zip(block.boundaries, measured)):
                weight = jnp.exp(-beta_s / jnp.asarray(self.gaps[b][i]) * l)
                known, basis = jax.vmap(lambda n, g=group, b=block: self.general_solution(g, b, x, n))(normals)
                c = c.at[index].add((weight[:, None] * known).sum(0))
                subs[b, i] = jnp.zeros((len(l), m, basis.shape[-1])).at[:, index].set(weight[:, None, None] * basis)
        c, main, blend = self._start(x, c, main, beta_t)
        matrices = [times(blend, jnp.concatenate([subs[where] for where in members]))
                  for _, members, _ in self.subnetworks]
        return c, main, matrices

    def general_solution(self, group: BoundaryGroup, block: FieldBlock, x: Array, normal: Array) -> tuple[Array, Array]:
        """The general solution on one boundary: A⁺ g (block,) and a basis B (block, o) of the null space."""
        a, g = stacked_rows([self.conditions[k] for k in group.conditions], self.schema, x, normal)
        a = a[:, jnp.asarray(block.components)]
        identity = jnp.eye(len(block.components))
        inverse = right_inverse(a, identity, jnp.ones(len(a)))
        planar = self._planar(block, len(a))
        if planar is None:
            return times(inverse, g), identity - times(inverse, a)
        n = a[0] / jnp.sqrt((a[0] ** 2).sum())
        if planar == 2:
            return times(inverse, g), jnp.array([[n[1]], [-n[0]]])
        return times(inverse, g), jnp.array([[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]])

    def _start(self, x: Array, c: Array, main: Array, beta_t: float | Array) -> tuple[Array, Array, Array]:
        """The time blend (appendix A.6), applied after the boundaries, as printed."""
        if not self.start.conditions:
            return c, main, jnp.eye(self.schema.size)
        assert self.start.time is not None
        fade = jnp.exp(-beta_t * (x[self.schema.dim] - self.start.time[0]))
        a, g = self.start.rows(x)
        d = right_inverse(a, jnp.eye(self.schema.size), jnp.ones(len(a)))
        blend = jnp.eye(self.schema.size) - fade * times(d, a)
        return times(blend, c) + fade * times(d, g), times(blend, main), blend


def _blocks(problem: Problem) -> list[FieldBlock]:
    """Components that share a boundary condition belong together."""
    columns: dict[int, tuple[set[int], int]] = {}
    for piece, which in zip(problem.layout.pieces, problem.layout.conditions):
        for c in which:
            if c not in columns:
                columns[c] = _columns(problem, piece, problem.pointwise[c])
    size = problem.schema.size
    bound = [(min(used), k) for used, _ in columns.values() for k in used]
    part = connected_parts(size, np.array(bound, int).reshape(-1, 2))
    boundaries = _boundaries(problem, {c: int(part[min(used)]) for c, (used, _) in columns.items()})
    _check_apart(problem, boundaries)
    groups: dict[int, dict[tuple, list[list[Piece]]]] = {}
    for (b, _, conditions, name), pieces in boundaries.items():
        key = (conditions, tuple(piece.kind for piece in pieces), name)
        groups.setdefault(b, {}).setdefault(key, []).append(pieces)
    return [FieldBlock(tuple(k for k in range(size) if part[k] == b),
                  tuple(_group(bodies, conditions, sum(columns[c][1] for c in conditions))
                        for (conditions, *_), bodies in members.items()))
            for b, members in groups.items()]


def _group(bodies: list[list[Piece]], conditions: tuple[int, ...], rows: int) -> BoundaryGroup:
    """Boundaries, each given by its pieces, under the same conditions."""
    kinds = tuple(piece.kind for piece in bodies[0])
    params = tuple(np.array([pieces[f].params for pieces in bodies]) for f in range(len(kinds)))
    sign = np.array([[-1.0 if piece.flip else 1.0 for piece in pieces] for pieces in bodies])
    return BoundaryGroup(kinds, params, sign, conditions, rows, bodies[0][0].name)


def _boundaries(problem: Problem, block: dict[int, int]) -> dict[tuple, list[Piece]]:
    """The pieces of each boundary of each block, by block, body, conditions and name where something is stated for it.

    Pieces of a body with the same conditions, whatever their names, are one boundary, and so are all pieces
    of a name whose distance is stated. `block` has the block of each condition.
    """
    stated, own_normals = problem.hints.distances, problem.hints.normals
    alike = _alike(problem)
    boundaries: dict[tuple, list[Piece]] = {}
    for piece, which in zip(problem.layout.pieces, problem.layout.conditions):
        by_block: dict[int, tuple[int, ...]] = {}
        for c in which:
            by_block[block[c]] = (*by_block.get(block[c], ()), alike[c])
        name = piece.name if piece.name in (*stated, *own_normals) else ""
        for b, conditions in by_block.items():
            key = (b, -1 if name in stated else piece.body, conditions, name)
            boundaries.setdefault(key, []).append(piece)
    return boundaries


def _check_apart(problem: Problem, boundaries: dict[tuple, list[Piece]]) -> None:
    """Boundaries of one block must not touch each other."""
    layout = problem.layout
    for i, j in zip(*np.nonzero(layout.touching)):
        one, two = layout.pieces[i], layout.pieces[j]
        for b in {b for b, *_ in boundaries}:
            owners = [next((key for key, members in boundaries.items() if key[0] == b and piece in members), None)
                      for piece in (one, two)]
            if None not in owners and owners[0] != owners[1]:
                raise ValueError(f"the paper's ansatz needs boundaries that do not touch, and '{one.name}' touches "
                                 f"'{two.name}'; use --method exact")


def _columns(problem: Problem, piece: Piece, condition: Condition) -> tuple[set[int], int]:
    """Which components of the state a condition involves on a piece, and how many rows it has."""
    at = piece.sample(jax.random.key(0), 4)
    normals = jax.vmap(piece.normal)(at)
    at = problem.everywhen(at)
    a, _ = jax.vmap(lambda x, n: condition.matrix(problem.schema, x, n))(at, normals)
    used = np.nonzero(np.abs(np.asarray(a)).max(axis=(0, 1)) > 1e-12)[0]
    if (used >= problem.schema.size).any():
        raise ValueError(f"the paper's ansatz needs the gradient as a field for '{condition.name}' on "
                         f"'{condition.on}'; state gradients={{…}} in the problem, or use --method exact")
    return {int(k) for k in used}, a.shape[1]


def _alike(problem: Problem) -> dict[int, int]:
    """For each condition on a boundary the first one that says the same, whatever boundary it is on."""
    pieces = problem.layout.pieces
    if not pieces:
        return {}
    points = [piece.sample(jax.random.key(k), 8) for k, piece in enumerate(pieces)]
    normals = jnp.concatenate([jax.vmap(piece.normal)(at) for piece, at in zip(pieces, points)])
    x = problem.everywhen(jnp.concatenate(points))
    said: dict[int, list[np.ndarray]] = {}
    alike = {}
    for c in sorted({c for which in problem.layout.conditions for c in which}):
        rows = jax.vmap(lambda x, n, c=problem.pointwise[c]: c.matrix(problem.schema, x, n))(x, normals)
        said[c] = [np.asarray(part) for part in rows]
        alike[c] = next(k for k in said if k == c or all(map(np.array_equal, said[k], said[c])))
    return alike


def _check_stated(problem: Problem) -> None:
    """Stated distances are numbers that vanish on their boundary, stated normals its outward unit normals."""
    d, size = problem.schema.dim, problem.domain.size
    for name in (*problem.hints.distances, *problem.hints.normals):
        boundary = problem.boundaries[name]
        points = boundary.sample(jax.random.key(6), 200)
        x, true = problem.everywhen(points), jax.jit(jax.vmap(boundary.normal))(points)
        if name in problem.hints.distances:
            l = _sampled(problem.hints.distances[name], x, (), f"the stated distance of '{name}'")
            if not np.abs(l).max() <= 0.05 * size:
                raise ValueError(f"the stated distance of '{name}' is {np.abs(l).max():.2g} on '{name}' itself; "
                                 f"it must vanish there")
        if name in problem.hints.normals:
            n = _sampled(problem.hints.normals[name], x, (d,), f"the stated normal of '{name}'")
            check_unit(n, name)
            if (n * np.asarray(true)).sum(1).mean() < 0:
                raise ValueError(f"the stated normals of '{name}' point into the domain; they must point out of it")


def check_unit(normals: np.ndarray, name: str) -> None:
    """Normals (n, d) sampled on a boundary must have length one."""
    length = np.sqrt((normals**2).sum(1))
    worst = length[np.argmax(np.abs(length - 1))]
    if not abs(worst - 1) <= 1e-6:
        raise ValueError(f"the stated normals of '{name}' have length {worst:.3g} on it; scale them to length one, as "
                         f"extend(…, unit=True) does")


def _sampled(function: Callable, x: Array, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Values (n, *shape) of a user's function of the point; a fault is one sentence."""
    wanted = f"a vector of {shape[0]} numbers" if shape else "one number"
    try:
        values = np.asarray(jax.vmap(lambda x: jnp.asarray(function(x), float))(x))
    except Exception as error:
        raise ValueError(f"{what} cannot be evaluated: {first_line(error)}") from None
    if values.shape[1:] != shape:
        raise ValueError(f"{what} has shape {values.shape[1:]} at a point; it must be {wanted}")
    if not np.isfinite(values).all():
        raise ValueError(f"{what} is not finite on the boundary; check it for NaN")
    return values
