"""What an answer is worth, without a reference: good, doubtful or failed, and because of what."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.evaluation.base import Solved
from hardpde.evaluation.certificate import EXACT
from hardpde.evaluation.conservation import conservation
from hardpde.evaluation.errors import typical_solution
from hardpde.evaluation.steep import hidden_residual
from hardpde.formulation.points import EARLIEST
from hardpde.problem.jumps import brackets, coordinate_names, jump_between
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

GOOD, DOUBTFUL, FAILED = "good", "doubtful", "failed"
INSIDE, NEAR = 1200, 800  # points at which the residual is looked at: anywhere, and near boundaries
# What may be good, and what has failed above
RESIDUAL = 1e-2, 0.3  # of the equations' terms
ESTIMATE = 2e-2, 0.3  # of the error of a direct solve
MISSING = 2e-2, 0.2  # of what flows or is made
HIDDEN = 2e-2, 0.3  # of the equations' terms over the whole domain, where something is steep
HELD_OUT = 30.0, math.inf  # the held-out loss against that of the points that were trained on
KNOWN = 5e-2, 0.3  # relative error against a reference
CERTAIN = 1e-3  # of the equations' terms: a smaller residual is not doubted because of the points of its training
SMALL = 1e-3  # of the components of a field: smaller ones are measured as if they were that large


class Look(NamedTuple):
    """What was looked at: a number, above which it is no longer good and above which it has failed, in words."""

    what: str
    value: float
    good: float
    failed: float

    @property
    def verdict(self) -> str:
        if not math.isfinite(self.value):
            return FAILED
        return GOOD if self.value <= self.good else FAILED if self.value > self.failed else DOUBTFUL


class Verdict(NamedTuple):
    """good, doubtful or failed; because of what, in a sentence; all figures by name; the conservation table."""

    verdict: str
    because: str
    figures: dict[str, float]
    conservation: list[dict[str, Any]]


def judge(solution: Solved, errors: dict[str, dict[str, Any]] | None = None,
          violation: float | None = None) -> Verdict:
    """What a solution is worth: residuals at fresh points in units of the equations' terms, jumps, what is missing in
    the balance of its flows, the decision of a direct solve, how its training went; errors: against what is known."""
    one = typical_solution(solution)
    formulation, model = one.formulation, one.training.model
    problem = formulation.problem
    table = conservation(one)  # first, as it asks for the most points: fewer then need no compilation
    x = _points(problem)
    jets = formulation.jet(model, np.concatenate(x))
    if not np.isfinite(jets).all():
        where = np.concatenate(x)[int(np.argmin(np.isfinite(jets).all(axis=(1, 2))))]
        return Verdict(FAILED, f"the answer is not a finite number at ({_place(where)})", {}, [])
    figures: dict[str, float] = {}
    looks = []

    def look(name: str, what: str, value: float, limits: tuple[float, float]) -> None:
        figures[name] = float(value)
        looks.append(Look(what, float(value), *limits))

    values, scale = _in_terms(problem, np.concatenate(x), jets)
    residual, at = _residual(values, scale, x)
    look("residual", f"the residual at fresh points is {residual:.1e} of the equations' terms, largest near ({at})",
         residual, RESIDUAL)
    if table:
        worst: dict[str, Any] = max(table, key=lambda row: row["imbalance"])
        when = "" if worst["time"] is None else f", t = {worst['time']:.4g}"
        look("imbalance", f"{worst['imbalance']:.1%} of what flows or is made is missing in {worst['equation']}, "
             f"{worst['where']}{when}", worst["imbalance"], MISSING)
    c = problem.schema.coordinates
    changes = brackets(lambda x: formulation.predict(model, x), x[0], units=_units(problem, jets),
                       slopes=jets[: len(x[0]), :, 1 : 1 + c])
    if jump := jump_between(changes):
        look("jump", f"the answer jumps {jump.words(coordinate_names(problem))}", math.inf, (0.0, 0.0))
    hidden, where = hidden_residual(formulation, model, x[0], jets[: len(x[0])], scale, changes)
    look("hidden", f"{hidden:.1e} of the equations' terms is missing where something changes within less than the "
         f"distance of points, near ({_place(where)})", hidden, HIDDEN)
    found = solution.settings.get("found", {})
    if found.get("estimated_error") is not None:
        look("estimate", f"the estimated error is {found['estimated_error']:.1e}", found["estimated_error"], ESTIMATE)
    if solution.training.history and not found and residual > CERTAIN:
        last = solution.training.history[-1]
        ratio = last["held_out"] / last["loss"] if last["loss"] > 0 else 1.0
        look("held_out", f"the held-out loss is {ratio:.1f} times that of the training's points", ratio, HELD_OUT)
    if violation is not None and solution.settings.get("method_name") == "exact":
        look("violation", f"a condition is violated by {violation:.1e}", violation, (EXACT, 1e-3))
    for name, row in (errors or {}).items():
        value = row.get("relative_l2")
        if value is not None and name in problem.schema.names and name not in dict(problem.schema.gradients):
            look(f"error {name}", f"the error of {name} against the reference is {value:.1%}", value, KNOWN)
    return Verdict(*_of(looks), figures, table)


def _of(looks: list[Look]) -> tuple[str, str]:
    """The worst verdict of all, with what led to it."""
    for verdict in (FAILED, DOUBTFUL):
        if reasons := [one.what for one in looks if one.verdict == verdict]:
            return verdict, "; ".join(reasons)
    return GOOD, "; ".join(one.what for one in looks[:2])


def _units(problem: Problem, jets: np.ndarray) -> np.ndarray:
    """Sizes (m,) in which changes of the state are measured: those of its components, none much less than its field's.
    """
    values = jets[:, :, 0]
    size, whole = np.ptp(values, axis=0), np.abs(values).max(axis=0)
    for part in problem.schema.slices.values():
        size[part] = np.maximum(size[part], max(SMALL * whole[part].max(), 1e-9 * whole.max(), 1e-300))
    return size


def _points(problem: Problem) -> list[np.ndarray]:
    """Fresh points: all over the domain, and at distances of all scales from its boundaries."""
    keys = jax.random.split(jax.random.key(101), 3)
    inside = np.array(problem.sample(keys[0], INSIDE))
    boundaries = list(problem.domain.boundaries.values())
    each = max(1, NEAR // max(1, len(boundaries)))
    feet, normals = [], []
    for key, boundary in zip(jax.random.split(keys[1], len(boundaries)), boundaries):
        x = boundary.sample(key, each)
        feet.append(np.asarray(x))
        normals.append(np.asarray(jit_simply(jax.vmap(boundary.normal))(x)))
    x = np.concatenate(feet) if feet else np.zeros((0, problem.schema.dim))
    far = 10 ** jax.random.uniform(keys[2], (len(x), 1), minval=-4.0, maxval=-0.7) * problem.domain.size
    near = x - np.asarray(far) * np.concatenate(normals) if feet else x
    kept = near[np.asarray(jit_simply(jax.vmap(problem.domain.sdf))(jnp.asarray(near))) < 0]
    whole = np.array(problem.everywhen(jnp.asarray(kept))) if len(kept) else inside[:0]
    for points in (inside, whole):
        if problem.time is not None:
            start, end = problem.time
            late = points[:, problem.schema.dim]
            if points is whole:  # in the middle of as many parts: one at the very start would stand for more than it is
                late = start + (end - start) * (np.arange(len(late)) + 0.5) / max(1, len(late))
                late = np.random.default_rng(0).permutation(late)  # else they follow the boundaries
            points[:, problem.schema.dim] = np.maximum(late, start + EARLIEST * (end - start))
    return [inside, whole]


def _in_terms(problem: Problem, places: np.ndarray, jets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals (n, e) at places, and units (e,) that are what the equations' terms could be."""
    q, dq = jets[:, :, 0], np.moveaxis(jets[:, :, 1:], 1, 2)
    sizes = np.sqrt((q**2).mean(0)), np.sqrt((dq**2).mean(0))
    if problem.order == 2:  # a Laplacian is a sum of second derivatives, which the first ones tell the size of
        slopes = (dq[:, : problem.schema.dim] ** 2).sum(1).mean(0)
        sizes[1][-1] = np.maximum(sizes[1][-1], slopes / np.maximum(q.std(0), 1e-300))

    def one(x: Array, q: Array, dq: Array) -> tuple[Array, Array]:
        value = problem.residuals(x, q, dq)
        by_q, by_dq = jax.jacfwd(problem.residuals, (1, 2))(x, q, dq)
        terms = (by_q**2 * sizes[0] ** 2).sum(1) + (by_dq**2 * sizes[1] ** 2).sum((1, 2))
        known = value - by_q @ q - jnp.einsum("esm,sm->e", by_dq, dq)
        return value, terms + known**2

    values, terms = map(np.asarray, jit_simply(jax.vmap(one))(places, q, dq))
    scale = np.sqrt(np.nanmean(terms, axis=0))
    gradients = np.cumsum([problem.schema.slices[name].stop - problem.schema.slices[name].start
                           for name, _ in problem.schema.gradients][::-1])[::-1]
    for group in np.split(np.arange(len(scale)), len(scale) - gradients):  # components of a field are of one size
        scale[group] = np.maximum(scale[group], SMALL * scale[group].max(initial=1e-300))
    return values, scale


def _residual(values: np.ndarray, scale: np.ndarray, x: list[np.ndarray]) -> tuple[float, str]:
    """The largest root mean square of an equation's residual over one of the lists of points, in its unit; and where.
    """
    worst, where = 0.0, x[0][0]
    for part, at in zip(np.split(values, np.cumsum([len(points) for points in x])[:-1]), x):
        if not len(part):
            continue
        size = np.sqrt((part**2).mean(axis=0)) / scale
        if not size.max() <= worst:
            worst = float(size.max())
            where = at[int(np.abs(part[:, int(size.argmax())]).argmax())]
    return worst, _place(where)


def _place(x: np.ndarray) -> str:
    return ", ".join(f"{v:.4g}" for v in x)
