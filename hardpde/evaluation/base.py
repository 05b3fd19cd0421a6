"""What evaluation reads of a solution, and of the history of its training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hardpde.formulation.formulation import Formulation
from hardpde.problem.completed import added_fields
from hardpde.problem.problem import Problem
from hardpde.training import Training

UNTRAINED = ("direct", "march")  # solvers, and stages of a history that are sizes which were solved
DECISION = "decision"  # the stage of an ending that says what was decided
HISTORY = ("stage", "step", "steps", "loss", "held_out", "seconds")


class Bar(Protocol):
    """An error bar; `hardpde.bounds.error_bar.ErrorBar` is one."""

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data, with a sentence."""
        ...


class Solved(Protocol):
    """A trained model of a problem, with how it came about; `hardpde.solving.solution.Solution` is one."""

    @property
    def problem(self) -> Problem: ...

    @property
    def formulation(self) -> Formulation: ...

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the run, plain data."""
        ...

    @property
    def training(self) -> Training:
        """The trained model, its history and why each stage ended."""
        ...

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        ...

    def __call__(self, /, x: Any, t: Any = None, **stated: Any) -> dict[str, np.ndarray]:
        """All fields at points (n, d), at time t and with the parameters stated by name: {name: (n, *shape)}."""
        ...

    def anywhere(self, /, x: Any, t: Any = None, **stated: Any) -> dict[str, np.ndarray]:
        """The same, also a little outside the domain."""
        ...

    def at(self, /, **stated: float) -> "Solved":
        """The solution of one problem of a family."""
        ...

    def errors(self) -> dict[str, dict[str, Any]]:
        """Errors {component: {metric: value}} against what is known; {} where nothing is."""
        ...

    def error_bar(self, violation: float | None = None) -> Bar:
        """How far the fields may be from the solution. violation: of the conditions, where it is known."""
        ...

    def picture(self, component: str) -> Any:
        """A figure of a component of a field."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the weights into a file."""
        ...


def history_columns(history: list[dict]) -> dict[str, list]:
    """History by column."""
    return {key: [record[key] for record in history] for key in HISTORY}


def is_size(stage: str) -> bool:
    """Whether a row of a history is a size that was solved, in place of steps of a training."""
    return stage in UNTRAINED


def last_losses(history: list[dict]) -> dict[str, float]:
    """What a history says last: losses of a training, or residuals of a size that was solved, by what they are called.
    """
    if not history:
        return {}
    last = history[-1]
    if is_size(last["stage"]):
        return {"residual": last["loss"] ** 0.5, "held-out residual": last["held_out"] ** 0.5}
    return {"loss": last["loss"], "held-out loss": last["held_out"]}


def told_decision(solution: Solved) -> str:
    """How a solution was found and why in that way, and which fields were added to what was stated."""
    there = set(solution.formulation.problem.schema.names) >= set(solution.problem.completed.schema.names)
    added = added_fields(solution.problem) if there and solution.settings.get("method_name") == "exact" else ""
    return decision_of(solution.training.endings) + (f"; {added}" if added else "")


def decision_of(endings: Sequence[Mapping[str, Any]]) -> str:
    """How a solution was found and why in that way, in a sentence, from how each of its stages ended."""
    if not endings:
        return "not trained, as no stage was stated"
    last = endings[-1]
    if is_size(last["stage"]) or last["stage"] == DECISION:
        return last["why"]
    return f"trained; its last stage, {last['stage']}, ended after {last['steps']} steps: {last['why']}"
