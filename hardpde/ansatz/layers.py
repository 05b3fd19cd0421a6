"""Layers along boundaries, found from the linearised equations: where a small coefficient of second derivatives lets a
solution change exponentially with the distance from a wall. Inputs exp(−distance/width) know them.

Across a wall an equation ∇·(D∇u) + b·∇u + c u = f is ν u″ + β u′ + c u = f, with ν = n·D n and β = b·n; its solutions
that decay into the domain are exp(λ s) with s ≤ 0 the distance and ν λ² + β λ + c = 0, Re λ > 0.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Piece
from hardpde.problem.linearised import linearisation
from hardpde.problem.problem import Problem

THIN = 0.1  # of the size of the domain: wider layers need no inputs of their own
THINNEST = 1e-7  # of it: points in thinner ones lose their digits
MOST = 8  # layers that get inputs: the thinnest ones
PROBES = 24  # points of a piece at which widths are looked at


class Layer(NamedTuple):
    """A layer of such a width along one piece of the boundary."""

    piece: Piece
    width: float


def layers_of(problem: Problem) -> list[Layer]:
    """The layers of a problem's equations, the thinnest first; [] where that theory does not reach."""
    schema = problem.schema
    if problem.mapping is not None or problem.regions or any(period.hard for period in problem.periods):
        return []
    inside = np.asarray(problem.domain.sample(jax.random.key(41), 1024))
    found = []
    for piece in problem.layout.pieces:
        x = np.asarray(piece.sample(jax.random.key(42), PROBES))
        n = np.asarray(jax.vmap(piece.normal)(jnp.asarray(x)))
        rates = _rates(problem, piece.name, np.asarray(problem.everywhen(jnp.asarray(x))), n)
        thin = rates[rates > 1 / (THIN * problem.domain.size)]
        depth = np.asarray(jax.vmap(lambda y, piece=piece: _depth(piece, y))(inside))
        if len(thin) > len(x) // 4 and depth.min() > -1e-9 * problem.domain.size:
            width = float(1 / np.exp(np.log(thin).mean()))
            found.append(Layer(piece, max(width, THINNEST * problem.domain.size)))
    return sorted(found, key=lambda layer: layer.width)[:MOST] if schema.dim <= 3 else []


def _depth(piece: Piece, space: Array) -> Array:
    """How deep inside a point is, behind the piece and what continues it straight."""
    foot = piece.closest(space)
    return (foot - space) @ piece.normal(foot)


def _rates(problem: Problem, wall: str, x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The largest λ at points (k, c) of a wall with normals (k, d) of each field that has an equation, (…,)."""
    schema, d = problem.schema, problem.schema.dim
    slopes = linearisation(problem)
    states = np.random.default_rng(43).standard_normal((2, schema.size, 1 + problem.derivatives, 1))
    jets = [np.repeat(state, len(x), axis=2) for state in states]
    one, two = (np.asarray(slopes(x, jet, None)[1]) for jet in jets)  # (e, m, slots, k)
    if not np.allclose(one, two, rtol=1e-6, atol=1e-9 * np.abs(one).max()):
        one = np.asarray(slopes(x, _stated_state(problem, wall, x, n), None)[1])
    found = []
    plain = len(one) - sum(schema.slices[name].stop - schema.slices[name].start for name, _ in schema.gradients)
    for name, part in schema.slices.items():
        if name in dict(schema.gradients):
            continue
        gradient = schema.gradient_of(name)
        for k in range(part.start, part.stop):
            for equation in one[:plain]:
                diffusion = np.zeros((d, d, len(x)))
                drift, reaction = equation[k, 1 : 1 + d].copy(), equation[k, 0]
                if gradient is not None:
                    first = schema.slices[gradient].start + (k - part.start) * d
                    diffusion += np.moveaxis(equation[first : first + d, 1 : 1 + d], 0, 1)
                    drift += equation[first : first + d, 0]
                if problem.order == 2:
                    diffusion += np.eye(d)[:, :, None] * equation[k, -1]
                found.append(_decay(diffusion, drift, reaction, n, problem.domain.size))
    return np.concatenate(found) if found else np.zeros(0)


def _stated_state(problem: Problem, wall: str, x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Jets (m, slots, k) at points of a wall: the guess, changed to have what conditions state there, without slopes:
    what is not linear has other coefficients in every state, and a layer begins with that of its wall."""
    schema, conditions = problem.schema, [one for one in problem.pointwise if one.on == wall]
    state = np.asarray(jax.vmap(problem.guess)(jnp.asarray(x)))
    jets = np.zeros((schema.size, 1 + problem.derivatives, len(x)))

    def nearest(x: Array, n: Array, state: Array) -> Array:
        rows = [condition.matrix(schema, x, n) for condition in conditions]
        a, g = (jnp.concatenate(parts) for parts in zip(*rows))
        a = a[:, : schema.size]
        return state + jnp.linalg.pinv(a) @ (g - a @ state)

    jets[:, 0] = np.asarray(jax.vmap(nearest)(*map(jnp.asarray, (x, n, state))) if conditions else state).T
    return jets


def _decay(diffusion: np.ndarray, drift: np.ndarray, reaction: np.ndarray, n: np.ndarray, size: float) -> np.ndarray:
    """The largest Re λ at points (k,), 0 where nothing decays: of convection out of the domain, of a reaction, and of
    convection along the wall."""
    across = np.einsum("ki,ijk,kj->k", n, diffusion, n)
    there = np.abs(across) > 0
    nu = np.where(there, across, 1.0)
    out = np.einsum("ki,ik->k", n, drift)
    root = np.sqrt((out**2 - 4 * nu * reaction).astype(complex))
    rates = np.maximum(((-out + root) / (2 * nu)).real, ((-out - root) / (2 * nu)).real)
    waves = np.abs(root.imag) > 1e-9 * (np.abs(out) + np.abs(root.real))
    along = np.linalg.norm(drift - out * n.T, axis=0)
    parabolic = np.sqrt(along / (np.abs(nu) * size)) * (np.abs(out) < 1e-9 * np.maximum(along, 1e-300))
    return np.where(there, np.maximum(np.where(waves, 0.0, rates), parabolic), 0.0)


def layer_inputs(found: list[Layer]) -> Callable[[Array], Array]:
    """2 exp(−distance/width) of each layer."""

    def inputs(space: Array) -> Array:
        return jnp.stack([2 * jnp.exp(-_depth(layer.piece, space) / layer.width) for layer in found])

    return inputs


def with_points_in(problem: Problem, found: list[Layer]) -> Problem:
    """The problem with points near its boundaries at all distances down to the thinnest layer."""
    if not found or problem.hints.thin is not None:
        return problem
    return problem.derived(hints=replace(problem.hints, thin=found[0].width), origin=problem.stated)
