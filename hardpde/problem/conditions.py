"""Conditions: linear equations A q = g that the state satisfies on a boundary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.problem.fields import Schema, State, flat
from hardpde.support.checking import is_number, is_positive, is_text

INITIAL = "initial"  # the name of the slice t = start


@dataclass(frozen=True)
class Condition:
    """`lhs(q, x, n) = rhs(x)` on the boundary named `on`; `lhs` is linear in the state q.

    x is the point (time last), n the outward unit normal. `lhs` and `rhs` return a number or a vector
    (one entry for each row); `rhs` may be a plain number. bent(κ): the left side on a boundary of curvature κ(x), for
    conditions that depend on it; straight: for boundaries without curvature alone.
    """

    on: str
    lhs: Callable[[State, Array, Array], Any]
    rhs: Callable[[Array], Any] | float | tuple[float, ...] = 0.0
    name: str = "condition"
    bent: Callable[[Callable[[Array], Any]], Callable[[State, Array, Array], Any]] | None = None
    straight: bool = False

    def __post_init__(self) -> None:
        _check_place(self.on)
        if is_text(self.rhs):
            raise ValueError(f"the data of the condition '{self.name}' on '{self.on}' are the text {self.rhs!r}; give "
                             f"a number or a function of x")
        if not callable(self.lhs):
            raise ValueError(f"the left side of the condition on '{self.on}' is {self.lhs!r}; it is a function "
                             f"of q, x and n")

    def matrix(self, schema: Schema, x: Array, n: Array, gradients: bool = False) -> tuple[Array, Array]:
        """A (rows, columns) and g (rows,) at one point: columns of the state, then of its normal derivatives.

        gradients: columns of the state, then of all derivatives of each component, (rows, m + m d).
        """
        m = schema.size

        def rows(vector: Array) -> Array:
            gradient = None
            if gradients:
                gradient = vector[m:].reshape(m, schema.dim)
            elif schema.traces:
                gradient = vector[m:, None] * n
            return flat(self.lhs(schema.state(vector[:m], gradient), x, n), float)

        a = jax.jacfwd(rows)(jnp.zeros(m * (1 + schema.dim) if gradients else schema.columns))
        g = jnp.broadcast_to(flat(evaluate(self.rhs, x), float), a.shape[:1])
        return a, g.astype(a.dtype)


def evaluate(data: Any, x: Array) -> Any:
    """Data of a condition at a point: a number, or a function of the point."""
    return data(x) if callable(data) else data


def _check_place(on: Any) -> None:
    if not isinstance(on, str):
        raise ValueError(f"a condition is stated on {on!r}; name one boundary, like 'wall'")


def _check_field(on: Any, field: Any) -> None:
    _check_place(on)
    if not isinstance(field, str):
        raise ValueError(f"the condition on '{on}' is stated for {field!r}; name one field, like 'u'")


def _check_coefficients(on: str, **stated: Any) -> None:
    for name, value in stated.items():
        if not callable(value) and not is_number(value) and not isinstance(value, Array | np.ndarray):
            raise ValueError(f"the coefficient {name} of the condition on '{on}' is {value!r}; it is a number or a "
                             f"function of x")


def _nonzero(a: Any, b: Any, on: str, field: str) -> None:
    if not callable(a) and not callable(b) and a == 0 and b == 0:
        raise ValueError(
            f"the condition on '{on}' for '{field}' has a = b = 0, so it says nothing; "
            f"give a (of the value) or b (of the normal derivative)"
        )


def robin(on: str, field: str, a: Any, b: Any, g: Any = 0.0) -> Condition:
    """a u + b n·∇u = g, with ∇u the field stated as the gradient of u. Data: numbers or functions of x."""
    _check_field(on, field)
    _check_coefficients(on, a=a, b=b)
    _nonzero(a, b, on, field)

    def lhs(q: State, x: Array, n: Array) -> Any:
        flux = q.gradient(field) @ n
        return evaluate(a, x) * q[field] + evaluate(b, x) * flux

    return Condition(on, lhs, g, f"robin {field}")


def dirichlet(on: str, field: str, g: Any = 0.0) -> Condition:
    """u = g (every component of a vector field)."""
    _check_field(on, field)
    return Condition(on, lambda q, x, n: q[field], g, f"dirichlet {field}")


def neumann(on: str, field: str, g: Any = 0.0) -> Condition:
    """n·∇u = g, with ∇u the field stated as the gradient of u, or the gradient itself where there is none."""
    _check_field(on, field)
    return Condition(on, lambda q, x, n: q.gradient(field) @ n, g, f"neumann {field}")


def interface(on: str, fields: tuple[str, str], *, conductivity: tuple[Any, Any] = (1.0, 1.0), jump: Any = 0.0,
              flux_jump: Any = 0.0) -> Condition:
    """b − a = jump and k_b n·∇b − k_a n·∇a = flux_jump on an Inlay's boundary, with fields=(a, b).

    a is the field of the inner solid, b the one around it, and n points out of the inner solid;
    conductivity=(k_a, k_b). Data: numbers or functions of x.
    """
    _check_place(on)
    if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in (fields, conductivity)) or not all(
            isinstance(field, str) for field in fields) or isinstance(fields, str):
        raise ValueError(f"the interface '{on}' needs two fields and two conductivities, those inside first")
    inner, outer = fields

    def lhs(q: State, x: Array, n: Array) -> Any:
        k_inner, k_outer = (evaluate(k, x) for k in conductivity)
        return q[outer] - q[inner], k_outer * (q.gradient(outer) @ n) - k_inner * (q.gradient(inner) @ n)

    return Condition(on, lhs, lambda x: (evaluate(jump, x), evaluate(flux_jump, x)), f"interface {inner} {outer}")


def initial(field: str, f: Any = 0.0) -> Condition:
    """u = f at the start of time."""
    _check_field(INITIAL, field)
    return Condition(INITIAL, lambda q, x, n: q[field], f, f"initial {field}")


@dataclass(frozen=True)
class Periodic:
    """The states on the boundaries `on` and `to`, opposite faces of a Box, are the same (see `periodic`)."""

    on: str
    to: str
    fields: tuple[str, ...] | None = None
    soft: float | None = None

    @property
    def name(self) -> str:
        return f"periodic {', '.join(self.fields)}" if self.fields else "periodic"


def periodic(a: str, b: str, fields: str | Sequence[str] | None = None, soft: float | None = None) -> Periodic:
    """The fields, all unless named, and their gradients are the same on a and b, opposite faces of a Box.

    Method exact builds it into the inputs of the network: all fields and all their derivatives are periodic for
    any weights. With soft=WEIGHT the loss gets WEIGHT × mean |q(a) − q(b)|² instead; fields that the residual
    takes the Laplacian of, without gradient fields, are then compared in their slopes too.
    """
    for name in (a, b):
        _check_place(name)
    if a == b:
        raise ValueError(f"periodic names the boundary '{a}' twice; name two opposite faces")
    if soft is not None and not is_positive(soft):
        raise ValueError(f"the weight of the periodic condition on '{a}' is soft={soft!r}; it must be positive")
    if isinstance(fields, str):
        fields = (fields,)
    if fields is not None and not (isinstance(fields, Sequence) and all(isinstance(name, str) for name in fields)):
        raise ValueError(f"the fields of the periodic condition on '{a}' are {fields!r}; give their names")
    return Periodic(a, b, None if fields is None else tuple(fields), soft)


def slip(on: str, velocity: str) -> Condition:
    """n·u = 0 and, where ∇u is a field, no tangential traction: tᵀ(∇u + ∇uᵀ)n = 0 for every tangent t."""

    _check_field(on, velocity)

    def lhs(q: State, x: Array, n: Array) -> Any:
        try:
            gradient = q.gradient(velocity)
        except ValueError:
            return q[velocity] @ n
        strain = (gradient + gradient.T) @ n
        return jnp.concatenate([jnp.atleast_1d(q[velocity] @ n), tangents(n) @ strain])

    return Condition(on, lhs, 0.0, f"slip {velocity}")


def supported(on: str, field: str, g: Any = 0.0, *, moment: Any = 0.0, poisson: Any = None) -> Condition:
    """u = g and Δu − (1 − ν) κ n·∇u = moment, with Poisson's ratio ν and the curvature κ of the boundary: an edge of a
    plate that is simply supported. On straight edges, where κ = 0, it is u = g and Δu = moment, and ν is not needed.

    Δu is a field that hardpde adds. Data: numbers or functions of x.
    """
    _check_field(on, field)

    def bent(curvature: Callable[[Array], Any]) -> Callable[[State, Array, Array], Any]:
        def lhs(q: State, x: Array, n: Array) -> Any:
            return q[field], q.laplacian(field) - (1 - evaluate(poisson, x)) * curvature(x) * (q.gradient(field) @ n)

        return lhs

    def data(x: Array) -> tuple[Any, Any]:
        return evaluate(g, x), evaluate(moment, x)

    if poisson is None:
        return Condition(on, lambda q, x, n: (q[field], q.laplacian(field)), data, f"supported {field}", straight=True)
    _check_coefficients(on, poisson=poisson)
    return Condition(on, bent(lambda x: 1.0), data, f"supported {field}", bent)


def traction(on: str, velocity: str, g: Any = 0.0, *, pressure: str | None = None, viscosity: Any = 1.0,
             bulk: Any = 0.0) -> Condition:
    """σ n = g with σ = −p I + μ(∇u + ∇uᵀ) + λ (∇·u) I; p and λ (`bulk`) may be absent."""
    _check_field(on, velocity)

    def lhs(q: State, x: Array, n: Array) -> Any:
        gradient = q.gradient(velocity)
        stress = evaluate(viscosity, x) * (gradient + gradient.T)
        normal = evaluate(bulk, x) * jnp.trace(gradient) - (q[pressure] if pressure else 0.0)
        return stress @ n + normal * n

    return Condition(on, lhs, g, f"traction {velocity}")


def tangents(n: Array) -> Array:
    """(d−1, d) orthonormal tangents of a unit normal, from a Householder reflection.

    They jump where n₀ changes sign; the ansatz uses A⁺(g − A q), which no rotation of the rows changes.
    """
    sign = jnp.where(n[0] < 0, -1.0, 1.0)
    v = n.at[0].add(sign)
    return (jnp.eye(n.size) - 2 * jnp.outer(v, v) / (v @ v))[1:]
