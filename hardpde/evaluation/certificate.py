"""The certificate: how far a model is from satisfying each condition, measured on every boundary."""

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.evaluation.boundaries import stretches
from hardpde.formulation.formulation import Formulation, Model
from hardpde.formulation.points import EARLIEST, paired
from hardpde.geometry import at_times, touching_points
from hardpde.geometry.algorithms.stacking import concrete
from hardpde.networks.mlp import randomise
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.datum import Datum
from hardpde.problem.parameters import append
from hardpde.problem.periods import Period
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

INSTANTS = 8  # at which levels of fields are looked at
EXACT = 1e-10  # below it a condition is called exact


def certify(formulation: Formulation, models: list[Model], points: int = 1000) -> list[dict[str, Any]]:
    """max |A q − g| of each condition over at least `points` points of its boundary, corners and ends of time
    included, and over all models: [{"name", "boundary", "points", "violation"}], in units of the largest of 1, g, the
    sum of the sizes of what A q adds up and the norm of its coefficients: with large ones it is the distance of the
    state from those that satisfy the condition. Where it is not finite, "cause" says why. A periodic condition is
    measured by what differs between paired points: all fields, and the slopes of those that have no gradient field
    where the residual takes a Laplacian."""
    problem = formulation.problem
    others = [_periodic_row(formulation, models, period, points) for period in problem.periods]
    others += [_level_row(formulation, models, datum) for datum in problem.levels]
    if not problem.pointwise:
        return others
    samples = _places(problem, points)
    everywhere = np.concatenate([x for x, *_ in samples])  # one evaluation for all conditions
    borders = np.cumsum([len(x) for x, *_ in samples])[:-1]
    states = [np.split(_traces(formulation, model, everywhere, samples), borders) for model in models]
    rows = []
    for k, (condition, (x, _, a, g)) in enumerate(zip(problem.pointwise, samples)):
        residuals = [_miss(a, q[k], g) for q in states]
        worst = max(float(r.max()) if np.isfinite(r).all() else float("inf") for r in residuals)
        row = {"name": condition.name, "boundary": condition.on, "points": len(x), "violation": worst}
        if not np.isfinite(worst):
            row["cause"] = _cause(problem, x, a, g, np.sum([q[k] for q in states], axis=0))
        rows.append(row)
    return rows + others


def _miss(a: np.ndarray, q: np.ndarray, g: np.ndarray) -> np.ndarray:
    """|A q − g| (n, r), where large in units of the sizes that are added up: what rounding makes of them."""
    size = np.maximum(np.einsum("nrm,nm->nr", np.abs(a), np.abs(q)), np.abs(g))
    return np.abs(np.einsum("nrm,nm->nr", a, q) - g) / np.maximum(size, np.maximum(np.linalg.norm(a, axis=2), 1.0))


def _cause(problem: Problem, x: np.ndarray, a: np.ndarray, g: np.ndarray, q: Any) -> str:
    """What is not a finite number, and at which point: data, coefficients, a hint, or the state that is made."""
    hints = {f"the hint {name}": getattr(problem.hints, name) for name in ("guess", "inputs", "outputs")}
    parts: dict[str, Any] = {"the data": g, "a coefficient": a}
    for what, hint in hints.items():
        if hint is not None:
            found = jax.tree.leaves(jax.vmap(lambda x, hint=hint: jax.tree.map(jnp.asarray, hint(x)))(jnp.asarray(x)))
            parts[what] = np.concatenate([np.asarray(leaf).reshape(len(x), -1) for leaf in found], axis=1)
    parts["the state"] = q
    for what, values in parts.items():
        wrong = ~np.isfinite(np.asarray(values)).reshape(len(x), -1).all(axis=1)
        if wrong.any():
            place = ", ".join(f"{c:.6g}" for c in x[int(wrong.argmax())])
            return f"{what} is not a finite number at ({place}), nor at {wrong.sum() - 1} other points of {len(x)}"
    return "numbers overflow where the condition is evaluated"


@lru_cache(maxsize=2)
def _places(problem: Problem, points: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Points, normals, and A and g there, of every condition; the same for all models of a problem."""
    found = []
    for condition in problem.pointwise:
        x, n = _points(problem, condition.on, points)
        found.append((x, n, *_rows(problem, condition, x, n)))
    return found


def _rows(problem: Problem, condition: Condition, x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and g of a condition at points with normals."""
    return concrete(jit_simply(jax.vmap(partial(condition.matrix, problem.schema, gradients=_steep(problem)))), x, n)


def _steep(problem: Problem) -> bool:
    """Whether conditions may ask for derivatives that are not fields."""
    return problem.schema.traces or not set(problem.stated.schema.names) <= set(problem.schema.names)


def profiles(formulation: Formulation, model: Model, points: int = 300, times: int = 5) -> list[dict[str, Any]]:
    """|A q − g| of each condition along its boundary, the largest of its rows and of a few times.

    [{"name", "boundary", "along", "at", "violation", "breaks", "where"}]: `at` (n,) is the arc length in two
    dimensions, the time on the ends of an interval, else the number of the point; `breaks` are where a stretch does not
    touch the one before; `where` says in words where the largest is.
    """
    problem = formulation.problem
    found: list[dict[str, Any]] = []
    courses = [_course(problem, condition.on, points, times) for condition in problem.pointwise]
    samples = [(x.reshape(-1, x.shape[-1]), np.tile(n, (len(x), 1))) for _, _, x, n, _ in courses]
    if samples:  # one evaluation for all conditions
        states = np.split(_traces(formulation, model, np.concatenate([x for x, _ in samples]), samples),
                          np.cumsum([len(x) for x, _ in samples])[:-1])
    for k, condition in enumerate(problem.pointwise):
        along, at, x, _, breaks = courses[k]
        a, g = _rows(problem, condition, *samples[k])
        off = _miss(a, states[k], g).max(axis=1, initial=0.0)
        off[at_jumps(problem, samples[k][0])] = 0.0  # there no state has the data of both sides
        found.append(_profile(condition.name, condition.on, along, at, off.reshape(x.shape[:2]), x, breaks, problem))
    for period in problem.periods:
        pairs = _pairs(problem, period, points)
        jets = formulation.jet(model, pairs.reshape(-1, pairs.shape[-1]), 1)
        compare = jit_simply(jax.vmap(period.rows, (1, 1)))
        off = np.abs(np.asarray(compare(jnp.asarray(pairs), jets.reshape(2, points, *jets.shape[1:]))))
        boundary = f"{period.condition.on} = {period.condition.to}"
        found.append(_profile(period.condition.name, boundary, "point", np.arange(points),
                              off.max(axis=1, initial=0.0)[None], pairs[:1], [], problem))
    return found


def _profile(name: str, boundary: str, along: str, at: np.ndarray, off: np.ndarray, x: np.ndarray,
             breaks: Iterable[int], problem: Problem) -> dict[str, Any]:
    """One row of `profiles`: what is found at k times and n places (k, n), at points (k, n, c)."""
    off = np.where(np.isfinite(off), off, np.inf)
    place = x[np.unravel_index(off.argmax(), off.shape)]
    space = ", ".join(f"{v:.4g}" for v in place[: problem.schema.dim][:3]) + ", …" * (problem.schema.dim > 3)
    where = f"({space})" + (f", t = {place[problem.schema.dim]:.3g}" if problem.time is not None else "")
    return {"name": name, "boundary": boundary, "along": along, "at": [float(v) for v in at], "where": where,
            "violation": [float(v) for v in off.max(axis=0)], "breaks": [int(b) for b in breaks]}


def _course(problem: Problem, name: str, points: int, times: int) -> tuple:
    """A way along a boundary: what measures it, the measure (n,), points (k, n, c) at k times, normals, breaks."""
    dim = problem.schema.dim
    if name == INITIAL:
        x, n = _points(problem, INITIAL, points)
        if dim == 1:
            x = x[np.argsort(x[:, 0])]
        return ("x", x[:, 0], x[None], n, []) if dim == 1 else ("point", np.arange(len(x)), x[None], n, [])
    found = stretches(problem, name, points, 3)
    x, n = (np.concatenate([part[k] for part in found]) for k in (0, 1))
    starts = np.cumsum([0, *(len(run.x) for run in found)])[1:-1]
    if problem.time is None:
        instants = None
    else:
        start, end = problem.time
        if _steep(problem):  # derivatives are taken from just after the start of time on
            start = start + EARLIEST * (end - start)
        instants = np.linspace(start, end, points if dim == 1 else times)
    if dim == 1 and instants is not None:
        at = np.tile(instants, len(x))
        ends = at_times(np.repeat(x, len(instants), axis=0), at)
        return "t", at, ends[None], np.repeat(n, len(instants), axis=0), np.arange(1, len(x)) * len(instants)
    steps = np.append(0.0, np.linalg.norm(np.diff(x, axis=0), axis=1))
    apart = [s for s in starts if steps[s] > 3 * max(steps[s - 1], steps[min(s + 1, len(steps) - 1)])]
    steps[apart] = 0.0
    along, at = {1: ("x", x[:, 0]), 2: ("arc length", np.cumsum(steps))}.get(dim, ("point", np.arange(len(x)) * 1.0))
    moments = [x] if instants is None else [at_times(x, t) for t in instants]
    return along, at, np.stack(moments), n, apart if dim == 2 else starts


def _traces(formulation: Formulation, model: Model, x: np.ndarray, samples: list) -> np.ndarray:
    """The state (n, m) at boundary points and, where conditions ask for them, its gradients (n, m + m d)."""
    problem = formulation.problem
    if not _steep(problem):
        return formulation.predict(model, x)
    m, d = problem.schema.size, problem.schema.dim
    on = np.concatenate([(sample[1] != 0).any(axis=1) for sample in samples])  # not those of the initial condition
    slopes = np.zeros((len(x), m * d))
    if on.any():
        slopes[on] = formulation.jet(model, x[on], 1)[:, :, 1 : 1 + d].reshape(-1, m * d)
    return np.concatenate([formulation.predict(model, x), slopes], axis=1)


def _periodic_row(formulation: Formulation, models: list[Model], period: Period, points: int) -> dict[str, Any]:
    """The row of a periodic condition: what differs between paired points, as `certify` says."""
    pairs = _pairs(formulation.problem, period, points)
    compare = jit_simply(jax.vmap(period.rows, (1, 1)))
    worst = 0.0
    for model in models:
        jets = formulation.jet(model, pairs.reshape(-1, pairs.shape[-1]), 1)
        jets = jets.reshape(2, points, *jets.shape[1:])
        rows = np.abs(np.asarray(compare(jnp.asarray(pairs), jets)))
        worst = max(worst, float(rows.max()) if np.isfinite(rows).all() else float("inf"))
    return {"name": period.condition.name, "boundary": f"{period.condition.on} = {period.condition.to}",
            "points": points, "violation": worst}


def _level_row(formulation: Formulation, models: list[Model], datum: Datum) -> dict[str, Any]:
    """The row of a mean or a value at a point, at times and parameters all over their ranges."""
    problem = formulation.problem
    others = np.asarray(problem.everywhen(jnp.zeros((INSTANTS, problem.schema.dim))))[:, problem.schema.dim :]
    others = np.unique(others, axis=0)
    x, (wanted, _) = datum.points(problem, others), datum.values(problem, others)
    found = [formulation.predict(model, x)[:, datum.component(problem)] for model in models]
    off = [np.abs(datum.average(problem, values, len(others)) - wanted).max() for values in found]
    worst = max(float(miss) if np.isfinite(miss) else float("inf") for miss in off)
    return {"name": datum.name, "boundary": datum.on, "points": len(x), "violation": worst}


def _pairs(problem: Problem, period: Period, points: int) -> np.ndarray:
    """Pairs of points (2, n, c) that a period joins; derivatives are taken from just after the start of time on."""
    pairs = np.array(paired(problem, period, jax.random.key(14), points))
    if problem.time is not None:
        start, end = problem.time
        when = problem.schema.dim
        pairs[:, ::10, when], pairs[:, 5::10, when] = start + EARLIEST * (end - start), end
    return pairs


def random_models(formulation: Formulation, count: int = 3, seed: int = 0) -> list[Model]:
    """Untrained networks with random weights of unit size, in double precision."""
    keys = jax.random.split(jax.random.key(seed), count)
    model = jax.tree.map(lambda a: a.astype(jnp.float64), formulation.init(keys[0]))
    return [randomise(model, key) for key in keys]


def violation(rows: list[dict]) -> float:
    """The largest violation of a certificate."""
    return max((row["violation"] for row in rows), default=0.0)


def at_jumps(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Which of the points (n, c) are corners at which the data jump, (n,)."""
    found = np.zeros(len(x), bool)
    for jump in problem.stated.completed.jumps:
        found |= np.linalg.norm(x[:, : len(jump.at)] - jump.at, axis=1) < 1e-9 * problem.domain.size
    return found


@lru_cache(maxsize=16)
def boundary_points(problem: Problem, name: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a boundary in space, corners included, and the outward normals of the pieces they belong to."""
    boundary = problem.domain.boundaries[name]

    @jit_simply
    def sample(key: Array) -> tuple[Array, Array]:
        x = boundary.sample(key, points)
        return x, jax.vmap(boundary.normal)(x)

    x, n = concrete(sample, jax.random.key(12))
    layout = problem.stated.completed.layout
    corners, normals = [x], [n]
    for i, j in zip(*np.nonzero(layout.touching)):
        if layout.pieces[i].name == name:
            c = touching_points(layout.pieces[i], layout.pieces[j], problem.domain)
            c = c[~at_jumps(problem, c)]
            if not len(c):
                continue
            corners.append(c)
            normals.append(np.stack([np.asarray(layout.pieces[i].normal(jnp.asarray(point))) for point in c]))
    return np.concatenate(corners), np.concatenate(normals)


def _points(problem: Problem, name: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a boundary in space and time, with parameters all over their ranges, and normals."""
    x, n = _instants(problem, name, points)
    return np.asarray(append(problem.parameters, x)), n


def _instants(problem: Problem, name: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a boundary in space and time, the ends of time included, and normals."""
    if name == INITIAL:
        space = [np.asarray(problem.domain.sample(jax.random.key(13), points))]
        space += [boundary_points(problem, other, 100)[0] for other in problem.domain.boundaries]
        x = np.concatenate(space)
        assert problem.time is not None
        return at_times(x, problem.time[0]), np.zeros_like(x)
    x, n = boundary_points(problem, name, points)
    if problem.time is None:
        return x, n
    start, end = problem.time
    if _steep(problem):  # derivatives are taken from just after the start of time on
        start = start + EARLIEST * (end - start)
    t = np.random.default_rng(0).uniform(start, end, len(x))
    t[::10], t[5::10] = start, end
    ends = [x[points:]] * 2  # corners at both ends of time too
    x = np.concatenate([x, *ends])
    t = np.concatenate([t, np.full(len(ends[0]), start), np.full(len(ends[0]), end)])
    return at_times(x, t), np.concatenate([n, n[points:], n[points:]])
