"""The training loop: the only one, for every method and optimiser. Knows no PDE and no geometry."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from hardpde.compiling import compile_beside, often, seldom
from hardpde.training import checkpoint, sharding
from hardpde.training.optimisers import STALLED, ahead, describe_status, looking_ahead, status

CHECKPOINT_SECONDS = 60.0
SHORT = 2000, 0.05  # fewer steps than this, and a smaller share of all: finding the best kernels takes longer


@dataclass(frozen=True)
class Stage:
    """How the loss is minimised for a while: an optax transformation, steps, when points are redrawn.

    redraw: new points every so many steps; 0 keeps the points of the stage. block: steps between two reports.
    reweigh: whether the weights of the terms of the loss may change, where a method has a rule for them.
    """

    name: str
    optimiser: optax.GradientTransformationExtraArgs
    steps: int
    redraw: int = 0
    block: int = 50
    reweigh: bool = False

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
    return fit_all(formulation, stages, key[None], path=path, resume=resume, report=report, every=every)[0]


def fit_all(formulation, stages: list[Stage], keys: jax.Array, *, path: Path | None = None, resume: bool = False,
            report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
            start: Callable[[Any], Any] = lambda model: model) -> list[Training]:
    """Train as many models as there are keys, side by side: each takes the steps it would take alone.

    All arrays have the models along their first axis. A model whose stage has ended, or that waits for new points,
    stays as it is while the others go on. `start` gets the fresh models, and returns those to start from.
    """
    began = time.perf_counter()
    many = len(keys)
    lift = jax.vmap if many > 1 else _alone
    spread = partial(sharding.everywhere, formulation.mesh)
    init_keys, held_keys, stage_keys = jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, 3))(keys), 1, 0)
    settle = partial(sharding.settled, formulation.mesh)
    trainings = [Training(None) for _ in range(many)]
    loss = often(lift(formulation.loss))
    value_and_grad = seldom(lift(lambda model, weights, batch: spread(
        formulation.value_and_grad(model, batch._replace(weights=weights)))))
    start_stage, resumed, offset = 0, None, 0.0
    if resume and path is not None and path.exists():
        resumed = checkpoint.read_meta(path, ("stage", "step", "ended", "trainings"))
        start_stage = resumed["stage"]
        if start_stage >= len(stages):
            raise ValueError(f"'{path}' belongs to a run with other stages; start the run again")
        if (found := len(resumed["trainings"])) != many:
            raise ValueError(f"'{path}' is of {found} models trained at once, not of {many}; start the run again")
        trainings = [Training(None, **known) for known in resumed["trainings"]]
        offset = max(training.seconds for training in trainings)
    saved = time.perf_counter()
    # A block of each stage; the last of a stage may be shorter.
    few = min(SHORT[0], SHORT[1] * sum(stage.steps for stage in stages))
    blocks = [cache(partial(_block, formulation, stage, many, seldom if stage.steps < few else often))
              for stage in stages]
    weights = jnp.broadcast_to(jnp.asarray(formulation.weights), (many, len(formulation.weights)))
    weights = settle(jax.jit(spread)(weights))
    make = jax.jit(lambda keys: spread(lift(formulation.init)(keys)))
    draw_held_out = partial(_draw, formulation, formulation.draw_held_out, model=None)
    compiling: dict[int, list[Future]] = {}
    if formulation.mesh is None:
        kind = _kinds(make, init_keys)
        # By function: which stage needs it first (−1: all of them), and for which arguments.
        calls = {make: (-1, (init_keys,)), loss: (start_stage, (kind, _kinds(draw_held_out, held_keys)))}
        for number in range(start_stage, len(stages)):
            for function, arguments in _first_calls(formulation, stages[number], blocks[number], value_and_grad, lift,
                                                    kind, weights, stage_keys):
                calls.setdefault(function, (number, arguments))
        for (number, _), job in zip(calls.values(), compile_beside([(f, a) for f, (_, a) in calls.items()])):
            compiling.setdefault(number, []).append(job)
    held_out = draw_held_out(held_keys)
    wait(compiling.get(-1, ()))
    model = settle(start(make(init_keys)))
    flat = jax.jit(lift(lambda *trees: ravel_pytree(trees)[0]))
    unflat = ravel_pytree(jax.tree.map(lambda a: a[0], (model, weights)))[1]
    lay_out = partial(sharding.laid_out, formulation.mesh, weights=_count(model) // many)

    for number in range(start_stage, len(stages)):
        stage = stages[number]
        stage_key = _at(stage_keys, number)
        state = settle(jax.jit(lift(lambda model, stage=stage: lay_out(stage.optimiser.init(model))))(model))
        step, batch, good = 0, (), flat(model, weights)
        steps, endings, resting = np.zeros(many, int), [""] * many, np.zeros(many, bool)
        if not stage.periods:
            batch = _draw(formulation, formulation.draw, _at(stage_key, 0), model)
        if resumed is not None:
            tree = checkpoint.load(path, (model, weights, state, batch, good))  # type: ignore[arg-type]
            (model, weights, state, batch, good), step = settle(tree), resumed["step"]
            ended, resumed = resumed["ended"], None
            steps, endings, resting = np.array(ended["steps"]), ended["why"], np.array(ended["resting"])
        wait(compiling.get(number, ()))
        while step < stage.steps and not all(endings):
            fresh = step == 0
            if not stage.periods and stage.redraw and step and step % stage.redraw == 0:
                batch = _draw(formulation, formulation.draw, _at(stage_key, step), model)
                fresh, resting[:] = True, False
            if fresh and not stage.periods and ahead(state):
                state = looking_ahead(state, value_and_grad(model, weights, batch))
            length = min(stage.length, stage.steps - step)
            active = np.array([not why for why in endings]) & ~resting
            model, weights, state, losses, visited, codes = blocks[number](length)(
                model, weights, state, batch, _at(stage_key, step), jnp.full(many, fresh), jnp.asarray(active))
            losses, codes = np.asarray(losses), np.asarray(codes)
            finite = np.isfinite(losses)
            counts = np.where(finite.all(1), length, np.argmin(finite, axis=1))
            took = [int(k) for k in np.flatnonzero(active)]
            for k in took:
                steps[k] = step + counts[k]
                if counts[k]:
                    good = good.at[k].set(visited[k, counts[k] - 1])
                if counts[k] < length:
                    model, weights = _set((model, weights), k, unflat(good[k]))
                    endings[k] = f"the loss was not finite at step {steps[k] + 1}; the last good weights were kept"
                elif codes[k] == STALLED and stage.redraw and not stage.periods:  # on to new points at once
                    steps[k] = min(-(-steps[k] // stage.redraw) * stage.redraw, stage.steps)
                    resting[k] = True
                    endings[k] = describe_status(STALLED) if steps[k] == stage.steps else ""
                elif codes[k]:
                    endings[k] = describe_status(int(codes[k]))
            waiting = [k for k in range(many) if not endings[k]]
            step = int(min((steps[k] for k in waiting), default=max(steps[k] for k in took)))
            held = np.asarray(loss(model, held_out))
            seconds = offset + time.perf_counter() - began
            for k in took:
                training = trainings[k]
                training.seconds = seconds
                training.first_step = training.first_step or seconds
                last = float(losses[k, counts[k] - 1]) if counts[k] else float("nan")
                training.history.append({"stage": stage.name, "step": int(steps[k]), "steps": stage.steps,
                                         "loss": last, "held_out": float(held[k]), "seconds": seconds})
            report({**_middle([trainings[k] for k in took]), "step": step})
            due = sharding.agreed(time.perf_counter() - saved > every)
            if path is not None and due and not all(endings):
                ended = {"steps": steps.tolist(), "why": endings, "resting": resting.tolist()}
                _save(path, trainings, number, step, ended, (model, weights, state, batch, good))
                saved = time.perf_counter()
        for k, training in enumerate(trainings):
            if not np.isfinite(training.history[-1]["held_out"]) and np.isfinite(np.asarray(good[k])).all():
                model, weights = _set((model, weights), k, unflat(good[k]))
            training.endings.append({"stage": stage.name, "steps": int(steps[k]),
                                     "why": endings[k] or f"all {stage.steps} steps were taken"})
    for k, training in enumerate(trainings):
        training.model = jax.tree.map(lambda a, k=k: sharding.here(formulation.mesh, a)[k], model)
        training.seconds = offset + time.perf_counter() - began
    return trainings


def history_so_far(path: Path) -> list[dict]:
    """The records of the run of a checkpoint, of the first model; none where it does not exist yet."""
    return checkpoint.read_meta(path, ("trainings",))["trainings"][0]["history"] if path.exists() else []


def _first_calls(formulation, stage: Stage, blocks: Callable, value_and_grad: Callable, lift: Callable, model: Any,
                 weights: jax.Array, keys: jax.Array) -> list[tuple]:
    """What a stage will call first: functions, with the kinds of their arguments."""
    state = _kinds(lift(stage.optimiser.init), model)
    batch = () if stage.periods else _kinds(partial(_draw, formulation, formulation.draw), keys, model)
    calls = [(blocks(min(stage.length, stage.steps)),
              (model, weights, state, batch, keys, *[jnp.ones(len(keys), bool)] * 2))]
    if ahead(state) and not stage.periods:
        calls.append((value_and_grad, (model, weights, batch)))
    return calls


def _kinds(function: Callable, *arguments: Any) -> Any:
    """Shapes and types of what a function returns, as they are once it is settled."""
    place = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
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
    batches = [draw(key, _one(model, k)) for k, key in enumerate(keys)]
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


def _save(path: Path, trainings: list[Training], stage: int, step: int, ended: dict, tree: Any) -> None:
    keys = ("history", "endings", "seconds", "first_step")
    checkpoint.save(path, tree, {"stage": stage, "step": step, "ended": ended, "trainings": [
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
        if not stage.periods:
            model, weights, state, losses, visited = take(model, weights, state, batch, fresh, active, length)
        else:
            def period(carry, key):
                model, weights, state = carry
                batch = formulation.draw(key, model)
                if ahead(state) and not weighing:
                    known = formulation.value_and_grad(model, batch._replace(weights=weights))
                    state = looking_ahead(state, known)
                model, weights, state, losses, visited = take(
                    model, weights, state, batch, jnp.asarray(True), active, stage.redraw)
                return (model, weights, state), (losses, visited)

            keys = jax.random.split(key, length // stage.redraw)
            (model, weights, state), (losses, visited) = jax.lax.scan(period, (model, weights, state), keys)
            losses, visited = losses.ravel(), visited.reshape(-1, visited.shape[-1])
        model, weights, losses, visited, code = sharding.everywhere(
            mesh, (model, weights, losses, visited, status(state)))
        return model, weights, sharding.laid_out(mesh, state, number), losses, visited, code

    # The state is given up to the result: it may hold a large matrix that must not exist twice.
    return jit((jax.vmap if many > 1 else _alone)(block), donate_argnums=2)
