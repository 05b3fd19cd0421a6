"""A finite-element answer for any problem whose weak form is recognised, refined until two levels agree."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.fem.base import nodes_and_cells, versions
from hardpde.problems.fem.galerkin import Discrete
from hardpde.problems.fem.heat import RADAU_NODES, runge_kutta_matrix
from hardpde.problems.fem.meshing import mesh_of
from hardpde.problems.fem.sides import Side, weak_form
from hardpde.problems.fem.weak import Weak, in_blocks_of
from hardpde.support.checking import is_whole

ORDERS = {2: 4, 3: 3}  # of the elements, by the dimension
COARSEST = {2: 5, 3: 3}  # elements along the largest extent on the first level
LEVELS = 6
MOST = {2: 400_000, 3: 120_000}  # unknowns
NODES = {2: 40, 3: 12}  # cells of the mesh of nodes along the largest extent
TIMES, HALVINGS = 11, 6  # instants that are told; how often the first step is halved
RADAU = RADAU_NODES[3]  # L-stable, of order 5
MOST_DIGITS = 8
NARROW = 1e-6  # of its size: a field that varies by less is constant


class Level(NamedTuple):
    """A solution on one level: how many unknowns and steps it took, and its fields {name: (n, *shape)} at nodes (n, d),
    or at all instants (k, n, *shape)."""

    unknowns: int
    steps: int
    at: Callable[[Any], dict[str, np.ndarray]]


def finite_elements(problem: Problem, digits: int = 3, tell: Callable[[str], None] | None = None) -> Reference:
    """A reference for a problem: finite elements (NGSolve), refined until two levels agree to so many digits.

    Elements and time steps are halved from level to level. about: what they differ by in the end, of the largest value
    of each field in the mean square, and whether that is what was asked for. ValueError says what is not offered.
    """
    if not is_whole(digits, 1) or digits > MOST_DIGITS:
        raise ValueError(f"digits is {digits!r}; give a whole number from 1 to {MOST_DIGITS}")
    return _refined(*weak_form(problem), 10.0**-digits, tell or (lambda text: None))


def _refined(weak: Weak, sides: dict[str, Side], tolerance: float, tell: Callable[[str], None]) -> Reference:
    problem, begun, dim = weak.problem, time.perf_counter(), weak.dim
    nodes = mesh_of(problem.domain, problem.domain.size / NODES[dim], 1, tip=1.0)
    x, cells = nodes_and_cells(nodes.mesh)
    told: list[dict[str, Any]] = []

    def compared(found: Level, values: dict[str, np.ndarray], other: dict[str, np.ndarray], what: str) -> float:
        apart = {name: _apart(values[name], other[name]) for name in values}
        worst = max(apart.values())
        told.append({"halved": what, "unknowns": found.unknowns, "apart": apart})
        tell(f"{found.unknowns} unknowns{f', {found.steps} steps' if found.steps else ''}: with {what} twice as coarse "
             f"they differ by {worst:.1e}")
        return worst

    found, late, off_time = at_level(weak, sides, 0), 0, 0.0
    values = found.at(x)
    share = tolerance / (2 if weak.timed else 1)
    while weak.timed and late < LEVELS:
        late += 1
        found, before = at_level(weak, sides, 0, late), values
        values = found.at(x)
        off_time = compared(found, values, before, "time steps")
        if off_time <= share:
            break
    for level in range(1, LEVELS):
        finer, before = at_level(weak, sides, level, late), values
        values = finer.at(x)
        off = compared(finer, values, before, "elements")
        if off <= share or finer.unknowns * 2**dim > MOST[dim]:
            break
    reached = off + off_time
    about = {"kind": "finite elements", "problem": problem.name, "order": ORDERS[dim], "asked": tolerance,
             "reached": reached, "agreed": bool(reached <= tolerance), "levels": told,
             "seconds": round(time.perf_counter() - begun, 1), "versions": versions()}
    return Reference(x, values, _instants(problem), cells, about)


def _instants(problem: Problem) -> np.ndarray | None:
    return None if problem.time is None else np.linspace(*problem.time, TIMES)


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    """How far two answers are apart in the mean square over nodes and instants, in units of what the first one varies
    by; of its size, where it hardly varies."""
    size, varies = np.sqrt(np.mean(np.square(one))), np.std(one)
    off = np.sqrt(np.mean(np.square(one - other)))
    unit = varies if varies > NARROW * size else size
    return float(off / unit) if off > 1e-13 * max(size, 1e-300) else 0.0


def at_level(weak: Weak, sides: dict[str, Side], level: int, late: int = 0, order: int | None = None) -> Level:
    """The problem solved with elements halved `level` times and time steps `late` times."""
    dim, size = weak.dim, weak.problem.domain.size
    order = order or ORDERS[dim]
    outlined = mesh_of(weak.problem.domain, size / COARSEST[dim] / 2**level, order, 2.0**-level)
    if weak.timed:
        return _marched(Discrete(weak, sides, outlined, order, len(RADAU)), late)
    discrete = Discrete(weak, sides, outlined, order)
    state = discrete.state()
    discrete.fix(state, [None])
    discrete.newton(state, [None])
    return Level(discrete.space.ndof, 0,
                 lambda x: _told(discrete, state, outlined.points(x), None))


def _marched(discrete: Discrete, late: int) -> Level:
    """From instant to instant; what is told is known at the nodes of any mesh."""
    assert discrete.weak.problem.time is not None
    begin, end = discrete.weak.problem.time
    state = discrete.state()
    start_from(discrete, state, begin)
    inverse = np.linalg.inv(runge_kutta_matrix(np.array(RADAU)))
    instants, kept, length, steps = np.linspace(begin, end, TIMES), None, 0.0, 0
    found = [state.vec.FV().NumPy().copy()]
    for k in range(TIMES - 1):
        t = instants[k]
        for dt in step_lengths(instants[k + 1] - t, late, k == 0):
            if abs(dt - length) > 1e-9 * dt:
                kept, length = None, dt
            times = [float(t + node * dt) for node in RADAU]
            before = discrete.present(state)
            discrete.repeat_last(state)
            discrete.fix(state, times)
            kept = discrete.newton(state, times, inverse / dt, before, kept)
            t, steps = t + dt, steps + 1
        found.append(state.vec.FV().NumPy().copy())

    def at(x: np.ndarray) -> dict[str, np.ndarray]:
        points, slices = discrete.outlined.points(x), []
        for vector, instant in zip(found, instants):
            state.vec.FV().NumPy()[:] = vector
            slices.append(_told(discrete, state, points, float(instant)))
        return {name: np.stack([part[name] for part in slices]) for name in slices[0]}

    return Level(discrete.space.ndof // discrete.stages, steps, at)


def step_lengths(whole: float, late: int, first: bool) -> list[float]:
    """Steps between two instants, 2^late of them; the first of all is cut towards the start, where data that do not
    agree make a layer."""
    equal = [whole / 2**late] * 2**late
    if not first:
        return equal
    return [equal[0] / 2**HALVINGS, *(equal[0] / 2**k for k in range(HALVINGS, 0, -1)), *equal[1:]]


def start_from(discrete: Discrete, state: Any, begin: float) -> None:
    """Write the initial data into all stages of a state, as the best fit."""
    weak = discrete.weak
    x = discrete.at(discrete.inside, begin)
    rows, data = in_blocks_of(weak.start, x)
    inverse = np.linalg.pinv(rows)
    values = np.einsum("nkr,nr->nk", inverse, data)
    known = np.einsum("nkr,nrk->nk", inverse, rows).mean(0) > 1 - 1e-9
    moving = _moving(weak)
    for k in np.flatnonzero(moving & ~known):
        label = weak.problem.schema.labels()[weak.roles.unknowns[k]]
        raise ValueError(f"the equations differentiate '{label}' in time and no initial condition states it")
    discrete.put(state, {int(k): values[:, k] for k in np.flatnonzero(known)})


def _moving(weak: Weak) -> np.ndarray:
    """Which unknowns are differentiated in time."""
    x = np.asarray(weak.problem.sample(jax.random.key(12), 16))
    z = np.random.default_rng(12).normal(size=(16, weak.slots))
    slope = weak.evaluate(x, z)[1]
    return np.abs(slope[:, :, -weak.count :]).max((0, 1)) > 0


def _sampled(discrete: Discrete, state: Any, points: Any) -> np.ndarray:
    """The unknowns (n, k) at mesh points; with stages, those of the last."""
    parts = discrete.last(state)
    return np.stack([np.asarray(part(points)).reshape(-1) for part in parts], axis=1)


def _told(discrete: Discrete, state: Any, points: Any, t: float | None) -> dict[str, np.ndarray]:
    """The fields that are unknowns, whole ones alone, with the levels that were stated."""
    weak = discrete.weak
    schema, numbers = weak.problem.schema, list(weak.roles.unknowns)
    u = _sampled(discrete, state, points)
    others = np.zeros((1, 0)) if t is None else np.array([[t]])
    for level, k in zip(weak.problem.levels, discrete.levels):
        wanted = float(level.values(weak.problem, others)[0][0])
        if level.at is not None:  # else its mean is 0
            wanted -= _sampled(discrete, state, discrete.outlined.points(np.array([level.at])))[0, k]
        u[:, k] += wanted
    found = {}
    for name, where in schema.slices.items():
        if all(k in numbers for k in range(where.start, where.stop)):
            own = [numbers.index(k) for k in range(where.start, where.stop)]
            found[name] = u[:, own].reshape(len(u), *schema.shapes[name])
    return found
