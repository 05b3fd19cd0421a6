"""The exact ansatz: one network, every condition satisfied to rounding for any weights."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.base import Term, combine, jets, laplacian_over
from hardpde.ansatz.exact import Exact
from hardpde.ansatz.inputs import standard_inputs
from hardpde.formulation.batch import WHOLE, Batch, Part, cast, places_of, rows_of
from hardpde.formulation.formulation import Formulation, Model
from hardpde.formulation.penalties import Penalty, stated_penalties
from hardpde.formulation.points import adaptive_choice, graded, uniform
from hardpde.formulation.scales import residual_scale
from hardpde.networks.mlp import MLP, mlp
from hardpde.problem.problem import Problem, without_gradients
from hardpde.support.compiling import compiled_quickly
from hardpde.support.hardware import current_device, default_chunks

RARE = 0.03  # of the points
MOST = 16  # collars that may hold one point
ROWS = 1536  # values and derivatives at the points of a chunk on a CPU
BLOCK = 2**15  # points whose coefficients are worked out at once: what that takes does not grow with the points


def exact(problem: Problem, *, width: int = 40, depth: int = 4, points: int = 4096, dtype: str = "float64",
          adaptive: bool = False, sampling: str = "graded", chunk: int | None = None,
          gradients: str = "fields", devices: int = 1) -> Formulation:
    """Conditions hold by construction; the network learns the smooth solution itself.

    Periodic conditions are built into the inputs, or are penalties where they are stated as soft. Gradient fields
    are outputs of the network, or filled by differentiation (gradients="derivatives"): then conditions hold for
    the true gradient, on boundaries that do not touch.
    """
    _check_positive(width=width, depth=depth, points=points)
    if gradients not in ("fields", "derivatives"):
        raise ValueError(f"gradients is '{gradients}'; it is 'fields' or 'derivatives'")
    if gradients == "derivatives":
        problem = without_gradients(problem)
        problem.check_conditions()
    _check_periods(problem)
    if sampling not in ("graded", "uniform"):
        raise ValueError(f"sampling is '{sampling}'; it is 'graded' or 'uniform'")

    def network(key: Array, inputs: int, outputs: int) -> MLP:
        return mlp(key, [inputs, *[width] * depth, outputs], jnp.dtype(dtype))

    return built_in(problem, network, standard_inputs(problem), points=points, dtype=dtype, adaptive=adaptive,
                    sampling=sampling, chunk=chunk, devices=devices)


def built_in(problem: Problem, network: Callable[[Array, int, int], Model], inputs: Callable[[Array], Array], *,
             points: int, dtype: str, adaptive: bool, sampling: str, chunk: int | None, devices: int,
             penalise: Callable[..., tuple[Penalty, ...]] = stated_penalties) -> Formulation:
    """The exact ansatz on any network: network(key, inputs, outputs) makes one, inputs(x) is what it is given.

    penalise(problem, points, chunks): what the loss asks for beside the equations.
    """
    ansatz = Exact(problem, inputs)
    size = jax.eval_shape(inputs, jnp.zeros(problem.schema.point)).shape[0]
    outputs = problem.hints.outputs
    number = problem.schema.size
    if outputs is not None:
        number = jax.eval_shape(outputs, jnp.zeros(problem.schema.point)).shape[1]
    scale = residual_scale(problem)
    chunks = default_chunks(points, chunk, ROWS // (1 + problem.derivatives), devices)
    candidates = graded if sampling == "graded" else uniform

    pool = points + points // 4 + 256

    @jax.jit
    def look(key: Array) -> tuple[Array, Array, Array]:
        """Candidates for points: x (pool, c), the pieces whose collar holds them, how many these are."""
        x = candidates(problem, key, pool)
        most = min(len(problem.layout.pieces), MOST)
        ids, counts = over_points(lambda x: ansatz.active(x, most), x)
        return x, ids.T, counts

    classes = _classes(look, points, chunks)
    total = sum(classes)
    second = problem.schema.dim if problem.order == 2 else 0
    penalties = penalise(problem, total, chunks)

    def init(key: Array) -> Model:
        return network(key, size, number)

    def state(model: Model, batch: Batch) -> Array:
        over = laplacian_over(problem.schema, batch.offset)
        plain, dual = (_stacked([term for term in batch.terms if (term.dual is not None) == steep])
                       for steep in (False, True))
        outputs: list[Array] = jnp.split(model.jet(plain.inputs, over), plain.borders, axis=-1)
        if dual is not None:
            outputs += jnp.split(model.dual_jet(dual.inputs, dual.dual, over), dual.borders, axis=-1)
        return combine(batch.offset, batch.terms, outputs, over)

    def assemble(x: Array, ids: Array, classes: tuple[int, ...], differentiate=True) -> Batch:
        return _assemble(ansatz, scale, x, ids, classes, differentiate, second)

    def _choose(key: Array) -> tuple[Array, Array]:
        return on_cpu(lambda key: pick(*look(key), classes), key)

    @jax.jit
    def _batch(x: Array, ids: Array, part: Part) -> Batch:
        own = tuple(size // part.of for size in classes)
        return cast(assemble(rows_of(part, x, 0), rows_of(part, ids, 0), own), dtype)

    @jax.jit
    def _refine(key: Array, model: Model) -> tuple[Array, Array]:
        pool_key, choice_key = jax.random.split(key)
        pools, scores = [], []
        for k in jax.random.split(pool_key, 4):
            x, ids = _choose(k)
            batch = _batch(x, ids, WHOLE)
            pools.append((x, ids))
            scores.append((formulation.residuals(model, batch) ** 2).sum(0))
        x, ids = (jnp.concatenate(parts) for parts in zip(*pools))
        chosen = adaptive_choice(choice_key, jnp.concatenate(scores).astype(jnp.float64), total + total // 4)
        return pick(x[chosen], ids[chosen], (ids[chosen] >= 0).sum(1), classes)

    def draw(key: Array, model: Model | None = None, part: Part = WHOLE) -> Batch:
        """Fresh points; with `adaptive`, chosen from a larger pool where the model's residual is large."""
        x, ids = _refine(key, model) if adaptive and model is not None else _choose(key)
        return _batch(x, ids, part)._replace(penalised=tuple(
            _penalised(jax.random.fold_in(key, k + 1), k, part) for k in range(len(penalties))))

    def draw_held_out(key: Array, model: Model | None = None, part: Part = WHOLE) -> Batch:
        """Points that do not follow the model."""
        return draw(key, None, part)

    @partial(jax.jit, static_argnums=(1, 2))
    def _anywhere(x: Array, most: int, differentiate: bool) -> Batch:
        ids, _ = jax.vmap(lambda x: ansatz.active(x, most))(x)
        return assemble(x, ids, (*[0] * most, len(x)), differentiate)

    @partial(jax.jit, static_argnums=1)
    def _penalised(key: Array, k: int, part: Part) -> Batch:
        x, data = places_of(part, penalties[k].draw(key))
        return cast(_anywhere(x.reshape(-1, x.shape[-1]), reached[k], True)._replace(data=data), dtype)

    @jax.jit
    def _most(x: Array) -> Array:
        return jax.vmap(lambda x: ansatz.active(x, 1)[1])(x).max()

    def at(x: np.ndarray, derivatives: bool = False) -> Batch:
        """The same at any points, in their order."""
        return _anywhere(jnp.asarray(x), slots(jnp.asarray(x)), derivatives)

    def slots(x: Array) -> int:
        """In how many collars a point lies, at most; no fewer than one unless there are none."""
        return max(int(on_cpu(_most, x)), min(len(problem.layout.pieces), 1))

    # Found from many points, once: a draw has fixed shapes.
    keys = jax.random.split(jax.random.key(11), 16)
    reached = [slots(jax.jit(jax.vmap(lambda k, p=penalty: p.draw(k)[0]))(keys).reshape(-1, problem.schema.point))
               for penalty in penalties]
    formulation = Formulation(problem, init, draw, draw_held_out, state, at, total, jnp.dtype(dtype), chunks, penalties,
                              devices=devices)
    return formulation


class _Stacked(NamedTuple):
    """Inputs of several terms side by side, so that one call of the network serves them all."""

    inputs: Array
    dual: Array | None
    borders: np.ndarray


def _stacked(terms: list[Term]) -> Any:
    if not terms:
        return None
    borders = np.cumsum([term.inputs.shape[-1] for term in terms])[:-1]
    duals = [term.dual for term in terms if term.dual is not None]
    dual = jnp.concatenate(duals, axis=-1) if duals else None
    return _Stacked(jnp.concatenate([term.inputs for term in terms], axis=-1), dual, borders)


def _check_periods(problem: Problem) -> None:
    for period in problem.periods:
        if period.hard and len(period.values) < problem.schema.size:
            raise ValueError(f"method exact builds '{period.condition.name}' on '{period.condition.on}' into the "
                             f"inputs of all fields; leave the fields out, or give soft=WEIGHT")


def _check_positive(**values) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")


def _classes(look, points: int, chunks: int) -> tuple[int, ...]:
    """How many of the points lie in the collars of at least 0, 1, 2, … pieces; every number suits the chunks.

    The counts of points with exactly k corrections are fixed (a stratified sample), so that shapes are static.
    """
    parts: list[np.ndarray] = []
    while sum(map(len, parts)) < 20_000:
        parts.append(np.asarray(on_cpu(look, jax.random.fold_in(jax.random.key(11), len(parts)))[2]))
    counts = np.concatenate(parts)
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


def over_points(function: Callable, *points: Array) -> Any:
    """A function of one point at all points (n, …), which come last in the results; many are done in equal blocks."""
    every = jax.vmap(function, out_axes=-1)
    n = len(points[0])
    if n <= BLOCK:
        return every(*points)
    blocks = -(-n // BLOCK)
    size = -(-n // blocks)

    def cut(a: Array) -> Array:
        return jnp.pad(a, [(0, blocks * size - n), *[(0, 0)] * (a.ndim - 1)], mode="edge").reshape(
            blocks, size, *a.shape[1:])

    def join(a: Array) -> Array:
        return jnp.moveaxis(a, 0, -2).reshape(*a.shape[1:-1], blocks * size)[..., :n]

    return jax.tree.map(join, jax.lax.map(lambda part: every(*part), tuple(map(cut, points))))


def on_cpu(function, argument: Array):
    """Run a function on the CPU, which compiles the many small steps of drawing points much sooner than a GPU.

    The result lies where computations run; inside a compiled function nothing changes.
    """
    if isinstance(argument, jax.core.Tracer):
        return function(argument)
    with compiled_quickly():
        if jax.default_backend() == "cpu":
            return function(argument)
        result = function(jax.device_put(argument, jax.local_devices(backend="cpu")[0]))
    return jax.device_put(result, current_device())


def _assemble(ansatz: Exact, scale, x: Array, ids: Array, classes: tuple[int, ...], differentiate: bool,
              second: int = 0) -> Batch:
    """The batch of points sorted by class: main term for all, correction s for the first rows only."""
    most = len(classes) - 1
    corrected = sum(classes[1:])

    def jet(function, *points):
        return over_points(lambda x, *more: jets(lambda x: function(x, *more), x, differentiate, second,
                                                 ansatz.schema.coordinates), *points)

    views = range(len(ansatz.views))
    offset, matrices, inputs = jet(ansatz.main, x)  # (m, 1 + c, n), (v, m, o, 1 + c, n), (v, f, 1 + c, n)
    terms = [Term(inputs[v], matrices[v]) for v in views]
    if corrected:
        c, matrices, inputs, dual = jet(ansatz.corrections, x[:corrected], ids[:corrected, :most])
        offset = offset.at[..., :corrected].add(c)
        for s, v in product(range(most), views):
            rows = sum(classes[s + 1 :])
            terms.append(Term(inputs[s, v, ..., :rows], matrices[s, v, ..., :rows],
                              None if dual is None else dual[s, v, ..., :rows]))
    return Batch(x, offset, tuple(terms), jax.vmap(scale, out_axes=1)(x))
