"""Eigenvalues of a problem without data, and the modes that belong to them as solutions."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from hardpde.ansatz.corners import nearness
from hardpde.direct.eigen import Modes, Pencil, Weigh, check_homogeneous, modes, weight_of
from hardpde.direct.evaluations import as_numpy, put_together
from hardpde.direct.groups import Group, linearisation
from hardpde.direct.memory import largest_system
from hardpde.direct.newton import Equations
from hardpde.methods import METHODS, make
from hardpde.networks.features import each_its_own, random_features
from hardpde.problem.problem import Problem
from hardpde.solving.direct import ROWS, ForFeatures, check_solver, direct_settings, features_as_plain, for_features
from hardpde.solving.settings import check_problem, make_settings
from hardpde.solving.solution import Solution
from hardpde.support.checking import check_at_least, is_number
from hardpde.support.compiling import compiled_quickly
from hardpde.training import Training
from hardpde.training.base import Record

MOST = 2400  # unknowns
POINTS_EACH = 6  # points for each unknown
LOOK = 4096  # points to look at


class Eigenpair(NamedTuple):
    """λ; how far from it one may be, if the operator is self-adjoint and λ multiplies all equations; its mode, of mean
    square 1 in what λ multiplies."""

    value: float
    error: float
    mode: Solution


def eigenpairs(problem: Problem, count: int = 10, *, near: float = 0.0,
               weight: Weigh | None = None, tolerance: float = 1e-8, seed: int = 0,
               report: Callable[[dict], None] = lambda record: None) -> list[Eigenpair]:
    """The pairs nearest to a number of L q = λ B q, in ascending order: `problem.residual` is L, without data.

    weight(x, q): what λ multiplies, an entry for each of the equations stated (0 where it is not there); without it,
    the fields themselves, in their order. Features are added until the errors are below the tolerance, relative to the
    eigenvalues. An error is the norm of L v − λ B v over that of B v, at points that were not fitted: for self-adjoint
    problems an eigenvalue lies as near as that.
    """
    check_problem(problem)
    check_at_least(1, count=count)
    check_solver("direct", tolerance, None)
    if not is_number(near):
        raise ValueError(f"near is {near!r}; it must be a number")
    if problem.time is not None or problem.parameters:
        raise ValueError("an eigenvalue problem has neither time nor parameters; state it without them")
    settings = direct_settings(make_settings(problem, "exact", "quick", seed), {}, tolerance, None)
    made, most = for_features(problem, settings), min(MOST, largest_system(ROWS))
    pencil = _pencil(made, problem, weight, seed, most)
    history: list[dict[str, Any]] = []
    began = time.perf_counter()

    def tell(found: Modes) -> None:
        history.append(Record(stage="eigenpairs", step=found.layers[0].size, steps=most, loss=found.relative**2,
                              held_out=found.relative**2, seconds=time.perf_counter() - began))
        report(history[-1])

    with compiled_quickly():
        found = modes(pencil, count, near, seed, tolerance, most, tell,
                      tuple(corner.exponent for corner in made.corners))
    if not np.isfinite(found.errors).all():
        raise ValueError(f"only {int(np.isfinite(found.errors).sum())} real eigenvalues were found near {near:g}; ask "
                         f"for fewer, or near another number")
    why = (f"{found.layers[0].size} unknowns, errors up to {found.relative:.1e} of the eigenvalues, "
           f"{time.perf_counter() - began:.1f} s")
    if found.relative > tolerance:
        why += f"; the tolerance {tolerance:g} was not reached"
    kept = make(METHODS["exact"], problem, made.options)
    shared = pencil.fit.sources if made.sources else ()

    def mode(layer: np.ndarray) -> Solution:
        model = random_features(found.units, layer, None, shared)
        ending = {"stage": "eigenpairs", "steps": layer.size, "why": why}
        said = {**settings, "method": made.options, "features": features_as_plain(model)}
        return Solution(problem, kept, said, Training(model, history, [ending], history[-1]["seconds"]))

    return [Eigenpair(float(value), float(error), mode(layer))
            for value, error, layer in zip(found.values, found.errors, found.layers)]


def _pencil(made: ForFeatures, problem: Problem, weight: Weigh | None, seed: int, most: int) -> Pencil:
    """The equations at points for so many unknowns, refused where they are not linear or have data."""
    formulation, dim = made.formulation, problem.schema.dim
    keys = jax.random.split(jax.random.key(seed), -(-POINTS_EACH * most // formulation.points))
    batches = [formulation.draw(key) for key in keys]
    main = batches[0].terms[0]
    sources = made.sources or each_its_own(main.matrix.shape[1] // (1 if main.dual is None else 2))
    sloped = dim if made.sources else 0
    fit = put_together([as_numpy(batch, sources, sloped) for batch in batches])
    fit = fit._replace(scale=nearness(made.corners, problem.domain.size, fit.x)[None])
    spread = np.asarray(problem.domain.sample(jax.random.key(seed + 1), LOOK))
    look = as_numpy(formulation.at(spread, 2), sources, sloped)
    fit, look = (points.chosen(np.flatnonzero(points.finite)) for points in (fit, look))
    pencil = Pencil(fit, look, linearisation(formulation.problem), weight_of(formulation.problem, weight),
                    dim if formulation.problem.order == 2 else 0)
    check_homogeneous(pencil)
    if formulation.penalties or not Equations((Group(pencil.look, pencil.operator),), pencil.second).linear():
        raise ValueError("the equations are not linear, or conditions hold only approximately; eigenpairs are those of "
                         "linear equations with exact conditions")
    return pencil
