"""Checks of conditions: that they are linear, agree with each other, and can so be built in."""

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.fields import FieldNeeded, flat
from hardpde.problem.layout import stacked_rows
from hardpde.problem.parameters import Undeclared, append
from hardpde.problem.periods import check_period
from hardpde.support.compiling import compiled_quickly, jit_simply
from hardpde.support.messages import evaluating, in_ones_words

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


def check_conditions(problem: "Problem") -> None:
    """Whether the conditions are linear and agree with each other, so that they can be built in."""
    with compiled_quickly():
        for condition in problem.pointwise:
            check_linear(problem, condition)
        _check_number(problem)
        _ = problem.layout, problem.views
        if problem.layout.slopes.any():
            check_slopes(problem)
        _check_initial_gradients(problem)
        for period in problem.periods:
            if period.hard:
                check_period(problem, period)


def check_linear(problem: "Problem", condition: Condition) -> None:
    """Its left side is linear in what is known of the state, and its data have as many rows."""
    where = f"condition '{condition.name}' on '{condition.on}'"
    boundary, schema = problem.boundaries[condition.on], problem.schema

    @jit_simply
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
        raise FieldNeeded(f"{where} needs derivatives along the boundary, and only n·∇u is known without gradient "
                         f"fields; state gradients={{…}} in the problem")
    try:
        jax.eval_shape(lambda x, n: condition.matrix(schema, x, n), points[0], normals[0])
    except Undeclared as error:
        raise ValueError(f"the data of {where}: {error}") from None
    except Exception as error:
        raise ValueError(f"the data of {where} cannot be evaluated or does not have {f1.shape[1]} rows: "
                         f"{in_ones_words(error)}") from None


def _check_number(problem: "Problem") -> None:
    """No boundary has more conditions on values and normal derivatives than there are equations for them."""
    schema, gradients = problem.schema, dict(problem.schema.gradients)
    if problem.measurements or (problem.order == 2 and gradients):
        return
    plain = [name for name in schema.names if name not in gradients]
    most = sum(schema.slices[name].stop - schema.slices[name].start for name in plain)
    by_name: dict[str, list[Condition]] = {}
    for condition in problem.pointwise:
        if condition.on != INITIAL:
            by_name.setdefault(condition.on, []).append(condition)
    for name, stated in by_name.items():
        if len(stated) < 2:
            continue
        boundary = problem.boundaries[name]
        x = boundary.sample(jax.random.key(3), 2)
        n = jax.vmap(boundary.normal)(x)[:, : schema.dim]

        def rows(x: Array, n: Array, stated: list[Condition] = stated) -> Array:
            a, _ = stacked_rows(stated, schema, x, n)
            columns = [a[:, schema.slices[field]] for field in plain]
            for gradient in gradients:
                part = a[:, schema.slices[gradient]]
                columns.append(part.reshape(len(a), -1, schema.dim) @ n)
            return jnp.concatenate([*columns, a[:, schema.size :]], axis=1)

        found = np.asarray(jit_simply(jax.vmap(rows))(problem.everywhen(x), n))
        found = found / np.maximum(np.linalg.norm(found, axis=2, keepdims=True), 1e-300)
        if (rank := int(np.linalg.matrix_rank(found, tol=1e-6).max())) > most:
            raise ValueError(f"'{name}' has {rank} conditions, {', '.join(c.name for c in stated)}, for {most} unknown "
                             f"field{'s' * (most > 1)}; keep {most}, as values and normal derivatives cannot both be "
                             f"chosen")


def _check_initial_gradients(problem: "Problem") -> None:
    """An initial gradient is that of the initial field."""
    schema = problem.schema
    stated = [condition for condition in problem.pointwise if condition.on == INITIAL]
    if len(stated) < 2 or not schema.gradients or problem.time is None or problem.mapping is not None:
        return
    normal, m = jnp.zeros(schema.dim), schema.size

    def begin(x: Array) -> tuple[Array, Array]:
        """What the rows say the state is, and the projector on what they say."""
        a, g = stacked_rows(stated, schema, x, normal)
        inverse = jnp.linalg.pinv(a[:, :m])
        return inverse @ g, inverse @ a[:, :m]

    x = append(problem.parameters, at_times(problem.domain.sample(jax.random.key(6), 64), problem.time[0]))
    found = jit_simply(jax.vmap(lambda x: (*begin(x), jax.jacfwd(lambda y: begin(y)[0])(x)[:, : schema.dim])))(x)
    q, known, slope = map(np.asarray, found)
    said = np.all(np.abs(known - np.eye(m)) < 1e-9, axis=2)  # (n, m): these components are said
    for gradient, base in schema.gradients:
        both = said[:, schema.slices[gradient]].all(1) & said[:, schema.slices[base]].all(1)
        true = slope[:, schema.slices[base]].reshape(len(q), -1)
        miss = np.where(both, np.abs(q[:, schema.slices[gradient]] - true).max(axis=1), 0.0)
        worst = int(miss.argmax())
        if miss[worst] > 1e-8 * max(1.0, np.abs(true).max()):
            place = ", ".join(f"{c:.4g}" for c in np.asarray(x)[worst, : schema.dim])
            raise ValueError(f"the initial condition of '{gradient}' is not the gradient of that of '{base}': they "
                             f"differ by {miss[worst]:.3g} at ({place}); leave it out, it follows")


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
        off = np.asarray(jit_simply(jax.vmap(miss))(early, jax.vmap(piece.normal)(x)))
        if off.max() > 1e-8:
            raise FieldNeeded(f"the normal derivative on '{piece.name}' and the initial condition disagree by "
                             f"{off.max():.3g} at the start of time; make them agree, or state gradient fields")
