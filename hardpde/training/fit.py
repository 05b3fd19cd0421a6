"""The training loop: the only one, for every method and optimiser. Knows no PDE and no geometry."""

import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from hardpde.networks.mlp import count
from hardpde.support.hardware import agreed
from hardpde.training import checkpoint, sharding
from hardpde.training.ahead import ahead, looking_ahead
from hardpde.training.base import Batch, Model, Objective, Observe, Record, Stage, Training
from hardpde.training.best import WORSE, Best
from hardpde.training.block import Block, Seen
from hardpde.training.calls import ALL, Jobs, compile_calls, drawn, make_calls, one_of, raise_mistakes
from hardpde.training.course import Course

CHECKPOINT_SECONDS = 60.0


def fit(objective: Objective, stages: list[Stage], key: Array, *, path: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
        observe: Observe | None = None, seconds: float | None = None) -> Training:
    """Train through all stages. With `path`, a checkpoint is kept there and `resume` goes on from it.

    seconds: after so many the training ends, with the block that it is in.

    Everything random follows from `key` and the number of the step, so that a resumed run on the same machine
    takes the very same steps.
    """
    return fit_all(objective, stages, key[None], path=path, resume=resume, report=report, every=every,
                   observe=observe, seconds=seconds)[0]


def fit_all(objective: Objective, stages: list[Stage], keys: Array, *, path: Path | None = None, resume: bool = False,
            report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
            start: Callable[[Model], Model] | None = None, observe: Observe | None = None,
            seconds: float | None = None) -> list[Training]:
    """Train as many models as there are keys, side by side: each takes the steps it would take alone.

    All arrays have the models along their first axis. A model whose stage has ended, or that waits for new points,
    stays as it is while the others go on. `start` gets the fresh models, and returns those to start from.
    `observe(loss, terms, gradients, updates)` tells what to keep of each step in `Training.observed`, with the steps
    along the first axis; gradients are then taken term by term. Of a run that goes on from a checkpoint, it has the
    steps since then. Trainings in several threads that share their points between devices wait for one another.
    """
    with sharding.alone(objective.mesh):
        return _Run(objective, stages, keys, path, resume, report, every, observe, seconds).train(start)


def history_so_far(path: Path) -> list[dict]:
    """The records of the run of a checkpoint, of the first model; none where it does not exist yet."""
    return checkpoint.read_meta(path, ("trainings",))["trainings"][0]["history"] if path.exists() else []


class _Now(NamedTuple):
    """Every array that a training goes on from, of all models; good, best: model and weights of the last finite and of
    the least held-out loss."""

    model: Model
    weights: Array
    state: Any
    batch: Batch
    good: Array
    best: Any


class _Run:
    """A training of some models under way."""

    def __init__(self, objective: Objective, stages: list[Stage], keys: Array, path: Path | None, resume: bool,
                 report: Callable[[dict], None], every: float, observe: Observe | None, limit: float | None):
        self.began = self.saved = time.perf_counter()
        self.objective, self.stages, self.path, self.report, self.every = objective, stages, path, report, every
        self.many, self.mesh, self.limit = len(keys), objective.mesh, limit
        self.settle = partial(sharding.settled, self.mesh)
        self.init_keys, self.held_keys, self.stage_keys = jnp.moveaxis(
            jax.vmap(lambda key: jax.random.split(key, 3))(keys), 1, 0)
        self.known = _known(path, stages, self.many) if resume and path is not None and path.exists() else None
        self.trainings = [Training(None, **known) for known in self.known["trainings"]] if self.known else [
            Training(None) for _ in range(self.many)]
        self.offset = max(training.seconds for training in self.trainings)
        self.best = Best(**self.known["best"]) if self.known and "best" in self.known else Best.begun(self.many)
        self.observed: list[list[Any]] = [[] for _ in range(self.many)]
        self.calls = make_calls(objective, stages, self.many, observe)
        self.jobs: Jobs = {}
        self.best_weights: Any = None

    @property
    def seconds(self) -> float:
        """How long the training has taken, with what it took before it was resumed."""
        return self.offset + time.perf_counter() - self.began

    def train(self, start: Callable[[Model], Model] | None) -> list[Training]:
        first = self.known["stage"] if self.known else 0
        model, weights = self._fresh(first, start)
        for number in range(first, len(self.stages)):
            if number == first or not self._late:
                model, weights = self._stage(number, model, weights)
        model, weights = self._back(model, weights, 1.0)
        for k, training in enumerate(self.trainings):
            training.model = jax.tree.map(lambda a, k=k: sharding.on_one_device(self.mesh, a)[k], model)
            training.seconds = self.seconds
            if self.observed[k]:
                training.observed = jax.tree.map(lambda *parts: np.concatenate(parts), *self.observed[k])
        return self.trainings

    def _fresh(self, first: int, start: Callable[[Model], Model] | None) -> tuple[Model, Array]:
        """Fresh models with the weights of their terms, while all that the stages from `first` on call is compiled."""
        objective, calls = self.objective, self.calls
        weights = jnp.broadcast_to(jnp.asarray(objective.weights), (self.many, len(objective.weights)))
        weights = self.settle(jax.jit(partial(sharding.everywhere, self.mesh))(weights))
        if self.mesh is None:
            self.jobs = compile_calls(objective, self.stages, first, calls, weights, self.init_keys, self.held_keys,
                                      self.stage_keys)
        # Points that do not follow the models are drawn while these are compiled.
        held_out = None if start else drawn(objective, objective.draw_held_out, self.held_keys, None)
        wait(self.jobs.get(ALL, ()))
        model = calls.make(self.init_keys)
        model = self.settle(start(model) if start else model)
        self.held_out = held_out if start is None else drawn(objective, objective.draw_held_out, self.held_keys, model)
        self.flat = jax.jit(calls.lift(lambda *trees: ravel_pytree(trees)[0]))
        self.unflat = ravel_pytree(one_of((model, weights), 0))[1]
        self.saved = time.perf_counter()
        return model, weights

    def _stage(self, number: int, model: Model, weights: Array) -> tuple[Model, Array]:
        """The models and weights after a stage."""
        stage, keys = self.stages[number], _at(self.stage_keys, number)
        now, step, course = self._begin(stage, keys, model, weights)
        self.best_weights = now.best
        wait(self.jobs.get(number, ()))
        while step < stage.steps and not course.over:
            raise_mistakes(self.jobs)
            now, fresh = self._with_points(stage, keys, step, now, course)
            length, took = stage.length(step), course.active
            active = np.isin(np.arange(self.many), took)
            found = self.calls.blocks[number](length)(
                *now[:4], _at(keys, step), jnp.full(self.many, fresh), jnp.asarray(active))
            now, counts = self._advance(stage, step, length, took, course, now, found)
            step = course.next(took)
            self._record(stage, course, took, counts, found.seen, now.model)
            now = self._look(stage, course, took, now)
            self.report(Record(_middle([self.trainings[k] for k in took]), step=step))
            self._save(number, step, course, now)
            if self._late:
                course.stop(f"the time of {self.limit:.4g} s was over")
        return self._end(stage, course, now)

    @property
    def _late(self) -> bool:
        """Whether the time is over."""
        return self.limit is not None and self.seconds > self.limit

    def _begin(self, stage: Stage, keys: Array, model: Model, weights: Array) -> tuple[_Now, int, Course]:
        """Where a stage starts: afresh, or where the checkpoint says."""
        lay_out = partial(sharding.laid_out, self.mesh, weights=count(model) // self.many)
        state = self.settle(jax.jit(self.calls.lift(lambda model: lay_out(stage.optimiser.init(model))))(model))
        batch = () if stage.inside else drawn(self.objective, self.objective.draw, _at(keys, 0), model)
        here = self.flat(model, weights)
        now = _Now(model, weights, state, batch, here, here if self.best_weights is None else self.best_weights)
        if self.known is None:
            return now, 0, Course.begun(self.many)
        assert self.path is not None
        step, course = self.known["step"], Course(**self.known["ended"])
        told = "best" in self.known  # checkpoints of before do not hold the best weights
        self.known = None
        found = checkpoint.load(self.path, now if told else now._replace(best=()))
        return self.settle(found if told else found._replace(best=found.good)), step, course

    def _with_points(self, stage: Stage, keys: Array, step: int, now: _Now, course: Course) -> tuple[_Now, bool]:
        """New points where their time has come, and whether they are new; then all models go on."""
        if stage.inside:
            return now, step == 0
        due = bool(stage.redraw and step and step % stage.redraw == 0)
        if due:
            now = now._replace(batch=drawn(self.objective, self.objective.draw, _at(keys, step), now.model))
            course.resting = [False] * self.many
        fresh = due or step == 0
        if fresh and ahead(now.state):
            known = self.calls.value_and_grad(now.model, now.weights, now.batch)
            now = now._replace(state=looking_ahead(now.state, known))
        return now, fresh

    def _advance(self, stage: Stage, step: int, length: int, took: list[int], course: Course, now: _Now,
                 found: Block) -> tuple[_Now, np.ndarray]:
        """Where the training is after a block, and how many steps of each model were good: back to the last of them."""
        model, weights, good = found.model, found.weights, now.good
        finite, codes = np.isfinite(np.asarray(found.seen.losses)), np.asarray(found.code)
        counts = np.where(finite.all(1), length, np.argmin(finite, axis=1))
        for k in took:
            if counts[k]:
                good = good.at[k].set(found.seen.visited[k, counts[k] - 1])
            if counts[k] < length:
                model, weights = _set((model, weights), k, self.unflat(good[k]))
            course.advance(k, stage, step, int(counts[k]), length, int(codes[k]))
        return _Now(model, weights, found.state, now.batch, good, now.best), counts

    def _record(self, stage: Stage, course: Course, took: list[int], counts: np.ndarray, seen: Seen,
                model: Model) -> None:
        """What the history says of a block, for the models that took it."""
        losses, observed = np.asarray(seen.losses), jax.device_get(seen.observed)
        held = np.asarray(self.calls.loss(model, self.held_out))
        seconds = self.seconds
        for k in took:
            training = self.trainings[k]
            training.seconds = seconds
            training.first_step = training.first_step or seconds
            last = float(losses[k, counts[k] - 1]) if counts[k] else float("nan")
            training.history.append({"stage": stage.name, "step": course.steps[k], "steps": stage.steps,
                                     "loss": last, "held_out": float(held[k]), "seconds": seconds})
            if observed is not None:
                self.observed[k].append(jax.tree.map(lambda a, k=k: a[k, : counts[k]], observed))

    def _look(self, stage: Stage, course: Course, took: list[int], now: _Now) -> _Now:
        """Keep the best weights; where a model has diverged, or its held-out loss has risen for long, end its stage."""
        better = np.zeros(self.many, bool)
        for k in took:
            better[k] = self.best.see(k, self.trainings[k].history[-1])
        if better.any():
            now = now._replace(best=jnp.where(better[:, None], self.flat(now.model, now.weights), now.best))
            self.best_weights = now.best
        for k in took:
            if not course.why[k] and (why := self.best.trouble(k, stage, self.trainings[k].history)):
                course.why[k] = why
        return now

    def _back(self, model: Model, weights: Array, factor: float) -> tuple[Model, Array]:
        """Back to the best weights where the held-out loss is more than so many times theirs, and words on it."""
        for k, training in enumerate(self.trainings):
            best, last = self.best.records[k], training.history[-1] if training.history else {}
            if not best or last["held_out"] <= factor * best["held_out"]:
                continue
            model, weights = _set((model, weights), k, self.unflat(self.best_weights[k]))
            training.history.append({**last, "loss": best["loss"], "held_out": best["held_out"]})
            self.best.since[k] = 0
            training.endings[-1]["why"] += f"; {self.best.kept(k)}"
        return model, weights

    def _save(self, number: int, step: int, course: Course, now: _Now) -> None:
        """Write a checkpoint where it is due; the end of a stage is none."""
        due = agreed(time.perf_counter() - self.saved > self.every)
        if self.path is None or not due or course.over:
            return
        keys = ("history", "endings", "seconds", "first_step")
        checkpoint.save(self.path, now, {"stage": number, "step": step, "ended": asdict(course), "trainings": [
            {key: getattr(training, key) for key in keys} for training in self.trainings], "best": asdict(self.best)})
        self.saved = time.perf_counter()

    def _end(self, stage: Stage, course: Course, now: _Now) -> tuple[Model, Array]:
        """Models and weights as a stage leaves them, never such that their loss is not finite, if that can be."""
        model, weights = now.model, now.weights
        for k, training in enumerate(self.trainings):
            if not np.isfinite(training.history[-1]["held_out"]) and np.isfinite(np.asarray(now.good[k])).all():
                model, weights = _set((model, weights), k, self.unflat(now.good[k]))
            training.endings.append(course.ending(k, stage))
        return self._back(model, weights, WORSE)


def _known(path: Path, stages: list[Stage], many: int) -> dict[str, Any]:
    """Where the run of a checkpoint stands."""
    found = checkpoint.read_meta(path, ("stage", "step", "ended", "trainings"))
    if found["stage"] >= len(stages):
        raise ValueError(f"'{path}' belongs to a run with other stages; start the run again")
    if (number := len(found["trainings"])) != many:
        raise ValueError(f"'{path}' is of {number} models trained at once, not of {many}; start the run again")
    return found


def _at(keys: Array, number: int) -> Array:
    return jax.vmap(jax.random.fold_in, (0, None))(keys, number)


def _set(trees: Any, k: int, one: Any) -> Any:
    return jax.tree.map(lambda a, b: a.at[k].set(b), trees, one)


def _middle(trainings: list[Training]) -> dict:
    """The last record of the model whose held-out loss is in the middle."""
    records = [training.history[-1] for training in trainings]
    return sorted(records, key=lambda record: (np.isnan(record["held_out"]), record["held_out"]))[len(records) // 2]
