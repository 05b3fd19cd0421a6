"""Integrals over a domain and its time from random points, with bounds that hold with a stated probability."""

import math
from typing import NamedTuple

import jax
import numpy as np

from hardpde.formulation.points import EARLIEST
from hardpde.geometry import Inlay, Shape, at_times
from hardpde.geometry.algorithms.sampling import inside
from hardpde.geometry.csg import Difference, Intersection, Union, contained, disjoint
from hardpde.problem.parameters import append
from hardpde.problem.problem import Problem

FAILS = 1e-6  # the probability that any of the bounds of one error bar is wrong
INTERVALS = 64  # of which an error bar takes at most so many
BEYOND = 4.0  # no value is taken to be larger than so many times the largest one seen
COUNTED = 2**18  # points in the bounding box that are counted


class Between(NamedTuple):
    """Between which numbers a mean lies."""

    low: float
    high: float


class Sample(NamedTuple):
    """Points x (n, c) uniform in space and parameters; weights (n,) with which means are those over the domain of
    integrals over time (1 without time), and span (n,): with the weight, ∫ ‖r‖ dt ≤ √ of the mean of span r²."""

    x: np.ndarray
    weights: np.ndarray
    spans: tuple[np.ndarray, ...]


def points_drawn(problem: Problem, n: int, seed: int) -> Sample:
    """Fresh points. Half of the times are uniform, the others t = T s² for uniform s, as residuals may be large at the
    start; ∫‖r‖ dt is bounded by Cauchy–Schwarz in t and in s."""
    space, time, values = jax.random.split(jax.random.key(seed), 3)
    x = np.asarray(problem.domain.sample(space, n))
    weights = np.ones(n)
    spans: tuple[np.ndarray, ...] = (weights,)
    if problem.time is not None:
        start, end = problem.time
        tau = np.array(jax.random.uniform(time, (n,)))
        tau = np.where(np.random.default_rng(seed).random(n) < 0.5, tau**2, tau)
        tau = np.maximum(tau, EARLIEST)
        weights, spans = time_weights(tau, end - start)
        x = at_times(x, start + (end - start) * tau)
    return Sample(np.asarray(append(problem.parameters, x, values if problem.parameters else None)), weights, spans)


def time_weights(tau: np.ndarray, span: float) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Weights and spans of a sample, at shares tau (n,) of a time so long."""
    return span / (0.5 + 0.25 / np.sqrt(tau)), (span * np.ones(len(tau)), 2 * span * np.sqrt(tau))


def mean_between(values: np.ndarray, fails: float = FAILS / INTERVALS) -> Between:
    """The mean of which these non-negative values (n,) are independent samples, by Bernstein's inequality with the
    empirical variance (Maurer & Pontil 2009), if no value is larger than BEYOND times the largest one."""
    n = len(values)
    largest, mean = BEYOND * float(values.max()), float(values.mean())
    if not math.isfinite(mean):
        return Between(0.0, math.inf)
    tail = math.log(4 / fails)  # two sides
    half = math.sqrt(2 * float(values.var(ddof=1)) * tail / n) + 7 * largest * tail / (3 * (n - 1))
    return Between(max(mean - half, 0.0), mean + half)


def volume(shape: Shape, seed: int = 0) -> Between:
    """The measure of a shape: exact where a formula gives it, else counted with random points of its bounding box."""
    if _measured(shape):
        return Between(shape.measure, shape.measure)
    lo, hi = (np.array(b) for b in shape.bounds)
    box = float(np.prod(hi - lo))
    points = lo + (hi - lo) * np.asarray(jax.random.uniform(jax.random.key(seed), (COUNTED, shape.dim)))
    share = float(np.asarray(inside(shape, points)).mean())
    tail = math.log(4 * INTERVALS / FAILS)
    half = math.sqrt(2 * share * (1 - share) * tail / COUNTED) + 7 * tail / (3 * (COUNTED - 1))
    return Between(max(share - half, 0.0) * box, min(share + half, 1.0) * box)


def _measured(shape: Shape) -> bool:
    """Whether the measure of a shape is known by a formula."""
    if isinstance(shape, Inlay):
        return _measured(shape.base)
    if isinstance(shape, Union):
        return disjoint(shape.shapes) and all(map(_measured, shape.shapes))
    if isinstance(shape, Difference):
        parts = (shape.base, *shape.holes)
        return (all(contained(hole, shape.base) for hole in shape.holes) and disjoint(shape.holes)
                and all(map(_measured, parts)))
    return not isinstance(shape, Intersection)


def level(n: int) -> str:
    """How integrals were found, in words."""
    return (f"integrals from {n} random points, with probability 1 − {FAILS:.0e} if nothing is {BEYOND:g} times larger "
            f"than the largest value seen")
