"""Problems with the fields that their statement needs and does not have: gradients, and Laplacians of Laplacians.

A condition on n·∇u is built in for the network's own derivative where boundaries keep apart. Where they touch, where
derivatives along the boundary are asked for, or all second derivatives of u, the gradient must be a field: the problem
is solved as another one that has it, and nothing of that shows in what its user states and is given.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.corner_jumps import DataApart, flowing, jump_at
from hardpde.problem.fields import (
    Derivative,
    FieldNeeded,
    Schema,
    State,
    flat,
    laplacian,
    make_schema,
    second_derivatives,
)
from hardpde.problem.hints import Hints, Residual

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

MOST = 16  # corners at which data jump
Values = Callable[[Array], Mapping[str, Any]]  # of a point: {field: value}


def completed(problem: "Problem") -> "Problem":
    """The problem with the fields that its statement needs; itself where there are none such, or where it is faulty."""
    try:
        second = second_derivatives(problem.schema, problem.residual)
        twice = {name for kind, name in second if kind == "bilaplacian"} | _asked(problem)[1]
    except Exception:
        return problem  # what is wrong is said when the statement is checked
    found = with_laplacians(problem, twice) if twice else problem
    if any(kind == "hessian" for kind, _ in second) or _needs_gradients(found):
        found = with_gradients(found)
    return with_jumps(found)


def with_jumps(problem: "Problem") -> "Problem":
    """The problem with functions that jump at corners as its data do; itself where there is no such corner, or where
    there are no such functions."""
    plain = problem.domain.dim == 2 and problem.time is None and problem.mapping is None and not problem.parameters
    if not plain or problem.hints.mirror is not None or any(isinstance(one, Periodic) for one in problem.conditions):
        return problem
    found = problem
    for _ in range(MOST):
        try:
            _ = found.layout
            return found
        except DataApart as error:
            pieces = tuple(piece for piece in problem.domain.pieces
                           if piece.name in {condition.on for condition in problem.pointwise})
            if (jump := jump_at(error, pieces, found.schema, found.domain)) is None:
                return problem
            jump = flowing(jump, found.schema, found.residuals, found.order)
            found = found.derived(jumps=(*found.jumps, jump), origin=problem.stated)
        except ValueError:
            return problem  # what is wrong is said when the statement is checked
    return problem


def symbols(problem: "Problem") -> dict[str, str]:
    """Of the fields that were added to what was stated, what they stand for: {"grad_u": "∇u"}."""
    whole = problem.completed
    stands = {field: f"Δ{name}" for name, field in whole.schema.laplacians}
    stands |= {gradient: f"∇{stands.get(base, base)}" for gradient, base in whole.schema.gradients}
    return {name: stands[name] for name in whole.schema.names if name not in problem.stated.schema.names}


def added_fields(problem: "Problem") -> str:
    """Words on the fields that were added to what was stated, and on corners where data jump; "" without such."""
    corners = [f"({', '.join(f'{c:.4g}' for c in jump.at)})" for jump in problem.completed.jumps]
    said = f"the data jump at {_listed(corners)}: they hold on each side up to there" if corners else ""
    return "; ".join(filter(None, [_words_on(list(symbols(problem).values())), said]))


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _words_on(new: list[str]) -> str:
    """Words on fields that were added, by what they stand for."""
    if not new:
        return ""
    listed = _listed(new)
    if len(new) == 1:
        return (f"hardpde adds {listed} as a field: conditions hold exactly for this field, which is {listed} up to "
                f"the residual")
    return (f"hardpde adds {listed} as fields: conditions hold exactly for these fields, which are what they "
            f"stand for up to the residual")


def _needs_gradients(problem: "Problem") -> bool:
    """Whether conditions ask for gradients that cannot be the network's own derivatives."""
    try:
        if problem.mapping is not None and problem.order == 2:
            return True
        found = _asked(problem)[0]
        if found and problem.schema.traces:
            _ = problem.fitting
        return bool(found) and not problem.schema.traces
    except FieldNeeded:
        return True
    except ValueError:
        return False  # what is wrong is said when the statement is checked


def _asked(problem: "Problem") -> tuple[set[str], set[str]]:
    """Of which fields conditions ask for a gradient that is no field; and for a Laplacian."""
    schema, gradients, laplacians = problem.schema, set[str](), set[str]()

    class Asking(State):
        def gradient(self, name: str) -> Any:
            found = super().gradient(name)
            if self._schema.gradient_of(name) is None:
                gradients.add(name)
            return found

        def laplacian(self, name: str) -> Any:
            laplacians.add(name)
            return jnp.zeros_like(self[name])

    def trace(known: Schema, condition: Condition, q: Array, x: Array, n: Array) -> Any:
        slopes = {name: jnp.zeros((*shape, known.dim)) for name, shape in known.fields} if schema.traces else None
        values = known.state(q)
        return flat(condition.lhs(Asking(known, {name: values[name] for name in known.names}, slopes), x, n))

    missing: set[str] = set()  # gradients without which conditions cannot be read
    stated = [one for one in problem.conditions if isinstance(one, Condition) and one.on != INITIAL]
    x, n = np.zeros(schema.point), np.zeros(schema.dim)
    for _ in range(1 + len(schema.names)):
        known = _extended(problem, missing)
        try:
            for condition in stated:
                jax.eval_shape(partial(trace, known, condition), np.zeros(known.size), x, n)
            break
        except FieldNeeded as error:
            missing.add(error.field)
    return gradients | missing, laplacians


def _extended(problem: "Problem", names: Iterable[str]) -> Schema:
    """The schema with gradients of these fields too."""
    known = {name: _free_name(f"grad_{name}", problem.schema.names) for name in names}
    return make_schema(dict(problem.schema.shapes_of_plain), {**problem.gradients, **{g: b for b, g in known.items()}},
                       problem.schema.dim, problem.schema.timed, problem.schema.parameters)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or a longer one where it is taken."""
    while name in taken:
        name += "_"
    return name


def with_gradients(problem: "Problem") -> "Problem":
    """The problem with gradient fields of all fields of which second derivatives, or gradients in conditions, are asked
    for: then all its equations are of first order."""
    schema = problem.schema
    read = {name for _, name in second_derivatives(schema, problem.residual)} | _asked(problem)[0]
    bases = {name: _free_name(f"grad_{name}", schema.names) for name in schema.names
             if name in read and schema.gradient_of(name) is None and name not in dict(schema.gradients)}

    def completed_residual(stated: Residual) -> Residual:
        def residual(x: Array, q: State, dq: State) -> Any:
            derivatives: dict[str, Any] = {}
            for name in schema.names:
                derivatives[name] = dq[name]
                if (gradient := bases.get(name) or schema.gradient_of(name)) is not None:
                    second = dq[gradient].space
                    derivatives[name] = Derivative(
                        dq[name].space, dq[name].time, jnp.trace(second, axis1=-2, axis2=-1),
                        (second + jnp.swapaxes(second, -1, -2)) / 2)
            return stated(x, _of_names(schema, q), State(schema, derivatives))

        return residual

    def values(stated: Values) -> Values:
        def more(x: Array) -> Mapping[str, Any]:
            found = dict(stated(x))
            for base, gradient in bases.items():
                if base in found:
                    found[gradient] = jax.jacfwd(lambda x, base=base: jnp.asarray(stated(x)[base], float))(
                        x)[..., : schema.dim]
            return found

        return more

    gradients = {**problem.gradients, **{gradient: base for base, gradient in bases.items()}}
    new = sum(math.prod(schema.shapes[base]) * schema.dim for base in bases)
    changed = {"gradients": gradients, "fields": dict(schema.shapes_of_plain)}
    return _derived(problem, changed, completed_residual, values, bases,
                    lambda factors, _: jnp.concatenate([factors, jnp.ones(new)]))


def with_laplacians(problem: "Problem", names: set[str]) -> "Problem":
    """The problem with the Laplacians of these fields as fields m, and the equations Δu − m = 0 after those stated:
    then Δ²u is Δm."""
    schema = problem.schema
    added = {name: _free_name(f"laplacian_{name}", schema.names) for name in schema.names if name in names}

    def completed_residual(stated: Residual) -> Residual:
        def residual(x: Array, q: State, dq: State) -> Any:
            derivatives: dict[str, Any] = {name: dq[name] for name in schema.names}
            for name, field in added.items():
                own = dq[name]
                derivatives[name] = Derivative(own.space, own.time, q[field], own.hessian, laplacian(dq[field]))
            found = stated(x, _of_names(schema, q), State(schema, derivatives))
            more = {field: laplacian(dq[name]) - q[field] for name, field in added.items()}
            if isinstance(found, Mapping):
                return {**found, **more}
            return jnp.concatenate([flat(found), *map(jnp.ravel, more.values())])

        return residual

    def values(stated: Values) -> Values:
        def more(x: Array) -> Mapping[str, Any]:
            found = dict(stated(x))
            for name, field in added.items():
                if name in found:
                    second = jax.hessian(lambda x, name=name: jnp.asarray(stated(x)[name], float))(x)
                    found[field] = jnp.trace(second[..., : schema.dim, : schema.dim], axis1=-2, axis2=-1)
            return found

        return more

    shapes = dict(schema.shapes_of_plain)
    new = sum(math.prod(shapes[name]) for name in added)
    regions = {field: problem.regions[name] for name, field in added.items() if name in problem.regions}
    changed = {"fields": {**shapes, **{field: shapes[name] for name, field in added.items()}},
               "regions": {**problem.regions, **regions},
               "laplacians": dict(added), "equations": None if problem.equations is None else problem.equations + new}
    ties = sum(math.prod(schema.shapes[gradient]) for gradient, _ in schema.gradients)

    def factors(stated: Array, size: int) -> Array:
        return jnp.concatenate([stated[: size - ties], jnp.ones(new), stated[size - ties :]])

    return _derived(problem, changed, completed_residual, values, added, factors)


def _of_names(schema: Schema, q: State) -> State:
    """The state of a schema with more fields, as that of this one."""
    return State(schema, {name: q[name] for name in schema.names})


def _derived(problem: "Problem", changed: dict[str, Any], completed_residual: Callable[[Residual], Residual],
             values: Callable[[Values], Values], added: Mapping[str, str],
             factors: Callable[[Array, int], Array]) -> "Problem":
    """The problem with fields that were `added`, {field: what is new of it}, and all that it states for them."""
    made = problem.derived(**changed, residual=completed_residual(problem.residual), origin=problem.stated,
                           conditions=tuple(_with_fields(problem, one, added) for one in problem.conditions),
                           exact=problem.exact and values(problem.exact), reference=None)
    hints, change = problem.hints, dict[str, Any]()
    if (easier := hints.continuation) is not None:
        change["continuation"] = lambda s: completed_residual(easier(s))
    if (guess := hints.guess) is not None:
        change["guess"] = values(guess)
    if (scale := hints.scale) is not None:
        change["scale"] = lambda x: _scaled(jnp.asarray(scale(x)), factors)
    if (outputs := hints.outputs) is not None:
        change["outputs"] = lambda x: _outputs(jnp.asarray(outputs(x)), problem.schema, made.schema)
    if hints.mirror is not None:
        change["mirror"] = hints.mirror._replace(odd=_odd(hints, problem.schema, made.schema, added))
    return made.derived(hints=replace(hints, **change)) if change else made


def _with_fields(problem: "Problem", condition: Any, added: Mapping[str, str]) -> Any:
    """A periodic condition on some fields is one on what was added of them too; those that depend on the curvature of
    their boundary are told it."""
    if isinstance(condition, Condition) and condition.bent is not None:
        boundary, dim = problem.domain.boundaries[condition.on], problem.domain.dim
        if dim != 2 or problem.mapping is not None:
            raise ValueError(f"the condition '{condition.name}' takes the curvature of plane curves; '{condition.on}' "
                             f"is none, or is mapped")
        lhs = condition.bent(lambda x: -boundary.curvature(x[:dim]))
        return replace(condition, lhs=lhs, bent=None)
    if not isinstance(condition, Periodic) or condition.fields is None:
        return condition
    return replace(condition, fields=(*condition.fields, *[added[name] for name in condition.fields if name in added]))


def _scaled(stated: Array, factors: Callable[[Array, int], Array]) -> Array:
    return factors(stated, stated.size) if stated.size > 1 else stated


def _outputs(matrix: Array, schema: Schema, whole: Schema) -> Array:
    """The hint `outputs` with an output for each component that was added."""
    if matrix.ndim != 2 or len(matrix) != schema.size:
        raise ValueError(f"it returns an array of shape {matrix.shape}; it must be a matrix with {schema.size} rows, "
                         f"one for each component of the state")
    rows = np.concatenate([np.arange(whole.size)[whole.slices[name]] for name in schema.names])
    others = np.setdiff1d(np.arange(whole.size), rows)
    found = jnp.zeros((whole.size, matrix.shape[1] + len(others)))
    return found.at[rows, : matrix.shape[1]].set(matrix).at[others, matrix.shape[1] + np.arange(len(others))].set(1.0)


def _odd(hints: Hints, schema: Schema, whole: Schema, added: Mapping[str, str]) -> tuple[str, ...]:
    """The odd components of a mirror: a derivative across its plane is odd where the field is not."""
    assert hints.mirror is not None
    signs, labels = hints.mirror.signs(schema), whole.labels()
    found = list(hints.mirror.odd)
    for base, field in added.items():
        old = signs[schema.slices[base]]
        new, slots = labels[whole.slices[field]], math.prod(whole.shapes[field]) // len(old)
        across = np.arange(slots) == hints.mirror.axis if slots > 1 or field in dict(whole.gradients) else np.zeros(1)
        odd = (old[:, None] < 0) != across[None].astype(bool)
        found += [label for label, one in zip(new, odd.ravel()) if one]
    return tuple(found)
