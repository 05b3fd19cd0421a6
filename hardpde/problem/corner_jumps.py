"""Data that jump where two straight sides of a plane domain meet, as on the lid of a cavity.

No continuous state has the values of both sides at such a corner. Each holds on its own side up to there, and what
is between them is a function of the direction from the corner alone, φ = ½ + θ/α: harmonic, 0 on one side and 1 on the
other.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Piece, Shape
from hardpde.geometry.algorithms.sampling import depths
from hardpde.problem.fields import Schema

NEAR = 1e-3  # of the domain: how far from a corner it is looked which side of it is inside
CUT = 0.2  # radians about the ray away from the domain, where the direction jumps
SAMPLE = 2048


class DataApart(ValueError):
    """At a corner `at` the data of two pieces say that what rows act on jumps from the one to the other."""

    def __init__(self, sentence: str, at: np.ndarray, pieces: tuple[int, int], jump: np.ndarray):
        super().__init__(sentence)
        self.at, self.pieces, self.jump = at, pieces, jump


@dataclass(frozen=True, eq=False)
class CornerJump:
    """At a corner (2,) the state jumps by (m,) from one piece to the other (their numbers); `middle`: the direction
    between the sides, θ = 0; angle: from the first side to the second, against the clock if positive."""

    at: np.ndarray
    pieces: tuple[int, int]
    jump: np.ndarray
    middle: np.ndarray
    angle: float

    def share(self, space: Array) -> Array:
        """φ at a point in space (2,)."""
        away = space - self.at
        here = (away**2).sum() == 0
        away = jnp.where(here, self.middle, away)
        theta = jnp.arctan2(self.middle[0] * away[1] - self.middle[1] * away[0], away @ self.middle)
        return 0.5 + theta / self.angle


def jump_at(found: DataApart, pieces: tuple[Piece, ...], schema: Schema, domain: Shape) -> CornerJump | None:
    """The jump as a function of the direction; None where there is no such function that is smooth in the domain."""
    gradients, jump = dict(schema.gradients), found.jump[: schema.size]
    slopes = [found.jump[schema.size :], *(jump[part] for name, part in schema.slices.items() if name in gradients)]
    if any(np.abs(part).max(initial=0.0) > 1e-12 for part in slopes):
        return None
    along = []
    for number in found.pieces:
        x = np.asarray(pieces[number].sample(jax.random.key(41), 16))
        n = np.asarray(jax.vmap(pieces[number].normal)(jnp.asarray(x)))
        if np.abs(n - n[0]).max() > 1e-9:
            return None
        away = x[np.linalg.norm(x - found.at, axis=1).argmax()] - found.at
        along.append(np.arctan2(away[1], away[0]))
    angle = (along[1] - along[0]) % (2 * np.pi)
    for turn in (angle, angle - 2 * np.pi):
        middle = np.array([np.cos(along[0] + turn / 2), np.sin(along[0] + turn / 2)])
        if float(depths(domain, (found.at + NEAR * domain.size * middle)[None])[0]) < 0:
            made = CornerJump(found.at, found.pieces, jump, middle, turn)
            return made if _smooth(made, domain) else None
    return None


def _smooth(jump: CornerJump, domain: Shape) -> bool:
    """Whether the domain keeps clear of the ray at which the direction jumps."""
    x = np.asarray(domain.sample(jax.random.key(42), SAMPLE)) - jump.at
    theta = np.arctan2(jump.middle[0] * x[:, 1] - jump.middle[1] * x[:, 0], x @ jump.middle)
    return bool(np.abs(theta).max() < np.pi - CUT)


def lift_of(jumps: tuple[CornerJump, ...], schema: Schema, x: Array, piece: Array | None = None) -> Array:
    """What makes the state (m,) jump as the data do, gradient fields with it; on a piece, its limit there."""
    space = x[: schema.dim]

    def values(space: Array) -> Array:
        total = jnp.zeros(schema.size)
        for one in jumps:
            share = one.share(space)
            if piece is not None:
                share = jnp.where(piece == one.pieces[0], 0.0, jnp.where(piece == one.pieces[1], 1.0, share))
            total = total + share * one.jump
        return total

    found = values(space)
    if not schema.gradients:
        return found
    slopes = jax.jacfwd(values)(space)
    for gradient, base in schema.gradients:
        found = found.at[schema.slices[gradient]].add(slopes[schema.slices[base]].ravel())
    return found
