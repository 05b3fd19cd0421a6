"""A family of problems: its parameters as they are stated, and its members."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array

from hardpde.problem.conditions import Condition, Periodic
from hardpde.problem.datum import Datum
from hardpde.problem.fields import State
from hardpde.problem.hints import Residual
from hardpde.problem.parameters import Parameter, single

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

_OF_THE_POINT = ("inputs", "outputs", "guess", "scale", "distances", "normals")  # hints


def in_order(stated: Any) -> tuple[Parameter, ...]:
    """The parameters of a problem: all that were made together, in their order."""
    found = tuple(stated)
    for place, parameter in enumerate(found):
        if not isinstance(parameter, Parameter):
            raise ValueError(f"{parameter!r} is not a parameter; make them with parameters(h=(0.5, 2.0))")
        if parameter.place != place - len(found):
            raise ValueError(f"parameter '{parameter.name}' is not in its place; state all parameters that were made "
                             f"together by one call of parameters(…), in their order")
    return found


def member(family: "Problem", stated: Mapping[str, float]) -> "Problem":
    """The problem at these values of the parameters; the family was checked, so it is not."""
    fixed = jnp.array(single(family.parameters, stated))
    if not family.parameters:
        return family

    def full(x: Array) -> Array:
        """A point of the member as one of the family."""
        return jnp.concatenate([x, fixed.astype(x.dtype)])

    def residual(x: Array, q: State, dq: State) -> Any:
        return family.residual(full(x), q, dq)

    easier = family.hints.continuation

    def continuation(s: Any) -> Residual:
        assert easier is not None
        found = easier(s)
        return lambda x, q, dq: found(full(x), q, dq)

    hints = {name: _at(full, getattr(family.hints, name)) for name in _OF_THE_POINT}
    hints["continuation"] = easier and continuation
    reference = family.reference
    return family.derived(
        residual=residual, conditions=tuple(_condition_at(full, one) for one in family.conditions), parameters=(),
        mapping=_at(full, family.mapping), measurements=(), hints=replace(family.hints, **hints),
        exact=_at(full, family.exact), reference=partial(reference, **stated) if callable(reference) else reference,
        presets=None, origin=None)


def _at(full: Callable[[Array], Array], stated: Any) -> Any:
    """A function of a point of the family, or several by name, of points of the member; other data as they are."""
    if isinstance(stated, Mapping):
        return {name: _at(full, one) for name, one in stated.items()}
    return (lambda x: stated(full(x))) if callable(stated) else stated


def _condition_at(full: Callable[[Array], Array], one: Condition | Periodic | Datum) -> Condition | Periodic | Datum:
    if isinstance(one, Periodic):
        return one
    if isinstance(one, Datum):
        return replace(one, value=_at(full, one.value))
    return replace(one, lhs=lambda q, x, n: one.lhs(q, full(x), n), rhs=_at(full, one.rhs))
