"""States: the unknown fields at a point, by name; and the operators that act on their derivatives."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.support.checking import is_text, is_whole


@dataclass(frozen=True)
class Schema:
    """Which fields a state has, their shapes, and which field stands for the gradient of which.

    The state is the concatenation of all fields, q ∈ R^m. `gradients` maps a field to the field whose
    spatial gradient it is (the paper's extra fields); its shape is that field's plus one axis of `dim`.
    """

    fields: tuple[tuple[str, tuple[int, ...]], ...]
    gradients: tuple[tuple[str, str], ...]
    dim: int
    timed: bool
    traces: bool = False  # conditions may ask for the normal derivatives of fields without a gradient field
    parameters: int = 0  # how many
    laplacians: tuple[tuple[str, str], ...] = ()  # of some fields, with the fields that stand for them

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict(self.fields)

    @property
    def shapes_of_plain(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the fields that stand for no gradient."""
        gradients = dict(self.gradients)
        return {name: shape for name, shape in self.fields if name not in gradients}

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for _, shape in self.fields)

    @property
    def columns(self) -> int:
        """What a condition is linear in: the state, and with `traces` its normal derivatives."""
        return self.size * (1 + self.traces)

    @property
    def coordinates(self) -> int:
        """Space, and time if there is one: what derivatives are taken by."""
        return self.dim + self.timed

    @property
    def point(self) -> int:
        """How many numbers a point has: space, time, parameters."""
        return self.coordinates + self.parameters

    @property
    def slices(self) -> dict[str, slice]:
        stops, start = {}, 0
        for name, shape in self.fields:
            stops[name] = slice(start, start + math.prod(shape))
            start += math.prod(shape)
        return stops

    def labels(self) -> list[str]:
        """One label for each component of the state: `T`, `grad_T[0]`, …"""
        labels: list[str] = []
        for name, shape in self.fields:
            labels += [name] if not shape else [
                f"{name}[{','.join(map(str, index))}]" for index in _indices(shape)
            ]
        return labels

    def state(self, vector: Array, gradient: Array | None = None) -> "State":
        """The state whose components are `vector` (m,); with their true `gradient` (m, d), if it is known."""
        parts = {name: vector[self.slices[name]].reshape(shape) for name, shape in self.fields}
        if gradient is None:
            return State(self, parts)
        return State(self, parts, {name: gradient[self.slices[name]].reshape(*shape, self.dim)
                                   for name, shape in self.fields})

    def derivatives(self, jacobian: Array) -> "State":
        """The derivatives by name, of `jacobian` (coordinates, m), or with the Laplacian as one more row."""
        parts = {}
        for name, shape in self.fields:
            part = jnp.moveaxis(jacobian[:, self.slices[name]], 0, -1).reshape(*shape, len(jacobian))
            parts[name] = Derivative(
                part[..., : self.dim], part[..., self.dim] if self.timed else None,
                part[..., -1] if len(jacobian) > self.coordinates else None)
        return State(self, parts)

    def gradient_of(self, name: str) -> str | None:
        """The field that stands for the gradient of `name`, if any."""
        return next((gradient for gradient, base in self.gradients if base == name), None)


class FieldNeeded(ValueError):
    """A statement needs a field that is not there: the gradient of `field`, or ("") of any that conditions ask for."""

    def __init__(self, sentence: str, field: str = ""):
        super().__init__(sentence)
        self.field = field


class State:
    """Values of all fields at a point: `q.T`, `q.grad_T`, …"""

    __slots__ = ("_gradients", "_schema", "_values")

    def __init__(self, schema: Schema, values: Mapping[str, Any], gradients: Mapping[str, Any] | None = None):
        self._schema = schema
        self._values = dict(values)
        self._gradients = gradients

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise ValueError(
                f"there is no field '{name}'; the fields are {', '.join(self._schema.names)}"
            ) from None

    def gradient(self, name: str) -> Any:
        """The field that stands for the gradient of `name`, or the gradient itself where it is known."""
        self[name]
        gradient = self._schema.gradient_of(name)
        if gradient is None and self._gradients is not None:
            return self._gradients[name]
        if gradient is None:
            raise FieldNeeded(
                f"the condition needs the gradient of '{name}' as a field; "
                f"state gradients={{'grad_{name}': '{name}'}} in the problem, or a residual with a Laplacian", name)
        return self._values[gradient]

    def laplacian(self, name: str) -> Any:
        """The field that stands for the Laplacian of `name`."""
        found = dict(self._schema.laplacians).get(name)
        if found is None:
            raise FieldNeeded(f"the condition needs the Laplacian of '{name}' as a field", name)
        return self[found]


class Derivative(NamedTuple):
    """Derivatives of one field: `space` (*field, d), `time` (*field) or None, `laplacian` (*field) or None, `hessian`
    (*field, d, d) or None, `bilaplacian` (*field) or None.

    The last three are there only for problems whose residual asks for them.
    """

    space: Array
    time: Array | None
    laplacian: Array | None = None
    hessian: Array | None = None
    bilaplacian: Array | None = None

    def __getitem__(self, index: Any) -> Any:
        raise ValueError(f"derivatives have names: ∂u/∂x is dq.u.space[0], ∂u/∂t is dq.u.time or dt(dq.u), ∇u is "
                         f"grad(dq.u); dq.u[{index}] could be any of them")


def _check(operator: str, derivative: Any) -> None:
    """Operators act on derivatives, dq.u, not on values, q.u."""
    if not isinstance(derivative, Derivative | Filled):
        raise ValueError(f"{operator} takes derivatives: {operator}(dq.u), with dq, the third argument of residual")


def grad(derivative: Derivative) -> Array:
    """∇f, shape (*field, d)."""
    _check("grad", derivative)
    return derivative.space


@dataclass(frozen=True)
class Filled:
    """Derivatives of a gradient field that is not a field of its own: its divergence is all that is known."""

    divergence: Array

    @property
    def space(self) -> Array:
        raise ValueError("only div of a gradient field is known where gradients are filled by differentiation; "
                         "use a method with gradients='fields'")

    time = laplacian = space


def div(derivative: Derivative | Filled) -> Array:
    """∇·f over the last axis of the field: shape of the field without it."""
    _check("div", derivative)
    if isinstance(derivative, Filled):
        return derivative.divergence
    if derivative.space.ndim < 2:
        raise ValueError("div needs a vector field; this field is a scalar")
    return jnp.trace(derivative.space, axis1=-2, axis2=-1)


def curl(derivative: Derivative) -> Array:
    """∇×f of a vector field: a scalar in 2-D, a vector in 3-D."""
    _check("curl", derivative)
    d = derivative.space
    if d.shape == (2, 2):
        return d[1, 0] - d[0, 1]
    if d.shape == (3, 3):
        return jnp.array([d[2, 1] - d[1, 2], d[0, 2] - d[2, 0], d[1, 0] - d[0, 1]])
    raise ValueError("curl needs a vector field in two or three dimensions")


def dt(derivative: Derivative) -> Array:
    """∂f/∂t, shape of the field."""
    _check("dt", derivative)
    if derivative.time is None:
        raise ValueError("dt needs a problem with time; state time=(start, end)")
    return derivative.time


def laplacian(derivative: Derivative) -> Array:
    """Δf over space, shape of the field. Others are in `hessian`; for ∂²f/∂t², make the first derivative a field."""
    _check("laplacian", derivative)
    if derivative.laplacian is None:
        raise ValueError("the Laplacian was not computed here; give it as one more row after the derivatives")
    return derivative.laplacian


def hessian(derivative: Derivative) -> Array:
    """All second derivatives ∂ᵢ∂ⱼf over space, shape (*field, d, d).

    The gradient of f becomes a field, unless it is one: hardpde adds it.
    """
    _check("hessian", derivative)
    if derivative.hessian is None:
        raise ValueError("second derivatives are not known here; those of a field that stands for a gradient are the "
                         "first derivatives of it")
    return derivative.hessian


def bilaplacian(derivative: Derivative) -> Array:
    """Δ²f = ΔΔf over space, shape of the field. Δf becomes a field, which hardpde adds."""
    _check("bilaplacian", derivative)
    if derivative.bilaplacian is None:
        raise ValueError("fourth derivatives are not known here; make the Laplacian a field")
    return derivative.bilaplacian


def second_derivatives(schema: Schema, residual: Callable[[Array, State, State], Any]) -> set[tuple[str, str]]:
    """Which of "laplacian", "hessian" and "bilaplacian" a residual reads, each with the field; it is traced, not
    computed."""
    read: set[tuple[str, str]] = set()

    def recorder(name: str, derivative: Any) -> Derivative:
        class Recorder(Derivative):
            @property
            def laplacian(self) -> Array:  # type: ignore[override]
                read.add(("laplacian", name))
                return tuple(self)[2]  # type: ignore[return-value]

            @property
            def hessian(self) -> Array:  # type: ignore[override]
                read.add(("hessian", name))
                return jnp.zeros((*self.space.shape, schema.dim))

            @property
            def bilaplacian(self) -> Array:  # type: ignore[override]
                read.add(("bilaplacian", name))
                return jnp.zeros(self.space.shape[:-1])

        return Recorder(*derivative)

    def trace(x: Array, q: Array, dq: Array) -> None:
        derivatives = schema.derivatives(dq)
        residual(x, schema.state(q), State(schema, {name: recorder(name, derivatives[name]) for name in schema.names}))

    c, m = schema.coordinates, schema.size
    jax.eval_shape(trace, np.zeros(schema.point), np.zeros(m), np.zeros((c + 1, m)))
    return read


def asks_for_laplacian(schema: Schema, residual: Callable[[Array, State, State], Any]) -> bool:
    """Whether a residual reads a Laplacian."""
    return any(kind == "laplacian" for kind, _ in second_derivatives(schema, residual))


def flat(value: Any, dtype: Any = None) -> Array:
    """Numbers or arrays, one or a tuple or list of them, one after the other as a vector."""
    parts = value if isinstance(value, tuple | list) else (value,)
    if is_text(value):
        raise ValueError(f"{value!r} is text; give numbers")
    if any(part is None for part in parts):
        raise ValueError("None is returned in place of a number; a function without `return` returns None")
    return jnp.concatenate([jnp.ravel(jnp.asarray(part, dtype)) for part in parts])


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    if not shape:
        return [()]
    return [(i, *rest) for i in range(shape[0]) for rest in _indices(shape[1:])]


def make_schema(
    fields: str | Mapping[str, Any] | list[str] | tuple[str, ...],
    gradients: Mapping[str, str],
    dim: int,
    timed: bool,
    parameters: int = 0,
) -> Schema:
    """Check what a user stated about the fields and put it in order."""
    if isinstance(fields, str):
        fields = (fields,)
    if not isinstance(fields, Mapping | list | tuple):
        raise ValueError(f"fields is {fields!r}; it is a name, a list of names, or {{name: shape}}")
    if not isinstance(gradients, Mapping):
        raise ValueError(f"gradients is {gradients!r}; it is a dictionary {{name of the gradient: field}}")
    for name in (*fields, *gradients):
        if not isinstance(name, str):
            raise ValueError(f"{name!r} cannot name a field; use letters, digits and underscores")
    if len(set(fields)) < len(fields):
        raise ValueError(f"a field is stated twice: {', '.join(fields)}")
    stated: Mapping[str, Any] = fields if isinstance(fields, Mapping) else dict.fromkeys(fields, ())
    shapes = {name: _shape(shape, name) for name, shape in stated.items()}
    for gradient, base in gradients.items():
        if not isinstance(base, str) or base not in shapes:
            raise ValueError(f"'{gradient}' is stated as the gradient of '{base}', which is not a field")
        if gradient in shapes:
            raise ValueError(f"'{gradient}' is stated twice: as a field and as the gradient of '{base}'")
        shapes[gradient] = (*shapes[base], dim)
    for name in shapes:
        if not name.isidentifier() or name.startswith("_") or name == "gradient":
            raise ValueError(f"'{name}' cannot name a field; use letters, digits and underscores")
    if not shapes:
        raise ValueError("a problem needs at least one field")
    if len(set(gradients.values())) < len(gradients):
        raise ValueError("two fields are stated as the gradient of the same field; keep one")
    return Schema(tuple(shapes.items()), tuple(gradients.items()), dim, timed, parameters=parameters)


def _shape(shape: Any, name: str) -> tuple[int, ...]:
    if isinstance(shape, int):
        shape = () if shape == 1 else (shape,)
    try:
        shape = tuple(shape)
    except TypeError:
        shape = (shape,)
    if not all(is_whole(n, 1) for n in shape):
        raise ValueError(f"field '{name}' has shape {shape}; a shape is a tuple of positive whole numbers")
    return shape
