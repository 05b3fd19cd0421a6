"""The equations of a formulation at points, and the last layer that solves them: one least-squares problem where they
are linear, damped Gauss–Newton steps where they are not."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from hardpde.direct.evaluations import Points
from hardpde.direct.features import Features
from hardpde.direct.least_squares import least_squares
from hardpde.direct.system import Rows, contracted, matrix, state
from hardpde.problem.problem import Problem

STEPS = 15  # at most
# Weights so large that rounding leaves 1e-12 of conditions; where they are on normal derivatives, that comes sooner.
LARGEST, LARGEST_FOR_SLOPES = 2e3, 1e2
SHARES = (1.0, 0.5, 0.2, 0.05)  # of a step, until the residuals fall


class Equations(NamedTuple):
    """The equations of a problem at points, for states that features add to the offset there."""

    problem: Problem
    points: Points
    linearise: Callable[[Any, Any], tuple[Array, Array]]

    @property
    def second(self) -> int:
        return self.problem.schema.dim if self.problem.order == 2 else 0

    def jet(self, features: Features, weights: np.ndarray) -> np.ndarray:
        """The jet (m, slots, n) of the state with these weights (h, o) of the last layer."""
        return self.points.offset + state(self.points, features, weights, self.second)

    def residuals(self, jet: np.ndarray) -> np.ndarray:
        """The scaled residuals (e, n) of a state."""
        return np.asarray(self.linearise(self.points.x, jet)[0]) * self.points.scale

    def about(self, jet: np.ndarray) -> Rows:
        """The equations linearised about a jet of the state, as rows for all that features add to the offset."""
        value, slope = (np.asarray(part) for part in self.linearise(self.points.x, jet))
        value = value - np.einsum("emsn,msn->en", slope, jet - self.points.offset)
        return contracted(self.problem, self.points, value, slope)

    def linear(self) -> bool:
        """Whether the derivatives of the residuals are the same at two states."""
        few, jet = self.points.x[:64], self.points.offset[..., :64]
        other = jet + np.random.default_rng(0).standard_normal(jet.shape)
        one, two = (np.asarray(self.linearise(few, at)[1]) for at in (jet, other))
        return bool(np.abs(one - two).max() <= 1e-9 * max(1.0, np.abs(one).max()))


class Fitted(NamedTuple):
    """Features with the weights (h, o) of the last layer; the rms of the residuals, on the points they were fitted to
    and on others, over that of the state without features."""

    features: Features
    weights: np.ndarray
    residual: float
    held_out: float
    unit: float  # the rms of the residuals of the state without features
    steps: int


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _unit(equations: Equations) -> float:
    """The rms of the residuals of the state without features, 1 if that solves the equations."""
    return rms(equations.residuals(equations.points.offset)) or 1.0


def last_layer(rows: Rows, features: Features) -> np.ndarray:
    """The weights (h, o) with the least residuals of linearised equations."""
    sloping = any(term.dual is not None for term in rows.terms)
    found = least_squares(matrix(rows, features), -rows.known.ravel(), LARGEST_FOR_SLOPES if sloping else LARGEST)
    return found.reshape(rows.outputs, -1).T


def fitted(train: Equations, held: Equations, features: Features, linear: bool) -> Fitted:
    """The last layer on these features."""
    jet, weights = train.points.offset, np.zeros((features.number, train.points.outputs))
    unit = _unit(train)
    now, steps = unit, 0
    for steps in range(1, 2 if linear else STEPS + 1):
        change = last_layer(train.about(jet), features) - weights
        step = state(train.points, features, change, train.second)
        before, share = now, 1.0
        for share in SHARES:
            now = rms(train.residuals(jet + share * step))
            if linear or now < before:
                break
        if not now < before:
            now, steps = before, steps - 1
            break
        jet, weights = jet + share * step, weights + share * change
        if now > 0.7 * before and share == 1.0:
            break
    left = rms(held.residuals(held.jet(features, weights)))
    return Fitted(features, weights, now / unit, left / _unit(held), unit, steps)
