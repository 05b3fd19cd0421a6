"""Parameters of a family of problems: named numbers with ranges, the last coordinates of every point."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.support.checking import numbers

_declared: ContextVar[tuple[frozenset[tuple[str, int]], int] | None] = ContextVar("_declared", default=None)


class Undeclared(ValueError):
    """A parameter is read where it does not stand."""


@dataclass(frozen=True)
class Parameter:
    """A number between `low` and `high` that a problem leaves open. It is a function of the point: `h(x)`.

    So it stands wherever data of a condition stand, and in a residual or any other function of the point is read as
    h(x). Made by `parameters`, which knows its place in a point.
    """

    name: str
    low: float
    high: float
    place: int  # in a point, from its end: −1 is the last coordinate

    def __str__(self) -> str:
        return f"{self.name} from {self.low:g} to {self.high:g}"

    def __call__(self, x: Array) -> Array:
        """Its value at a point (c,)."""
        if np.ndim(x) != 1:
            raise ValueError(f"the parameter '{self.name}' is read at an array of shape {np.shape(x)}; it is a "
                             f"function of one point, jax.vmap makes it one of many")
        if (declared := _declared.get()) is not None:
            self._check(len(x), *declared)
        return x[self.place]

    def _check(self, size: int, known: frozenset[tuple[str, int]], point: int) -> None:
        """It stands where it reads: in points of a problem that states it, or in longer ones that a user made."""
        if size <= point and (self.name, self.place) not in known:
            raise Undeclared(f"the parameter '{self.name}' is used, and the problem does not state it; give "
                             f"Problem(…, parameters=…) all that one call of parameters(…) made, in their order")
        if size < point:
            raise Undeclared(f"the parameter '{self.name}' is read at a point of {size} coordinates, which has none; "
                             f"what is a function of space alone cannot depend on it")


@contextmanager
def declaring(known: Sequence[Parameter], point: int) -> Iterator[None]:
    """In here a parameter is read only as one of those known, at points of so many numbers; others would read wrongly.

    A parameter is known by its name and its place, whatever its range.
    """
    token = _declared.set((frozenset((p.name, p.place) for p in known), point))
    try:
        yield
    finally:
        _declared.reset(token)


def parameters(**ranges: tuple[float, float]) -> tuple[Parameter, ...]:
    """Parameters with their ranges, all that a problem has: h, k = parameters(h=(0.5, 2), k=(1, 3))."""
    if not ranges:
        raise ValueError("no parameter is named; write parameters(h=(0.5, 2.0))")
    found = []
    for place, (name, span) in enumerate(ranges.items()):
        try:
            low, high = map(float, numbers(span, name))
        except (TypeError, ValueError):
            raise ValueError(f"the range of parameter '{name}' is {span!r}; it is (low, high)") from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(f"the range of parameter '{name}' is ({low:g}, {high:g}); it needs low < high")
        if not name.isidentifier() or iskeyword(name):
            raise ValueError(f"{name!r} cannot name a parameter; use letters, digits and underscores, and no word of "
                             f"Python's own")
        if name in ("x", "t"):
            raise ValueError(f"a parameter cannot be named '{name}': that is what points are called")
        found.append(Parameter(name, low, high, place - len(ranges)))
    return tuple(found)


def append(known: Sequence[Parameter], x: Any, key: Array | None = None) -> Any:
    """Points (n, c) with values of the parameters at their end: random ones, or without a key spread evenly over
    all ranges, both ends included."""
    if not known:
        return x
    low, high = (jnp.array([getattr(p, end) for p in known]) for end in ("low", "high"))
    unit = _spread(len(x), len(known)) if key is None else jax.random.uniform(key, (len(x), len(known)))
    return jnp.concatenate([jnp.asarray(x), low + (high - low) * unit], axis=1)


def _spread(n: int, size: int) -> np.ndarray:
    """n points (n, size) of the unit cube, the lower and the upper corner first, then an additive recurrence."""
    root = 2.0
    for _ in range(30):  # the root of r^(size + 1) = r + 1
        root = (1 + root) ** (1 / (size + 1))
    unit = (0.5 + np.outer(np.arange(n), root ** -np.arange(1.0, size + 1))) % 1
    unit[:1], unit[1:2] = 0.0, 1.0
    return unit


def as_points(x: Any) -> np.ndarray:
    """Points (n, c) that a user states, or one point (c,)."""
    array = np.atleast_2d(numbers(x, "x"))
    if array.ndim != 2:
        raise ValueError(f"x has the shape {array.shape}; points are (n, d)")
    return array


def column(what: str, value: Any, n: int) -> np.ndarray:
    """What a user states for n points, one number for all or one for each, as (n, 1)."""
    array = numbers(value, what)
    if array.shape not in ((), (1,), (n,), (n, 1)):
        raise ValueError(f"{what} has the shape {array.shape}; it is one number, or one for each of the {n} points")
    return np.broadcast_to(array.reshape(-1, 1), (n, 1))


def values(known: Sequence[Parameter], stated: Mapping[str, Any], anywhere: bool = False) -> dict[str, np.ndarray]:
    """What a user states for the parameters by name, in their order; every fault is a ValueError of one sentence, and
    so is, unless values may lie anywhere, one outside its range."""
    names = [p.name for p in known]
    if unknown := [name for name in stated if name not in names]:
        raise ValueError(f"there is no parameter '{unknown[0]}'; " + (
            f"the parameters are {', '.join(names)}" if names else "the problem has none"))
    if missing := [name for name in names if name not in stated]:
        raise ValueError(f"the solution depends on {', '.join(names)}; give {', '.join(f'{m}=…' for m in missing)}")
    found = {}
    for p in known:
        value = numbers(stated[p.name], p.name)
        slack = 1e-9 * (p.high - p.low)
        if not anywhere and not ((value >= p.low - slack) & (value <= p.high + slack)).all():
            raise ValueError(f"{p.name} = {_outside(value, p):g} is outside its range, {p.low:g} to {p.high:g}; "
                             f"nothing is known there")
        found[p.name] = value
    return found


def single(known: Sequence[Parameter], stated: Mapping[str, Any]) -> list[float]:
    """What a user states for one problem of a family: a number for each parameter, in their order."""
    found = values(known, stated)
    for name, value in found.items():
        if value.ndim:
            raise ValueError(f"{name} is {stated[name]!r}; one problem of a family has one number for it")
    return [float(value) for value in found.values()]


def _outside(value: np.ndarray, p: Parameter) -> float:
    return float(next((v for v in value.ravel() if not p.low <= v <= p.high), np.nan))


def middle(known: Sequence[Parameter]) -> dict[str, float]:
    """The middle of every range."""
    return {p.name: (p.low + p.high) / 2 for p in known}
