"""The training loop: the only one, for every method and optimiser. Knows no PDE and no geometry."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from hardpde.training import checkpoint
from hardpde.training.optimisers import STALLED, describe_status, status

CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Stage:
    """How the loss is minimised for a while: an optax transformation, steps, when points are redrawn.

    redraw: new points every so many steps; 0 keeps the points of the stage. block: steps between two reports.
    """

    name: str
    optimiser: optax.GradientTransformationExtraArgs
    steps: int
    redraw: int = 0
    block: int = 50

    def __post_init__(self) -> None:
        if self.steps < 1 or self.redraw < 0 or self.block < 1:
            raise ValueError(f"stage '{self.name}': steps and block must be positive and redraw not negative")
        if 0 < self.redraw < self.block and self.steps % self.redraw:
            raise ValueError(f"stage '{self.name}': {self.steps} steps are not a multiple of redraw = {self.redraw}")

    @property
    def periods(self) -> int:
        """How often points are redrawn inside one block; 0: points outlive blocks."""
        return self.length // self.redraw if 0 < self.redraw < self.block else 0

    @property
    def length(self) -> int:
        """Steps in a block, so that points are redrawn between blocks or a whole number of times inside."""
        if 0 < self.redraw < self.block:
            return self.block // self.redraw * self.redraw
        return next(n for n in range(self.block, 0, -1) if self.redraw % n == 0)


@dataclass
class Training:
    """Where a run stands: the model, its history, and why each stage ended."""

    model: Any
    history: list[dict] = field(default_factory=list)
    endings: list[dict] = field(default_factory=list)
    seconds: float = 0.0
    first_step: float = 0.0


def fit(formulation, stages: list[Stage], key: jax.Array, *, path: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS) -> Training:
    """Train through all stages. With `path`, a checkpoint is kept there and `resume` goes on from it.

    Everything random follows from `key` and the number of the step, so that a resumed run on the same machine
    takes the very same steps.
    """
    began = time.perf_counter()
    init_key, held_key, stage_key = jax.random.split(key, 3)
    held_out = formulation.draw_held_out(held_key)
    training = Training(jax.jit(formulation.init)(init_key))
    loss = jax.jit(formulation.loss)
    start_stage, resumed = 0, None
    if resume and path is not None and path.exists():
        resumed = checkpoint.read_meta(path, ("stage", "step", "history", "endings", "seconds", "first_step"))
        start_stage = resumed["stage"]
        if start_stage >= len(stages):
            raise ValueError(f"'{path}' belongs to a run with more stages; start the run again")
        training.history, training.endings = resumed["history"], resumed["endings"]
        training.seconds, training.first_step = resumed["seconds"], resumed["first_step"]
    offset, saved = training.seconds, time.perf_counter()

    for number in range(start_stage, len(stages)):
        stage = stages[number]
        keys = jax.random.fold_in(stage_key, number)
        blocks = cache(partial(_block, formulation, stage))  # the last block of a stage may be shorter
        state = jax.jit(stage.optimiser.init)(training.model)
        step, batch, good = 0, (), ravel_pytree(training.model)[0]
        if not stage.periods:
            batch = formulation.draw(jax.random.fold_in(keys, 0), training.model)
        if resumed is not None:
            tree = checkpoint.load(path, (training.model, state, batch, good))  # type: ignore[arg-type]
            (training.model, state, batch, good), step, resumed = tree, resumed["step"], None
        ending = ""
        while step < stage.steps and not ending:
            fresh = step == 0
            if not stage.periods and stage.redraw and step and step % stage.redraw == 0:
                batch = formulation.draw(jax.random.fold_in(keys, step), training.model)
                fresh = True
            training.model, state, losses, visited, code = blocks(min(stage.length, stage.steps - step))(
                training.model, state, batch, jax.random.fold_in(keys, step), jnp.asarray(fresh))
            losses = np.asarray(losses)
            finite = np.isfinite(losses)
            count = len(losses) if finite.all() else int(np.argmin(finite))
            step += count
            if count:
                good = visited[count - 1]
            if count < len(losses):
                training.model = ravel_pytree(training.model)[1](good)
                ending = f"the loss was not finite at step {step + 1}; the last good weights were kept"
            elif int(code) == STALLED and stage.redraw and not stage.periods:
                step = min((step // stage.redraw + 1) * stage.redraw, stage.steps)  # on to new points at once
                ending = describe_status(STALLED) if step == stage.steps else ""
            elif int(code):
                ending = describe_status(int(code))
            training.seconds = offset + time.perf_counter() - began
            training.first_step = training.first_step or training.seconds
            last = float(losses[count - 1]) if count else float("nan")
            record = {"stage": stage.name, "step": step, "steps": stage.steps, "loss": last,
                      "held_out": float(loss(training.model, held_out)), "seconds": training.seconds}
            training.history.append(record)
            report(record)
            if path is not None and time.perf_counter() - saved > every and not ending:
                _save(path, training, number, step, (training.model, state, batch, good))
                saved = time.perf_counter()
        if not np.isfinite(training.history[-1]["held_out"]) and np.isfinite(np.asarray(good)).all():
            training.model = ravel_pytree(training.model)[1](good)
        training.endings.append({"stage": stage.name, "steps": step,
                                 "why": ending or f"all {stage.steps} steps were taken"})
    training.seconds = offset + time.perf_counter() - began
    return training


def _save(path: Path, training: Training, stage: int, step: int, tree: Any) -> None:
    checkpoint.save(path, tree, {
        "stage": stage, "step": step, "history": training.history, "endings": training.endings,
        "seconds": training.seconds, "first_step": training.first_step})


def _block(formulation, stage: Stage, length: int):
    """A compiled block: (model, state, batch, key, fresh) → model, state, losses, weights visited, status."""

    def take(model, state, batch, fresh, length):
        def step(carry, _):
            model, state, fresh = carry
            value, gradient = formulation.value_and_grad(model, batch)
            updates, state = stage.optimiser.update(
                gradient, state, model, value=value, fresh=fresh,
                value_fn=lambda m: formulation.loss(m, batch),
                residual_fn=lambda m: formulation.residual_vector(m, batch),
                jacobian_fn=lambda m: formulation.jacobian(m, batch))
            return (optax.apply_updates(model, updates), state, jnp.asarray(False)), (
                value, ravel_pytree(model)[0])

        (model, state, _), (losses, visited) = jax.lax.scan(step, (model, state, fresh), length=length)
        return model, state, losses, visited

    # The state is given up to the result: it may hold a large matrix that must not exist twice.
    @partial(jax.jit, donate_argnums=1)
    def block(model, state, batch, key, fresh):
        if not stage.periods:
            model, state, losses, visited = take(model, state, batch, fresh, length)
            return model, state, losses, visited, status(state)

        def period(carry, key):
            model, state = carry
            model, state, losses, visited = take(
                model, state, formulation.draw(key, model), jnp.asarray(True), stage.redraw)
            return (model, state), (losses, visited)

        keys = jax.random.split(key, length // stage.redraw)
        (model, state), (losses, visited) = jax.lax.scan(period, (model, state), keys)
        return model, state, losses.ravel(), visited.reshape(-1, visited.shape[-1]), status(state)

    return block
