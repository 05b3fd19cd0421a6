"""Barta's bound of λ₁ (Barta 1937, Protter 1960) by a positive function that is made for it.

For any ψ > 0 with n·A∇ψ + h ψ ≥ 0 where w need not vanish, λ₁ ≥ inf Lψ/ψ with L = −∇·A∇ + c. ψ is a sum of features
that solves Lψ = 1 (the torsion function), then Lψ = what was found before (its limit is the first eigenfunction);
boundary values are a little larger than those of a solution, so that the inequalities hold.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardpde.bounds.boundary_rows import Side
from hardpde.bounds.recognise import Scalar
from hardpde.direct.least_squares import factored
from hardpde.geometry import Ball
from hardpde.support.hardware import one_thread_in_libraries

ROWS = 5  # points for each feature
SIZES = ((200, 1.5), (400, 2.0), (800, 3.0), (1200, 5.0))  # features, and the scale of their weights
LIFT = 0.02  # of the largest value: the least that a function is where w vanishes on the boundary
MARGIN = 0.03  # of what is asked for: more is asked for at the points that are fitted
VAIN, STEP = 10, 1.1  # corrections before one succeeds, and how λ grows
STRONG = 20.0  # rows on the boundary against those inside
ENOUGH = 0.7  # of one over the largest value of the torsion function
RIDGE = 1e-10
MOST_HOLES = 24
SAFE = 0.98  # of the least quotient seen


class Operator(NamedTuple):
    """What λ₁ is asked of: A is at least `least` and c at least `c` over all of space, time and parameters, and h at
    least these numbers, boundary by boundary (None: w vanishes there).

    x (n, c): points inside, with A (n, d, d), ∇·A (n, d) and c (n,) there, which are those numbers unless they are
    `fixed`, that is independent of time and parameters.
    """

    scalar: Scalar
    sides: tuple[Side, ...]
    least: float
    c: float
    h: tuple[float | None, ...]
    fixed: bool
    x: np.ndarray
    a: np.ndarray
    drift: np.ndarray
    reaction: np.ndarray

    @property
    def definite(self) -> bool:
        """Whether there is anything that makes λ₁ positive."""
        return self.c > 0 or any(h is None or h > 0 for h in self.h)


class Found(NamedTuple):
    """λ₁ ≥ value; high: the largest value of a function with Lψ ≥ 1."""

    value: float
    points: int
    high: float | None

    @property
    def good(self) -> bool:
        return self.high is not None and self.value * self.high >= ENOUGH


class Places(NamedTuple):
    """Points with rows on functions of inputs y(x): the inputs (n, f); and what makes a function's value g(y) the row
    zeroth g + g′·first + g″:second, with first (n, f) and second (n, f, f) (None: zero)."""

    y: np.ndarray
    zeroth: np.ndarray
    first: np.ndarray
    second: np.ndarray | None


class Features(NamedTuple):
    """tanh(w·y + b)."""

    weights: np.ndarray  # (h, f)
    biases: np.ndarray

    def rows(self, at: Places) -> tuple[np.ndarray, np.ndarray]:
        """What the rows make of each feature, and the features' values, (n, h)."""
        t = np.tanh(at.y @ self.weights.T + self.biases)
        s = 1 - t * t
        made = at.zeroth[:, None] * t + s * (at.first @ self.weights.T)
        if at.second is not None:
            pairs = (self.weights[:, :, None] * self.weights[:, None]).reshape(len(self.weights), -1)
            made += -2 * t * s * (at.second.reshape(len(at.y), -1) @ pairs.T)
        return made, t


def _inputs(of: Operator, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coordinates, and R/|x − c| of round holes, (n, f), with gradients (n, f, d) and Hessians (n, f, d, d)."""
    domain, d, n = of.scalar.problem.domain, of.scalar.dim, len(x)
    holes = [hole for hole in getattr(domain, "holes", ()) if isinstance(hole, Ball)]
    if len(holes) > MOST_HOLES:
        holes = []
    y, slopes, bends = [x], [np.tile(np.eye(d), (n, 1, 1))], [np.zeros((n, d, d, d))]
    for hole in holes:
        away = x - np.array(hole.center)
        r = np.maximum(np.linalg.norm(away, axis=1), 1e-300)
        y.append((hole.radius / r)[:, None])
        slopes.append((-hole.radius * away / r[:, None] ** 3)[:, None])
        outer = 3 * away[:, :, None] * away[:, None] / r[:, None, None] ** 5 - np.eye(d) / r[:, None, None] ** 3
        bends.append((hole.radius * outer)[:, None])
    return np.concatenate(y, 1), np.concatenate(slopes, 1), np.concatenate(bends, 1)


def barta(of: Operator, seconds: float) -> Found | None:
    """The best bound found within some seconds; None where there is none."""
    if not of.definite or any(h is not None and h < 0 for h in of.h) or of.scalar.problem.periods:
        return None
    began, best, last = time.perf_counter(), None, 0.0
    inner, edges = _inside(of), [_edge(of, k) for k in range(len(of.sides))]
    top = 1 / (8 * of.least / of.scalar.problem.domain.size**2 + max(of.c, 0.0))
    for count, scale in SIZES:
        with one_thread_in_libraries():
            tried, top = _tried(of, count, scale, inner, edges, top)
        best = max(filter(None, (best, tried)), key=lambda one: one.value, default=None)
        took = time.perf_counter() - began
        if (best is not None and best.good) or took + 4 * (took - last) > seconds:
            break
        last = took
    return best


def _tried(of: Operator, count: int, scale: float, inner: Places, edges: list[Places],
           top: float) -> tuple[Found | None, float]:
    """What features so many and so steep give: fitted at some of the points, checked at all; and the largest value of
    the function, of which `top` is a guess."""
    random = np.random.default_rng(count)
    features = _features(of, random, count, scale, inner.y)
    # Rows on the boundary count as those inside where the function has that size.
    strength = np.concatenate([np.ones(len(inner.y)), *(
        np.full(len(edge.y), STRONG / (top if h is None else np.sqrt(of.least * top)))
        for edge, h in zip(edges, of.h))])
    given = np.concatenate([np.zeros(len(inner.y), bool), *(np.full(len(e.y), h is None) for e, h in zip(edges, of.h))])
    within = np.arange(len(strength)) < len(inner.y)
    made, values = (np.concatenate(part) for part in zip(*map(features.rows, (inner, *edges))))
    fit = np.concatenate([random.choice(np.flatnonzero(within), min(ROWS * count, within.sum()), replace=False),
                          random.choice(np.flatnonzero(~within), min(2 * count, (~within).sum()), replace=False)])
    system = factored(made[fit] * strength[fit, None], RIDGE)

    def solved(aim: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = system.solve(aim * strength[fit])
        return made @ last, values @ last

    return _raised(solved, fit, within, given, np.sqrt(of.least / top), top)


def _raised(solved: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], fit: np.ndarray, within: np.ndarray,
            given: np.ndarray, flux: float, guess: float) -> tuple[Found | None, float]:
    """The function is asked for more at points where it has too little, and left alone where it has enough: first for
    Lψ ≥ 1, then for Lψ ≥ λψ with λ that grows."""
    made, value = solved(np.where(within, 1.0, 0.0)[fit])
    first = float(value.max())
    best, high, asked, vain = None, None, 0.0, 0
    while vain < (VAIN if best is None else 3) and (top := float(value.max())) > 0:
        vain += 1
        if value.min() > 0 and made[~within & ~given].min(initial=np.inf) >= 0:
            quotient = SAFE * float((made[within] / value[within]).min())
            if not asked and made[within].min() > 0:
                high = top / (SAFE * float(made[within].min()))
            if quotient > 0 and (best is None or quotient > 1.01 * best.value):
                best, vain = Found(quotient, len(within), None), 0
                asked = STEP * quotient
        target = asked * np.maximum(value, LIFT * top) if asked else 1.0
        least = np.where(within, (1 + MARGIN) * target, np.where(given, LIFT * top, MARGIN * LIFT * flux * top))
        most = np.where(within, 2 * least, np.where(given, 5 * LIFT * top, np.inf))
        made, value = solved(np.clip(made, least, most)[fit])
    return None if best is None else best._replace(high=high), first if first > 0 else guess / 4


def _features(of: Operator, random: np.random.Generator, count: int, scale: float, y: np.ndarray) -> Features:
    """Half of them see coordinates alone."""
    half, d = np.maximum(np.ptp(y, axis=0) / 2, 1e-9), of.scalar.dim
    weights = random.uniform(-1, 1, (count, len(half))) * scale / half
    weights[: count // 2, d:] = 0.0
    through = y[random.integers(0, len(y), count)]
    return Features(weights, -(weights * through).sum(1))


def _inside(of: Operator) -> Places:
    """Rows of L."""
    y, slopes, bends = _inputs(of, of.x[:, : of.scalar.dim])
    first = -np.einsum("nij,nfij->nf", of.a, bends) - np.einsum("nj,nfj->nf", of.drift, slopes)
    return Places(y, of.reaction, first, -np.einsum("nfi,nij,ngj->nfg", slopes, of.a, slopes, optimize=True))


def _edge(of: Operator, k: int) -> Places:
    """Rows of n·A∇ψ + hψ, or ψ, on a boundary."""
    side = of.sides[k]
    y, slopes, _ = _inputs(of, side.x[:, : of.scalar.dim])
    if (h := of.h[k]) is None:
        return Places(y, np.ones(len(y)), np.zeros(y.shape), None)
    along = side.conormal if of.fixed else of.least * side.normals
    return Places(y, np.full(len(y), h), np.einsum("nj,nfj->nf", along, slopes), None)
