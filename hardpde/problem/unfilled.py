"""Problems without their gradient fields: these are filled by differentiation."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import Array

from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.fields import Filled, Schema, State, laplacian, second_derivatives
from hardpde.problem.hints import Hints, Residual
from hardpde.problem.statement_checks import check_residual
from hardpde.support.compiling import compiled_quickly

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


_KEPT = ("a problem with a mapping keeps its gradient fields; choose gradients='fields', with the command --set "
         "gradients=fields")


def without_gradients(problem: "Problem", hints: Hints | None = None) -> "Problem":
    """A problem with its gradient fields filled by differentiation: fewer fields, second derivatives.

    The residual may read a gradient field and its divergence. hints: in place of the problem's own. Its conditions may
    be more than an ansatz can build in: `check_conditions` tells.
    """
    if problem.origin is not None and problem.origin.completed is problem:
        problem = problem.origin
        if problem.mapping is not None:
            raise ValueError(_KEPT)
        if any(kind != "laplacian" for kind, _ in second_derivatives(problem.schema, problem.residual)):
            raise ValueError("hessian and bilaplacian need gradients that are fields; choose gradients='fields', with "
                             "the command --set gradients=fields")
    schema = problem.schema
    if not schema.gradients:
        return problem
    if problem.mapping is not None:
        raise ValueError(_KEPT)
    gradients = dict(schema.gradients)
    fields = {name: shape for name, shape in schema.fields if name not in gradients}

    def filled(stated: Residual) -> Residual:
        def residual(x: Array, q: State, dq: State) -> Any:
            values = {name: q[name] for name in fields}
            derivatives: dict[str, Any] = {name: dq[name] for name in fields}
            for gradient, base in gradients.items():
                values[gradient] = dq[base].space
                derivatives[gradient] = Filled(laplacian(dq[base]))
            return stated(x, State(schema, values), State(schema, derivatives))

        return residual

    hints = problem.hints if hints is None else hints
    if (easier := hints.continuation) is not None:
        hints = replace(hints, continuation=lambda s: filled(easier(s)))
    if hints.scale is not None:
        hints = replace(hints, scale=_without_factors(hints.scale, schema))
    conditions = tuple(c if not isinstance(c, Condition) or c.on == INITIAL else _unfilled(c, schema)
                       for c in problem.conditions)
    unfilled = problem.derived(fields=fields, gradients={}, residual=filled(problem.residual), conditions=conditions,
                               hints=hints, exact=None, reference=None, origin=problem)
    with compiled_quickly():
        check_residual(unfilled)
    return unfilled


def _without_factors(scale: Callable[[Array], Any], schema: Schema) -> Callable[[Array], Array]:
    """The hint `scale` without the factors of the equations of gradient fields."""
    gone = sum(math.prod(schema.shapes[gradient]) for gradient, _ in schema.gradients)

    def shortened(x: Array) -> Array:
        factors = jnp.asarray(scale(x))
        return factors[: factors.size - gone] if factors.size > 1 else factors

    return shortened


def _unfilled(condition: Condition, schema: Schema) -> Condition:
    """A condition on the gradient fields as one on the gradients themselves."""
    gradients = dict(schema.gradients)

    def lhs(q: State, x: Array, n: Array) -> Any:
        values = {name: q.gradient(gradients[name]) if name in gradients else q[name] for name in schema.names}
        return condition.lhs(State(schema, values), x, n)

    return replace(condition, lhs=lhs)
