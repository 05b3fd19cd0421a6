"""What is trained, and how: an objective, stages, and where a training stands."""

from dataclasses import dataclass, field
from typing import Any

import optax


@dataclass(frozen=True)
class Stage:
    """How the loss is minimised for a while: an optax transformation, steps, when points are redrawn.

    redraw: new points every so many steps; 0 keeps the points of the stage. block: steps between two reports.
    reweigh: whether the weights of the terms of the loss may change, where a method has a rule for them.
    """

    name: str
    optimiser: optax.GradientTransformation
    steps: int
    redraw: int = 0
    block: int = 50
    reweigh: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.optimiser, optax.GradientTransformation):
            raise ValueError(f"stage '{self.name}': the optimiser is {self.optimiser!r}; it must be an optax "
                             f"transformation like optax.adamw(1e-3)")
        if self.steps < 1 or self.redraw < 0 or self.block < 1:
            raise ValueError(f"stage '{self.name}': steps and block must be positive and redraw not negative")
        object.__setattr__(self, "optimiser", optax.with_extra_args_support(self.optimiser))

    @property
    def inside(self) -> bool:
        """Whether points are redrawn inside blocks; otherwise they outlive blocks."""
        return 0 < self.redraw < self.block

    def length(self, step: int = 0) -> int:
        """Steps of the block that begins here: it ends where points are redrawn, or redraws a whole number of times."""
        left = self.steps - step
        if self.inside:
            return min(self.block, left) // self.redraw * self.redraw or left
        return min(self.block, left, self.redraw - step % self.redraw if self.redraw else left)

    def draws(self, length: int) -> int:
        """How often points are drawn for a block of this length; the last one of a stage may be short of a period."""
        return max(1, length // self.redraw) if self.inside else 1


@dataclass
class Training:
    """Where a run stands: the model, its history, and why each stage ended."""

    model: Any
    history: list[dict] = field(default_factory=list)
    endings: list[dict] = field(default_factory=list)
    seconds: float = 0.0
    first_step: float = 0.0
