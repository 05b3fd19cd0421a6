"""What a bound takes for granted and points inside the domain do not show: that coefficients do not jump, that periodic
faces agree, and what residuals do near the boundary, in its corners and at the start of time."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from hardpde.bounds.quadrature import time_weights
from hardpde.bounds.recognise import Scalar, Unrecognised
from hardpde.evaluation.certificate import boundary_points
from hardpde.geometry.algorithms.sampling import inside
from hardpde.problem.jumps import jump_of, may_jump, variation
from hardpde.problem.problem import Problem

LOOKED, ON, CORNERS = 200, 24, 12  # points of every boundary; of these, and about a corner, in each shell
SHELLS = 10.0 ** -np.arange(2.0, 7.0)  # of the size of the domain: how far probes lie from boundaries and corners
CORNERS_LOOKED = 16  # corners of a boundary that are looked at
SHARE = 0.2  # of an integral: more in the innermost shell is looked at,
STEEPEST = 30.0  # times what the shell has that is a hundred times larger
NEARER = 2.0  # times what the shells have is taken for all that lies nearer
PERIODIC = 1e-9
NO_CHANGE = 1e-9  # of the size of A, and of that over the domain's for β: coefficients that vary by less do not


class Probes(NamedTuple):
    """Points x (n, c) near the boundary, with what they count for in integrals over time (see `Sample`). shell (n,):
    in which they lie; part (n,): which share of the domain the place of a shell is for which they stand."""

    x: np.ndarray
    weights: np.ndarray
    spans: tuple[np.ndarray, ...]
    shell: np.ndarray
    part: np.ndarray


def probes_of(problem: Problem, measure: float, seed: int) -> Probes:
    """Points at distances that fall by tens from all boundaries and from corners, at early times too, with parameters
    often at the ends of their ranges."""
    random, d, size = np.random.default_rng(seed), problem.domain.dim, problem.domain.size
    found, shells, parts = [np.zeros((0, d))], [np.zeros(0, int)], [np.zeros(0)]
    for name, boundary in problem.domain.boundaries.items():
        x, n = boundary_points(problem, name, LOOKED)
        area = sum(piece.measure for piece in boundary.pieces)
        corners = np.unique(np.round(x[LOOKED:], 9), axis=0)[:CORNERS_LOOKED]
        for k, distance in enumerate(SHELLS * size):
            some = random.integers(0, LOOKED, ON)
            off = random.normal(size=(CORNERS * len(corners), d))
            off /= np.maximum(np.linalg.norm(off, axis=1, keepdims=True), 1e-300)
            found += [x[some] - distance * random.uniform(0.1, 1, (ON, 1)) * n[some],
                      np.repeat(corners, CORNERS, axis=0) + distance * random.uniform(0.1, 1, (len(off), 1)) * off]
            shells.append(np.full(ON + len(off), k))
            parts += [np.full(ON, area * distance / measure), np.full(len(off), (2 * distance) ** d / measure)]
    x, shell, part = np.concatenate(found), np.concatenate(shells), np.concatenate(parts)
    keep = np.asarray(inside(problem.domain, jnp.asarray(x)))
    x, shell, part = x[keep], shell[keep], part[keep]
    weights = np.ones(len(x))
    spans: tuple[np.ndarray, ...] = (weights,)
    if problem.time is not None:
        tau = np.where(random.random(len(x)) < 0.5, 10 ** random.uniform(-6, 0, len(x)), random.random(len(x)))
        start, end = problem.time
        weights, spans = time_weights(tau, end - start)
        x = np.concatenate([x, start + (end - start) * tau[:, None]], axis=1)
    return Probes(with_ends(problem, x, random), weights, spans, shell, part)


def with_ends(problem: Problem, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Points with parameters, most of which are at the ends of their ranges."""
    columns = [np.where((at := random.random(len(x))) < 0.4, p.low, np.where(at < 0.8, p.high, random.uniform(
        p.low, p.high, len(x)))) for p in problem.parameters]
    return np.concatenate([x, *(column[:, None] for column in columns)], axis=1)


def unseen(values: np.ndarray, mean: float, probes: Probes) -> float:
    """What values (n,) at probes, with their weights, add to a mean: the largest of each shell counts for all of it.

    Residuals may grow like the inverse distance from a corner of the plane: the integral of their squares diverges as a
    logarithm, but what is nearer than the innermost shell, of size δ, has no more than about √δ of the norm of a
    functional on functions with a gradient, by Hölder's inequality with exponents 4/3 and 4. Up to the power 3/2 of the
    distance that share goes to zero with δ. Unrecognised where they grow nearly as fast or faster.
    """
    if not len(values):
        return 0.0
    if not np.isfinite(values).all():
        raise Unrecognised("the residual is not finite near the boundary")
    most = np.zeros(len(SHELLS))
    np.maximum.at(most, probes.shell, values * probes.part)
    if most[-1] > SHARE * (mean + most[0]) and most[-1] > STEEPEST * most[-3]:
        raise Unrecognised("the residual is too singular near the boundary or in its corners for its norm to exist")
    return NEARER * float(most[1:].sum())


def check_continuous(equation: Scalar, x: np.ndarray) -> None:
    """Unrecognised where A or β jumps at some place, or differs between periodic faces: fluxes would not balance."""
    def coefficients(x: np.ndarray) -> np.ndarray:
        found = equation.coefficients(x)
        return np.concatenate([found.a.reshape(len(x), -1), found.beta], axis=1)

    problem = equation.problem
    schema = problem.schema
    q, dq = jnp.ones(schema.size), jnp.ones((problem.derivatives, schema.size))
    if may_jump(lambda x: problem.residuals(x, q, dq), jnp.zeros(schema.point)):
        values, d = coefficients(x[:2000]), equation.dim
        size = np.abs(values[:, : d * d]).max() * np.where(np.arange(d * d + d) < d * d, 1.0, 1 / problem.domain.size)
        if found := jump_of(coefficients, x[:2000], units=variation(values, NO_CHANGE * size)):
            place = ", ".join(f"{c:.4g}" for c in found.at)
            raise Unrecognised(f"a coefficient of derivatives of '{equation.label}' jumps, at ({place})")
    for period in problem.periods:
        one, two = (coefficients(np.asarray(side)) for side in period.pair(jnp.asarray(x[:64])))
        if np.abs(one - two).max() > PERIODIC * max(np.abs(one).max(), 1e-300):
            raise Unrecognised(f"coefficients differ between '{period.condition.on}' and '{period.condition.to}'")


def check_linear_at(equation: Scalar, x: np.ndarray, jets: np.ndarray) -> None:
    """Unrecognised where derivatives enter the equation otherwise at the answer, with jets (n, m, slots), than where
    states are of the size of one."""
    found = equation.at_states(x, jets)
    known = equation.at_states(x, np.zeros_like(jets))
    for k, (one, other) in enumerate(zip(found, known)):
        if k == 4 and not equation.linear:
            continue
        if not np.abs(one - other).max() <= 1e-6 * max(np.abs(other).max(), 1e-300):
            raise Unrecognised(f"'{equation.label}' enters its equation nonlinearly at the answer")
