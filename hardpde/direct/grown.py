"""What a direct solve shows of its error: residuals on points it was not fitted to, and how much the last one differed.
"""

import time
from typing import NamedTuple

import jax
import numpy as np

from hardpde.direct.evaluations import Points
from hardpde.direct.groups import Asked
from hardpde.direct.newton import Balance, Equations, Fitted, rms
from hardpde.direct.system import state
from hardpde.formulation.batch import up_to
from hardpde.formulation.points import uniform

SAFETY = 10.0  # of an estimated error
SMALLEST_FIELD = 1e-9  # against the largest one: a field is taken for zero
LOOKED_AT = 2048  # points at which changes of the state are measured


class Grown(NamedTuple):
    """A solve with so many unknowns and rows; and the seconds since the first one began.

    held_out: the balanced residual on points that it was not fitted to; estimate: of the relative L2 error of the worst
    field, by its change from half as many unknowns. The change is the error before; the error now is less by about as
    much as the residual.
    """

    fitted: Fitted
    held_out: float
    estimate: float
    unknowns: int
    points: int
    rows: int
    seconds: float
    worst: np.ndarray  # the point where the residuals are largest
    field: str  # the one that changed most

    @property
    def error(self) -> float:
        """What a tolerance is compared with."""
        return max(self.held_out, self.estimate)


class Look(NamedTuple):
    """Points spread evenly over the domain, at which changes of the state are measured; and the components of each
    field that is not the gradient of another, with the points where it lives, by its name."""

    points: Points
    fields: dict[str, tuple[slice, np.ndarray]]
    level: list[int]  # components to which a constant may be added


def look_at(asked: Asked, seed: int) -> Look:
    """Where changes of the state are measured."""
    formulation = asked.formulation
    problem, schema = formulation.problem, formulation.problem.schema
    x = np.asarray(uniform(problem, jax.random.key(seed), LOOKED_AT))
    points = asked.points_of(up_to(formulation.at(x, 2), 1))  # compiled with derivatives, as others need these
    gradients, stated = dict(schema.gradients), problem.stated.schema.names
    level = {datum.field for datum in problem.levels}
    still = schema.point == schema.dim  # else levels may differ from one time to the other, and nothing is said of them
    named = [name for name in schema.names if name not in gradients and name in stated]
    named = [name for name in named if still or name not in level] or named
    fields = {name: (schema.slices[name], problem.lives(name, x[:, : schema.dim])) for name in named}
    return Look(points, {name: own for name, own in fields.items() if own[1].any()},
                [schema.slices[name].start for name in named if name in level])


def looked_at(found: Fitted, points: int, held: Equations, look: Look, balance: Balance, tried: list[Grown],
               began: float) -> Grown:
    """A solve with its residuals on other points, and by how much the last one differed."""
    residuals = held.residuals(held.jets(found.units, found.last), balance)
    held_out, estimate, field = held.size(residuals), np.inf, ""
    if tried:
        before = tried[-1]
        states = [look.points.offset[:, 0] + state(look.points, one.units, one.last, 0)[:, 0]
                  for one in (before.fitted, found)]
        for one in states:
            one[look.level] -= one[look.level].mean(1, keepdims=True)
        fallen = held_out / before.held_out if before.held_out else 1.0
        field, change = max(_apart(states[0], states[1], look.fields).items(), key=lambda one: one[1])
        estimate = change * min(1.0, SAFETY * fallen)
    x = held.groups[0].points.x
    worst = x[int(np.abs(residuals[: x.shape[0] * len(balance.equations)]).reshape(-1, len(x)).max(0).argmax())]
    return Grown(found, held_out, estimate, found.last.size, points, found.rows, time.perf_counter() - began, worst,
                 field)


def _apart(before: np.ndarray, now: np.ndarray, fields: dict[str, tuple[slice, np.ndarray]]) -> dict[str, float]:
    """The relative L2 difference of two states (m, n) in each field; fields: the components of each, and the points
    where it lives."""
    sizes = {name: rms(now[where][:, there]) for name, (where, there) in fields.items()}
    least = SMALLEST_FIELD * max(sizes.values())
    return {name: float(rms((now - before)[where][:, there]) / max(sizes[name], least))
            for name, (where, there) in fields.items()}
