"""Several methods on one problem, with several seeds: trained side by side, or solved directly, and measured alike."""

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
from hardpde.solving.direct import (
    DIRECT_OPTIONS,
    check_direct_options,
    check_solver,
    direct_settings,
    run_directly,
)
from hardpde.solving.settings import check_options, check_problem, make_formulation, make_settings, state_devices
from hardpde.solving.solution import Solution
from hardpde.solving.solve import run_seeds
from hardpde.support.checking import is_whole

MOST_SEEDS = 100
PLACES = 4096  # where residuals are measured
DIRECT = "direct"  # in a list of methods: method exact, solved directly
TOLERANCE = 1e-4  # of a direct solve, unless stated
LIMITS = ("tolerance", "seconds")  # of a direct solve as a whole


def compare(problem: Problem, methods: Sequence[str], seeds: int = 5, preset: str = "quick", *,
            schedule: str = "fair", options: Mapping[str, Any] | None = None, steps: list[int] | None = None,
            done: Mapping[str, dict] | None = None, residuals: bool = True,
            report: Callable[[dict], None] = lambda row: None,
            start: Callable[[list[dict]], None] = lambda refused: None,
            begin: Callable[[dict], None] = lambda settings: None,
            keep: Callable[[dict, list[Solution]], None] = lambda record, solutions: None,
            ) -> tuple[list[dict], list[dict]]:
    """Train every method with the seeds 0, 1, … at once and measure it: records, and methods that do not apply.

    The method "direct" is exact, solved directly, with its options and {"direct.tolerance": 1e-9} or "direct.seconds".
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
            solutions = solved_with(problem, settings, seeds, formulations[method], report)
            records.append(measured(solutions, reference, residuals, method))
            keep(records[-1], solutions)
    return records, refused


def solved_with(problem: Problem, settings: dict[str, Any], seeds: int, formulation: Formulation,
                report: Callable[[dict], None]) -> list[Solution]:
    """A solution for each of the seeds 0, 1, …: trained at once, or solved directly one after the other."""
    if is_direct(settings):
        return [run_directly(problem, {**settings, "seed": seed}, report)[0] for seed in range(seeds)]
    return run_seeds(problem, settings, list(range(seeds)), formulation=formulation, report=report)


def is_direct(settings: Mapping[str, Any]) -> bool:
    """Whether a method of a comparison is solved directly."""
    return settings.get("solver") == DIRECT


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
        raise ValueError(f"no method is named; the methods are {', '.join((*METHODS, DIRECT))}")
    if twice := [method for k, method in enumerate(methods) if method in methods[:k]]:
        raise ValueError(f"method '{twice[0]}' is named twice; name every method once")
    plans = {method: _plan_of(problem, method, preset, schedule) for method in methods}
    for name, value in options.items():
        method, dot, option = name.rpartition(".")
        if dot and method not in plans:
            raise ValueError(f"the option '{name}' is for method '{method}', which is not compared; "
                             f"the methods are {', '.join(plans)}")
        meant = [method] if dot else [m for m, plan in plans.items() if _knows(plan, option)]
        if not meant:
            raise ValueError(f"none of the methods compared ({', '.join(plans)}) has an option '{option}'")
        for each in meant:
            _state(plans[each], option, value)
    most = max(len(settings["stages"]) for settings in plans.values())
    if steps is not None and len(steps) > most:
        raise ValueError(f"{len(steps)} numbers of steps are given and no method has more than {most} stages")
    for method, settings in plans.items():
        check_options(settings)
        if is_direct(settings):
            check_solver(DIRECT, settings["tolerance"], settings["seconds"])
            continue
        state_devices(method, settings["method"], None)
        if steps is not None:
            try:
                plans[method] = with_steps(settings, steps[: len(settings["stages"])])
            except ValueError as error:
                raise ValueError(f"method '{method}': {error}") from None
    return plans


def _plan_of(problem: Problem, method: str, preset: str, schedule: str) -> dict[str, Any]:
    """The settings of a method, or of method exact solved directly, as yet without options."""
    if method != DIRECT:
        return make_settings(problem, method, preset, 0, None, None, None, schedule)
    return direct_settings(make_settings(problem, "exact", preset, 0), {}, TOLERANCE, None)


def _knows(plan: Mapping[str, Any], option: str) -> bool:
    return option in ((*DIRECT_OPTIONS, *LIMITS) if is_direct(plan) else known_options(METHODS[plan["method_name"]]))


def _state(plan: dict[str, Any], option: str, value: Any) -> None:
    """State an option of a method; tolerance and seconds are of a direct solve as a whole."""
    if is_direct(plan) and option in LIMITS:
        plan[option] = value
        return
    if is_direct(plan):
        check_direct_options({option: value})
    plan["method"][option] = value


def measured(solutions: list[Solution], reference: Reference | None, residuals: bool = True,
             name: str | None = None) -> dict[str, Any]:
    """What there is to tell about one method: plain data. name: of the method in the comparison, if it has another.

    Seeds that are trained at once take as long as the slowest; direct solves, one after the other, as long as all.
    """
    first, seconds = solutions[0], [solution.training.seconds for solution in solutions]
    direct = is_direct(first.settings)
    return {
        "method": name or first.settings["method_name"],
        "settings": {key: value for key, value in first.settings.items() if key != "seed"},
        "parameters": first.parameters,
        "seconds": sum(seconds) if direct else max(seconds),
        "seconds_first_step": first.training.first_step,
        "step_ms": {} if direct else step_times(max((s.training.history for s in solutions), key=len)),
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
    batch = formulation.at(np.asarray(uniform(solution.problem, jax.random.key(2**31), PLACES)), 2)
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
