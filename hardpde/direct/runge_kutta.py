"""An implicit Runge–Kutta method of which every stage is one system, and how long steps are."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import roots_jacobi

SAFETY = 0.85  # of the step that the error suggests
MOST_GROWTH, MOST_SHRINKING = 4, 6  # rungs of the ladder at a time
WORTH_IT = 12  # steps with one factorisation before the next rung alone is worth another one
FINEST = 40  # the finest step is 2^-40 of the time


@dataclass(frozen=True)
class Tableau:
    """K_i = f(t + c_i h, u + h Σ_j a_ij K_j), u_new = u + h Σ b_i K_i.

    Stages come one after the other where a is lower triangular; else all of them are found together. order: of b;
    other: weights of a method of order `lower`, whose difference is the estimated error. The last stage is the new
    value (stiffly accurate).
    """

    name: str
    a: np.ndarray
    b: np.ndarray
    other: np.ndarray
    order: int
    lower: int

    @cached_property
    def c(self) -> np.ndarray:
        return self.a.sum(1)

    @cached_property
    def together(self) -> bool:
        return bool(np.triu(self.a, 1).any())

    @property
    def stages(self) -> int:
        return len(self.b)

    def stability(self, z: complex) -> complex:
        """What u is multiplied by in a step of u' = (z/h) u."""
        one = np.ones(self.stages)
        return complex(1 + z * self.b @ np.linalg.solve(np.eye(self.stages) - z * self.a, one))


def _lower(rows: list[list[float]]) -> np.ndarray:
    a = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        a[i, : len(row)] = row
    return a


def _sdirk4() -> Tableau:
    """Hairer & Wanner, Solving ODEs II, table 6.5: five stages, stage order 1, L-stable.

    Methods whose first stage is the slope that the step before has found (ESDIRK) have stage order 2, but that slope
    is a difference over the step before: where steps grow, what features do not resolve is multiplied. Those that keep
    energy (midpoint rules composed) keep what features do not resolve too, with its derivatives.
    """
    a = _lower([[1 / 4], [1 / 2, 1 / 4], [17 / 50, -1 / 25, 1 / 4], [371 / 1360, -137 / 2720, 15 / 544, 1 / 4],
                [25 / 24, -49 / 48, 125 / 16, -85 / 12, 1 / 4]])
    other = np.array([59 / 48, -17 / 96, 225 / 32, -85 / 12, 0.0])
    return Tableau("SDIRK4(3)", a, a[-1].copy(), other, 4, 3)


def _radau(stages: int) -> Tableau:
    """Radau IIA: collocation at the zeros of a Jacobi polynomial and at the end; L-stable, of order 2 s − 1.

    What a step resolves it hardly damps: |R(iy)| = 1 − O(y^2s). The other weights leave out the last of the divided
    differences of the slopes, by as much as the collocation polynomial is off between its places.
    """
    c = np.append((1 + roots_jacobi(stages - 1, 1, 0)[0]) / 2, 1.0)
    powers = np.arange(1, stages + 1)
    a = np.linalg.solve(np.vander(c, increasing=True).T, (c[:, None] ** powers / powers).T).T
    nodal = np.polynomial.Polynomial.fromroots(c).integ()
    off = np.abs(nodal(np.linspace(0, 1, 400))).max() / stages
    apart = c[:, None] - c + np.eye(stages)
    return Tableau(f"Radau IIA({stages})", a, a[-1].copy(), a[-1] - off / apart.prod(1), 2 * stages - 1, stages - 1)


DAMPING, KEEPING = _sdirk4(), _radau(5)  # for what is damped, and for waves


@dataclass
class Ladder:
    """Steps 2^-k of the whole time, k the rung, so that few factorisations serve many steps.

    at: the time that has passed, in finest steps; steps fit between multiples of their own length, so that the end is
    met. since: steps since the rung changed.
    """

    rung: int
    at: int = 0
    since: int = 0

    @property
    def length(self) -> int:
        return 1 << (FINEST - self.rung)

    @property
    def step(self) -> float:
        """As a part of the whole time."""
        return math.ldexp(1.0, -self.rung)

    @property
    def passed(self) -> float:
        return math.ldexp(float(self.at), -FINEST)

    @property
    def ended(self) -> bool:
        return self.at >= 1 << FINEST

    def accepted(self, ratio: float, order: int) -> None:
        """Go on; ratio: of the error to what is allowed; order: what it falls with, less one."""
        self.at += self.length
        self.since += 1
        up = min(_rungs(ratio, order), MOST_GROWTH)
        while up > 0 and (self.at % (self.length << up) or self.rung - up < 0):
            up -= 1
        if up > 1 or (up == 1 and self.since >= WORTH_IT and not self._nearly_ended()):
            self.rung, self.since = self.rung - up, 0

    def rejected(self, ratio: float, order: int) -> None:
        """The same step, shorter."""
        self.rung += min(max(1, -_rungs(ratio, order)), MOST_SHRINKING)
        self.since = 0

    def follow(self, rung: int) -> None:
        """Another rung, as near to it as steps of that length begin here."""
        rung = max(rung, 0)
        while self.at % (1 << (FINEST - rung)):
            rung += 1
        if rung != self.rung:
            self.rung, self.since = rung, 0

    def _nearly_ended(self) -> bool:
        return ((1 << FINEST) - self.at) // self.length < WORTH_IT


def _rungs(ratio: float, order: int) -> int:
    """By how many rungs the step may grow (or must shrink, negative)."""
    if not math.isfinite(ratio):
        return -MOST_SHRINKING
    return math.floor(math.log2(SAFETY * max(ratio, 1e-12) ** (-1 / (order + 1))))
