"""Checks of conditions: that they are linear, agree with each other, and can so be built in."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.fields import flat
from hardpde.problem.layout import stacked_rows
from hardpde.problem.parameters import Undeclared, append
from hardpde.problem.periods import check_period
from hardpde.support.compiling import compiled_quickly
from hardpde.support.messages import evaluating, first_line

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


def check_conditions(problem: "Problem") -> None:
    """Whether the conditions are linear and agree with each other, so that they can be built in."""
    with compiled_quickly():
        for condition in problem.pointwise:
            check_linear(problem, condition)
        _ = problem.layout, problem.views
        if problem.layout.slopes.any():
            check_slopes(problem)
        for period in problem.periods:
            if period.hard:
                check_period(problem, period)


def check_linear(problem: "Problem", condition: Condition) -> None:
    """Its left side is linear in what is known of the state, and its data have as many rows."""
    where = f"condition '{condition.name}' on '{condition.on}'"
    boundary, schema = problem.boundaries[condition.on], problem.schema

    @jax.jit
    def evaluate(key: Array, q1: Array, q2: Array) -> tuple[list[Array], Array, Array]:
        points = boundary.sample(key, 4)
        normals = jax.vmap(boundary.normal)(points)[:, : schema.dim]
        points = problem.everywhen(points) if condition.on != INITIAL else append(problem.parameters, points)

        def side(q: Array, x: Array, n: Array) -> Array:
            gradient = q[:, 1:] if schema.traces else None
            return flat(condition.lhs(schema.state(q[:, 0], gradient), x, n))

        rows = jax.vmap(side, (None, 0, 0))
        across = jax.vmap(lambda q, x, n: side(q.at[:, 1:].set(jnp.outer(q[:, 1:] @ n, n)), x, n), (None, 0, 0))
        found = [rows(q, points, normals) for q in (0 * q1, q1, q2, 2 * q1 - 3 * q2)]
        return [*found, across(q1, points, normals)], points, normals

    with evaluating(where):
        drawn = np.random.default_rng(2).standard_normal((2, schema.size, 1 + schema.dim))  # compiles nothing
        found = evaluate(jax.random.key(2), *drawn)
        (zero, f1, f2, mixed, across), points, normals = jax.tree.map(np.asarray, found)
    size = 1 + np.abs(mixed).max(initial=0.0)
    if np.abs(zero).max(initial=0.0) > 1e-9 * size or np.abs(mixed - 2 * f1 + 3 * f2).max() > 1e-9 * size:
        raise ValueError(f"{where} is not linear in the state; put constants on the right side, "
                         f"and products of fields into the residual")
    if schema.traces and np.abs(across - f1).max(initial=0.0) > 1e-9 * size:
        raise ValueError(f"{where} needs derivatives along the boundary, and only n·∇u is known without gradient "
                         f"fields; state gradients={{…}} in the problem")
    try:
        jax.eval_shape(lambda x, n: condition.matrix(schema, x, n), points[0], normals[0])
    except Undeclared as error:
        raise ValueError(f"the data of {where}: {error}") from None
    except Exception as error:
        raise ValueError(f"the data of {where} cannot be evaluated or does not have {f1.shape[1]} rows: "
                         f"{first_line(error)}") from None


def check_slopes(problem: "Problem") -> None:
    """Normal derivatives at the start of time must be those of the initial data."""
    if not problem.layout.initial:
        return
    schema, m = problem.schema, problem.schema.size
    start = problem.time[0] if problem.time else 0.0
    conditions = [problem.pointwise[k] for k in problem.layout.initial]

    def begin(x: Array) -> Array:
        a, g = stacked_rows(conditions, schema, x.at[schema.dim].set(start), jnp.zeros(schema.dim))
        return jnp.linalg.pinv(a[:, :m]) @ g

    for k in np.flatnonzero(problem.layout.slopes.any(axis=1)):
        piece, rows = problem.layout.pieces[k], [problem.pointwise[c] for c in problem.layout.conditions[k]]

        def miss(x: Array, n: Array, rows: list[Condition] = rows) -> Array:
            a, g = stacked_rows(rows, schema, x, n)
            q, slope = jax.jvp(begin, (x,), (jnp.concatenate([n, jnp.zeros(x.size - n.size)]),))
            r = g - a[:, :m] @ q - a[:, m:] @ slope
            a0 = stacked_rows(conditions, schema, x, jnp.zeros(schema.dim))[0][:, :m]
            return jnp.abs(a0 @ jnp.linalg.pinv(a[:, m:]) @ r).max()

        x = piece.sample(jax.random.key(6), 16)
        early = append(problem.parameters, at_times(x, start))
        off = np.asarray(jax.jit(jax.vmap(miss))(early, jax.vmap(piece.normal)(x)))
        if off.max() > 1e-8:
            raise ValueError(f"the normal derivative on '{piece.name}' and the initial condition disagree by "
                             f"{off.max():.3g} at the start of time; make them agree, or state gradient fields")
