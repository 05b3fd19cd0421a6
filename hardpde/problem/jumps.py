"""Jumps of data and coefficients: automatic differentiation does not see them, so that a wrong answer has no residual.

Pairs of near points are halved again and again, towards where the function changes most: what is continuous comes to
nothing, however steep it is, and a jump stays. Only functions that may jump are looked at, by what they are made of.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Boundary, at_times
from hardpde.geometry.algorithms.stacking import feet
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.fields import flat
from hardpde.problem.parameters import append
from hardpde.support.compiling import compiled_quickly, jit_simply

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

POINTS, NEIGHBOURS, HALVINGS = 2000, 4, 30
STEEP, MOST = 3.0, 64  # times what slopes say; so many pairs that change by more are looked at
LARGE, REACH = 1e6, 20.0  # values of a field at which coefficients are looked at: up to this, closer ones near zero
ROUNDED = 1e-12  # of the size of a function: what varies by less does not vary
LEAST = 1e-3  # of what the function varies by: what is left of a smaller change is steep, not a jump
_SHARP = {"select_n", "floor", "ceil", "round", "sign", "lt", "gt", "le", "ge", "eq", "ne", "atan2", "rem", "argmax",
          "argmin", "sort", "cond", "while", "pure_callback", "clamp"}


class Jump(NamedTuple):
    """Where a function jumps, and from what to what in the component in which it does."""

    at: np.ndarray
    before: float
    after: float

    def words(self, names: tuple[str, ...]) -> str:
        place = ", ".join(f"{name} = {v:.6g}" for name, v in zip(names, self.at)) if len(names) == len(self.at) else (
            "(" + ", ".join(f"{v:.6g}" for v in self.at) + ")")
        return f"from {self.before:.4g} to {self.after:.4g} at {place}"


def check_jumps(problem: "Problem") -> None:
    """Refuse data that jump, and coefficients of second derivatives that do; the sentence says what to do instead."""
    problem = problem.completed
    with compiled_quickly():
        for condition in problem.pointwise:
            if found := _of_condition(problem, condition):
                where = "the initial data" if condition.on == INITIAL else f"the data on '{condition.on}'"
                raise ValueError(f"{where} ({condition.name}) jump {found.words(coordinate_names(problem))}: no smooth "
                                 f"answer has them, and derivatives do not see it; let them change over a short "
                                 f"distance w, e.g. a + (b - a) * jax.nn.sigmoid((x[0] - x0) / w)")
        if words := _of_coefficients(problem):
            raise ValueError(f"a coefficient of second derivatives in the equations jumps {words}, which derivatives "
                             f"do not see; make the flux a field: with fields u and flux the equations are "
                             f"(hp.div(dq.flux) + f, q.flux - k * hp.grad(dq.u)), or divide the equation by the "
                             f"coefficient if no flux is meant")


def coordinate_names(problem: "Problem") -> tuple[str, ...]:
    """What the coordinates of a point are called."""
    space = ("x", "y", "z")[: problem.schema.dim] if problem.schema.dim <= 3 else tuple(
        f"x{k}" for k in range(problem.schema.dim))
    return (*space, *("t",) * problem.schema.timed, *(p.name for p in problem.parameters))


def may_jump(function: Callable, *arguments: Any) -> bool:
    """Whether a function is computed of anything that may jump."""
    return _sharp(jax.make_jaxpr(function)(*arguments).jaxpr)


def _sharp(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        whole = equation.primitive.name == "convert_element_type" and np.issubdtype(
            equation.params["new_dtype"], np.integer)
        if equation.primitive.name in _SHARP or whole:
            return True
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns") and _sharp(inner):
                    return True
    return False


class Bracket(NamedTuple):
    """Pairs of points a, b (n, c) with the values fa, fb (n, k) there, and how far these differ in units (n, k)."""

    a: np.ndarray
    b: np.ndarray
    fa: np.ndarray
    fb: np.ndarray
    change: np.ndarray


def jump_of(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, groups: np.ndarray | None = None,
            project: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda x, group: x,
            units: np.ndarray | None = None, slopes: np.ndarray | None = None) -> Jump | None:
    """The largest jump of a function of points (n, c) → (n, k) between near ones of points x (n, c), or None.

    groups (n,): only points of the same one are compared, and project(x, group) brings what lies between them back to
    it. units (k,): in which changes are measured, where not in those by which the values vary. slopes (n, k, c): with
    them, only pairs between which the function changes by more than they say are looked at.
    """
    return jump_between(brackets(function, x, groups, project, units, slopes))


def jump_between(found: list[Bracket]) -> Jump | None:
    """The largest jump that is left in pairs that were halved."""
    if not found:
        return None
    last = found[-1]
    gap = np.nan_to_num(last.change)
    row, column = np.unravel_index(int(gap.argmax()), gap.shape)
    if not gap[row, column] > LEAST:
        return None
    return Jump(last.a[row], float(last.fa[row, column]), float(last.fb[row, column]))


def variation(values: np.ndarray, least: Any = 0.0) -> np.ndarray:
    """By how much each column of values varies; infinite where it does not but for rounding, or by at most `least`.
    """
    spread = np.where(np.isfinite(values), values, np.nan)
    size = np.nan_to_num(np.nanmax(spread, axis=0, initial=-np.inf) - np.nanmin(spread, axis=0, initial=np.inf))
    largest = np.nan_to_num(np.nanmax(np.abs(spread), axis=0, initial=0.0))
    return np.where(size > np.maximum(ROUNDED * largest, least), size, np.inf)


def brackets(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, groups: np.ndarray | None = None,
             project: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda x, group: x,
             units: np.ndarray | None = None, slopes: np.ndarray | None = None) -> list[Bracket]:
    """Pairs of near points x between which a function changes, as in `jump_of`, halved again and again towards where
    it changes most: those of each time, [] where it does not change."""
    from scipy.spatial import cKDTree  # takes a third of a second

    values = function(x)
    unit = variation(values)
    if not np.isfinite(unit).any():
        return []
    unit = unit if units is None else units
    scale = np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), np.inf)
    _, near = cKDTree(x / scale).query(x / scale, NEIGHBOURS + 1)
    pairs = np.stack([np.repeat(np.arange(len(x)), NEIGHBOURS), near[:, 1:].ravel()], axis=1)
    pairs = np.unique(np.sort(pairs[(pairs[:, 1] < len(x)) & (pairs[:, 0] != pairs[:, 1])], axis=1), axis=0)
    if groups is not None:
        pairs = pairs[groups[pairs[:, 0]] == groups[pairs[:, 1]]]
    change = np.abs(values[pairs[:, 0]] - values[pairs[:, 1]])
    pairs = pairs[np.isfinite(change).all(axis=1) & ((change / unit).max(axis=1, initial=0.0) > LEAST)]
    if slopes is not None:
        step = x[pairs[:, 1]] - x[pairs[:, 0]]
        steep = np.abs(np.einsum("pnkc,pc->pnk", slopes[pairs], step)).max(axis=1)
        more = (np.abs(values[pairs[:, 0]] - values[pairs[:, 1]]) - STEEP * steep) / unit
        pairs = pairs[np.argsort(-more.max(axis=1, initial=0.0))[:MOST]]
        pairs = pairs[np.sort(-more.max(axis=1, initial=0.0))[:MOST] < -LEAST]
    if not len(pairs):
        return []
    (a, b), (fa, fb) = x[pairs.T], values[pairs.T]
    group = np.zeros(len(a), int) if groups is None else groups[pairs[:, 0]]
    found = [Bracket(a, b, fa, fb, np.abs(fb - fa) / unit)]
    for _ in range(HALVINGS):
        middle = project((a + b) / 2, group)
        f = function(middle)
        left = (np.abs(f - fa) / unit).max(axis=1) >= (np.abs(fb - f) / unit).max(axis=1)
        a, fa = np.where(left[:, None], a, middle), np.where(left[:, None], fa, f)
        b, fb = np.where(left[:, None], middle, b), np.where(left[:, None], f, fb)
        found.append(Bracket(a, b, fa, fb, np.abs(fb - fa) / unit))
    return found


def _many(function: Callable[[Array], Array]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of one point as one of many, with few compilations."""
    compiled = jit_simply(jax.vmap(function))

    def evaluate(x: np.ndarray) -> np.ndarray:
        size = -(-len(x) // POINTS) * POINTS
        return np.asarray(compiled(jnp.asarray(np.pad(x, [(0, size - len(x)), (0, 0)], mode="edge"))))[: len(x)]

    return evaluate


def _of_condition(problem: "Problem", condition: Condition) -> Jump | None:
    schema = problem.schema
    normal = jnp.asarray(np.arange(1.0, schema.dim + 1) / np.linalg.norm(np.arange(1.0, schema.dim + 1)))

    def rows(x: Array) -> Array:
        a, g = condition.matrix(schema, x, normal)
        return jnp.concatenate([a.ravel(), g])

    if not may_jump(rows, jnp.zeros(schema.point)):
        return None
    if condition.on == INITIAL:
        assert problem.time is not None
        x = at_times(problem.domain.sample(jax.random.key(21), POINTS), problem.time[0])
        return jump_of(_many(rows), np.asarray(append(problem.parameters, x)))
    boundary = problem.boundaries[condition.on]
    assert isinstance(boundary, Boundary)
    space = boundary.sample(jax.random.key(21), POINTS)
    times = jax.random.uniform(jax.random.key(22), (POINTS, 1), minval=problem.time[0],
                               maxval=problem.time[1]) if problem.time else None
    x = np.asarray(append(problem.parameters, space if times is None else at_times(space, times)))
    apart = jit_simply(jax.vmap(lambda x: jnp.sum((feet(boundary.pieces, x) - x[: schema.dim]) ** 2, axis=1)))
    onto = jit_simply(jax.vmap(lambda x, k: feet(boundary.pieces, x)[k]))

    def project(x: np.ndarray, piece: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(onto(x, piece)), x[:, schema.dim :]], axis=1)

    return jump_of(_many(rows), x, np.asarray(apart(x)).argmin(axis=1), project)


def _of_coefficients(problem: "Problem") -> str:
    """Words on a jump, by place or by a field, of what multiplies derivatives of gradient fields, or Laplacians, in the
    stated equations."""
    schema, rng = problem.schema, np.random.default_rng(23)
    columns = np.zeros((problem.derivatives, schema.size), bool)
    for gradient, _ in schema.gradients:
        columns[: schema.dim, schema.slices[gradient]] = True
    if problem.order == 2:
        columns[-1] = True
    if problem.regions or not columns.any():
        return ""
    q, jet = jnp.asarray(rng.standard_normal(schema.size)), jnp.asarray(rng.standard_normal(columns.shape))
    which = np.flatnonzero(columns)

    def equations(x: Array, q: Array, some: Array) -> Array:
        whole = jet.ravel().at[which].set(some).reshape(jet.shape)
        return flat(problem.residual(problem.place(x), schema.state(q), schema.derivatives(whole)))

    highest = jet.ravel()[which]
    if not may_jump(equations, jnp.zeros(schema.point), q, highest):
        return ""
    coefficients = _many(lambda xq: jax.jacfwd(equations, 2)(xq[: schema.point], xq[schema.point :], highest).ravel())
    x = np.asarray(problem.sample(jax.random.key(24), POINTS))
    if found := jump_of(lambda x: coefficients(np.concatenate([x, np.tile(q, (len(x), 1))], axis=1)), x):
        return found.words(coordinate_names(problem))
    for k, label in enumerate(schema.labels()):
        def of_field(t: np.ndarray, k: int = k) -> np.ndarray:
            return coefficients(_along(x[:1], q, k, t))

        if found := jump_of(of_field, np.linspace(-1, 1, POINTS)[:, None]):
            return found._replace(at=_along(x[:1], q, k, found.at[None])[0, schema.point + k :][:1]).words((label,))
    return ""


def _along(x: np.ndarray, q: Any, k: int, t: np.ndarray) -> np.ndarray:
    """One point x (1, c) and states that differ in one component alone, of sizes from rounding to large, (n, c + m)."""
    states = np.tile(np.asarray(q), (len(t), 1))
    states[:, k] = np.sinh(REACH * t[:, 0]) / np.sinh(REACH) * LARGE
    return np.concatenate([np.repeat(x, len(t), axis=0), states], axis=1)
