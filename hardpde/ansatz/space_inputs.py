"""What features of space are given: coordinates and parameters, and functions of the place that know the geometry; then
the time, which no feature sees."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.inputs import hole_decays, standard_inputs
from hardpde.problem.problem import Problem

NARROW = 0.25  # of a collar: layers early in time
INSTANTS = (1e-3, 1e-2, 1e-1, 1.0)  # of the time, at which extra inputs that depend on it are looked at
TRIED = 8  # points that tell whether they do


class SpaceInputs(NamedTuple):
    """function(x): inputs (f,), the time last; group (f,): which share a scale, −1 for the time; coordinate: which
    groups are coordinates or parameters."""

    function: Callable[[Array], Array]
    group: np.ndarray
    coordinate: np.ndarray


def space_inputs(problem: Problem) -> SpaceInputs:
    """Of a problem with time."""
    assert problem.time is not None
    dim, (start, end) = problem.schema.dim, problem.time
    plain = replace(problem.hints, inputs=None, decay=False, root_time=False)
    coordinates = standard_inputs(problem.derived(hints=plain, origin=problem.stated), timeless=True)
    closed = any(period.hard for period in problem.periods)
    parts: list[Callable[[Array], Array]] = [coordinates]
    for share in () if closed else (1.0, NARROW):
        if (decays := hole_decays(problem, share)) is not None:
            parts.append(lambda x, decays=decays: decays(x[:dim]))  # type: ignore[misc]
    if (extra := problem.hints.inputs) is not None:
        for tau in INSTANTS if _moves(problem, extra) else (1.0,):
            at = start + tau * (end - start)
            parts.append(lambda x, at=at: jnp.ravel(jnp.asarray(extra(x.at[dim].set(at)))))  # type: ignore[misc]

    def inputs(x: Array) -> Array:
        return jnp.concatenate([*(part(x) for part in parts), x[dim : dim + 1]])

    blank = jnp.zeros(problem.schema.point)
    sizes = [jax.eval_shape(part, blank).shape[0] for part in parts]
    own = len(problem.parameters)
    group = np.repeat(np.arange(1, 1 + len(parts)), sizes)
    group[: sizes[0] - own] = 0
    found, group = np.unique(group, return_inverse=True)
    return SpaceInputs(inputs, np.append(group, -1), found <= 1)


def _moves(problem: Problem, extra: Callable[[Array], Array]) -> bool:
    """Whether extra inputs depend on the time."""
    assert problem.time is not None
    x = np.asarray(problem.sample(jax.random.key(4), TRIED))
    one, two = (np.array(x) for _ in range(2))
    one[:, problem.schema.dim], two[:, problem.schema.dim] = np.asarray(problem.time) @ [[0.7, 0.2], [0.3, 0.8]]
    every = jax.vmap(lambda x: jnp.ravel(jnp.asarray(extra(x))))
    return not np.array_equal(every(jnp.asarray(one)), every(jnp.asarray(two)))
