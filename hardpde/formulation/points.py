"""Points at which the equations are asked to hold: uniform, or graded towards boundaries and the start."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Piece, at_times
from hardpde.geometry.algorithms.sampling import allocate, check_survival, inside, redraw_until
from hardpde.geometry.algorithms.stacking import place
from hardpde.problem.hints import Focus
from hardpde.problem.parameters import append
from hardpde.problem.periods import Period
from hardpde.problem.problem import Problem

INNERMOST = 0.1  # of a thin layer: no point is nearer to its wall
EARLIEST = 1e-6  # of the time span: √t has no derivative at its start


def uniform(problem: Problem, key: Array, n: int) -> Array:
    """n points (n, c), uniform in space, time and parameters."""
    space, time = jax.random.split(key)
    return anytime(problem, time, problem.domain.sample(space, n))


def anytime(problem: Problem, key: Array, x: Array) -> Array:
    """Points (n, d) at uniform times and values of the parameters, (n, c); without these, as they are."""
    if problem.time is not None:
        x = at_times(x, _times(problem, jax.random.uniform(key, (len(x), 1))))
    return _any_values(problem, key, x)


def _any_values(problem: Problem, key: Array, x: Array) -> Array:
    return append(problem.parameters, x, jax.random.fold_in(key, 1) if problem.parameters else None)


def graded(problem: Problem, key: Array, n: int) -> Array:
    """n points, a part of them near the boundaries and early in time, as the problem's hints say."""
    keys = jax.random.split(key, 4 + len(problem.hints.focus))
    x = problem.domain.sample(keys[0], n)
    near = round(problem.hints.near * n) if problem.layout.pieces else 0
    wished = [_near(problem, keys[1], near)] if near else []
    wished += [_about(focus, k, round(focus.share * n)) for focus, k in zip(problem.hints.focus, keys[4:])]
    if wished:
        y = jnp.concatenate(wished)
        x = x.at[: len(y)].set(jnp.where(inside(problem.domain, y)[:, None], y, x[: len(y)]))
    if problem.time is None:
        return _any_values(problem, keys[2], x)
    tau = jax.random.uniform(keys[2], (n, 1))
    early = jax.random.uniform(keys[3], (n, 1)) < (problem.hints.early if problem.layout.initial else 0.0)
    return _any_values(problem, keys[2], at_times(x, _times(problem, jnp.where(early, tau**3, tau))))


def paired(problem: Problem, period: Period, key: Array, n: int) -> Array:
    """n pairs of points (2, n, c) that a periodic condition makes one, uniform on the face and in time."""
    space, time = jax.random.split(key)
    return jnp.stack(period.pair(anytime(problem, time, period.faces[0].sample(space, n))))


def on_pieces(problem: Problem, parts: tuple[tuple[Piece, ...], ...], key: Array, each: int) -> tuple[Array, Array]:
    """`each` points on every part of the boundary, one part after the other, and their normals: (n, c), (n, d).

    They are uniform on what the domain leaves of the pieces, and in time.
    """
    shape, dim = problem.domain, problem.schema.dim
    share, place_key, time = jax.random.split(key, 3)
    alive, whole = dict(zip(shape.pieces, shape.survival)), dict(zip(shape.pieces, shape.whole))
    pieces = tuple(piece for part in parts for piece in part)
    first = np.cumsum([0, *map(len, parts)])
    which = jnp.concatenate([
        start + allocate(k, each, np.array([piece.measure * alive.get(piece, 1.0) for piece in part]))
        for part, start, k in zip(parts, first, jax.random.split(share, len(parts)))])
    body = jnp.asarray([piece.body for piece in pieces])[which]

    def draw(key: Array) -> tuple[Array, Array]:
        x, n = place(pieces, which, jax.random.uniform(key, (len(which), dim)))
        return jnp.concatenate([x, n], axis=1), check_survival(shape, x, n, body)

    if all(whole.get(piece, False) for piece in pieces):
        x, n = place(pieces, which, jax.random.uniform(place_key, (len(which), dim)))
    else:
        both = redraw_until(place_key, draw)
        x, n = both[:, :dim], both[:, dim:]
    return anytime(problem, time, x), n


def _times(problem: Problem, tau: Array) -> Array:
    assert problem.time is not None
    start, end = problem.time
    return start + (end - start) * jnp.maximum(tau, EARLIEST)


def _about(focus: Focus, key: Array, n: int) -> Array:
    """Points about a place, distances even in scale; some may lie outside the domain."""
    far, where = jax.random.split(key)
    direction = jax.random.normal(where, (n, len(focus.at)))
    direction = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
    r = focus.inner * (focus.outer / focus.inner) ** jax.random.uniform(far, (n, 1))
    return jnp.asarray(focus.at, float) + r * direction


def _near(problem: Problem, key: Array, n: int) -> Array:
    """Points within two collars of a boundary, denser close to it; some may lie outside the domain."""
    layout = problem.layout
    measure = np.array([piece.measure for piece in layout.pieces])
    bodies = np.array([piece.body for piece in layout.pieces])
    share = measure / np.array([measure[bodies == b].sum() for b in bodies])  # every body alike
    which, far, where, side = jax.random.split(key, 4)
    ids = jax.random.choice(which, len(layout.pieces), (n,), p=jnp.asarray(share / share.sum()))
    reach, share_of = 2 * jnp.asarray(layout.collar)[ids], jax.random.uniform(far, (n,))
    thin = problem.hints.thin
    inner = None if thin is None else INNERMOST * min(thin, problem.domain.size) / reach
    depth = reach * (share_of**1.5 if inner is None else inner**share_of)
    feet, normals = place(layout.pieces, ids, jax.random.uniform(where, (n, problem.schema.dim)))
    both = jnp.asarray([piece.two_sided for piece in layout.pieces])[ids]
    depth = jnp.where(both & jax.random.bernoulli(side, shape=(n,)), -depth, depth)
    return feet - depth[:, None] * normals


def adaptive_choice(key: Array, score: Array, n: int) -> Array:
    """n numbers without repetition, chosen with probability ∝ |score|/mean + 1 (RAD, Wu et al. 2023)."""
    weight = score / jnp.maximum(score.mean(), 1e-300) + 1.0
    noise = jax.random.gumbel(key, score.shape)
    return jax.lax.top_k(jnp.log(weight) + noise, n)[1]
