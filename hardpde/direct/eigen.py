"""Eigenpairs L q = λ B q by features that stay: the modes of what solves L q = B w, as far as features resolve them.

Conditions hold for every combination of features, so nothing but the equations enters. For a self-adjoint L and
residual r = L v − λ B v of a mode v, an eigenvalue lies within ‖r‖/‖B v‖ of λ (Weinstein).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from hardpde.direct.evaluations import Points
from hardpde.direct.groups import Linearise
from hardpde.direct.least_squares import Factored, for_ridges
from hardpde.direct.newton import LARGEST, rms
from hardpde.direct.recipe import FIRST, Recipe, draw, kinds, searched
from hardpde.direct.system import contracted, matrix
from hardpde.networks.features import Units, number
from hardpde.problem.problem import Problem

MORE = 6  # pairs beyond those that are asked for
SHIFT = 0.03  # of what the operator does to features: how far from the value that is looked for it is inverted
RATIO = 6  # rows for each unknown
SMALL = 300  # unknowns of the systems on which scales are searched
HOMOGENEOUS = 1e-9  # of what the operator does to features: larger data are no rounding
REAL = 1e-6
DOUBLE = 1e-5  # eigenvalues that are as near are one, with several modes
RIDGES = (1e-14, 1e-12, 1e-10, 1e-8)  # the first that leaves no larger weights than LARGEST
LAST = 1e-3  # twice as many features lower the residuals by less than this root of it, twice: they do not help
Weigh = Callable[[Any, Any], Any]  # x, the state as fields → what λ multiplies, an entry for each equation


class Modes(NamedTuple):
    """Eigenvalues (k,) and how far from each of them an eigenvalue may be (k,); layers (k, h, c) of the modes."""

    values: np.ndarray
    errors: np.ndarray
    units: Units
    layers: np.ndarray

    @property
    def relative(self) -> float:
        """The largest error, relative to its eigenvalue or, where that is zero, to the largest one."""
        size = np.maximum(np.abs(self.values), 1e-3 * np.abs(self.values).max())
        return float((self.errors / size).max())


class Pencil(NamedTuple):
    """The equations at points to fit, whose scale (1, n) they are multiplied by, and at points spread evenly, to look
    at; what λ multiplies in them."""

    fit: Points
    look: Points
    operator: Linearise
    weight: Linearise
    second: int

    def matrices(self, points: Points, units: Units, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and B of all features, their equations times factors (e, n)."""
        slope = np.asarray(self.operator(points.x, points.offset, None)[1]) * factors[:, None, None]
        mass = np.asarray(self.weight(points.x, points.offset, None)[1]) * factors[:, None, None]
        nothing = np.zeros((len(factors), len(points.x)))
        ones = np.ones(points.columns)
        rows = contracted(points, nothing, slope, ones, self.second)
        return matrix([rows], units), matrix([contracted(points, nothing, mass, ones, self.second)._replace(
            kept=rows.kept)], units)


def weight_of(problem: Problem, weigh: Weigh | None) -> Linearise:
    """What λ multiplies, as equations: stated, or the fields that are no gradients, one for each equation."""
    schema = problem.schema
    gradients, stated = dict(schema.gradients), problem.stated.schema.names
    own = {name: np.arange(schema.size)[where] for name, where in schema.slices.items() if name not in gradients}
    fields = np.concatenate([where for name, where in own.items() if name in stated])
    more = sum(where.stop - where.start for name, where in schema.slices.items() if name in gradients) + sum(
        len(where) for name, where in own.items() if name not in stated)  # equations of fields that were added

    def values(x: Array, q: Array) -> Array:
        weighed = q[fields] if weigh is None else jnp.concatenate(
            [jnp.ravel(jnp.asarray(part, float)) for part in jax.tree.leaves(weigh(x, schema.state(q)))])
        return jnp.concatenate([weighed, jnp.zeros(more)])

    def one(x: Array, jet: Array, data: Any) -> tuple[Array, Array]:
        slope = jax.jacfwd(values, 1)(x, jet[:, 0])
        return values(x, jet[:, 0]), jnp.zeros((len(slope), *jet.shape)).at[:, :, 0].set(slope)

    return jax.jit(jax.vmap(one, (0, -1, None), -1))


def check_homogeneous(pencil: Pencil) -> None:
    """Refuse data: an eigenvalue problem has none."""
    points = pencil.look
    value, slope = map(np.asarray, pencil.operator(points.x, points.offset, None))
    weighed = np.asarray(pencil.weight(points.x, points.offset, None)[0])
    if len(weighed) != len(value):
        raise ValueError(f"λ multiplies {len(weighed)} numbers in {len(value)} equations, those of gradient fields "
                         f"counted; weight says for each stated equation what λ multiplies in it, 0 for nothing")
    size = np.abs(slope).max()
    if not max(np.abs(value).max(), np.abs(points.offset).max()) <= HOMOGENEOUS * max(size, 1.0):
        raise ValueError("an eigenvalue problem has no data: the values of all conditions and the sources of all "
                         "equations must be 0")


def modes(pencil: Pencil, count: int, near: float, seed: int, tolerance: float, most: int,
          report: Callable[[Modes], None], exponents: tuple[float, ...] = ()) -> Modes:
    """The eigenpairs nearest to a number, with more and more features until their errors are small enough."""
    recipe = _recipe(pencil, count, near, seed, exponents)
    found: list[Modes] = []
    many = max(SMALL // pencil.fit.columns, 2 * (count + MORE))
    while True:
        found.append(_solved(pencil, _drawn(pencil, recipe, many, seed), count, near))
        report(found[-1])
        many *= 2
        stalls = len(found) > 2 and found[-1].relative > LAST**0.5 * found[-3].relative
        if found[-1].relative <= tolerance or many * pencil.fit.columns > most or stalls:
            return min(found, key=lambda one: one.relative)


def _drawn(pencil: Pencil, recipe: Recipe, many: int, seed: int) -> Units:
    return draw(seed, pencil.fit.terms[0].inputs[:, 0], many, recipe)


def _recipe(pencil: Pencil, count: int, near: float, seed: int, exponents: tuple[float, ...]) -> Recipe:
    """The scales of features with the least errors of the modes, on a small system."""
    inputs = pencil.fit.terms[0].inputs
    group, coordinate = kinds(inputs, pencil.fit.x.shape[1], len(exponents))
    many = max(SMALL // pencil.fit.columns, 2 * (count + MORE))
    shared = any(source.axis for source in pencil.fit.sources)

    def score(recipe: Recipe) -> float:
        found = _solved(pencil, _drawn(pencil, recipe, many, seed), count, near)
        return float(np.exp(np.log(np.maximum(found.errors, 1e-300)).mean()))

    scales = np.where(np.append(coordinate, False)[group], FIRST, 0.0)
    return searched(score, Recipe(scales, "tanh", 0.0, exponents, shared), group, coordinate)


def _solved(pencil: Pencil, units: Units, count: int, near: float) -> Modes:
    unknowns = pencil.fit.columns * number(units)
    fit, look = (_some(points, RATIO * unknowns) for points in (pencil.fit, pencil.look))
    ones = np.ones(len(np.asarray(pencil.operator(fit.x[:1], fit.offset[..., :1], None)[0])))
    factors = fit.scale[:1] / _sizes(pencil, _some(fit, 256), units, ones)[:, None]
    a, b = pencil.matrices(fit, units, factors)
    weighed = rms(b, 0) > 0
    shift = near - SHIFT * np.median(rms(a, 0)[weighed] / rms(b, 0)[weighed])
    of_ridge = for_ridges(np.asfortranarray(a - shift * b))
    wanted = min(count + MORE, unknowns - 2)
    a, c = pencil.matrices(look, units, np.ones((len(ones), len(look.x))))
    for ridge in RIDGES:
        values, layers = _inverted(of_ridge(ridge), b, wanted)
        values, layers = _real(shift + 1 / values, layers, near, count)
        layers = _apart(values, layers, c)
        if np.abs(layers).max() <= LARGEST:
            break
    weighed = np.linalg.norm(c @ layers, axis=0)
    errors = np.linalg.norm(a @ layers - (c @ layers) * values, axis=0) / np.sqrt(len(look.x))
    return Modes(values, np.where(np.isfinite(errors) & (weighed > 0), errors, np.inf), units,
                 layers.T.reshape(count, fit.columns, -1).swapaxes(1, 2))


def _inverted(made: Factored, b: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues (k,) of what solves the equations for given B w, and weights (n, k) of the modes."""

    def forwards(z: np.ndarray) -> np.ndarray:
        return b @ np.asarray(made.solve(np.ascontiguousarray(z).reshape(-1)))

    start = np.random.default_rng(0).standard_normal(len(b))
    try:
        values, z = eigs(LinearOperator((len(b), len(b)), matvec=forwards, dtype=float), wanted, v0=start)
    except ArpackError:
        return np.full(wanted, np.nan), np.zeros((b.shape[1], wanted), complex)
    both = np.asarray(made.solve(np.concatenate([z.real, z.imag], axis=1)))
    return values, both[:, :wanted] + 1j * both[:, wanted:]


def _real(values: np.ndarray, layers: np.ndarray, near: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The real pairs nearest to a number, in ascending order; nothing but zeros where there are not so many."""
    real = np.abs(values.imag) <= REAL * np.abs(values - near)
    order = np.argsort(np.where(real, np.abs(values.real - near), np.inf))[:count]
    # Of a pair that is all but double, rounding may make two that are conjugate.
    layers = np.where(values.imag[order] < 0, layers.imag[:, order], layers.real[:, order])
    good, missing = real[order] & np.isfinite(values.real[order]), count - len(order)
    values = np.pad(np.where(good, values.real[order], 0.0), (0, missing))
    layers = np.pad(np.where(good, layers, 0.0), ((0, 0), (0, missing)))
    order = np.argsort(values)
    return values[order], layers[:, order]


def _apart(values: np.ndarray, layers: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Modes of mean square 1 in what λ multiplies, those of one eigenvalue at right angles."""
    made, first = layers.copy(), 0
    for k in range(len(values)):
        if abs(values[k] - values[first]) > DOUBLE * abs(values[k]):
            first = k
        for other in range(first, k):
            shadow = b @ made[:, other]
            made[:, k] -= (shadow @ (b @ made[:, k])) / len(b) * made[:, other]
        size = float(rms(b @ made[:, k]))
        made[:, k] /= size or 1.0
    return made


def _sizes(pencil: Pencil, points: Points, units: Units, ones: np.ndarray) -> np.ndarray:
    """How much features move each equation (e,)."""
    slope = np.asarray(pencil.operator(points.x, points.offset, None)[1])
    rows = contracted(points, np.zeros((len(ones), len(points.x))), slope, np.ones(points.columns), pencil.second)
    kept = np.ones(rows.known.shape, bool) if rows.kept is None else rows.kept
    moved = np.zeros(kept.shape)
    moved[kept] = (matrix([rows], units) ** 2).mean(1)
    sizes = np.sqrt(moved.mean(1))
    return np.where(sizes > 0, sizes, 1.0)


def _some(points: Points, rows: int) -> Points:
    """Some of the points, spread over all."""
    n = len(points.x)
    return points.chosen(np.unique(np.linspace(0, n - 1, min(rows, n)).round().astype(int)))
