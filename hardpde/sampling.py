"""Points at which the equations are asked to hold: uniform, or graded towards boundaries and the start."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry.stacking import place
from hardpde.problem import Focus, Problem

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
    keys = jax.random.split(key, 4 + len(problem.hints.focus))
    x = problem.domain.sample(keys[0], n)
    taken = round(problem.hints.near * n) if problem.layout.pieces else 0
    if taken:
        x = x.at[:taken].set(_near(problem, keys[1], x[:taken]))
    for focus, k in zip(problem.hints.focus, keys[4:]):
        some = slice(taken, taken + round(focus.share * n))
        x, taken = x.at[some].set(_about(problem, focus, k, x[some])), some.stop
    if problem.time is None:
        return x
    tau = jax.random.uniform(keys[2], (n, 1))
    early = jax.random.uniform(keys[3], (n, 1)) < (problem.hints.early if problem.layout.initial else 0.0)
    return jnp.concatenate([x, _times(problem, jnp.where(early, tau**3, tau))], axis=1)


def _times(problem: Problem, tau: Array) -> Array:
    assert problem.time is not None
    start, end = problem.time
    return start + (end - start) * jnp.maximum(tau, EARLIEST)


def _about(problem: Problem, focus: Focus, key: Array, otherwise: Array) -> Array:
    """Points about a place, distances even in scale; `otherwise` where that leaves the domain."""
    far, where = jax.random.split(key)
    direction = jax.random.normal(where, otherwise.shape)
    direction = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
    r = focus.inner * (focus.outer / focus.inner) ** jax.random.uniform(far, (len(otherwise), 1))
    x = jnp.asarray(focus.at, float) + r * direction
    inside = jax.vmap(problem.domain.sdf)(x) < 0
    return jnp.where(inside[:, None], x, otherwise)


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
