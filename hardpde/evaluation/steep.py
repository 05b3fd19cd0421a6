"""What changes within less than the distance of points: residuals are looked at there, where no point came by."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.formulation import Formulation
from hardpde.problem.jumps import NEIGHBOURS, Bracket, brackets
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

FINEST = 1e-5  # of the domain: about singular points residuals grow without end towards them
STEP = 0.5  # of a change that is left, or more than is left, in what is finer: it is then a step and no singular point


def hidden_residual(formulation: Formulation, model: Any, x: np.ndarray, jets: np.ndarray, scale: np.ndarray,
                    changes: list[Bracket]) -> tuple[float, np.ndarray]:
    """The integral of the residual over what is steep, in units `scale` (e,) of the equations' terms and of the size of
    the domain, and the place where it is largest.

    x (n, c), jets (n, m, slots): points and what is known there. changes: of the answer; those of the equations'
    coefficients, sources and data are found here. Where a function changes between near points by more than its slopes
    there say, points have seen nothing of what it does: in brackets that are halved towards the change the residual
    times the width is what they have missed.
    """
    problem = formulation.problem
    found = [changes, _of_equations(problem, x, jets, scale)]
    parts = [one for series in found for one in series[1:]]
    if not parts:
        return 0.0, x[0]
    extent = np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), np.inf)
    middle = np.concatenate([(one.a + one.b) / 2 for one in parts])
    width = np.concatenate([np.linalg.norm((one.b - one.a) / extent, axis=1) for one in parts])
    pair = np.concatenate([k * 10**6 + np.arange(len(one.a)) for k, series in enumerate(found)
                           for one in series[1:]])
    left = np.concatenate([_most_changed(one, series[0]) / _most_changed(series[0], series[0]) for series in found
                           for one in series[1:]])
    looked = (width > FINEST) | ((left > STEP) & (left < 1 / STEP))
    middle, width, pair = middle[looked], width[looked], pair[looked]
    missed = _sizes(formulation, model, middle, len(x), scale) * width
    _, numbers = np.unique(pair, return_inverse=True)
    worst = np.zeros(numbers.max(initial=-1) + 1)
    np.maximum.at(worst, numbers, missed)
    # A pair stands for so much of a surface across which something changes.
    share = len(x) ** (1 / problem.schema.point - 1) / (1 if problem.schema.point == 1 else NEIGHBOURS / 2)
    whole = worst.max(initial=0.0) if problem.schema.point == 1 else worst.sum() * share
    return float(whole), middle[int(missed.argmax())]


def _most_changed(now: Bracket, first: Bracket) -> np.ndarray:
    """The change (n,) now in the component that changed most in the first brackets."""
    return np.take_along_axis(now.change, first.change.argmax(axis=1)[:, None], axis=1)[:, 0]


def _sizes(formulation: Formulation, model: Any, x: np.ndarray, many: int, scale: np.ndarray) -> np.ndarray:
    """The largest residual of an equation in its unit at points (n, c), (n,); so many points are compiled for."""
    problem = formulation.problem
    residuals = jit_simply(jax.vmap(problem.residuals))
    sizes = []
    for part in np.split(x, range(many, len(x), many)):
        padded = np.pad(part, [(0, many - len(part)), (0, 0)], mode="edge")
        jets = formulation.jet(model, padded)
        values = np.asarray(residuals(padded, jets[:, :, 0], np.moveaxis(jets[:, :, 1:], 1, 2)))
        with np.errstate(over="ignore"):
            sizes.append((np.abs(values) / scale).max(axis=1)[: len(part)])
    return np.concatenate(sizes)


def _of_equations(problem: Problem, x: np.ndarray, jets: np.ndarray, scale: np.ndarray) -> list[Bracket]:
    """Brackets of changes of the equations at a state that is the same everywhere: of coefficients and sources."""
    signs = np.random.default_rng(29).choice([-1.0, 1.0], jets.shape[1:])
    jet = jnp.asarray(signs * np.sqrt((jets**2).mean(axis=0)))
    many = len(x)

    def equations(x: Array) -> Array:
        return problem.residuals(x, jet[:, 0], jet[:, 1:].T) / scale

    every = jit_simply(jax.vmap(equations))

    def values(x: np.ndarray) -> np.ndarray:
        return np.asarray(every(np.pad(x, [(0, many - len(x)), (0, 0)], mode="edge")))[: len(x)]

    if not np.ptp(values(x), axis=0).max(initial=0.0) > 0:
        return []
    slopes = np.asarray(jit_simply(jax.vmap(jax.jacfwd(equations)))(x))
    return brackets(values, x, units=np.ones(len(scale)), slopes=slopes)
