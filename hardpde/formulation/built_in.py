"""The exact ansatz on any network: points sorted by how many boundaries correct the network there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Term, combine, laplacian_over
from hardpde.ansatz.exact import Exact
from hardpde.formulation.batch import ALL_POINTS, Batch, Shard, cast, penalty_places, shard_rows
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model, scaled_residuals
from hardpde.formulation.penalties import Penalty, stated_penalties
from hardpde.formulation.points import adaptive_choice, graded, uniform
from hardpde.formulation.scales import residual_scale
from hardpde.problem.fields import Schema
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply, run_on_cpu, traced

RARE = 0.03  # of the points
MOST = 16  # collars that may hold one point
ROWS = 1536  # values and derivatives at the points of a chunk on a CPU
BLOCK = 2**15  # points whose coefficients are worked out at once: what that takes does not grow with the points
ENOUGH = 20_000  # points that show how many lie in how many collars


def built_in(problem: Problem, network: Callable[[Array, int, int], Model], inputs: Callable[[Array], Array], *,
             engine: Engine, adaptive: bool = False, sampling: str = "graded", marched: bool = False,
             fades: float = 0.0,
             penalise: Callable[[Problem, int, int], tuple[Penalty, ...]] = stated_penalties) -> Formulation:
    """The exact ansatz on any network: network(key, inputs, outputs) makes one, inputs(x) is what it is given.

    penalise(problem, points, chunks): what the loss asks for beside the equations. marched, fades: as in `Exact`.
    """
    collars = Collars(Exact(problem, inputs, marched, fades), problem, graded if sampling == "graded" else uniform,
                      engine.points + engine.points // 4 + 256)
    chunks = engine.chunks(ROWS // (1 + problem.derivatives))
    classes = class_sizes(collars.counts(), engine.points, chunks)
    penalties = penalise(problem, sum(classes), chunks)
    drawing = Drawing(collars, residual_scale(problem), jnp.dtype(engine.dtype), classes, penalties,
                      tuple(map(collars.of_penalty, penalties)), adaptive)
    start = jnp.zeros(problem.schema.point)
    size = jax.eval_shape(inputs, start).shape[0]
    outputs = problem.hints.outputs
    number = problem.schema.size if outputs is None else jax.eval_shape(outputs, start).shape[1]
    return Formulation(problem, lambda key: network(key, size, number), drawing.draw, drawing.draw_held_out,
                       partial(exact_state, problem.schema), drawing.at, sum(classes), drawing.dtype, chunks, penalties,
                       devices=engine.devices)


@dataclass(frozen=True, eq=False)
class Collars:
    """In how many collars points lie: each needs a correction of its own.

    candidates(problem, key, n): n points that may be drawn; pool: how many are looked at for a draw.
    """

    ansatz: Exact
    problem: Problem
    candidates: Callable[[Problem, Array, int], Array]
    pool: int

    @cached_property
    def look(self) -> Callable[[Array], tuple[Array, Array, Array]]:
        """Candidates for points: x (pool, c), the pieces whose collar holds them, how many these are."""
        most = min(len(self.problem.layout.pieces), MOST)

        def look(key: Array) -> tuple[Array, Array, Array]:
            x = self.candidates(self.problem, key, self.pool)
            ids, counts = over_points(lambda x: self.ansatz.active(x, most), x)
            return x, ids.T, counts

        return jit_simply(look)

    def counts(self) -> np.ndarray:
        """In how many collars each of many candidates lies."""
        parts: list[np.ndarray] = []
        while sum(map(len, parts)) < ENOUGH:
            parts.append(np.asarray(run_on_cpu(self.look, jax.random.fold_in(jax.random.key(11), len(parts)))[2]))
        return np.concatenate(parts)

    def slots(self, x: Array) -> int:
        """In how many collars a point lies, at most; no fewer than one unless there are none."""
        return max(int(run_on_cpu(self._most, x)), min(len(self.problem.layout.pieces), 1))

    @cached_property
    def _most(self) -> Callable[[Array], Array]:
        return jit_simply(lambda x: jax.vmap(lambda x: self.ansatz.active(x, 1)[1])(x).max())

    def of_penalty(self, penalty: Penalty) -> int:
        """The slots of what a penalty draws: found from many points, once, as a draw has fixed shapes."""
        keys = jax.random.split(jax.random.key(11), 16)
        x = jax.jit(jax.vmap(lambda key: penalty.draw(key)[0]))(keys)
        return self.slots(x.reshape(-1, self.problem.schema.point))


@dataclass(frozen=True, eq=False)
class Drawing:
    """How the points of a batch are drawn and prepared.

    classes: how many points lie in the collars of at least 0, 1, 2, … pieces. reached: the slots of each penalty.
    adaptive: points are chosen from a larger pool where the model's residual is large.
    """

    collars: Collars
    scale: Callable[[Array], Array]
    dtype: Any
    classes: tuple[int, ...]
    penalties: tuple[Penalty, ...]
    reached: tuple[int, ...]
    adaptive: bool

    def draw(self, key: Array, model: Model | None = None, shard: Shard = ALL_POINTS) -> Batch:
        """Fresh points; those of `adaptive` follow the model."""
        x, ids = self._refine(key, model) if self.adaptive and model is not None else self._choose(key)
        return self._batch(x, ids, shard)._replace(penalised=tuple(
            self._penalised(jax.random.fold_in(key, k + 1), k, shard) for k in range(len(self.penalties))))

    def draw_held_out(self, key: Array, model: Model | None = None, shard: Shard = ALL_POINTS) -> Batch:
        """Points that do not follow the model."""
        return self.draw(key, None, shard)

    def at(self, x: np.ndarray, order: int = 0) -> Batch:
        """The batch of any points, in their order.

        Where so many points were looked at before, with as many slots or more, nothing is compiled again.
        """
        places, known = jnp.asarray(x), self._slots_of.setdefault((len(x), order), set())
        least = max(self.collars.slots(places), len(self.classes) - 1)
        slots = min((many for many in known if many >= least), default=least)
        known.add(slots)
        return self._anywhere(places, slots, order)

    @cached_property
    def _slots_of(self) -> dict[tuple[int, int], set[int]]:
        """The slots for which so many points were looked at, with derivatives up to such an order."""
        return {}

    def _choose(self, key: Array) -> tuple[Array, Array]:
        return run_on_cpu(lambda key: pick(*self.collars.look(key), self.classes), key)

    @cached_property
    def _batch(self) -> Callable[[Array, Array, Shard], Batch]:
        def batch(x: Array, ids: Array, shard: Shard) -> Batch:
            own = tuple(size // shard.count for size in self.classes)
            return cast(self._assembled(shard_rows(shard, x, 0), shard_rows(shard, ids, 0), own), self.dtype)

        return jit_simply(batch)

    @cached_property
    def _refine(self) -> Callable[[Array, Model], tuple[Array, Array]]:
        problem, total = self.collars.problem, sum(self.classes)

        def refine(key: Array, model: Model) -> tuple[Array, Array]:
            pool_key, choice_key = jax.random.split(key)
            pools, scores = [], []
            for k in jax.random.split(pool_key, 4):
                x, ids = self._choose(k)
                batch = self._batch(x, ids, ALL_POINTS)
                pools.append((x, ids))
                scores.append((scaled_residuals(problem, exact_state(problem.schema, model, batch), batch) ** 2).sum(0))
            x, ids = (jnp.concatenate(parts) for parts in zip(*pools))
            chosen = adaptive_choice(choice_key, jnp.concatenate(scores).astype(jnp.float64), total + total // 4)
            return pick(x[chosen], ids[chosen], (ids[chosen] >= 0).sum(1), self.classes)

        return jax.jit(refine)

    @cached_property
    def _anywhere(self) -> Callable[[Array, int, int], Batch]:
        def anywhere(x: Array, most: int, order: int) -> Batch:
            ids, _ = jax.vmap(lambda x: self.collars.ansatz.active(x, most))(x)
            return self._assembled(x, ids, (*[0] * most, len(x)), order)

        return jit_simply(anywhere, static_argnums=(1, 2))

    @cached_property
    def _penalised(self) -> Callable[[Array, int, Shard], Batch]:
        def penalised(key: Array, k: int, shard: Shard) -> Batch:
            x, data = penalty_places(self.penalties[k], key, shard)
            return cast(self._anywhere(x, self.reached[k], 2)._replace(data=data), self.dtype)

        return jit_simply(penalised, static_argnums=1)

    def _assembled(self, x: Array, ids: Array, classes: tuple[int, ...], order: int = 2) -> Batch:
        problem = self.collars.problem
        return assemble(self.collars.ansatz, self.scale, x, ids, classes, order > 0,
                        problem.schema.dim if order == problem.order == 2 else 0)


def class_sizes(counts: np.ndarray, points: int, chunks: int) -> tuple[int, ...]:
    """How many of the points lie in the collars of at least 0, 1, 2, … pieces, from how many hold each of a sample.

    Every number suits the chunks. The numbers of points with exactly k corrections are fixed (a stratified sample), so
    that shapes are static.
    """
    most = int(counts.max(initial=0))
    if most > MOST:
        raise ValueError(f"a point lies in the collars of {most} pieces and {MOST} is the most; state narrower ones")
    # Collars may fill the domain: classes too rare for a draw to find are left to the next one.
    least = int(np.quantile(counts, RARE))
    sizes = []
    for k in range(most, least, -1):  # points with exactly k, at least one chunk row each
        sizes.append(max(1, round((counts == k).mean() * points / chunks)) * chunks)
    rest = max(1, round(points / chunks) - sum(sizes) // chunks) * chunks
    return (*[0] * least, rest, *reversed(sizes))


@partial(jax.jit, static_argnums=3)
def pick(x: Array, ids: Array, counts: Array, classes: tuple[int, ...]) -> tuple[Array, Array]:
    """Pick the stated number of points of each class, most corrections first; a short class takes from below."""
    most = len(classes) - 1
    order = []
    for k in range(most, -1, -1):
        rank = jnp.where(counts == k, 0, jnp.where(counts < k, 1, 2))
        order.append(jnp.argsort(rank, stable=True)[: classes[k]])
    chosen = jnp.concatenate(order)
    return x[chosen], ids[chosen, :most]


def over_points(function: Callable[..., Any], *points: Array) -> Any:
    """A function of one point at all points (n, …), which come last in the results; many are done in equal blocks."""
    every = jax.vmap(function, out_axes=-1)
    n = len(points[0])
    if n <= BLOCK:
        return every(*points)
    blocks = -(-n // BLOCK)
    size = -(-n // blocks)

    def in_blocks(a: Array) -> Array:
        return jnp.pad(a, [(0, blocks * size - n), *[(0, 0)] * (a.ndim - 1)], mode="edge").reshape(
            blocks, size, *a.shape[1:])

    def in_a_row(a: Array) -> Array:
        return jnp.moveaxis(a, 0, -2).reshape(*a.shape[1:-1], blocks * size)[..., :n]

    return jax.tree.map(in_a_row, jax.lax.map(lambda part: every(*part), tuple(map(in_blocks, points))))


def assemble(ansatz: Exact, scale: Callable[[Array], Array], x: Array, ids: Array, classes: tuple[int, ...],
             differentiate: bool, second: int = 0) -> Batch:
    """The batch of points sorted by class: main term for all, correction s for the first rows only."""
    most = len(classes) - 1
    corrected = sum(classes[1:])

    def jet(corrections: bool, *points: Array) -> Any:
        return over_points(ansatz.jets_of(corrections, differentiate, second), *points)

    views = range(len(ansatz.views))
    offset, matrices, inputs = jet(False, x)  # (m, 1 + c, n), (v, m, o, 1 + c, n), (v, f, 1 + c, n)
    terms = [Term(inputs[v], matrices[v]) for v in views]
    if corrected:
        c, matrices, inputs, dual = jet(True, x[:corrected], ids[:corrected, :most])
        offset = offset.at[..., :corrected].add(c)
        for s, v in product(range(most), views):
            rows = sum(classes[s + 1 :])
            terms.append(Term(inputs[s, v, ..., :rows], matrices[s, v, ..., :rows],
                              None if dual is None else dual[s, v, ..., :rows]))
    return Batch(x, offset, tuple(terms), jax.vmap(scale, out_axes=1)(x))


def exact_state(schema: Schema, model: Model, batch: Batch) -> Array:
    """The state as a jet, (m, slots, n)."""
    over = laplacian_over(schema, batch.offset)
    plain, dual = (stack_terms([term for term in batch.terms if (term.dual is not None) == steep])
                   for steep in (False, True))
    found = model.jet(plain.inputs, over)
    slopes = None if dual is None else model.dual_jet(dual.inputs, dual.dual, over)
    together = _combined if traced(found) else _combined_apart
    return together(batch.offset, batch.terms, found, slopes, over)


def _combined(offset: Array, terms: tuple[Term, ...], found: Array, slopes: Array | None, over: int) -> Array:
    """The state from the network's jets at the inputs of all terms: of those without a dual, then of the others."""
    outputs: list[Array] = []
    for jet, steep in ((found, False), (slopes, True)):
        lengths = [term.inputs.shape[-1] for term in terms if (term.dual is not None) == steep]
        if jet is not None:
            outputs += jnp.split(jet, np.cumsum(lengths)[:-1], axis=-1)
    return combine(offset, terms, outputs, over)


_combined_apart = jit_simply(_combined, static_argnums=4)


class Stacked(NamedTuple):
    """Inputs of several terms side by side, so that one call of the network serves them all."""

    inputs: Array
    dual: Array | None


def stack_terms(terms: list[Term]) -> Any:
    """The inputs of terms side by side; None without terms."""
    if not terms:
        return None
    duals = [term.dual for term in terms if term.dual is not None]
    dual = jnp.concatenate(duals, axis=-1) if duals else None
    return Stacked(jnp.concatenate([term.inputs for term in terms], axis=-1), dual)
