"""The functions that training calls, and their compiling in the background."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.support.compiling import compile_in_background, jit_for_speed, jit_quickly
from hardpde.support.hardware import current_device
from hardpde.training import sharding
from hardpde.training.ahead import ahead
from hardpde.training.base import Batch, Model, Objective, Observe, Stage
from hardpde.training.block import Block, lifted, make_block

ALL = -1  # stages
SHORT = 2000, 0.05  # fewer steps than this, and a smaller share of all: finding the best kernels takes longer
Jobs = dict[int, list[Future]]  # by the number of the stage that needs them first, or ALL


class Calls(NamedTuple):
    """What training compiles, for models along the first axis: lift(f) is f of one model."""

    lift: Callable[[Callable], Callable]
    make: Callable[[Array], Model]  # keys → fresh models
    loss: Callable[[Model, Batch], Array]
    value_and_grad: Callable[[Model, Array, Batch], tuple[Array, Model]]
    blocks: list[Callable[[int], Callable[..., Block]]]  # of each stage: length → a block


def make_calls(objective: Objective, stages: list[Stage], many: int, observe: Observe | None) -> Calls:
    lift = lifted(many)
    everywhere = partial(sharding.everywhere, objective.mesh)
    few = min(SHORT[0], SHORT[1] * sum(stage.steps for stage in stages))
    return Calls(
        lift,
        jax.jit(lambda keys: everywhere(lift(objective.init)(keys))),
        jit_for_speed(lift(objective.loss)),
        jit_quickly(lift(lambda model, weights, batch: everywhere(
            objective.value_and_grad(model, batch._replace(weights=weights))))),
        [cache(partial(make_block, objective, stage, many, jit_quickly if stage.steps < few else jit_for_speed,
                       observe)) for stage in stages])


def drawn(objective: Objective, draw: Callable[[Array, Model | None], Batch], keys: Array,
          model: Model | None) -> Batch:
    """A draw for each model."""
    batches = [objective.in_parts(draw(key, one_of(model, k))) for k, key in enumerate(keys)]
    return sharding.settled(objective.mesh, sharding.stacked(objective.mesh, batches))


def one_of(tree: Any, k: int) -> Any:
    """The part of every array that belongs to model k."""
    return jax.tree.map(lambda a: a[k], tree)


def compile_calls(objective: Objective, stages: list[Stage], first: int, calls: Calls, weights: Array,
                  init_keys: Array, held_keys: Array, stage_keys: Array) -> Jobs:
    """Compile in the background what training will call from the stage `first` on."""
    model = _kinds(calls.make, init_keys)
    held_out = _kinds(partial(drawn, objective, objective.draw_held_out), held_keys, model)
    needed = {calls.make: (ALL, (init_keys,)), calls.loss: (first, (model, held_out))}
    for number in range(first, len(stages)):
        for function, arguments in _first_calls(objective, stages[number], calls, number, model, weights, stage_keys):
            needed.setdefault(function, (number, arguments))
    jobs: Jobs = {}
    for (number, _), job in zip(needed.values(), compile_in_background([(f, a) for f, (_, a) in needed.items()])):
        jobs.setdefault(number, []).append(job)
    return jobs


def raise_mistakes(jobs: Jobs) -> None:
    """What is wrong with a later stage, and was found in compiling it, is said now and not when its turn comes."""
    for job in chain.from_iterable(jobs.values()):
        if job.done() and isinstance(error := job.exception(), ValueError):
            raise error


def _first_calls(objective: Objective, stage: Stage, calls: Calls, number: int, model: Model, weights: Array,
                 keys: Array) -> list[tuple[Callable, tuple]]:
    """What a stage will call first: functions, with the kinds of their arguments."""
    state = _kinds(calls.lift(stage.optimiser.init), model)
    batch = () if stage.inside else _kinds(partial(drawn, objective, objective.draw), keys, model)
    found: list[tuple[Callable, tuple]] = [
        (calls.blocks[number](stage.length()), (model, weights, state, batch, keys, *[jnp.ones(len(keys), bool)] * 2))]
    if ahead(state) and not stage.inside:
        found.append((calls.value_and_grad, (model, weights, batch)))
    return found


def _kinds(function: Callable, *arguments: Any) -> Any:
    """Shapes and types of what a function returns, as they are once it is settled."""
    place = jax.sharding.SingleDeviceSharding(current_device())
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place, weak_type=a.weak_type),
                        jax.eval_shape(function, *arguments))
