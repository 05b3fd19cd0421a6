"""What evaluation reads of a solution."""

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hardpde.formulation.formulation import Formulation
from hardpde.problem.problem import Problem
from hardpde.training import Training


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

    def at(self, /, **stated: float) -> "Solved":
        """The solution of one problem of a family."""
        ...

    def errors(self) -> dict[str, dict[str, Any]]:
        """Errors {component: {metric: value}} against what is known; {} where nothing is."""
        ...

    def picture(self, component: str) -> Any:
        """A figure of a component of a field."""
        ...

    def save(self, path: str | Path) -> None:
        """Write the weights into a file."""
        ...
