"""All stages of an implicit Runge–Kutta step together: where its matrix is diagonal, each eigenvalue has a system.

With W = P + h A K and A = T Λ T⁻¹ the combinations T⁻¹ W are apart: W' is (W − P)/θ with θ = hλ, which may be complex.
Of a complex pair one is solved, as a real system of twice the size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardpde.direct.least_squares import Refactored
from hardpde.direct.runge_kutta import Tableau
from hardpde.direct.stages import System

ITERATIONS, FEW = 20, 6  # of Newton's method: at most, and with factorisations that are still good
SLOW = 0.6  # what changes fall by in an iteration: more than that is slow
OFTEN = 12  # steps of a length after which its solutions are worked out for every last layer at once
KEPT = 2  # lengths of steps


class Turned(NamedTuple):
    """The equations of a combination, as θ says: (spatial + turn · mass) x, rows of spatial with W' = W/|θ| − mass."""

    theta: complex
    spatial: np.ndarray
    mass: np.ndarray
    moving: np.ndarray
    made: Refactored
    ridge: Callable[[], float]

    @property
    def turn(self) -> complex:
        return abs(self.theta) / self.theta if self.theta.imag else 1.0

    def times(self, x: np.ndarray) -> np.ndarray:
        found = self.spatial @ x
        found[self.moving] += self.turn * (self.mass @ x)
        return found

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The x (n,) or (n, k) with the least residual."""
        if not self.theta.imag:
            return np.asarray(self.made.at(self.ridge()).solve(right.real))
        found = np.asarray(self.made.at(self.ridge()).solve(np.concatenate([right.real, right.imag])))
        n = len(found) // 2
        return found[:n] + 1j * found[n:]


@dataclass(eq=False)
class Length:
    """What steps of one length share; whole: what turns P into each combination, with what is known, at a ridge."""

    parts: list[Turned]
    steps: int = 0
    misfit: float = 0.0
    whole: list[tuple[np.ndarray, np.ndarray]] | None = None
    ridge: float = 0.0


class Stages(NamedTuple):
    """The last layers and slopes of all stages (s, n); what is left of the equations, (rms); Newton's iterations."""

    last: np.ndarray
    slopes: np.ndarray
    misfit: float
    iterations: int


@dataclass(frozen=True, eq=False)
class Together:
    """A system with a method whose stages are found together."""

    system: System
    method: Tableau
    known: dict[float, Length] = field(default_factory=dict)

    @cached_property
    def _modes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """λ and T, T⁻¹ for one of each complex pair, and how often it counts."""
        values, vectors = np.linalg.eig(self.method.a)
        which = np.flatnonzero(values.imag >= -1e-12)
        values = np.where(np.abs(values.imag) < 1e-12, values.real, values)
        return values[which], vectors[:, which], np.linalg.inv(vectors)[which], 1.0 + (values[which].imag > 0)

    @cached_property
    def steep(self) -> float:
        """The λ that is real."""
        values = self._modes[0]
        return float(values[values.imag == 0].real[0])

    def _apart(self, stages: np.ndarray) -> np.ndarray:
        return np.tensordot(self._modes[2], stages, 1)

    def _back(self, parts: list[np.ndarray]) -> np.ndarray:
        _, vectors, _, often = self._modes
        return np.tensordot(vectors * often, np.stack(parts), 1).real

    def stages(self, past: np.ndarray, slope: np.ndarray, t: float, h: float, close: float) -> Stages | None:
        """The stages of a step from a last layer and its slope; None where there are none."""
        times = t + h * self.method.c
        if self.system.space.steady_operator:
            return self._linear(past, times, h)
        return self._newton(past, slope, times, h, close)

    def _with_slopes(self, last: np.ndarray, past: np.ndarray, h: float, misfit: float, iterations: int) -> Stages:
        return Stages(last, np.linalg.solve(self.method.a, (last - past) / h), misfit, iterations)

    def _linear(self, past: np.ndarray, times: np.ndarray, h: float) -> Stages:
        length = self.known.get(h) or self._made(h, times[-1], None)
        length.steps += 1
        ones = self._modes[2].sum(1)
        if length.ridge != self.system.ridge:
            length.whole, length.ridge = None, self.system.ridge
        if length.whole is None and length.steps > OFTEN and self.system.space.steady_sources:
            length.whole = [self._for_all(part) for part in length.parts]
        if length.whole is not None:
            found = [one * (of_past @ past + known) for one, (of_past, known) in zip(ones, length.whole)]
            return self._with_slopes(self._back(found), past, h, length.misfit, 0)
        known = self._apart(np.stack([self.system.without_features(t) for t in times]))
        found, left = [], 0.0
        for part, one, own in zip(length.parts, ones, known):
            right = -self._scaled(part, own)
            right[part.moving] += part.turn * one * (part.mass @ past)
            found.append(part.solve(right))
            left = max(left, float((np.abs(right - part.times(found[-1])) ** 2).sum()))
        length.misfit = float(np.sqrt(left / self.system.places_number))
        return self._with_slopes(self._back(found), past, h, length.misfit, 0)

    def _for_all(self, part: Turned) -> tuple[np.ndarray, np.ndarray]:
        """What turns P into a combination (over the sum of its row of T⁻¹), and what is added."""
        right = np.zeros((len(part.spatial), part.mass.shape[1]), complex if part.theta.imag else float)
        right[part.moving] = part.turn * part.mass
        known = self.system.without_features(self.system.space.span[0])
        return part.solve(right), part.solve(-self._scaled(part, known.astype(complex)))

    def _scaled(self, part: Turned, values: np.ndarray) -> np.ndarray:
        """Values (e, n) of the equations row by row, as in a system."""
        return self.system.chosen(values * self.system.factors(abs(part.theta))[:, None])

    def _newton(self, past: np.ndarray, slope: np.ndarray, times: np.ndarray, h: float, close: float) -> Stages | None:
        w = past + h * self.method.c[:, None] * slope
        fresh, before, since = False, np.inf, 0
        for k in range(1, ITERATIONS + 1):
            slopes = np.linalg.solve(self.method.a, (w - past) / h)
            jets = [self.system.jets_again(t, own, steep) for t, own, steep in zip(times, w, slopes)]
            if not np.isfinite(jets).all():
                return None
            if h not in self.known or (since >= FEW and not fresh):
                middle = len(times) // 2
                self._made(h, times[middle], jets[middle])
                fresh, before, since = True, np.inf, 0
            parts = self.known[h].parts
            values = np.stack([self.system.values(t, jet) for t, jet in zip(times, jets)])
            if not np.isfinite(values).all():
                return None
            apart, now = self._apart(values), self._apart(w)
            found, size, change = [], 0.0, 0.0
            for part, value, own in zip(parts, apart, now):
                residual, whole = self._scaled(part, value), part.times(own)
                found.append(part.solve(whole - residual))
                change += float((np.abs(part.times(found[-1]) - whole) ** 2).sum())
                size = max(size, float((np.abs(residual) ** 2).sum()))
            change, w, since = float(np.sqrt(change / self.system.places_number)), self._back(found), since + 1
            self.system.made["iterations"] += 1
            if change <= close:
                return self._with_slopes(w, past, h, float(np.sqrt(size / self.system.places_number)), k)
            if change > SLOW * before:
                if fresh and change > 2 * before:
                    return None
                since = ITERATIONS
            before = change
        return None

    def _made(self, h: float, t: float, jet: np.ndarray | None) -> Length:
        """Factor the systems of a length of steps, linearised about a state at a time; None: the offset."""
        self.known.pop(h, None)
        while len(self.known) >= KEPT:
            self.known.pop(next(iter(self.known)))
        parts = []
        for value in self._modes[0]:
            theta = h * complex(value)
            spatial, mass = self.system.parts_of_stage(abs(theta), t, jet)
            moving = self.system.moving_rows
            spatial[moving] -= mass
            turn = abs(theta) / theta
            both = spatial.copy(order="F")
            both[moving] += turn.real * mass
            if theta.imag:
                other = np.zeros_like(spatial)
                other[moving] = turn.imag * mass
                both = np.asfortranarray(np.block([[both, -other], [other, both]]))
            parts.append(Turned(theta, spatial, mass, moving, Refactored(both), lambda: self.system.ridge))
        self.system.made["factorisations"] += len(parts)
        self.known[h] = Length(parts)
        return self.known[h]

    def go_on_with(self, h: float, steps: int, misfit: float) -> None:
        """Factor for a length of steps, of which there have been some, where the operator is steady."""
        length = self._made(h, self.system.space.span[0], None)
        length.steps, length.misfit, length.ridge = steps, misfit, self.system.ridge

    def damped(self, w: np.ndarray, h: float) -> np.ndarray:
        """What an implicit Euler step, without sources, makes of a last layer: fast modes are damped."""
        part = next(part for part in self.known[h].parts if not part.theta.imag)
        right = np.zeros(len(part.spatial))
        right[part.moving] = part.mass @ w
        return part.solve(right)
