"""A problem with time marched: its solution, and in a sentence what was found."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hardpde.direct.groups import linearisation
from hardpde.direct.instants import Unsuited, in_space
from hardpde.direct.kept import Kept
from hardpde.direct.levels import Level, Marching, march
from hardpde.direct.newton import rms
from hardpde.evaluation.base import decision_of
from hardpde.formulation.points import uniform
from hardpde.methods import METHODS, make
from hardpde.networks.marched import Marched, marched
from hardpde.problem.problem import Problem
from hardpde.solving.direct import direct_settings
from hardpde.solving.solution import Solution
from hardpde.support.files import finite_or_none
from hardpde.support.hardware import sharing_rows
from hardpde.training import Training

MOST = 3200  # unknowns
COMPARED_AT = 2048  # points


def run_march(problem: Problem, settings: dict[str, Any],
              report: Callable[[dict], None] = lambda record: None, keep: Path | None = None, resume: bool = False,
              going: Callable[[int, float, float], None] = lambda unknowns, t, share: None,
              ) -> tuple[Solution, Marching]:
    """March as the settings say; `Unsuited` where that cannot be. keep: a file for every step; resume: to go on from
    what it has; going: as in `march`."""
    history: list[dict[str, Any]] = []

    def tell(level: Level) -> None:
        history.append(_record(level))
        report(history[-1])

    limit = math.inf if settings["seconds"] is None else settings["seconds"]
    identity = {**settings, "seconds": None, "problem": problem.name}
    states = Kept(keep, json.dumps(finite_or_none(identity), sort_keys=True), resume)
    with sharing_rows(settings.get("devices")):
        found = march(in_space(problem.completed, settings["seed"]), settings["tolerance"], MOST, limit,
                      settings["seed"], tell, states, going)
    model, best = _network(found), found.best
    options = {**settings["method"], "marched": True, "slopes": bool(found.space.sloped), "fades": best.path.fades}
    features = {"kinds": list(model.kinds), "sizes": [len(arrays[1]) for arrays in model.arrays], "on_trained": False,
                "sources": [list(source) for source in model.sources], "knots": len(model.times),
                "time_slot": model.time_slot, "stages": model.stages}
    said = {**settings, "method": options, "features": features, "found": march_figures(found)}
    ending = {"stage": "march", "steps": best.unknowns, "why": march_sentence(problem, found, settings["tolerance"])}
    formulation = make(METHODS["exact"], problem, options)
    return Solution(problem, formulation, said, Training(model, history, [ending], found.tried[-1].seconds,
                                                  history[0]["seconds"])), found


def _network(found: Marching) -> Marched:
    path, space = found.best.path, found.space
    system, knots = path.system, path.without_initial()
    values, slopes = (np.stack([system.layer(part) for part in parts])
                      for parts in zip(*(knot[1:3] for knot in knots)))
    return marched(system.units, path.times, values, slopes, space.sources, space.time_slot,
                   path.stages)


def march_figures(found: Marching) -> dict[str, Any]:
    """The figures of a march as plain data."""
    best = found.best
    estimate = best.estimate if math.isfinite(best.estimate) else None
    return {"linear": found.space.linear, "unknowns": best.unknowns, "rows": best.path.system.rows,
            "held_out": best.held_out, "estimated_error": estimate, "residual": best.misfit,
            "steps": best.path.steps, "refused_steps": best.path.refused, "method": best.path.method.name,
            "factorisations": best.path.system.made["factorisations"]}


def _record(level: Level) -> dict[str, Any]:
    """A level as a row of the history: unknowns stand for steps, mean squares of residuals for losses."""
    return {"stage": "march", "step": level.unknowns, "steps": MOST, "loss": level.misfit**2,
            "held_out": level.held_out**2, "seconds": level.seconds}


def march_sentence(problem: Problem, found: Marching, tolerance: float) -> str:
    """What was found, and what would help where it is not enough."""
    best = found.best
    path = best.path
    damped = "what is fast is damped"
    if found.adding:
        damped = "nothing that a step resolves is damped, so errors of steps add up"
    kind = "linear" if found.space.linear else "not linear"
    text = (f"marched, {kind}: {path.steps} steps of {path.method.name}, order {path.method.order}, L-stable "
            f"({damped}), {best.unknowns} unknowns, {path.system.rows} rows, held-out residual {best.held_out:.1e}")
    if math.isfinite(best.estimate):
        text += f", estimated error {best.estimate:.1e}"
    text += f", {best.seconds:.1f} s"
    *place, number = *best.worst[0], best.worst[1]
    dim = problem.schema.dim
    where = f"t = {place[dim]:.4g}, ({', '.join(f'{c:.4g}' for c in place[:dim])})" if place else "the start"
    if path.broken is not None:
        return (f"{text}; the march ended at t = {path.broken.t:.6g}, as {path.broken.why}; the residual is largest at "
                f"{where} in equation {number + 1}; what was computed until then is kept")
    if best.estimate <= tolerance:
        return text
    return (f"{text}; the tolerance {tolerance:g} was not reached, the residual is largest at {where} in equation "
            f"{number + 1}")


def march_if_suited(problem: Problem, settings: dict[str, Any], report: Callable[[dict], None],
                    keep: Path | None = None, resume: bool = False) -> tuple[Solution | None, bool, str]:
    """A march with the tolerance and the seconds of these settings, whether it reached the tolerance, and why not; None
    where the problem cannot be marched."""
    stated = direct_settings(settings, {}, settings["tolerance"], settings["seconds"], "march")
    try:
        solution, found = run_march(problem, stated, report, keep, resume)
    except Unsuited as error:
        return None, False, f"not marched, as {error}"
    reached = found.best.path.broken is None and found.best.estimate <= settings["tolerance"]
    return solution, reached, decision_of(solution.training.endings)


def better(one: Solution, other: Solution) -> tuple[Solution, str]:
    """The one with the smaller residual at places and times all over, and words on both."""
    problem = one.problem.completed
    x = np.asarray(uniform(problem, jax.random.key(5), COMPARED_AT))
    if one.formulation.problem is not problem or other.formulation.problem is not problem:
        return other, ""
    slopes, jets = linearisation(problem), [np.moveaxis(found.formulation.jet(found.training.model, x), 0, -1)
                                            for found in (one, other)]
    values = [tuple(map(np.asarray, slopes(x, jet, None))) for jet in jets]
    terms = np.maximum(*(rms(np.abs(slope * jet).sum((1, 2)), axis=1) for (_, slope), jet in zip(values, jets)))
    sizes = [float(rms((value / np.where(terms > 0, terms, 1.0)[:, None]).ravel())) for value, _ in values]
    names = ["march", other.settings.get("solver", "train")]
    best = int(np.argmin(np.where(np.isfinite(sizes), sizes, np.inf)))
    return (one, other)[best], (f"; residuals all over space and time: {sizes[0]:.1e} marched, {sizes[1]:.1e} by "
                                f"{names[1]}; kept: {names[best]}")
