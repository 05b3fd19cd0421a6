"""Points at which the equations are asked to hold: uniform, or graded towards boundaries and the start."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry.stacking import place
from hardpde.problem import Period, Problem

EARLIEST = 1e-6  # of the time span: √t has no derivative at its start


def uniform(problem: Problem, key: Array, n: int) -> Array:
    """n points (n, c), uniform in space and time."""
    space, time = jax.random.split(key)
    x = problem.domain.sample(space, n)
    if problem.time is None:
        return x
    return jnp.concatenate([x, _times(problem, jax.random.uniform(time, (n, 1)))], axis=1)


def graded(problem: Problem, key: Array, n: int) -> Array:
    """n points, a part of them near the boundaries and early in time, as the problem's hints say."""
    keys = jax.random.split(key, 4)
    x = problem.domain.sample(keys[0], n)
    near = round(problem.hints.near * n) if problem.layout.pieces else 0
    if near:
        x = x.at[:near].set(_near(problem, keys[1], x[:near]))
    if problem.time is None:
        return x
    tau = jax.random.uniform(keys[2], (n, 1))
    early = jax.random.uniform(keys[3], (n, 1)) < (problem.hints.early if problem.layout.initial else 0.0)
    return jnp.concatenate([x, _times(problem, jnp.where(early, tau**3, tau))], axis=1)


def paired(problem: Problem, period: Period, key: Array, n: int) -> Array:
    """n pairs of points (2, n, c) that a periodic condition makes one, uniform on the face and in time."""
    space, time = jax.random.split(key)
    x = period.faces[0].sample(space, n)
    if problem.time is not None:
        x = jnp.concatenate([x, _times(problem, jax.random.uniform(time, (n, 1)))], axis=1)
    return jnp.stack(period.pair(x))


def _times(problem: Problem, tau: Array) -> Array:
    assert problem.time is not None
    start, end = problem.time
    return start + (end - start) * jnp.maximum(tau, EARLIEST)


def _near(problem: Problem, key: Array, otherwise: Array) -> Array:
    """Points within two collars of a boundary, denser close to it; `otherwise` where that leaves the domain."""
    layout = problem.layout
    measure = np.array([piece.measure for piece in layout.pieces])
    bodies = np.array([piece.body for piece in layout.pieces])
    share = measure / np.array([measure[bodies == b].sum() for b in bodies])  # every body alike
    which, far, where = jax.random.split(key, 3)
    n = len(otherwise)
    ids = jax.random.choice(which, len(layout.pieces), (n,), p=jnp.asarray(share / share.sum()))
    depth = 2 * jnp.asarray(layout.collar)[ids] * jax.random.uniform(far, (n,)) ** 1.5
    feet, normals = place(layout.pieces, ids, jax.random.uniform(where, (n, problem.schema.dim)))
    x = feet - depth[:, None] * normals
    inside = jax.vmap(problem.domain.sdf)(x) < 0
    return jnp.where(inside[:, None], x, otherwise)
