"""A start for Newton's method where steps from nothing lead nowhere: easier equations first, harder ones bit by bit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from hardpde.direct.groups import Group
from hardpde.direct.newton import Balance, Equations, Fitted, fitted
from hardpde.networks.features import Units
from hardpde.problem.linearised import Linearise
from hardpde.problem.problem import Problem

FIRST_STEP, LEAST_STEP = 0.25, 1 / 256  # of the way from the easiest equations to those that are asked
GROWTH = 1.5  # of a step after one that succeeded

Easier = Callable[[float], Equations]  # of a number s; those for s = 1 are those that are asked


def led(train: Equations, units: Units, balance: Balance, problem: Problem | None = None) -> Fitted | None:
    """The last layer at the end of a way of easier equations: those of the hint `continuation` of a problem, or those
    whose part that is not linear grows from nothing. None where the way ends before that."""
    easier = _softened(train) if problem is None else _stated(train, problem)
    s, step = 0.0, FIRST_STEP
    found = fitted(easier(s), units, balance, linear=False)
    if not found.converged:
        return None
    while s < 1:
        ahead = min(s + step, 1.0)
        equations = easier(ahead)
        tried = fitted(equations, units, balance, False, equations.jets(found.units, found.last))
        if tried.converged:
            s, found, step = ahead, tried, GROWTH * step
        else:
            step /= 2
        if step < LEAST_STEP:
            return None
    return found


def _softened(train: Equations) -> Easier:
    """Equations linearised about the state without features, and more and more of what is missing to the true ones."""
    starts = [group.linearised(group.points.offset) for group in train.groups]

    def part(linearise: Linearise, group: Group, start: tuple[np.ndarray, np.ndarray], s: float, x: Any, jet: Any,
             data: Any) -> tuple[Any, Any]:
        value, slope = map(np.asarray, linearise(x, jet, data))
        change = np.einsum("emsn,msn->en", start[1], jet - group.points.offset)
        linear = start[0] + change.reshape(len(change), group.at_once, -1).sum(1)
        return s * value + (1 - s) * linear, s * slope + (1 - s) * start[1]

    def easier(s: float) -> Equations:
        return train._replace(groups=tuple(
            group._replace(linearise=partial(part, group.linearise, group, start, s))
            for group, start in zip(train.groups, starts)))

    return easier


def _stated(train: Equations, problem: Problem) -> Easier:
    """The user's equations for a number from 0 to 1."""
    hint = problem.hints.continuation
    assert hint is not None

    def one(x: Array, jet: Array, s: Array) -> tuple[Array, Array]:
        asked = problem.derived(residual=hint(s))

        def residuals(jet: Array) -> tuple[Array, Array]:
            r = asked.residuals(x, jet[:, 0], jet[:, 1:].T)
            return r, r

        slope, value = jax.jacfwd(residuals, has_aux=True)(jet)
        return value, slope

    linearise = jax.jit(jax.vmap(one, (0, -1, None), -1))
    main, *others = train.groups
    return lambda s: train._replace(groups=(main._replace(linearise=linearise, data=s), *others))
