"""What is stated for a scalar unknown on each boundary: its value, its flux, or both (Robin)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.bounds.recognise import Scalar, Unrecognised
from hardpde.formulation.points import anytime
from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL
from hardpde.problem.layout import stacked_rows
from hardpde.problem.parameters import append
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

POINTS = 2048  # of each boundary
TOLERANCE = 1e-9


class Side(NamedTuple):
    """A boundary where u is given, or n·A∇u + h u with h (n,) at points x (n, c) with normals n; conormal: A n."""

    name: str
    given: bool
    x: np.ndarray
    normals: np.ndarray
    conormal: np.ndarray
    h: np.ndarray

    @property
    def kind(self) -> str:
        return "value" if self.given else "flux" if not self.h.any() else "Robin"


def find_sides(scalar: Scalar) -> tuple[Side, ...]:
    """All boundaries but those that periodic conditions join; Unrecognised where theory has no name for a condition."""
    problem = scalar.problem
    joined = {name for period in problem.periods for name in (period.condition.on, period.condition.to)}
    _check_start(scalar)
    found = []
    for name, boundary in problem.domain.boundaries.items():
        if name in joined:
            continue
        if any(piece.two_sided for piece in boundary.pieces):
            raise Unrecognised(f"'{name}' has the domain on both of its sides")
        x, n = boundary_sample(problem, name, POINTS, jax.random.key(7))
        found.append(_side(scalar, name, x, n))
    return tuple(found)


def boundary_sample(problem: Problem, name: str, many: int, key: Array) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, c) of a boundary at random times and values of the parameters, and normals (n, d)."""
    boundary = problem.domain.boundaries[name]

    @jit_simply
    def sample(key: Array) -> tuple[Array, Array]:
        space, time = jax.random.split(key)
        x = boundary.sample(space, many)
        return anytime(problem, time, x), jax.vmap(boundary.normal)(x)

    x, n = sample(key)
    return np.asarray(x), np.asarray(n)


def _check_start(scalar: Scalar) -> None:
    problem = scalar.problem
    stated = [c for c in problem.pointwise if c.on == INITIAL]
    if not scalar.timed:
        return
    assert problem.time is not None
    space = problem.domain.sample(jax.random.key(8), 8)
    points = append(problem.parameters, at_times(space, problem.time[0]))
    zero = jnp.zeros((8, problem.schema.dim))
    if not stated:
        raise Unrecognised(f"'{scalar.label}' is not given at the start of time")
    a = np.asarray(jax.vmap(lambda x, n: stacked_rows(stated, problem.schema, x, n)[0])(points, zero))
    own = a[:, :, scalar.value]
    if not (np.abs(own).max(1) > 0).all():
        raise Unrecognised(f"'{scalar.label}' is not given at the start of time")


def _side(scalar: Scalar, name: str, x: np.ndarray, n: np.ndarray) -> Side:
    problem, schema = scalar.problem, scalar.problem.schema
    stated = [c for c in problem.pointwise if c.on == name]
    if not stated:
        raise Unrecognised(f"nothing is stated on '{name}'")
    rows = jit_simply(jax.vmap(lambda x, n: stacked_rows(stated, schema, x, n)[0]))
    a = np.asarray(rows(jnp.asarray(x), jnp.asarray(n)))  # (n, r, columns)
    own, steep = a[:, :, scalar.value], _steep(scalar, a)
    others = a.copy()
    others[:, :, scalar.value] = 0.0
    for k in scalar.flux or ():
        others[:, :, k] = 0.0
    if scalar.flux is None and schema.traces:
        others[:, :, schema.size + scalar.value] = 0.0
    mine = (np.abs(own) > 0) | (np.abs(steep).max(2) > 0)  # (n, r)
    if (mine & (np.abs(others).max(2) > 0)).any():
        raise Unrecognised(f"a condition on '{name}' couples '{scalar.label}' to other fields")
    if not (mine.sum(1) == 1).all() or not (mine == mine[:1]).all():
        raise Unrecognised(f"there is not one condition for '{scalar.label}' on '{name}'")
    row = int(np.flatnonzero(mine[0])[0])
    own, steep = own[:, row], steep[:, row]
    # n·A∇u = (A n)·∇u: the row must be a multiple of it, besides u.
    conormal = np.einsum("nij,nj->ni", scalar.coefficients(x).a, n)
    if scalar.flux is None:
        factor = steep[:, 0] / np.einsum("ni,ni->n", conormal, n)
    else:
        factor = np.einsum("ni,ni->n", steep, conormal) / (conormal**2).sum(1)
        if np.abs(steep - factor[:, None] * conormal).max() > TOLERANCE * max(np.abs(steep).max(), 1e-300):
            raise Unrecognised(f"the condition on '{name}' asks for a derivative of '{scalar.label}' that is not its "
                               f"flux n·A∇{scalar.label}")
    small = np.abs(factor) <= TOLERANCE * np.abs(factor).max(initial=0.0)
    if np.abs(factor).max(initial=0.0) == 0:
        return Side(name, True, x, n, conormal, np.zeros(len(x)))
    if small.any():
        raise Unrecognised(f"the flux in the condition on '{name}' vanishes on a part of it; split the boundary")
    return Side(name, False, x, n, conormal, own / factor)


def _steep(scalar: Scalar, a: np.ndarray) -> np.ndarray:
    """The part of rows that acts on the gradient, (n, r, d), or on the normal derivative, (n, r, 1)."""
    if scalar.flux is not None:
        return a[:, :, np.array(scalar.flux)]
    size = scalar.problem.schema.size
    return a[:, :, size + scalar.value :][:, :, :1] if a.shape[2] > size else np.zeros((*a.shape[:2], 1))
