"""Hints: how a problem is best solved."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.problem.fields import Schema
from hardpde.support.checking import (
    check_choice,
    finite_numbers,
    is_fraction,
    is_number,
    is_positive,
    is_whole,
    one_number,
)

Residual = Callable[[Array, Any, Any], Any]  # of a point, the state and its derivatives there


class Focus(NamedTuple):
    """A share of the points, drawn about a place with distances spread evenly in scale from `inner` to `outer`."""

    at: Sequence[float]
    inner: float
    outer: float
    share: float


class Mirror(NamedTuple):
    """The solution is symmetric about the plane x[axis] = at: components named in `odd` change sign, others do not."""

    axis: int
    at: float = 0.0
    odd: Sequence[str] = ()

    def image(self, x: Array) -> Array:
        """A point (c,) on the other side of the plane."""
        return x.at[self.axis].set(2 * self.at - x[self.axis])

    def signs(self, schema: Schema) -> np.ndarray:
        """The sign of each component of the state on the other side, (m,)."""
        labels = schema.labels()
        if self.axis not in range(schema.dim) or set(self.odd) - set(labels):
            raise ValueError(f"{self} needs an axis from 0 to {schema.dim - 1} and odd components from "
                             f"{', '.join(labels)}")
        return np.array([-1.0 if label in self.odd else 1.0 for label in labels])


@dataclass(frozen=True)
class Hints:
    """How a problem is best solved; they never change what is solved. None: derived from the geometry.

    inputs: extra network inputs, a function of the point that returns a vector.
    decay: give the network exp(−distance/collar) to each hole as inputs.
    root_time: give it √t (data that jump at t = 0 make the solution behave like √t).
    ramp: "linear" or "root": the initial condition is built in as f + r(t) N with r = t or √t (scaled).
    collar: width of the boundary layer in which the ansatz corrects the network: one number, or by name.
    sharp: corners where the solution is singular; collars shrink to nothing there.
    outputs: a function of the point that returns a matrix (components of the state, network outputs): the
    network's part of the state is this matrix times its outputs, e.g. factors that are singular at a corner.
    guess: a function of the point that returns a state, {field: value}, to which the network's part is added.
    continuation: a function of a number s from 0 to 1 that returns a residual: with s = 0 of an easier problem, with
    s = 1 of this one, e.g. lambda s: flow(reynolds=10 * 100**s). A direct solve follows it, as
    steps of Newton's method from nothing may lead nowhere.
    mirror: a symmetry of the solution, a Mirror(axis, at, odd), which the network then has by construction.
    focus: places that get points of their own, each a Focus(at, inner, outer, share).
    thin: the width of the thinnest layer along a boundary: points near the boundaries are then drawn at all distances
    down to a part of it, even in scale.
    near: fraction of the points drawn near the boundaries; early: fraction of them graded towards the start.
    scale: factors of the residuals, a function of the point: one number for each equation
    (the user's equations first, then those of the gradient fields).
    harmonics: how many cosines and sines of a periodic coordinate the network is given.
    distances, normals: functions of the point by the name of a boundary, for method hc alone: its distance
    (all pieces of that name are one boundary then) and its outward unit normals, known off the boundary too.
    All others are for method exact; hc draws uniform points and knows no hints, as the paper prints it.
    """

    inputs: Callable[[Array], Any] | None = None
    decay: bool | None = None
    root_time: bool | None = None
    ramp: str = "linear"
    collar: float | dict[str, float] | None = None
    sharp: Sequence[Sequence[float]] = ()
    outputs: Callable[[Array], Any] | None = None
    guess: Callable[[Array], Mapping[str, Any]] | None = None
    continuation: Callable[[Any], Residual] | None = None
    mirror: Mirror | None = None
    focus: Sequence[Focus] = ()
    thin: float | None = None
    near: float = 0.4
    early: float = 0.5
    scale: Callable[[Array], Any] | None = None
    harmonics: int = 3
    distances: Mapping[str, Callable[[Array], Any]] = field(default_factory=dict)
    normals: Mapping[str, Callable[[Array], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("ramp", self.ramp, ("linear", "root"))
        for name in ("near", "early"):
            if not is_fraction(getattr(self, name)):
                raise ValueError(f"the hint {name} is {getattr(self, name)!r}; it is a fraction between 0 and 1")
        if self.thin is not None and not is_positive(self.thin):
            raise ValueError(f"the hint thin is {self.thin!r}; it is a positive width")
        for name in ("decay", "root_time"):
            if getattr(self, name) not in (None, True, False):
                raise ValueError(f"the hint {name} is {getattr(self, name)!r}; it is True or False")
        for name in ("inputs", "outputs", "guess", "scale"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ValueError(f"the hint {name} is {getattr(self, name)!r}; it is a function of the point")
        if self.continuation is not None and not callable(self.continuation):
            raise ValueError(f"the hint continuation is {self.continuation!r}; it is a function of a number, 0 to 1")
        widths = self.collar.values() if isinstance(self.collar, dict) else (self.collar,)
        if not all(width is None or is_number(width) for width in widths):
            raise ValueError(f"the hint collar is {self.collar!r}; it is a number, or numbers by name of a boundary")
        try:
            np.asarray(self.sharp, float)
            _ = len(self.sharp)
        except (TypeError, ValueError):
            raise ValueError(f"the hint sharp is {self.sharp!r}; it is a list of points") from None
        self._check_mirror()
        self._check_focus()
        if not is_whole(self.harmonics, 1):
            raise ValueError(f"the hint harmonics is {self.harmonics!r}; it must be a whole number, at least 1")
        for name in ("distances", "normals"):
            stated = getattr(self, name)
            if not isinstance(stated, Mapping) or not all(map(callable, stated.values())):
                raise ValueError(f"the hint {name} is a dictionary of functions of the point, by name of a boundary")

    def _check_mirror(self) -> None:
        if self.mirror is None:
            return
        if not isinstance(self.mirror, Mirror):
            raise ValueError(f"the hint mirror is {self.mirror!r}; write Mirror(axis, at, odd)")
        one_number(self.mirror.at, "the place of the hint mirror")
        odd = self.mirror.odd
        if not is_whole(self.mirror.axis, 0) or not isinstance(odd, Sequence) or isinstance(odd, str) or not all(
                isinstance(name, str) for name in odd):
            raise ValueError(f"{self.mirror} needs the number of an axis and a list of names that are odd")

    def _check_focus(self) -> None:
        if not isinstance(self.focus, Iterable):
            raise ValueError(f"the hint focus is {self.focus!r}; it is a list of Focus(at, inner, outer, share)")
        for place in self.focus:
            if not isinstance(place, Focus):
                raise ValueError(f"{place!r} is not a Focus; write Focus(at, inner, outer, share)")
            finite_numbers(place.at, "the place of the hint focus")
            radii = is_positive(place.inner) and is_positive(place.outer) and place.inner < place.outer
            if not radii or not is_fraction(place.share):
                raise ValueError(f"{place} needs 0 < inner < outer and a share between 0 and 1")
        if self.near + sum(place.share for place in self.focus) > 1:
            raise ValueError("the shares of focus and near add up to more than 1; lower them")


def guessed(hints: Hints, schema: Schema, x: Array) -> Array:
    """The hint `guess` at a point as a vector (m,); zero without one."""
    if hints.guess is None:
        return jnp.zeros(schema.size)
    found = hints.guess(x)
    if not isinstance(found, Mapping):
        raise ValueError(f"the hint guess returns {found!r}; it returns {{field: value}}")
    stated = dict(found)
    parts = [jnp.broadcast_to(jnp.asarray(stated.pop(name, 0.0), float), shape).ravel()
             for name, shape in schema.fields]
    if stated:
        raise ValueError(f"the hint guess has a field '{next(iter(stated))}'; the fields are "
                         f"{', '.join(schema.names)}")
    return jnp.concatenate(parts)
