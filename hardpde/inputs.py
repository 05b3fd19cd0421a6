"""What a network is given: scaled coordinates and inputs that know the geometry."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import stack
from hardpde.geometry.stacking import safe_root
from hardpde.problem import Problem

MOST_HOLES = 24  # with more holes, those of one name share an input


def standard_inputs(problem: Problem) -> Callable[[Array], Array]:
    """Coordinates scaled to [−1, 1], √t where there is an initial condition, decay from holes, extra inputs.

    A periodic coordinate is replaced by its first cosines and sines, and what is not periodic is left out: then
    whatever a network makes of the inputs is periodic, with all its derivatives.
    """
    lo, hi = map(jnp.asarray, problem.domain.bounds)
    dim = problem.schema.dim
    root = problem.hints.root_time
    if root is None:
        root = bool(problem.layout.initial)
    closed = sorted({period.axis for period in problem.periods if period.hard})
    straight = np.array([k for k in range(dim) if k not in closed], int)
    decays = None if closed else _decays(problem)
    extra = problem.hints.inputs
    multiples = np.arange(1, problem.hints.harmonics + 1)

    def inputs(x: Array) -> Array:
        parts = [((2 * x[:dim] - lo - hi) / (hi - lo))[straight]] if closed else [(2 * x[:dim] - lo - hi) / (hi - lo)]
        for k in closed:
            angles = 2 * jnp.pi * multiples * (x[k] - lo[k]) / (hi[k] - lo[k])
            parts += [jnp.cos(angles), jnp.sin(angles)]
        if problem.time is not None:
            start, end = problem.time
            tau = (x[-1] - start) / (end - start)
            parts.append(jnp.stack([2 * tau - 1, 2 * safe_root(tau) - 1] if root else [2 * tau - 1]))
        if decays is not None:
            parts.append(decays(x[:dim]))
        if extra is not None:
            parts.append(jnp.ravel(jnp.asarray(extra(x))))
        return jnp.concatenate(parts)

    return inputs


def _decays(problem: Problem) -> Callable[[Array], Array] | None:
    """2 exp(−distance/collar) for each hole, or summed for each name where there are many."""
    layout = problem.layout
    holes = [k for k, piece in enumerate(layout.pieces) if piece.flip and not piece.two_sided]
    if problem.hints.decay is False or not holes:
        return None
    bodies = list(dict.fromkeys(layout.pieces[k].body for k in holes))
    names = list(dict.fromkeys(layout.pieces[k].name for k in holes))
    many = len(bodies) > MOST_HOLES
    label = [names.index(layout.pieces[k].name) if many else bodies.index(layout.pieces[k].body) for k in holes]
    several = {b for b in bodies if sum(layout.pieces[k].body == b for k in holes) > 1}
    count = len(names) if many else len(bodies)
    groups = stack(tuple(layout.pieces[k] for k in holes))
    width = layout.collar[holes]

    def decays(space: Array) -> Array:
        out = jnp.zeros(count)
        for group in groups:
            def decay(p, delta, kind=group.kind):
                foot = kind.closest(p, space)
                # On one side of a smooth closed curve the normal gives the distance without a root.
                return 2 * jnp.exp(-(kind.normal(p, foot) @ (space - foot)) / delta)

            def corner_decay(p, delta, kind=group.kind):
                foot = kind.closest(p, space)
                return 2 * jnp.exp(-((space - foot) ** 2).sum() / delta**2)

            smooth = all(layout.pieces[holes[m]].body not in several for m in group.index)
            values = jax.vmap(decay if smooth else corner_decay)(
                jnp.asarray(group.params), jnp.asarray(width[group.index]))
            out = out.at[np.asarray(label)[group.index]].add(values)
        return out

    return decays
