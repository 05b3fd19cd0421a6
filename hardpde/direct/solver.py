"""A direct solve: the scales of features are searched on a small system, then their number grows until it is enough."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.direct.evaluations import draw_points
from hardpde.direct.features import draw
from hardpde.direct.newton import Equations, Fitted, fitted, last_layer, rms
from hardpde.direct.steepness import FIRST, groups, searched
from hardpde.direct.system import linearisation, matrix
from hardpde.formulation.formulation import Formulation
from hardpde.networks.mlp import MLP
from hardpde.support.compiling import compiled_quickly

SMALL = 120  # features of the systems on which scales are searched
RATIO = 4  # rows for each unknown
STALL = 0.5  # twice as many features lower the residual by less: more of them do not help


class Grown(NamedTuple):
    """A solve with so many unknowns and rows, and the seconds since the first one began."""

    fitted: Fitted
    unknowns: int
    points: int
    rows: int
    seconds: float


class Direct(NamedTuple):
    """What a direct solve found: whether the equations are linear, the scale of each input, and every size it tried."""

    linear: bool
    scales: np.ndarray
    tried: list[Grown]

    @property
    def best(self) -> Grown:
        return min(self.tried, key=lambda one: one.fitted.held_out)

    def model(self) -> MLP:
        """The best one as a network with one hidden layer."""
        features, weights = self.best.fitted.features, self.best.fitted.weights
        return MLP([jnp.asarray(features.weights), jnp.asarray(weights)],
                   [jnp.asarray(features.biases), jnp.zeros(weights.shape[1])])


def directly(formulation: Formulation, tolerance: float, most: int, seconds: float = np.inf, seed: int = 0,
             report: Callable[[Grown], None] = lambda grown: None) -> Direct:
    """Systems of growing size, until the residual on held-out points is below the tolerance or falls no more.

    most: unknowns; seconds: no larger system is begun that would take longer.
    """
    with compiled_quickly():
        return _directly(formulation, tolerance, most, seconds, seed, report)


def _directly(formulation: Formulation, tolerance: float, most: int, seconds: float, seed: int,
              report: Callable[[Grown], None]) -> Direct:
    began = time.perf_counter()
    problem = formulation.problem
    linearise, keys = linearisation(problem), jax.random.split(jax.random.key(seed), 2)

    def equations(key: int, points: int) -> Equations:
        return Equations(problem, draw_points(formulation, keys[key], points), linearise)

    train, held = equations(0, 1), equations(1, 1)
    linear, outputs, number = train.linear(), train.points.outputs, len(train.points.scale)
    y = train.points.terms[0].inputs
    small = min(SMALL, max(8, most // outputs))
    scales = _scales(train, held, linear, small, seed)
    tried: list[Grown] = []
    features = small
    while not tried or not _enough(tried, tolerance, most, seconds):
        features *= 2 if tried or 2 * small * outputs <= most else 1
        points = RATIO * features * outputs // number
        train, held = equations(0, points), equations(1, max(formulation.points, points // 4))
        found = fitted(train, held, draw(np.random.default_rng(seed), y[:, 0], features, scales), linear)
        tried.append(Grown(found, features * outputs, len(train.points.x), train.points.scale.size,
                           time.perf_counter() - began))
        report(tried[-1])
    return Direct(linear, scales, tried)


def _scales(train: Equations, held: Equations, linear: bool, small: int, seed: int) -> np.ndarray:
    """The scale of each input by the held-out residual of small systems, linearised about the state of the first."""
    y = train.points.terms[0].inputs
    group, coordinate = groups(y, train.problem.schema.dim)
    jets = train.points.offset, held.points.offset
    if not linear:
        first = fitted(train, held, draw(np.random.default_rng(seed), y[:, 0], small, np.full(len(y), FIRST)), linear)
        jets = train.jet(first.features, first.weights), held.jet(first.features, first.weights)
    rows, others = train.about(jets[0]), held.about(jets[1])

    def score(scales: np.ndarray) -> float:
        features = draw(np.random.default_rng(seed), y[:, 0], small, scales)
        weights = last_layer(rows, features)
        return rms(matrix(others, features) @ weights.T.ravel() + others.known.ravel())

    return searched(score, group, coordinate)


def _enough(tried: list[Grown], tolerance: float, most: int, seconds: float) -> bool:
    """Whether the tolerance is met, or a larger system is not to be had, or would not help."""
    last = tried[-1]
    if last.fitted.held_out <= tolerance or 2 * last.unknowns > most:
        return True
    took = last.seconds - (tried[-2].seconds if len(tried) > 1 else 0.0)
    if last.seconds + 7 * took > seconds:
        return True
    return len(tried) > 2 and last.fitted.held_out > STALL**2 * tried[-3].fitted.held_out
