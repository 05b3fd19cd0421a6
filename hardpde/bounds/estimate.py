"""An estimate of the error where no theory bounds it: what the linearised equations say the residual does.

The error solves F′(v) e = −r with homogeneous conditions. A part of e is found by least squares with features on the
exact ansatz, whose terms satisfy them; it shows how large an error belongs to a residual of its size.
"""

from typing import Any, NamedTuple

import numpy as np

from hardpde.bounds.quadrature import Sample
from hardpde.direct.evaluations import Points, as_numpy
from hardpde.direct.groups import linearisation
from hardpde.direct.least_squares import least_squares
from hardpde.direct.recipe import FIRST, Recipe, draw, kinds
from hardpde.direct.system import contracted, matrix, state
from hardpde.formulation.batch import Batch
from hardpde.formulation.formulation import Formulation
from hardpde.methods import Engine, exact
from hardpde.networks.features import RandomFeatures, Source, Units, each_its_own
from hardpde.networks.marched import Marched

UNKNOWNS = 600
ROWS = 8  # for each unknown, every fourth of them to look at alone
LEAST_ROWS = 4  # the same, where points are few
SCALES = (1.0, 2.0)  # of features, against the usual one
FEW = 256  # points of a draw, which none is made of
FEWEST = 40  # features of each output
SAFETY = 1.5
SEED = 97
LARGEST = 1e6  # weights of features


class Correction(NamedTuple):
    """Features with a last layer (h, c), which add to the answer and leave its conditions as they are.

    sources: what the outputs are made of; caught: how much larger the residual is, at points that were not used, than
    what they make of it, and their correlation.
    """

    formulation: Formulation
    sources: tuple[Source, ...]
    units: Units
    last: np.ndarray
    larger: float
    correlation: float

    def jets(self, x: np.ndarray) -> np.ndarray:
        """What they add to the jets, (n, m, slots)."""
        found = [state(_points(self.formulation, self.sources, batch), self.units, self.last,
                       _second(self.formulation))[..., :n] for batch, n in self.formulation.batches(x)]
        return np.moveaxis(np.concatenate(found, axis=-1), -1, 0)


class Estimate(NamedTuple):
    """errors (n, m, slots): about the error at points x (n, c), with its derivatives; weights (n,): what the points
    count for in integrals over time."""

    errors: np.ndarray
    weights: np.ndarray
    x: np.ndarray

    def at(self, where: slice, axes: slice | None, alive: np.ndarray) -> np.ndarray:
        """The sizes of some components of the error, or of their derivatives by these axes, where they live, (n,)."""
        part = self.errors[:, where, 0 if axes is None else axes].reshape(len(self.x), -1)
        return np.sqrt((part**2).sum(1)) * alive

    def norm(self, sizes: np.ndarray) -> float:
        """The root of the mean over the domain, and integral over time, of the square of sizes (n,)."""
        return float(np.sqrt((sizes**2 * self.weights).mean()))


def estimate_error(formulation: Formulation, model: Any, sample: Sample, jets: np.ndarray) -> Estimate:
    """jets (n, m, slots): the answer at the points of the sample.

    Of a residual r the features catch F′e at points that were not used to find e; a whole error is taken to be as much
    larger as r is larger than that.
    """
    found = correction(formulation, model, sample, jets)
    return Estimate(enlarged(found) * found.jets(sample.x), sample.weights, sample.x)


def enlarged(found: Correction) -> float:
    """By how much a correction is multiplied to be an estimate of the error."""
    return SAFETY * max(found.larger, 1.0)


def correction(formulation: Formulation, model: Any, sample: Sample, jets: np.ndarray) -> Correction:
    """What features say of the error of an answer, found at the points of a sample, where it has these jets."""
    problem = formulation.problem
    if isinstance(model, Marched):  # its inputs know no time; any other ansatz has the same conditions
        formulation = exact(problem, engine=Engine(FEW))
    shared = isinstance(model, RandomFeatures) and model.sources
    batch, n = next(formulation.batches(sample.x))
    sources = model.sources if shared else _apart(batch)
    points = _points(formulation, sources, batch).chosen(np.arange(n))
    jet = np.moveaxis(jets[:n], 0, -1)
    value, slope = (np.asarray(part) for part in linearisation(problem)(points.x, jet, None))
    good = np.flatnonzero(points.finite & np.isfinite(value).all(0) & np.isfinite(slope).all((0, 1, 2)))
    count = max(min(UNKNOWNS, len(good) * len(value) // LEAST_ROWS) // points.columns, FEWEST)
    many = min(len(good), max(ROWS * count * points.columns // len(value), 2 * FEWEST))
    which = np.sort(np.random.default_rng(SEED).choice(good, many, replace=False))
    part, value, slope, jet = points.chosen(which), value[:, which], slope[..., which], jet[..., which]
    sizes = np.sqrt(((np.abs(slope * jet).sum((1, 2)) + np.abs(value)) ** 2).mean(1))
    factors = np.sqrt(sample.weights[which]) / np.where(sizes > 0, sizes, 1.0)[:, None]
    value, slope = value * factors, slope * factors[:, None, None]
    tried = [_fitted(formulation, part, value, slope, _units(part, problem.schema.dim, count, scale))
             for scale in SCALES]
    return max(tried, key=lambda one: one.correlation)


def _second(formulation: Formulation) -> int:
    return formulation.problem.schema.dim if formulation.problem.order == 2 else 0


def _apart(batch: Batch) -> tuple[Source, ...]:
    term = batch.terms[0]
    return each_its_own(term.matrix.shape[1] // (1 if term.dual is None else 2))


def _points(formulation: Formulation, sources: tuple[Source, ...], batch: Batch) -> Points:
    """Points with what the ansatz needs there; outputs that are slopes of others need those of the inputs."""
    shared = any(source.axis for source in sources)
    return as_numpy(batch, sources, formulation.problem.schema.dim if shared else 0)


def _units(points: Points, dim: int, count: int, scale: float) -> Units:
    y = points.terms[0].inputs
    group, coordinate = kinds(y, dim, 0)
    scales = np.where(np.append(coordinate, False)[group], FIRST * scale, 0.0)
    return draw(SEED, y[:, 0], count, Recipe(scales, "tanh"))


def _fitted(formulation: Formulation, points: Points, value: np.ndarray, slope: np.ndarray,
            units: Units) -> Correction:
    rows = contracted(points, value, slope, np.ones(points.columns), _second(formulation))
    a, right = matrix([rows], units), rows.right
    apart = np.broadcast_to(np.arange(value.shape[1]) % 4 == 0, value.shape)
    apart = apart.ravel() if rows.kept is None else apart[rows.kept]
    last = least_squares(np.asfortranarray(a[~apart]), -right[~apart], LARGEST)
    made = a[apart] @ last
    size, caught = float(np.linalg.norm(right[apart])), float(np.linalg.norm(made))
    larger, correlation = (size / caught, float(-made @ right[apart]) / (size * caught)) if caught else (1.0, 0.0)
    return Correction(formulation, points.sources, units, last.reshape(rows.columns, -1).T, larger, correlation)
