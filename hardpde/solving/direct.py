"""A problem solved directly: its solution, and in a sentence what was found."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hardpde.ansatz.corners import Corner, corners_of, with_points_about
from hardpde.ansatz.layers import layers_of, with_points_in
from hardpde.bounds.error_bar import GUARANTEED
from hardpde.direct.evaluations import potentials
from hardpde.direct.memory import largest_system
from hardpde.direct.solver import SIZE, STALLED, TIME, Direct, Grown, directly
from hardpde.evaluation.base import DECISION, UNTRAINED
from hardpde.formulation.formulation import Formulation
from hardpde.methods import METHODS, make
from hardpde.networks.features import RandomFeatures, Source
from hardpde.problem.problem import Problem
from hardpde.solving.solution import Solution
from hardpde.support.checking import is_positive
from hardpde.support.choices import SOLVERS
from hardpde.support.hardware import sharing_rows
from hardpde.training import Training
from hardpde.training.base import Record

MOST = 6400  # unknowns: a matrix of 1.3 gigabytes
ROWS = 6.0  # for each unknown, at most about
POINTS = 1024  # of a draw
AHEAD, LEAST = 0.5, 1e-13  # of the tolerance that would make the bar meet it, and the least that is asked for
AS_LONG = 1.0  # times what a solve took may be spent on its bar, unless seconds are stated
UNDETERMINED = 0.1  # what a field changes by from each system to the next though residuals are small
DIRECT_OPTIONS = ("points", "gradients", "sampling")  # of the method; the others are of a training, or found


def check_solver(solver: Any, tolerance: Any, seconds: Any) -> None:
    if solver not in SOLVERS:
        raise ValueError(f"there is no solver '{solver}'; the solvers are {', '.join(SOLVERS)}")
    if not is_positive(tolerance):
        raise ValueError(f"the tolerance is {tolerance!r}; it must be a positive number")
    if seconds is not None and not is_positive(seconds):
        raise ValueError(f"seconds is {seconds!r}; it must be a positive number")


def chosen_solver(solver: str, method: str, **training: Any) -> str:
    """The solver that was asked for; "auto" where all is left to hardpde, and "train" where something is stated that
    only a training takes. training: these statements, None, False or empty unless made."""
    stated = [name for name, value in training.items() if value is not None and value is not False and value != {}]
    if solver == "auto":
        return "train" if method != "exact" or set(stated) - {"devices"} else "auto"
    if solver in UNTRAINED and method != "exact":
        raise ValueError(f"the solver '{solver}' is for method exact, not for '{method}'")
    if solver in UNTRAINED and (wrong := [name for name in stated if name not in ("preset", "options", "devices")]):
        raise ValueError(f"a direct solve trains nothing, so '{wrong[0]}' has no meaning; leave it out")
    return solver


def with_devices(settings: dict[str, Any], devices: int | None) -> dict[str, Any]:
    """The settings, with the number of devices that share the rows of least-squares problems, if it is stated."""
    return settings if devices is None else {**settings, "devices": devices}


def direct_settings(settings: dict[str, Any], stated: dict[str, Any], tolerance: float,
                    seconds: float | None, solver: str = "direct") -> dict[str, Any]:
    """The settings of a direct solve or a march, of which the features are found; stated: options of the method."""
    check_direct_options(stated)
    return {**settings, "method": {"depth": 1, "points": POINTS, **stated}, "stages": [], "solver": solver,
            "tolerance": tolerance, "seconds": seconds}


def check_direct_options(stated: dict[str, Any]) -> None:
    if wrong := sorted(set(stated) - set(DIRECT_OPTIONS)):
        raise ValueError(f"a direct solve has no option '{wrong[0]}'; its options are {', '.join(DIRECT_OPTIONS)}")


def run_directly(problem: Problem, settings: dict[str, Any], report: Callable[[dict], None] = lambda record: None,
                 base: Solution | None = None, most: int | None = None) -> tuple[Solution, Direct]:
    """Solve by features whose last layer is found by least squares, as the settings of a direct solve say; with a
    trained solution, its hidden layer is given to the features, and they add to it. most: unknowns, MOST unless stated.
    """
    made = for_features(problem, settings) if base is None else _upon_trained(problem, base)
    formulation, found_corners, shared, options = made
    history: list[dict[str, Any]] = []

    def tell(grown: Grown) -> None:
        history.append(_record(grown))
        report(history[-1])

    limit = math.inf if settings["seconds"] is None else settings["seconds"]
    most = MOST if most is None else most
    fit = min(most, largest_system(ROWS))
    with sharing_rows(settings.get("devices")):
        found = directly(formulation, found_corners, settings["tolerance"], fit, limit, settings["seed"], tell,
                         None if base is None else base.training.model, shared)
    asked = options
    options = asked if found.shared else {k: v for k, v in asked.items() if k != "slopes"}
    best, model = found.best, found.model()
    why = sentence(problem, found, settings["tolerance"])
    if best.error > settings["tolerance"] and fit < min(most, 2 * best.unknowns):
        why += f"; more than {fit} unknowns do not fit into the memory that is free"
    ending = {"stage": "direct", "steps": best.unknowns, "why": why}
    features = {**features_as_plain(model), "scales": found.recipe.scales.tolist()}
    said = {**settings, "method": options, "features": features, "found": summary(found)}
    if options == asked and options.get("gradients", "fields") == "fields":  # what is compiled serves on
        kept = replace(formulation, problem=problem.completed)
    else:
        kept = make(METHODS["exact"], problem, options)
    return Solution(problem, kept, said, Training(model, history, [ending], found.tried[-1].seconds,
                                                  history[0]["seconds"])), found


def brought_within(solution: Solution, report: Callable[[dict], None] = lambda record: None) -> Solution:
    """A direct solution whose residual met the tolerance, with more features where its guaranteed error bar does not;
    what of that has the lower bar. An estimated bar may be far above the error, and asks for nothing."""
    settings, training = solution.settings, solution.training
    tolerance, found = settings["tolerance"], settings["found"]
    bar = _largest_bar(solution)
    met = max(found["held_out"], found["estimated_error"] or 0.0) <= tolerance
    if not met or not math.isfinite(bar) or bar <= tolerance:
        return solution
    wanted = unknowns_wanted(training.history, bar / (AHEAD * tolerance))
    if wanted > MOST:
        return _told_of_bar(solution, f"the residual met the tolerance {tolerance:g} and the error bar, {bar:.1e}, did "
                                      f"not; it falls too slowly for the {MOST} unknowns that are taken at most")
    stated = {name: value for name, value in settings["method"].items() if name in DIRECT_OPTIONS}
    left = AS_LONG * training.seconds if settings["seconds"] is None else settings["seconds"] - training.seconds
    tighter = direct_settings(settings, stated, max(AHEAD * tolerance**2 / bar, LEAST), max(left, 1e-3))
    other = run_directly(solution.problem, tighter, report)[0]
    other = replace(other, settings={**other.settings, "tolerance": tolerance, "seconds": settings["seconds"]})
    new = _largest_bar(other)
    kept, reached = (other, new) if new < bar else (solution, bar)
    told = (f"the residual met the tolerance {tolerance:g} and the error bar, {bar:.1e}, did not; with "
            f"{other.settings['found']['unknowns']} unknowns it is {new:.1e}")
    if reached > tolerance:
        told += "; the error bar stays above the tolerance"
        told += ", and as long as the solve took was spent on it" if settings["seconds"] is None else ""
    longer = replace(kept.training, seconds=training.seconds + other.training.seconds)
    return _told_of_bar(kept, told, longer)


def unknowns_wanted(history: list[dict[str, Any]], factor: float) -> float:
    """How many unknowns would lower the held-out residual so many times, if it went on falling as it did last; 0 where
    that is not known."""
    if len(history) < 2:
        return 0.0
    before, now = history[-2:]
    growth = math.log(now["step"] / before["step"])
    fall = math.log(max(before["held_out"], 1e-300) / max(now["held_out"], 1e-300)) / 2
    if growth <= 0:
        return 0.0
    return now["step"] * math.exp(min(growth * math.log(factor) / fall, 700.0)) if fall > 0 else math.inf


def _told_of_bar(solution: Solution, told: str, training: Training | None = None) -> Solution:
    """The solution with the bars that are known, and a last word on them."""
    training = training or solution.training
    ending = {"stage": DECISION, "steps": training.history[-1]["step"], "why": told}
    after = replace(solution, training=replace(training, endings=[*training.endings, ending]))
    vars(after).update({name: value for name, value in vars(solution).items() if name == "_bars"})
    return after


def _largest_bar(solution: Solution) -> float:
    """The largest relative bar of fields that stand for no gradient; infinite where none is guaranteed."""
    gradients, bar = dict(solution.problem.schema.gradients), solution.error_bar()
    if bar.word != GUARANTEED:
        return math.inf
    bars = [one.relative_l2 for name, one in bar.fields.items() if name not in gradients]
    return max((one for one in bars if one is not None), default=math.inf)


class ForFeatures(NamedTuple):
    """A formulation whose network may be features; corners whose inputs it is given, what its outputs are made of, and
    the options of the method that it was made with."""

    formulation: Formulation
    corners: list[Corner]
    sources: tuple[Source, ...]
    options: dict[str, Any]


def for_features(problem: Problem, settings: dict[str, Any]) -> ForFeatures:
    """With inputs for corners and layers, points about them, and gradients as slopes, where there are such."""
    problem = problem.completed
    options, corners, thin = {**settings["method"], "width": 8}, corners_of(problem), layers_of(problem)
    sources = potentials(problem) if options.get("gradients", "fields") == "fields" else ()
    options |= {name: True for name, found in (("corners", corners), ("walls", thin), ("slopes", sources)) if found}
    formulation = make(METHODS["exact"], with_points_in(with_points_about(problem, corners), thin), options)
    return ForFeatures(formulation, corners, sources, options)


def _upon_trained(problem: Problem, base: Solution) -> ForFeatures:
    options = base.settings["method"] | {"points": POINTS}
    return ForFeatures(make(METHODS["exact"], problem, options), [], (), options)


def features_as_plain(model: RandomFeatures) -> dict[str, Any]:
    """What must be known of features to read them from a file."""
    return {"kinds": list(model.kinds), "sizes": [arrays[1].shape[-1] for arrays in model.arrays],
            "windows": [len(arrays[1]) if arrays[1].ndim == 2 else 1 for arrays in model.arrays],
            "on_trained": model.base is not None, "sources": [list(source) for source in model.sources]}


def summary(found: Direct) -> dict[str, Any]:
    """The figures of a direct solve as plain data."""
    best = found.best
    estimate = best.estimate if math.isfinite(best.estimate) else None
    return {"linear": found.linear, "unknowns": best.unknowns, "rows": best.rows, "held_out": best.held_out,
            "estimated_error": estimate, "residual": best.fitted.residual}


def _record(grown: Grown) -> dict[str, Any]:
    """A size that was solved as a row of the history: unknowns stand for steps, mean squares of residuals for losses.
    """
    return Record(stage="direct", step=grown.unknowns, steps=MOST, loss=grown.fitted.residual**2,
                  held_out=grown.held_out**2, seconds=grown.seconds)


def sentence(problem: Problem, found: Direct, tolerance: float) -> str:
    """What was found, and what would help where it is not enough."""
    best = found.best
    kind = "linear" if found.linear else f"not linear, {best.fitted.steps} Newton steps"
    text = (f"{kind}, {problem.schema.point}-D: {best.unknowns} unknowns, {best.rows} rows, held-out residual "
            f"{best.held_out:.1e}")
    if np.isfinite(best.estimate):
        text += f", estimated error {best.estimate:.1e}"
    text += f", {best.seconds:.1f} s"
    if best.error <= tolerance:
        return text
    place = ", ".join(f"{c:.4g}" for c in best.worst)
    text += f"; the tolerance {tolerance:g} was not reached, the residual is largest near ({place})"
    return f"{text}; {_help(found, tolerance)}"


def _help(found: Direct, tolerance: float) -> str:
    """What would help where the tolerance was not reached."""
    best = found.best
    if not best.fitted.converged:
        return ("Newton's method did not converge; a start near the solution (the hint guess) or a way from an easier "
                "problem (the hint continuation) would help")
    estimates = [one.estimate for one in found.tried if math.isfinite(one.estimate)]
    if best.held_out <= tolerance and len(estimates) > 2 and min(estimates) > UNDETERMINED:
        return (f"residuals are small and {best.field} still changes: the equations and conditions do not determine "
                f"it; a condition, hp.mean or hp.pin would")
    return {SIZE: "more unknowns than that are not taken; hints that know the place (inputs, sharp) would help",
            TIME: "more seconds would allow more unknowns",
            STALLED: "more unknowns help little; hints that know the place (inputs, sharp) would"}[found.ended]
