"""Several methods on one problem, with several seeds: trained side by side and measured alike."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from hardpde.evaluation.certificate import certify, violation
from hardpde.evaluation.evaluate import make_reference, measure
from hardpde.methods import METHODS
from hardpde.presets import with_steps
from hardpde.problem import Problem
from hardpde.reference import Reference
from hardpde.solve import Solution, check_options, make_formulation, make_settings, run_seeds

MOST_SEEDS = 100


def compare(problem: Problem, methods: Sequence[str], seeds: int = 5, preset: str = "quick", *,
            schedule: str = "fair", options: Mapping[str, Any] | None = None, steps: list[int] | None = None,
            done: Mapping[str, dict] | None = None, report: Callable[[dict], None] = lambda row: None,
            begin: Callable[[dict], None] = lambda settings: None,
            keep: Callable[[dict, list[Solution]], None] = lambda record, solutions: None,
            ) -> tuple[list[dict], list[dict]]:
    """Train every method with the seeds 0, 1, … at once and measure it: records, and methods that do not apply.

    options: of the methods, {"width": 64} for all that know it, {"pinn.layers": [20, 20]} for one. done: records
    that exist already, by method. report gets every row of the history, begin the settings before a method is
    trained, keep its record and solutions afterwards. A record is plain data; a method that does not apply is
    {"method", "why"}.
    """
    reference = make_reference(problem)
    plans = plan(problem, methods, seeds, preset, schedule, options or {}, steps)
    records, refused = [], []
    for method, settings in plans.items():
        if done and method in done:
            records.append(done[method])
            continue
        try:
            formulation = make_formulation(problem, settings)
        except ValueError as error:
            refused.append({"method": method, "why": str(error)})
            continue
        begin(settings)
        solutions = run_seeds(problem, settings, list(range(seeds)), formulation=formulation, report=report)
        records.append(measured(solutions, reference))
        keep(records[-1], solutions)
    return records, refused


def plan(problem: Problem, methods: Sequence[str], seeds: int, preset: str, schedule: str, options: Mapping[str, Any],
         steps: list[int] | None = None) -> dict[str, dict[str, Any]]:
    """The settings of every method of a comparison; every fault is a ValueError of one sentence."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"{seeds} seeds are asked for; it is a number from 1 to {MOST_SEEDS}")
    if twice := [method for k, method in enumerate(methods) if method in methods[:k]]:
        raise ValueError(f"method '{twice[0]}' is named twice; name every method once")
    plans = {method: make_settings(problem, method, preset, 0, None, None, None, schedule) for method in methods}
    for name, value in options.items():
        method, dot, option = name.rpartition(".")
        if dot and method not in plans:
            raise ValueError(f"the option '{name}' is for method '{method}', which is not compared; "
                             f"the methods are {', '.join(plans)}")
        meant = [method] if dot else [m for m in plans if option in (METHODS[m].__kwdefaults__ or {})]
        if not meant:
            raise ValueError(f"none of the methods has an option '{option}'")
        for each in meant:
            plans[each]["method"][option] = value
    for method, settings in plans.items():
        check_options(settings)
        if steps is not None:
            plans[method] = with_steps(settings, steps[: len(settings["stages"])])
    return plans


def measured(solutions: list[Solution], reference: Reference | None) -> dict[str, Any]:
    """What there is to tell about one method: plain data."""
    first = solutions[0]
    return {
        "method": first.settings["method_name"],
        "settings": {key: value for key, value in first.settings.items() if key != "seed"},
        "parameters": first.parameters,
        "seconds": max(solution.training.seconds for solution in solutions),
        "seconds_first_step": first.training.first_step,
        "step_ms": step_times(max((s.training.history for s in solutions), key=len)),
        "runs": [_run(solution, reference) for solution in solutions],
    }


def _run(solution: Solution, reference: Reference | None) -> dict[str, Any]:
    training, formulation = solution.training, solution.formulation
    last = training.history[-1]
    return {
        "seed": solution.settings["seed"], "errors": measure(solution, reference),
        "boundary_violation": violation(certify(formulation, [training.model])),
        "loss": last["loss"], "held_out": last["held_out"], "residual": residual(solution),
        "endings": training.endings, "history": training.history,
    }


def residual(solution: Solution) -> float:
    """The mean squared residual of the equations at points the training has not seen: the same for every method."""
    formulation = solution.formulation
    batch = formulation.draw_held_out(jax.random.key(2**31))
    return float(jax.jit(formulation.equation_loss)(solution.training.model, batch))


def step_times(history: list[dict]) -> dict[str, float]:
    """Milliseconds of a step of each stage, without its first block, which is compiled."""
    found = {}
    for stage in dict.fromkeys(row["stage"] for row in history):
        rows = [row for row in history if row["stage"] == stage]
        steps = rows[-1]["step"] - rows[0]["step"]
        if steps > 0:
            found[stage] = 1e3 * (rows[-1]["seconds"] - rows[0]["seconds"]) / steps
    return found
