"""Several methods on one problem, with several seeds: trained side by side and measured alike."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.evaluation.certificate import certify, violation
from hardpde.evaluation.errors import checked_reference, measure_errors
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.points import uniform
from hardpde.methods import METHODS, known_options
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.presets import with_steps
from hardpde.solving.settings import check_options, check_problem, make_formulation, make_settings, state_devices
from hardpde.solving.solution import Solution
from hardpde.solving.solve import run_seeds
from hardpde.support.checking import is_whole

MOST_SEEDS = 100
PLACES = 4096  # where residuals are measured


def compare(problem: Problem, methods: Sequence[str], seeds: int = 5, preset: str = "quick", *,
            schedule: str = "fair", options: Mapping[str, Any] | None = None, steps: list[int] | None = None,
            done: Mapping[str, dict] | None = None, residuals: bool = True,
            report: Callable[[dict], None] = lambda row: None,
            start: Callable[[list[dict]], None] = lambda refused: None,
            begin: Callable[[dict], None] = lambda settings: None,
            keep: Callable[[dict, list[Solution]], None] = lambda record, solutions: None,
            ) -> tuple[list[dict], list[dict]]:
    """Train every method with the seeds 0, 1, … at once and measure it: records, and methods that do not apply.

    options: of the methods, {"width": 64} for all that know it, {"pinn.layers": [20, 20]} for one. done: records
    that exist already, by method. residuals: whether to measure these too. start gets the methods that do not apply
    before any is trained, report every row of the history, begin the settings before a method is trained, keep its
    record and solutions afterwards. A record is plain data; a method that does not apply is {"method", "why"}.
    """
    check_problem(problem)
    reference, done = checked_reference(problem), done or {}
    plans = comparison_settings(problem, methods, seeds, preset, schedule, options or {}, steps)
    formulations, refused = formulate(problem, {name: plans[name] for name in plans if name not in done})
    if not done and not formulations:
        raise ValueError("no method applies: " + "; ".join(f"{row['method']}: {row['why']}" for row in refused))
    start(refused)
    records = []
    for method, settings in plans.items():
        if method in done:
            records.append(done[method])
        elif method in formulations:
            begin(settings)
            solutions = run_seeds(problem, settings, list(range(seeds)), formulation=formulations[method],
                                  report=report)
            records.append(measured(solutions, reference, residuals))
            keep(records[-1], solutions)
    return records, refused


def formulate(problem: Problem, plans: Mapping[str, dict]) -> tuple[dict[str, Formulation], list[dict]]:
    """What each method makes of the problem, and {"method", "why"} of those that do not apply."""
    found, refused = {}, []
    for method, settings in plans.items():
        try:
            found[method] = make_formulation(problem, settings)
        except ValueError as error:
            refused.append({"method": method, "why": str(error)})
    return found, refused


def comparison_settings(problem: Problem, methods: Sequence[str], seeds: int, preset: str, schedule: str,
                        options: Mapping[str, Any], steps: list[int] | None = None) -> dict[str, dict[str, Any]]:
    """The settings of every method of a comparison; every fault is a ValueError of one sentence."""
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        raise ValueError(f"methods is {methods!r}; it is a list like ['exact', 'pinn']")
    if not is_whole(seeds, 1) or seeds > MOST_SEEDS:
        raise ValueError(f"{seeds} seeds are asked for; it is a number from 1 to {MOST_SEEDS}")
    if not methods:
        raise ValueError(f"no method is named; the methods are {', '.join(METHODS)}")
    if twice := [method for k, method in enumerate(methods) if method in methods[:k]]:
        raise ValueError(f"method '{twice[0]}' is named twice; name every method once")
    plans = {method: make_settings(problem, method, preset, 0, None, None, None, schedule) for method in methods}
    for name, value in options.items():
        method, dot, option = name.rpartition(".")
        if dot and method not in plans:
            raise ValueError(f"the option '{name}' is for method '{method}', which is not compared; "
                             f"the methods are {', '.join(plans)}")
        meant = [method] if dot else [m for m in plans if option in known_options(METHODS[m])]
        if not meant:
            raise ValueError(f"none of the methods compared ({', '.join(plans)}) has an option '{option}'")
        for each in meant:
            plans[each]["method"][option] = value
    most = max(len(settings["stages"]) for settings in plans.values())
    if steps is not None and len(steps) > most:
        raise ValueError(f"{len(steps)} numbers of steps are given and no method has more than {most} stages")
    for method, settings in plans.items():
        check_options(settings)
        state_devices(method, settings["method"], None)
        if steps is not None:
            try:
                plans[method] = with_steps(settings, steps[: len(settings["stages"])])
            except ValueError as error:
                raise ValueError(f"method '{method}': {error}") from None
    return plans


def measured(solutions: list[Solution], reference: Reference | None, residuals: bool = True) -> dict[str, Any]:
    """What there is to tell about one method: plain data."""
    first = solutions[0]
    return {
        "method": first.settings["method_name"],
        "settings": {key: value for key, value in first.settings.items() if key != "seed"},
        "parameters": first.parameters,
        "seconds": max(solution.training.seconds for solution in solutions),
        "seconds_first_step": first.training.first_step,
        "step_ms": step_times(max((s.training.history for s in solutions), key=len)),
        "runs": [_run(solution, reference, residuals) for solution in solutions],
    }


def _run(solution: Solution, reference: Reference | None, residuals: bool) -> dict[str, Any]:
    training, formulation = solution.training, solution.formulation
    last = training.history[-1]
    return {
        "seed": solution.settings["seed"], "errors": measure_errors(solution, reference),
        "boundary_violation": violation(certify(formulation, [training.model])),
        "loss": last["loss"], "held_out": last["held_out"],
        "residual": residual(solution) if residuals else None,
        "endings": training.endings, "history": training.history,
    }


def residual(solution: Solution) -> float:
    """The mean over points of the sum of the squares of the problem's own equations.

    Every method is measured alike: at uniform points, without factors, and without the equations that tie gradient
    fields, which only some methods have, to their fields.
    """
    formulation = solution.formulation
    schema = formulation.problem.schema
    ties = sum(int(np.prod(schema.shapes[name])) for name, _ in schema.gradients)
    batch = formulation.at(np.asarray(uniform(solution.problem, jax.random.key(2**31), PLACES)), True)
    model = jax.tree.map(lambda a: a.astype(jnp.float64), solution.training.model)
    rows = jax.jit(formulation.residuals)(model, batch._replace(scale=jnp.ones(())))
    return float((rows[: len(rows) - ties] ** 2).sum(0).mean())


def step_times(history: list[dict]) -> dict[str, float]:
    """Milliseconds of a step of each stage, from blocks as long as its first one: that is when it is compiled."""
    found = {}
    for stage in dict.fromkeys(row["stage"] for row in history):
        rows = [row for row in history if row["stage"] == stage]
        length = rows[0]["step"]
        seconds = [after["seconds"] - before["seconds"] for before, after in pairwise(rows)
                   if after["step"] - before["step"] == length]
        if seconds and length:
            found[stage] = 1e3 * sum(seconds) / (length * len(seconds))
    return found
