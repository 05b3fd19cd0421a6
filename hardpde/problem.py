"""Problems: what is to be solved. Knows no network; checks everything a user states."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.conditions import INITIAL, Condition
from hardpde.fields import Schema, make_schema
from hardpde.geometry import Shape, TimeSlice, check_shape
from hardpde.layout import Layout, arrange
from hardpde.reference import Reference


@dataclass(frozen=True)
class Hints:
    """How a problem is best solved; they never change what is solved. None: derived from the geometry.

    inputs: extra network inputs, a function of the point that returns a vector.
    decay: give the network exp(−distance/collar) to each hole as inputs.
    root_time: give it √t (data that jump at t = 0 make the solution behave like √t).
    ramp: "linear" or "root": the initial condition is built in as f + r(t) N with r = t or √t (scaled).
    collar: width of the boundary layer in which the ansatz corrects the network: one number, or by name.
    near: fraction of the points drawn near the boundaries; early: fraction of them graded towards the start.
    scale: factors of the residuals, a function of the point: one number for each equation
    (the user's equations first, then those of the gradient fields).
    distances, normals: functions of the point by the name of a boundary, for method hc alone: its distance
    (all pieces of that name are one boundary then) and its outward unit normals, known off the boundary too.
    """

    inputs: Callable[[Array], Any] | None = None
    decay: bool | None = None
    root_time: bool | None = None
    ramp: str = "linear"
    collar: float | dict[str, float] | None = None
    near: float = 0.4
    early: float = 0.5
    scale: Callable[[Array], Any] | None = None
    distances: Mapping[str, Callable[[Array], Any]] = field(default_factory=dict)
    normals: Mapping[str, Callable[[Array], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.ramp not in ("linear", "root"):
            raise ValueError(f"ramp is '{self.ramp}'; it is 'linear' or 'root'")
        for name in ("near", "early"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"the hint {name} is {getattr(self, name)}; it is a fraction between 0 and 1")
        for name in ("distances", "normals"):
            stated = getattr(self, name)
            if not isinstance(stated, Mapping) or not all(map(callable, stated.values())):
                raise ValueError(f"the hint {name} is a dictionary of functions of the point, by name of a boundary")


@dataclass(frozen=True, eq=False)
class Problem:
    """F[q] = 0 in a domain, with its conditions.

    domain: a Shape. fields: names, or {name: shape}. gradients: {field: whose spatial gradient it is}.
    residual(x, q, dq): the equations, each zero for the solution; the equations ∇u = p of the gradient
    fields are added. time: (start, end). free: boundaries that carry no condition on purpose.
    equations: how many scalar equations `residual` has, where that is not the number of plain fields.
    exact(x): the solution as {field: value}, where it is known; reference: a Reference or a function
    that makes one.
    """

    domain: Shape
    fields: Any
    residual: Callable[..., Any]
    conditions: Sequence[Condition]
    gradients: Mapping[str, str] = field(default_factory=dict)
    time: tuple[float, float] | None = None
    free: Sequence[str] = ()
    equations: int | None = None
    hints: Hints = Hints()
    exact: Callable[[Array], Mapping[str, Any]] | None = None
    reference: Reference | Callable[[], Reference] | None = None
    name: str = "problem"

    def __post_init__(self) -> None:
        # Many small computations: the CPU compiles them sooner than an accelerator.
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            self._check_time()
            self._check_boundaries()
            check_shape(self.domain)
            for condition in self.conditions:
                self._check_linear(condition)
            _ = self.layout
            self._check_residual()

    @cached_property
    def schema(self) -> Schema:
        return make_schema(self.fields, self.gradients, self.domain.dim, self.time is not None)

    @cached_property
    def layout(self) -> Layout:
        return arrange(self.domain, self.schema, self.conditions, self.time, self.hints.collar)

    @cached_property
    def boundaries(self) -> dict[str, Any]:
        """All boundaries by name; with time, the slice at its start is the boundary `initial`."""
        named: dict[str, Any] = dict(self.domain.boundaries)
        if self.time is not None:
            named[INITIAL] = TimeSlice(self.domain, self.time[0])
        return named

    def residuals(self, x: Array, q: Array, dq: Array) -> Array:
        """All equations at one point, the gradient fields' included: x (c,), q (m,), dq (c, m) → (e,)."""
        state, derivatives = self.schema.state(q), self.schema.derivatives(dq)
        parts = [_vector(self.residual(x, state, derivatives))]
        for gradient, base in self.schema.gradients:
            parts.append(jnp.ravel(state[gradient] - derivatives[base].space))
        return jnp.concatenate(parts)

    def make_reference(self) -> Reference | None:
        """The reference, if the problem has one; a known solution is evaluated at sample points."""
        if self.reference is not None:
            return self.reference() if callable(self.reference) else self.reference
        if self.exact is None:
            return None
        return exact_reference(self)

    def _check_time(self) -> None:
        if self.time is None:
            return
        if len(self.time) != 2 or not np.all(np.isfinite(self.time)) or not self.time[0] < self.time[1]:
            raise ValueError(f"time is {self.time}; it must be (start, end) with start < end")

    def _check_boundaries(self) -> None:
        known = list(self.domain.boundaries)
        if INITIAL in known:
            raise ValueError(f"a boundary is named '{INITIAL}', the name of the start of time; choose another")
        listing = ", ".join(known)
        for condition in self.conditions:
            if not isinstance(condition, Condition):
                raise ValueError(f"{condition!r} is not a condition; use dirichlet, neumann, robin, … or Condition")
            if condition.on == INITIAL and self.time is None:
                raise ValueError("an initial condition needs time; state time=(start, end) in the problem")
            if condition.on not in (*known, INITIAL):
                raise ValueError(f"there is no boundary '{condition.on}'; the boundaries are {listing}")
        for name in self.free:
            if name not in known:
                raise ValueError(f"'{name}' is declared free, but there is no such boundary; they are {listing}")
        for hint in ("distances", "normals"):
            for name in getattr(self.hints, hint):
                if name not in known:
                    raise ValueError(f"the hint {hint} names '{name}', and there is no such boundary; "
                                     f"they are {listing}")
        stated = {condition.on for condition in self.conditions}
        for name in known:
            if name not in stated and name not in self.free:
                raise ValueError(f"boundary '{name}' has no condition; give it one or declare it free=['{name}']")

    def _check_linear(self, condition: Condition) -> None:
        where = f"condition '{condition.name}' on '{condition.on}'"
        boundary, schema = self.boundaries[condition.on], self.schema

        @jax.jit
        def evaluate(key):
            points = boundary.sample(key, 4)
            if self.time is not None and condition.on != INITIAL:
                points = jnp.concatenate([points, jnp.linspace(*self.time, 4)[:, None]], axis=1)
            normals = jax.vmap(boundary.normal)(points)[:, : schema.dim]
            q1, q2 = jax.random.normal(key, (2, schema.size))
            rows = jax.vmap(lambda q, x, n: _vector(condition.lhs(schema.state(q), x, n)), (None, 0, 0))
            return [rows(q, points, normals) for q in (0 * q1, q1, q2, 2 * q1 - 3 * q2)], points, normals

        try:
            (zero, f1, f2, mixed), points, normals = jax.tree.map(np.asarray, evaluate(jax.random.key(2)))
        except ValueError as error:
            raise ValueError(f"{where}: {_first_line(error)}") from None
        except Exception as error:
            raise ValueError(f"{where} cannot be evaluated: {type(error).__name__}: {_first_line(error)}") from None
        size = 1 + np.abs(mixed).max(initial=0.0)
        if np.abs(zero).max(initial=0.0) > 1e-9 * size or np.abs(mixed - 2 * f1 + 3 * f2).max() > 1e-9 * size:
            raise ValueError(f"{where} is not linear in the state; put constants on the right side, "
                             f"and products of fields into the residual")
        try:
            jax.eval_shape(lambda x, n: condition.matrix(schema, x, n), points[0], normals[0])
        except Exception as error:
            raise ValueError(f"the data of {where} cannot be evaluated or does not have {f1.shape[1]} rows: "
                             f"{_first_line(error)}") from None

    def _check_residual(self) -> None:
        schema = self.schema
        expected = self.equations
        if expected is None:
            gradients = dict(schema.gradients)
            expected = sum(int(np.prod(shape)) for name, shape in schema.fields if name not in gradients)

        @jax.jit
        def evaluate(key):
            x = self._points(key, 64)
            q = jax.random.normal(key, (schema.size,))
            dq = jax.random.normal(key, (schema.coordinates, schema.size))
            inputs = [] if self.hints.inputs is None else jax.vmap(self.hints.inputs)(x)
            return jax.vmap(
                lambda x: _vector(self.residual(x, schema.state(q), schema.derivatives(dq))))(x), inputs

        try:
            values, inputs = jax.tree.map(np.asarray, evaluate(jax.random.key(4)))
        except ValueError as error:
            raise ValueError(f"residual: {_first_line(error)}") from None
        except Exception as error:
            raise ValueError(f"residual cannot be evaluated: {type(error).__name__}: {_first_line(error)}") from None
        if values.shape[1] != expected:
            raise ValueError(f"residual returns {values.shape[1]} equations and {expected} are expected, one for each "
                             f"component of a field that is not a gradient; state equations={values.shape[1]} "
                             f"if that is meant")
        if not np.isfinite(values).all():
            raise ValueError("residual is not a finite number at points inside the domain; check its data for NaN")
        if not all(np.isfinite(part).all() for part in jax.tree.leaves(inputs)):
            raise ValueError("the extra inputs are not finite inside the domain; check the hint inputs")

    def _points(self, key: Array, n: int) -> Array:
        points = self.domain.sample(key, n)
        if self.time is None:
            return points
        t = jax.random.uniform(key, (n, 1), minval=self.time[0], maxval=self.time[1])
        return jnp.concatenate([points, t], axis=1)


def exact_reference(problem: Problem, points: int = 4000, times: int = 11) -> Reference:
    """The known solution at points drawn in the domain, at equally spaced times."""
    assert problem.exact is not None
    x = np.asarray(problem.domain.sample(jax.random.key(7), points))
    evaluate = jax.jit(jax.vmap(problem.exact))
    about = {"kind": "known solution", "points": points}
    if problem.time is None:
        return Reference(x, {k: np.asarray(v) for k, v in evaluate(x).items()}, about=about)
    instants = np.linspace(*problem.time, times)
    slices = [evaluate(np.concatenate([x, np.full((len(x), 1), t)], axis=1)) for t in instants]
    values = {name: np.stack([np.asarray(s[name]) for s in slices]) for name in slices[0]}
    return Reference(x, values, instants, about=about)


def _vector(value: Any) -> Array:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return jnp.concatenate([jnp.ravel(jnp.asarray(part)) for part in parts])


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
