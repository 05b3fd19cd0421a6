"""What a network is given: scaled coordinates and inputs that know the geometry."""

from collections import Counter
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Kind, Nearby, Piece, stack
from hardpde.geometry.algorithms.stacking import safe_root
from hardpde.geometry.base import Bounds
from hardpde.problem.problem import Problem

MOST_HOLES = 24  # with more holes, those of one name share an input
TAIL = 8  # collars


def standard_inputs(problem: Problem, timeless: bool = False) -> Callable[[Array], Array]:
    """Coordinates and parameters scaled to [−1, 1], √t where there is an initial condition, decay from holes, and
    extra inputs.

    A periodic coordinate is replaced by its first cosines and sines, and what is not periodic is left out: then
    whatever a network makes of the inputs is periodic, with all its derivatives. timeless: nothing depends on time.
    """
    lo, hi = map(jnp.asarray, problem.domain.bounds)
    dim = problem.schema.dim
    root = problem.hints.root_time
    if root is None:
        root = bool(problem.layout.initial)
    closed = sorted({period.axis for period in problem.periods if period.hard})
    straight = np.array([k for k in range(dim) if k not in closed], int)
    decays = None if closed else hole_decays(problem)
    extra = problem.hints.inputs
    multiples = np.arange(1, problem.hints.harmonics + 1)

    def inputs(x: Array) -> Array:
        parts = [((2 * x[:dim] - lo - hi) / (hi - lo))[straight]] if closed else [(2 * x[:dim] - lo - hi) / (hi - lo)]
        for k in closed:
            angles = 2 * jnp.pi * multiples * (x[k] - lo[k]) / (hi[k] - lo[k])
            parts += [jnp.cos(angles), jnp.sin(angles)]
        if problem.time is not None and not timeless:
            start, end = problem.time
            tau = (x[dim] - start) / (end - start)
            parts.append(jnp.stack([2 * tau - 1, 2 * safe_root(tau) - 1] if root else [2 * tau - 1]))
        if problem.parameters:
            parts.append(jnp.stack([(2 * p(x) - p.low - p.high) / (p.high - p.low) for p in problem.parameters]))
        if decays is not None:
            parts.append(decays(x[:dim]))
        if extra is not None:
            parts.append(jnp.ravel(jnp.asarray(extra(x))))
        return jnp.concatenate(parts)

    return inputs


def with_slopes(inputs: Callable[[Array], Array], dim: int) -> Callable[[Array], Array]:
    """Inputs (f,) followed by their derivatives by each coordinate of space (dim · f,)."""

    def sloped(x: Array) -> Array:
        def twice(space: Array) -> tuple[Array, Array]:
            y = inputs(jnp.concatenate([space, x[dim:]]))
            return y, y

        slopes, y = jax.jacfwd(twice, has_aux=True)(x[:dim])
        return jnp.concatenate([y, slopes.T.ravel()])

    return sloped


def hole_decays(problem: Problem, share: float = 1.0) -> Callable[[Array], Array] | None:
    """2 exp(−distance/width) for each hole, or sums over the holes of each name where there are many; width: such a
    share of the collar."""
    layout = problem.layout
    holes = [k for k, piece in enumerate(layout.pieces) if piece.flip and not piece.two_sided]
    if problem.hints.decay is False or not holes:
        return None
    pieces, width = tuple(layout.pieces[k] for k in holes), share * layout.collar[holes]
    bodies = [piece.body for piece in pieces]
    faces = Counter(bodies)
    cornered = np.array([faces[body] > 1 for body in bodies])
    if len(faces) > MOST_HOLES:
        return _shared_decays(pieces, width, cornered, problem.domain.bounds)
    number = {body: k for k, body in enumerate(faces)}
    label = np.array([number[body] for body in bodies])
    groups = stack(pieces)

    def decays(space: Array) -> Array:
        out = jnp.zeros(len(number))
        for group in groups:
            smooth = not cornered[group.index].any()
            values = jax.vmap(lambda p, delta, kind=group.kind, smooth=smooth: 2 * jnp.exp(
                -_scaled(kind, p, space, delta, smooth)))(jnp.asarray(group.params), jnp.asarray(width[group.index]))
            out = out + _summed(values, label[group.index], len(number))
        return out

    return decays


def _scaled(kind: Kind, p: Array, space: Array, delta: Array, smooth: bool | Array) -> Array:
    """The distance over the collar; squared where a hole has corners."""
    foot = kind.closest(p, space)
    # On one side of a smooth closed curve the normal gives the distance without a root.
    straight = (kind.normal(p, foot) @ (space - foot)) / delta
    squared = ((space - foot) ** 2).sum() / delta**2
    return jnp.where(smooth, straight, squared)


def _shared_decays(pieces: tuple[Piece, ...], width: np.ndarray, cornered: np.ndarray,
                   bounds: Bounds) -> Callable[[Array], Array]:
    """Sums of 2 (1 − s/8)⁸, s = distance/collar, over the holes of each name, or over all where there are many names.

    It is close to 2 exp(−s) and vanishes 8 collars away, so that only holes near a point cost anything.
    """
    names = {name: k for k, name in enumerate(dict.fromkeys(piece.name for piece in pieces))}
    count = len(names) if len(names) <= MOST_HOLES else 1
    label = np.array([names[piece.name] % count for piece in pieces])
    nearby = Nearby(pieces, TAIL * width, bounds)

    def decays(space: Array) -> Array:
        numbers, scaled = nearby.map(lambda kind, p, number: _scaled(
            kind, p, space, jnp.asarray(width)[number], ~jnp.asarray(cornered)[number]), space)
        values = jnp.where((numbers >= 0) & (scaled < TAIL), 2 * (1 - scaled / TAIL) ** TAIL, 0.0)
        return _summed(values, jnp.asarray(label)[numbers], count)

    return decays


def _summed(values: Array, label: Array | np.ndarray, count: int) -> Array:
    """Sums (count,) of the values of each label; faster, for many points, than adding at indices."""
    return jnp.where(label == jnp.arange(count)[:, None], values, 0.0).sum(1)
