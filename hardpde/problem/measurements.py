"""Measurements: what was measured of a field, as data of a problem."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from hardpde.geometry import at_times
from hardpde.problem.parameters import column
from hardpde.support.checking import is_positive

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Measurement:
    """What was measured of a field at points x (n, d), at times t where there is time: values (n, *shape of the field).

    The loss gets weight × mean (difference)² / variance of the values. A field that no equation determines, such as
    an unknown coefficient, can so be found together with the solution.
    """

    field: str
    x: Any
    values: Any
    t: Any = None
    weight: float = 1.0

    def points(self, problem: "Problem") -> tuple[np.ndarray, np.ndarray]:
        """Points (n, c) of the problem and values (n, components); every fault is a ValueError of one sentence."""
        what, dim = f"the measurement of '{self.field}'", problem.schema.dim
        x, values = self._arrays(problem, what)
        if not is_positive(self.weight):
            raise ValueError(f"{what} has weight {self.weight!r}; it must be positive")
        if (self.t is None) != (problem.time is None):
            raise ValueError(f"{what} {'needs the times t' if self.t is None else 'has times, and the problem none'}")
        if problem.time is not None:
            start, end = problem.time
            t = column(f"t of {what}", self.t, len(x))
            if not (t.min() >= start and t.max() <= end):
                raise ValueError(f"{what} has a time outside {problem.time}")
            x = at_times(x, t)
        x = problem.back(x)
        off = np.asarray(jax.jit(jax.vmap(problem.domain.sdf))(x[:, :dim]))
        if off.max() > 1e-6 * problem.domain.size:
            raise ValueError(f"{what} has a point outside the domain, {np.round(x[int(off.argmax())], 6).tolist()}")
        return x, values.reshape(len(x), -1)

    def _arrays(self, problem: "Problem", what: str) -> tuple[np.ndarray, np.ndarray]:
        """The points and the values as they were measured."""
        schema = problem.schema
        if self.field not in schema.names:
            raise ValueError(f"{what} is of no field; the fields are {', '.join(schema.names)}")
        try:
            x, values = np.atleast_2d(np.asarray(self.x, float)), np.asarray(self.values, float)
        except (TypeError, ValueError):
            raise ValueError(f"{what} has points or values that are not numbers") from None
        if x.shape[1:] != (schema.dim,) or not len(x):
            raise ValueError(f"{what} has points of shape {x.shape}; they must be (n, {schema.dim})")
        if values.shape != (len(x), *schema.shapes[self.field]):
            raise ValueError(f"{what} has values of shape {values.shape}; at {len(x)} points they must be "
                             f"{(len(x), *schema.shapes[self.field])}")
        if not (np.isfinite(x).all() and np.isfinite(values).all()):
            raise ValueError(f"{what} holds numbers that are not finite; leave these points out")
        return x, values


def check_measurements(problem: "Problem") -> None:
    for measurement in problem.measurements:
        if not isinstance(measurement, Measurement):
            raise ValueError(f"{measurement!r} is not a Measurement; write Measurement(field, x, values)")
        if problem.parameters:
            raise ValueError("a family has no measurements; solve it, then find its parameters with infer(…)")
        measurement.points(problem)
