"""Data that jump where two straight sides of a plane domain meet, as on the lid of a cavity.

No continuous state has the values of both sides at such a corner. Each value holds on its own side up to there, and
what is between them is a function of the direction from the corner alone: φ = ½ + θ/α, harmonic, 0 on one side and 1 on
the other, or for velocities of a flow without divergence the Stokes flow that the sides drive.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
CLOSE = 1e-4  # of a unit: how far from a corner it is seen which function solves the equations
SOLVED = 1e-2  # of what the plain function leaves of them


class DataApart(ValueError):
    """At a corner `at` the data of two pieces say that what rows act on jumps from the one to the other."""

    def __init__(self, sentence: str, at: np.ndarray, pieces: tuple[int, int], jump: np.ndarray):
        super().__init__(sentence)
        self.at, self.pieces, self.jump = at, pieces, jump


class Creep(NamedTuple):
    """Stokes flow at a corner, ψ = r (A cos θ + B sin θ + C θ cos θ + D θ sin θ) (Goodier, Taylor): its velocity is in
    these components of the state, its pressure, over the viscosity, in others times the factors given."""

    velocity: tuple[int, int]
    coefficients: np.ndarray
    pressure: tuple[tuple[int, float], ...] = ()

    def values(self, r: Array, theta: Array) -> tuple[Array, Array]:
        """The velocity (2,) along and across the middle direction, and the pressure over the viscosity."""
        s, c = jnp.sin(theta), jnp.cos(theta)
        f, slope = (jnp.stack(row) @ self.coefficients for row in _rows(theta, s, c))
        return jnp.stack([slope * c + f * s, slope * s - f * c]), 2 * (
            self.coefficients[2] * c + self.coefficients[3] * s) / r


def _rows(theta: Any, s: Any, c: Any) -> tuple[list[Any], list[Any]]:
    """What the coefficients of F and of F′ are multiplied with."""
    return [c, s, theta * c, theta * s], [-s, c, c - theta * s, s + theta * c]


@dataclass(frozen=True, eq=False)
class CornerJump:
    """At a corner (2,) the state jumps by (m,) from one piece to the other (their numbers); `middle`: the direction
    between the sides, θ = 0; angle: from the first side to the second, against the clock if positive."""

    at: np.ndarray
    pieces: tuple[int, int]
    jump: np.ndarray
    middle: np.ndarray
    angle: float
    creep: Creep | None = None

    def values(self, space: Array, piece: Array | None) -> Array:
        """What it adds to the state (m,), without gradients, at a point in space; on a piece, the limit there."""
        away = space - self.at
        away = jnp.where((away**2).sum() == 0, self.middle, away)
        across = jnp.stack([-self.middle[1], self.middle[0]])
        theta = jnp.arctan2(across @ away, self.middle @ away)
        found = (0.5 + theta / self.angle) * self.jump
        if self.creep is not None:
            flow, pressure = self.creep.values(jnp.sqrt((away**2).sum()), theta)
            found = found.at[np.array(self.creep.velocity)].set(flow[0] * self.middle + flow[1] * across)
            for k, factor in self.creep.pressure:
                found = found.at[k].add(factor * pressure)
        if piece is None:
            return found
        return jnp.where(piece == self.pieces[0], 0.0, jnp.where(piece == self.pieces[1], self.jump, found))

    def with_creep(self, velocity: tuple[int, int]) -> "CornerJump":
        """With a Stokes flow for the jump of these components."""
        own = self.jump[list(velocity)]
        own = np.array([self.middle @ own, -self.middle[1] * own[0] + self.middle[0] * own[1]])
        first, second = -self.angle / 2, self.angle / 2
        s, c = np.sin(second), np.cos(second)
        rows = [*_rows(first, np.sin(first), np.cos(first)), *_rows(second, s, c)]
        right = [0.0, 0.0, s * own[0] - c * own[1], c * own[0] + s * own[1]]
        return replace(self, creep=Creep(velocity, np.linalg.solve(np.array(rows), np.array(right))))


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


def corner_lift(jumps: tuple[CornerJump, ...], schema: Schema, x: Array, piece: Array | None = None) -> Array:
    """What makes the state (m,) jump as the data do, gradient fields with it; on a piece, its limit there."""
    space = x[: schema.dim]

    def values(space: Array) -> Array:
        return sum((one.values(space, piece) for one in jumps), jnp.zeros(schema.size))

    found = values(space)
    if not schema.gradients:
        return found
    slopes = jax.jacfwd(values)(space)
    for gradient, base in schema.gradients:
        found = found.at[schema.slices[gradient]].add(slopes[schema.slices[base]].ravel())
    return found


def flowing(jump: CornerJump, schema: Schema, residuals: Callable[[Array, Array, Array], Array],
            order: int) -> CornerJump:
    """With the Stokes flow in place of the plain jump of a velocity, where that solves the equations near the corner;
    residuals(x, q, dq): of the problem."""
    gradients = dict(schema.gradients)
    alone = [schema.slices[name].start for name, shape in schema.fields if shape == ()]
    space = jnp.asarray(jump.at) + CLOSE * jnp.stack([np.cos(t) * jump.middle + np.sin(t) * np.array(
        [-jump.middle[1], jump.middle[0]]) for t in jump.angle * np.linspace(-0.4, 0.4, 7)])
    zero = jnp.zeros(schema.size), jnp.zeros((schema.coordinates + order - 1, schema.size))

    def linear(made: CornerJump) -> np.ndarray:
        """What the linear part of the equations makes of it, (7, e)."""
        def one(x: Array) -> Array:
            def state(y: Array) -> Array:
                return corner_lift((made,), schema, y)

            dq = jax.jacfwd(state)(x).T
            if order == 2:
                dq = jnp.concatenate([dq, jnp.trace(jax.hessian(state)(x), axis1=1, axis2=2)[None]])
            return jax.jvp(lambda q, dq: residuals(x, q, dq), zero, (state(x), dq))[1]

        return np.asarray(jax.vmap(one)(space))

    for name, shape in schema.fields:
        part = schema.slices[name]
        if name in gradients or shape != (2,) or not np.abs(jump.jump[part]).max() > 0:
            continue
        tried = jump.with_creep((part.start, part.start + 1))
        assert tried.creep is not None
        known = linear(tried)
        columns = [linear(replace(tried, creep=tried.creep._replace(pressure=((k, 1.0),)))) - known for k in alone]
        matrix = np.stack([column.ravel() for column in columns], axis=1) if columns else np.zeros((known.size, 0))
        factors = np.linalg.lstsq(matrix, -known.ravel(), rcond=1e-10)[0]
        left = known.ravel() + matrix @ factors
        if np.abs(left).max() <= SOLVED * np.abs(linear(jump)).max():
            pressure = tuple((k, float(v)) for k, v in zip(alone, factors) if v)
            return replace(tried, creep=tried.creep._replace(pressure=pressure))
    return jump
