"""What is trained, and how: an objective, stages, and where a training stands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np
import optax
from jax import Array
from jax.sharding import Mesh

from hardpde.support.checking import is_whole

Model = Any  # a pytree of arrays
Batch = Any  # a named tuple of pytrees of arrays, with a field `weights`
# The loss, its terms without their weights, the gradients of these and the step (pytrees like the model) → what is
# kept of that step
Observe = Callable[[Array, Array, Model, Model], Any]


class Record(dict[str, Any]):
    """A row of the history; printed, a line for people."""

    def __str__(self) -> str:
        return (f"{self['stage']} {self['step']} of {self['steps']}: loss {self['loss']:.2e}, held-out "
                f"{self['held_out']:.2e}, {self['seconds']:.1f} s")


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
        if not is_whole(self.steps, 1) or not is_whole(self.redraw, 0) or not is_whole(self.block, 1):
            raise ValueError(f"stage '{self.name}': steps and block are positive whole numbers, redraw not negative")
        object.__setattr__(self, "optimiser", optax.with_extra_args_support(self.optimiser))

    @property
    def inside(self) -> bool:
        """Whether points are redrawn inside blocks; otherwise they outlive blocks."""
        return 0 < self.redraw < self.block

    def length(self, step: int = 0) -> int:
        """Steps of the block from this step: it ends where points are redrawn, or redraws a whole number of times."""
        left = self.steps - step
        if self.inside:
            return min(self.block, left) // self.redraw * self.redraw or left
        return min(self.block, left, self.redraw - step % self.redraw if self.redraw else left)

    def draws(self, length: int) -> int:
        """How many times points are drawn for a block of this length; the last of a stage may be short of a period."""
        return max(1, length // self.redraw) if self.inside else 1


class Objective(Protocol):
    """What `fit` minimises, and all that it asks of that: a model, points, and a loss of both.

    A loss has one or several terms, each with a weight. A class that names this one as its base needs `init`, `draw`,
    `draw_held_out` and `loss`; the rest is then that of a loss in one term, computed on one device.
    """

    @property
    def weights(self) -> np.ndarray:
        """The weights of the terms as training starts."""
        return np.ones(1, np.float32)

    @property
    def balance(self) -> Callable[..., Array] | None:
        """How the weights of the terms follow the training; None: they stay as they are."""
        return None

    @property
    def mesh(self) -> Mesh | None:
        """The devices that share the points; None: all is computed on one."""
        return None

    def init(self, key: Array, /) -> Model:
        """A fresh model."""
        ...

    def draw(self, key: Array, model: Model | None, /) -> Batch:
        """A batch to train on, a named tuple with a field `weights`; it may follow the model, and must not need it."""
        ...

    def draw_held_out(self, key: Array, model: Model | None, /) -> Batch:
        """A batch that is not trained on, to look at the loss there."""
        ...

    def in_parts(self, batch: Batch, /) -> Batch:
        """The batch as the functions below take it fastest."""
        return batch

    def loss(self, model: Model, batch: Batch, /) -> Array:
        """The terms with their weights, those of the batch where it has some, in one number."""
        ...

    def value_and_grad(self, model: Model, batch: Batch, /) -> tuple[Array, Model]:
        """The loss and its gradient."""
        return jax.value_and_grad(self.loss)(model, batch)

    def term_gradients(self, model: Model, batch: Batch, /) -> tuple[Array, Model]:
        """The terms without their weights, and their gradients; the terms are the first axis of every array."""
        return jax.tree.map(lambda a: a[None], self.value_and_grad(model, batch))

    def rebalance(self, model: Model, batch: Batch, /) -> tuple[Array, Array, Model]:
        """New weights of the terms, then the loss with them and its gradient; asked only where there is a `balance`."""
        raise ValueError("the weights of this loss stay as they are")

    def residual_vector(self, model: Model, batch: Batch, /) -> Array:
        """A vector r with loss = r·r, for Levenberg–Marquardt alone."""
        raise ValueError("Levenberg–Marquardt needs a loss that is a sum of squares")

    def jacobian(self, model: Model, batch: Batch, /) -> Model:
        """The derivatives of `residual_vector` by every array of the model."""
        return jax.jacrev(self.residual_vector)(model, batch)


@dataclass
class Training:
    """Where a run stands: the model, its history, why each stage ended, and what `observe` has seen, step by step."""

    model: Any
    history: list[dict] = field(default_factory=list)
    endings: list[dict] = field(default_factory=list)
    seconds: float = 0.0
    first_step: float = 0.0
    observed: Any = None
