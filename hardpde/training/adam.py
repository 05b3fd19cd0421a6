"""Adam, with PyTorch's plateau rule for its rate."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from hardpde.support.checking import check_at_least
from hardpde.training.line_search import select


class PlateauState(NamedTuple):
    """State of `reduce_on_plateau`; `learning_rate` is the one the next step uses."""

    learning_rate: Array
    best: Array
    bad: Array
    cooldown: Array
    seen: Array


def reduce_on_plateau(
    learning_rate: float,
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    cooldown: int = 0,
    min_lr: float = 0.0,
    eps: float = 1e-8,
    every: int = 1,
) -> optax.GradientTransformationExtraArgs:
    """Scale by minus a learning rate that follows PyTorch's `ReduceLROnPlateau` (mode min, relative).

    The rule sees `value` at every `every`-th step, after that step; a reduction acts from the next one.
    """
    if not 0 < factor < 1:
        raise ValueError(f"factor must lie between 0 and 1, got {factor}")
    check_at_least(1, every=every)

    def init(params: Any) -> PlateauState:
        del params
        # Separate arrays: a donated state must not hold one buffer twice.
        zeros = [jnp.zeros((), jnp.int32) for _ in range(3)]
        return PlateauState(jnp.asarray(learning_rate, float), jnp.asarray(jnp.inf, float), *zeros)

    def observe(state: PlateauState, value: Array) -> PlateauState:
        better = value < state.best * (1.0 - threshold)
        best = jnp.where(better, value, state.best)
        cooling = state.cooldown > 0
        bad = jnp.where(better | cooling, 0, state.bad + 1)
        waiting = jnp.where(cooling, state.cooldown - 1, state.cooldown)
        reduce = bad > patience
        lower = jnp.maximum(state.learning_rate * factor, min_lr)
        take = reduce & (state.learning_rate - lower > eps)
        return PlateauState(
            learning_rate=jnp.where(take, lower, state.learning_rate),
            best=best,
            bad=jnp.where(reduce, 0, bad),
            cooldown=jnp.where(reduce, cooldown, waiting).astype(jnp.int32),
            seen=state.seen,
        )

    def update(updates: Any, state: PlateauState, params: Any = None, *, value: Any,
               **extra: Any) -> tuple[Any, PlateauState]:
        del params, extra
        scaled = jax.tree.map(lambda u: (-state.learning_rate * u).astype(u.dtype), updates)
        observed = observe(state, jnp.asarray(value, float))
        new = select((state.seen + 1) % every == 0, observed, state)
        return scaled, new._replace(seen=state.seen + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def adam(
    learning_rate: float | Callable[[Array], Array] = 1e-2,
    plateau: bool = True,
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    cooldown: int = 0,
    min_lr: float = 0.0,
    eps: float = 1e-8,
    every: int = 1,
) -> optax.GradientTransformationExtraArgs:
    """Adam, by default followed by PyTorch's `ReduceLROnPlateau` rule, step for step.

    `eps` is the smallest reduction the rule makes, `every` the number of steps between two looks at the
    loss (PyTorch users step the scheduler once per epoch). With `plateau=False` the learning rate is
    constant or a schedule (a function of the step).
    """
    if not plateau:
        rate = optax.scale_by_learning_rate(learning_rate)
    elif callable(learning_rate):
        raise ValueError("learning_rate is a schedule: pass plateau=False, or a number with plateau=True")
    else:
        rate = reduce_on_plateau(learning_rate, factor, patience, threshold, cooldown, min_lr, eps, every)
    return optax.with_extra_args_support(optax.chain(optax.scale_by_adam(), rate))
