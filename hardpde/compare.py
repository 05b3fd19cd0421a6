"""Several methods on one problem, with several seeds: trained side by side and measured alike."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from hardpde.evaluation.certificate import certify, violation
from hardpde.evaluation.evaluate import make_reference, measure
from hardpde.problem import Problem
from hardpde.reference import Reference
from hardpde.solve import Solution, make_formulation, make_settings, run_seeds


def train(problem: Problem, settings: dict[str, Any], seeds: Sequence[int],
          report: Callable[[dict], None] = lambda record: None) -> list[Solution]:
    """One method with every seed at once; a ValueError of one sentence where the method does not apply."""
    formulation = make_formulation(problem, settings)
    return run_seeds(problem, settings, list(seeds), formulation=formulation, report=report)


def method_settings(problem: Problem, method: str, preset: str, schedule: str, steps: list[int] | None,
                    options: dict[str, Any]) -> dict[str, Any]:
    """The settings of one method of a comparison."""
    return make_settings(problem, method, preset, 0, options, steps, None, schedule)


def record(solutions: list[Solution], reference: Reference | None) -> dict[str, Any]:
    """What there is to tell about one method: plain data."""
    first = solutions[0]
    return {
        "method": first.settings["method_name"],
        "settings": {key: value for key, value in first.settings.items() if key != "seed"},
        "parameters": first.parameters,
        "seconds": first.training.seconds,
        "seconds_first_step": first.training.first_step,
        "step_ms": step_times(first.training.history),
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


def seeds_of(count: int) -> list[int]:
    if not 1 <= count <= 1000:
        raise ValueError(f"{count} seeds are asked for; it is a number from 1 to 1000")
    return list(np.arange(count).tolist())


def compare(problem: Problem, methods: Sequence[str], seeds: int = 5, preset: str = "quick", *,
            schedule: str = "fair", steps: list[int] | None = None, options: dict[str, dict[str, Any]] | None = None,
            report: Callable[[dict], None] = lambda record: None) -> tuple[list[dict], list[dict]]:
    """Train and measure every method; returns the records and the methods that do not apply, with the reason.

    options: {method: its options}.
    """
    reference = make_reference(problem)
    records, refused = [], []
    for method in methods:
        settings = method_settings(problem, method, preset, schedule, steps, (options or {}).get(method, {}))
        try:
            solutions = train(problem, settings, seeds_of(seeds), report)
        except ValueError as error:
            refused.append({"method": method, "why": str(error)})
            continue
        records.append(record(solutions, reference))
    return records, refused
