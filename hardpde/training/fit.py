"""The training loop: the only one, for every method and optimiser. Knows no PDE and no geometry."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from hardpde.support.compiling import compile_in_background, jit_for_speed, jit_quickly
from hardpde.support.hardware import current_device
from hardpde.training import checkpoint, sharding
from hardpde.training.ahead import ahead, looking_ahead
from hardpde.training.base import Stage, Training
from hardpde.training.status import STALLED, describe_status, status

CHECKPOINT_SECONDS = 60.0
ALL = -1  # stages
SHORT = 2000, 0.05  # fewer steps than this, and a smaller share of all: finding the best kernels takes longer


def fit(formulation, stages: list[Stage], key: jax.Array, *, path: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS) -> Training:
    """Train through all stages. With `path`, a checkpoint is kept there and `resume` goes on from it.

    Everything random follows from `key` and the number of the step, so that a resumed run on the same machine
    takes the very same steps.
    """
    return fit_all(formulation, stages, key[None], path=path, resume=resume, report=report, every=every)[0]


def fit_all(formulation, stages: list[Stage], keys: jax.Array, *, path: Path | None = None, resume: bool = False,
            report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
            start: Callable[[Any], Any] | None = None) -> list[Training]:
    """Train as many models as there are keys, side by side: each takes the steps it would take alone.

    All arrays have the models along their first axis. A model whose stage has ended, or that waits for new points,
    stays as it is while the others go on. `start` gets the fresh models, and returns those to start from.
    Trainings in several threads that share their points between devices wait for one another.
    """
    with sharding.alone(formulation.mesh):
        return _fit_all(formulation, stages, keys, path, resume, report, every, start)


def _fit_all(formulation, stages: list[Stage], keys: jax.Array, path: Path | None, resume: bool,
             report: Callable[[dict], None], every: float, start: Callable[[Any], Any] | None) -> list[Training]:
    began = time.perf_counter()
    many = len(keys)
    mesh = formulation.mesh
    settle = partial(sharding.settled, mesh)
    init_keys, held_keys, stage_keys = jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, 3))(keys), 1, 0)
    resumed = _resumed(path, stages, many) if resume and path is not None and path.exists() else None
    first = resumed["stage"] if resumed else 0
    trainings = [Training(None, **known) for known in resumed["trainings"]] if resumed else [
        Training(None) for _ in range(many)]
    offset = max(training.seconds for training in trainings)
    weights = jnp.broadcast_to(jnp.asarray(formulation.weights), (many, len(formulation.weights)))
    weights = settle(jax.jit(partial(sharding.everywhere, mesh))(weights))
    calls = _calls(formulation, stages, many)
    compiling = {} if mesh is not None else _compiling(formulation, stages, first, calls, weights,
                                                       (init_keys, held_keys, stage_keys))
    # Points that do not follow the models are drawn while these are compiled.
    held_out = None if start else _draw(formulation, formulation.draw_held_out, held_keys, None)
    wait(compiling.get(ALL, ()))
    model = settle(start(calls.make(init_keys)) if start else calls.make(init_keys))
    if held_out is None:
        held_out = _draw(formulation, formulation.draw_held_out, held_keys, model)
    flat = jax.jit(calls.lift(lambda *trees: ravel_pytree(trees)[0]))
    unflat = ravel_pytree(_one((model, weights), 0))[1]
    lay_out = partial(sharding.laid_out, mesh, weights=_count(model) // many)
    saved = time.perf_counter()

    for number in range(first, len(stages)):
        stage, stage_key = stages[number], _at(stage_keys, number)
        state = settle(jax.jit(calls.lift(lambda model, stage=stage: lay_out(stage.optimiser.init(model))))(model))
        step, batch, good, course = 0, (), flat(model, weights), _Course.begun(many)
        if not stage.inside:
            batch = _draw(formulation, formulation.draw, _at(stage_key, 0), model)
        if resumed is not None:
            tree = checkpoint.load(path, (model, weights, state, batch, good))  # type: ignore[arg-type]
            model, weights, state, batch, good = settle(tree)
            step, course, resumed = resumed["step"], _Course(**resumed["ended"]), None
        wait(compiling.get(number, ()))
        while step < stage.steps and not all(course.why):
            _raise_mistakes(compiling)
            fresh = step == 0
            if not stage.inside and stage.redraw and step and step % stage.redraw == 0:
                batch = _draw(formulation, formulation.draw, _at(stage_key, step), model)
                fresh, course.resting = True, [False] * many
            if fresh and not stage.inside and ahead(state):
                state = looking_ahead(state, calls.value_and_grad(model, weights, batch))
            length, took = stage.length(step), course.active
            active = np.isin(np.arange(many), took)
            model, weights, state, losses, visited, codes = calls.blocks[number](length)(
                model, weights, state, batch, _at(stage_key, step), jnp.full(many, fresh), jnp.asarray(active))
            losses, codes = np.asarray(losses), np.asarray(codes)
            finite = np.isfinite(losses)
            counts = np.where(finite.all(1), length, np.argmin(finite, axis=1))
            for k in took:
                if counts[k]:
                    good = good.at[k].set(visited[k, counts[k] - 1])
                if counts[k] < length:
                    model, weights = _set((model, weights), k, unflat(good[k]))
                course.advance(k, stage, step, int(counts[k]), length, int(codes[k]))
            step = course.next(took)
            held = np.asarray(calls.loss(model, held_out))
            seconds = offset + time.perf_counter() - began
            for k in took:
                training = trainings[k]
                training.seconds = seconds
                training.first_step = training.first_step or seconds
                last = float(losses[k, counts[k] - 1]) if counts[k] else float("nan")
                training.history.append({"stage": stage.name, "step": course.steps[k], "steps": stage.steps,
                                         "loss": last, "held_out": float(held[k]), "seconds": seconds})
            report({**_middle([trainings[k] for k in took]), "step": step})
            due = sharding.agreed(time.perf_counter() - saved > every)
            if path is not None and due and not all(course.why):
                _save(path, trainings, number, step, course, (model, weights, state, batch, good))
                saved = time.perf_counter()
        for k, training in enumerate(trainings):
            if not np.isfinite(training.history[-1]["held_out"]) and np.isfinite(np.asarray(good[k])).all():
                model, weights = _set((model, weights), k, unflat(good[k]))
            training.endings.append({"stage": stage.name, "steps": course.steps[k],
                                     "why": course.why[k] or f"all {stage.steps} steps were taken"})
    for k, training in enumerate(trainings):
        training.model = jax.tree.map(lambda a, k=k: sharding.here(mesh, a)[k], model)
        training.seconds = offset + time.perf_counter() - began
    return trainings


@dataclass
class _Course:
    """How far each model is in a stage, why it ended there ("": it did not), and whether it waits for new points."""

    steps: list[int]
    why: list[str]
    resting: list[bool]

    @classmethod
    def begun(cls, many: int) -> "_Course":
        return cls([0] * many, [""] * many, [False] * many)

    @property
    def active(self) -> list[int]:
        return [k for k, (why, resting) in enumerate(zip(self.why, self.resting)) if not why and not resting]

    def advance(self, k: int, stage: Stage, step: int, count: int, length: int, code: int) -> None:
        """Of a block of this length, begun at this step, the first `count` losses of model k were finite; then its
        optimiser reported this code."""
        self.steps[k] = step + count
        if count < length:
            self.why[k] = f"the loss was not finite at step {step + count + 1}; the last good weights were kept"
        elif code == STALLED and stage.redraw and not stage.inside:  # on to new points at once
            self.steps[k] = min(-(-self.steps[k] // stage.redraw) * stage.redraw, stage.steps)
            self.resting[k] = True
            self.why[k] = describe_status(STALLED) if self.steps[k] == stage.steps else ""
        elif code:
            self.why[k] = describe_status(code)

    def next(self, took: list[int]) -> int:
        """The step to go on from: that of the model that is least far of those that go on; took: who was active."""
        going = [steps for steps, why in zip(self.steps, self.why) if not why]
        return min(going, default=max(self.steps[k] for k in took))


class _Calls(NamedTuple):
    """What training compiles, for models along the first axis: lift(f) is f of one model."""

    lift: Callable
    make: Callable  # keys → fresh models
    loss: Callable
    value_and_grad: Callable
    blocks: list[Callable]  # of each stage: length → a block


def _calls(formulation, stages: list[Stage], many: int) -> _Calls:
    lift = jax.vmap if many > 1 else _alone
    spread = partial(sharding.everywhere, formulation.mesh)
    few = min(SHORT[0], SHORT[1] * sum(stage.steps for stage in stages))
    return _Calls(
        lift,
        jax.jit(lambda keys: spread(lift(formulation.init)(keys))),
        jit_for_speed(lift(formulation.loss)),
        jit_quickly(lift(lambda model, weights, batch: spread(
            formulation.value_and_grad(model, batch._replace(weights=weights))))),
        [cache(partial(_block, formulation, stage, many, jit_quickly if stage.steps < few else jit_for_speed))
         for stage in stages])


def _compiling(formulation, stages: list[Stage], first: int, calls: _Calls, weights: jax.Array,
               keys: tuple[jax.Array, jax.Array, jax.Array]) -> dict[int, list[Future]]:
    """Compile beside what training will call: jobs by the number of the stage that needs them first, or ALL."""
    init_keys, held_keys, stage_keys = keys
    model = _kinds(calls.make, init_keys)
    held_out = _kinds(partial(_draw, formulation, formulation.draw_held_out), held_keys, model)
    needed = {calls.make: (ALL, (init_keys,)), calls.loss: (first, (model, held_out))}
    for number in range(first, len(stages)):
        for function, arguments in _first_calls(formulation, stages[number], calls, number, model, weights, stage_keys):
            needed.setdefault(function, (number, arguments))
    jobs: dict[int, list[Future]] = {}
    for (number, _), job in zip(needed.values(), compile_in_background([(f, a) for f, (_, a) in needed.items()])):
        jobs.setdefault(number, []).append(job)
    return jobs


def _raise_mistakes(compiling: dict[int, list[Future]]) -> None:
    """What is wrong with a later stage, and was found in compiling it, is said now and not when its turn comes."""
    for job in chain.from_iterable(compiling.values()):
        if job.done() and isinstance(error := job.exception(), ValueError):
            raise error


def _resumed(path: Path, stages: list[Stage], many: int) -> dict[str, Any]:
    """Where the run of a checkpoint stands."""
    found = checkpoint.read_meta(path, ("stage", "step", "ended", "trainings"))
    if found["stage"] >= len(stages):
        raise ValueError(f"'{path}' belongs to a run with other stages; start the run again")
    if (number := len(found["trainings"])) != many:
        raise ValueError(f"'{path}' is of {number} models trained at once, not of {many}; start the run again")
    return found


def history_so_far(path: Path) -> list[dict]:
    """The records of the run of a checkpoint, of the first model; none where it does not exist yet."""
    return checkpoint.read_meta(path, ("trainings",))["trainings"][0]["history"] if path.exists() else []


def _first_calls(formulation, stage: Stage, calls: _Calls, number: int, model: Any, weights: jax.Array,
                 keys: jax.Array) -> list[tuple]:
    """What a stage will call first: functions, with the kinds of their arguments."""
    state = _kinds(calls.lift(stage.optimiser.init), model)
    batch = () if stage.inside else _kinds(partial(_draw, formulation, formulation.draw), keys, model)
    found = [(calls.blocks[number](stage.length()),
              (model, weights, state, batch, keys, *[jnp.ones(len(keys), bool)] * 2))]
    if ahead(state) and not stage.inside:
        found.append((calls.value_and_grad, (model, weights, batch)))
    return found


def _kinds(function: Callable, *arguments: Any) -> Any:
    """Shapes and types of what a function returns, as they are once it is settled."""
    place = jax.sharding.SingleDeviceSharding(current_device())
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place, weak_type=a.weak_type),
                        jax.eval_shape(function, *arguments))


def _alone(function: Callable) -> Callable:
    """What `jax.vmap` does, for a first axis of length one: the function is compiled as it is."""

    def lifted(*arguments):
        result = function(*jax.tree.map(lambda a: a[0], arguments))
        return jax.tree.map(lambda a: jnp.asarray(a)[None], result)

    return lifted


def _draw(formulation, draw: Callable, keys: jax.Array, model: Any) -> Any:
    """A draw for each model."""
    batches = [formulation.in_parts(draw(key, _one(model, k))) for k, key in enumerate(keys)]
    return sharding.settled(formulation.mesh, sharding.stacked(formulation.mesh, batches))


def _at(keys: jax.Array, number: int) -> jax.Array:
    return jax.vmap(jax.random.fold_in, (0, None))(keys, number)


def _one(model: Any, k: int) -> Any:
    return jax.tree.map(lambda a: a[k], model)


def _count(model: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model))


def _set(trees: Any, k: int, one: Any) -> Any:
    return jax.tree.map(lambda a, b: a.at[k].set(b), trees, one)


def _middle(trainings: list[Training]) -> dict:
    """The last record of the model whose held-out loss is in the middle."""
    records = [training.history[-1] for training in trainings]
    return sorted(records, key=lambda record: (np.isnan(record["held_out"]), record["held_out"]))[len(records) // 2]


def _save(path: Path, trainings: list[Training], stage: int, step: int, course: _Course, tree: Any) -> None:
    keys = ("history", "endings", "seconds", "first_step")
    checkpoint.save(path, tree, {"stage": stage, "step": step, "ended": asdict(course), "trainings": [
        {key: getattr(training, key) for key in keys} for training in trainings]})


def _block(formulation, stage: Stage, many: int, jit: Callable, length: int):
    """A compiled block: (model, weights, state, batch, key, fresh, active) → model, weights, state, losses, models and
    weights visited, status; all of them with the models along their first axis. Of many, those not active stay."""
    weighing = stage.reweigh and formulation.balance is not None
    mesh = formulation.mesh

    def take(model, weights, state, batch, fresh, active, length):
        def step(carry, _):
            model, weights, state, fresh = before = carry
            here = batch._replace(weights=weights)
            if weighing:
                weights, value, gradient = formulation.rebalance(model, here)
                here = batch._replace(weights=weights)
            else:
                value, gradient = ahead(state) or formulation.value_and_grad(model, here)
            updates, state = stage.optimiser.update(
                gradient, state, model, value=value, fresh=fresh,
                value_fn=lambda m: formulation.loss(m, here),
                value_and_grad_fn=lambda m: formulation.value_and_grad(m, here),
                residual_fn=lambda m: formulation.residual_vector(m, here),
                jacobian_fn=lambda m: formulation.jacobian(m, here),
                whole=partial(sharding.gathered, mesh))
            visited = ravel_pytree((model, weights))[0]
            state = sharding.in_use(mesh, state, _count(model))
            after = optax.apply_updates(model, updates), weights, state, jnp.asarray(False)
            if many > 1:
                after = jax.tree.map(lambda new, old: jnp.where(active, new, old), after, before)
            return after, (value, visited)

        (model, weights, state, _), (losses, visited) = jax.lax.scan(
            step, (model, weights, state, fresh), length=length)
        return model, weights, state, losses, visited

    def block(model, weights, state, batch, key, fresh, active):
        number = _count(model)
        state = sharding.in_use(mesh, state, number)
        if not stage.inside:
            model, weights, state, losses, visited = take(model, weights, state, batch, fresh, active, length)
        else:
            keys = jax.random.split(key, stage.draws(length))

            def period(carry, key):
                model, weights, state = carry
                batch = formulation.in_parts(formulation.draw(key, model))
                if ahead(state) and not weighing:
                    known = formulation.value_and_grad(model, batch._replace(weights=weights))
                    state = looking_ahead(state, known)
                model, weights, state, losses, visited = take(
                    model, weights, state, batch, jnp.asarray(True), active, length // len(keys))
                return (model, weights, state), (losses, visited)

            (model, weights, state), (losses, visited) = jax.lax.scan(period, (model, weights, state), keys)
            losses, visited = losses.ravel(), visited.reshape(-1, visited.shape[-1])
        model, weights, losses, visited, code = sharding.everywhere(
            mesh, (model, weights, losses, visited, status(state)))
        return model, weights, sharding.laid_out(mesh, state, number), losses, visited, code

    # The state is given up to the result: it may hold a large matrix that must not exist twice.
    return jit((jax.vmap if many > 1 else _alone)(block), donate_argnums=2)
