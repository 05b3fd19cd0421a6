"""Which component of a state plays which part in a weak form, read off from the equations by differentiation."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import linear_sum_assignment

from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

LOOKS, STATES = 32, 3  # points at which the equations are looked at, and states at each
NOTHING = 1e-9


class Roles(NamedTuple):
    """Which component of the state plays which part; numbers of components and of equations.

    unknowns: those of the elements, `pressures` among them; defined: those that the equations `defining` give without
    their derivatives; partners: of each unknown the equation that is tested with its test functions.
    """

    unknowns: tuple[int, ...]
    pressures: tuple[int, ...]
    defined: tuple[int, ...]
    defining: tuple[int, ...]
    partners: tuple[int, ...]


class Look(NamedTuple):
    """Derivatives of the stated equations at points and states: by the state (n, s, e, m), by derivatives in space
    (n, s, e, d, m), by the rate (n, s, e, m) and by the Laplacian (n, s, e, m)."""

    state: np.ndarray
    space: np.ndarray
    rate: np.ndarray
    laplacian: np.ndarray


def check_offered(problem: Problem) -> None:
    """ValueError where something is stated that the weak form does not take in."""
    def refuse(what: str) -> None:
        raise ValueError(f"finite elements are not offered for {what}")

    if problem.schema.dim not in (2, 3):
        refuse(f"a domain in {problem.schema.dim}-D; they are in two and three dimensions")
    if problem.parameters:
        refuse("a family; fix its parameters by problem.at(…)")
    if problem.mapping is not None:
        refuse("a shape that depends on parameters by a mapping")
    if problem.regions:
        refuse("fields that live in regions and meet at an interface; state exact=… or bring values in reference=…")
    if problem.measurements:
        refuse("a problem with measurements")
    if problem.periods:
        refuse("periodic conditions")


def _look(problem: Problem) -> Look:
    schema = problem.schema
    points = problem.sample(jax.random.key(9), LOOKS)

    @jit_simply
    def look(x: Array) -> tuple[Array, Array]:
        keys = jax.random.split(jax.random.key(10), 2)
        q = jax.random.normal(keys[0], (LOOKS, STATES, schema.size))
        dq = jax.random.normal(keys[1], (LOOKS, STATES, problem.derivatives, schema.size))

        def one(x: Array, q: Array, dq: Array) -> tuple[Array, Array]:
            def equations(q: Array, dq: Array) -> Array:
                return problem.stated_equations(x, schema.state(q), schema.derivatives(dq))

            return jax.jacfwd(equations, (0, 1))(q, dq)

        return jax.vmap(jax.vmap(one, (None, 0, 0)))(x, q, dq)

    by_q, by_dq = map(np.asarray, look(points))
    if not (np.isfinite(by_q).all() and np.isfinite(by_dq).all()):
        raise ValueError("the equations have no derivatives at some points or states")
    d, nothing = schema.dim, np.zeros_like(by_q)
    rate = by_dq[:, :, :, d] if schema.timed else nothing
    laplacian = by_dq[:, :, :, -1] if problem.order == 2 else nothing
    return Look(by_q, by_dq[:, :, :, :d], rate, laplacian)


def roles_of(problem: Problem) -> Roles:
    schema, look = problem.schema, _look(problem)
    labels = schema.labels()
    standing = [k for gradient, _ in schema.gradients for k in range(schema.slices[gradient].start,
                                                                     schema.slices[gradient].stop)]
    plain = [k for k in range(schema.size) if k not in standing]
    if look.state.shape[2] != len(plain):
        raise ValueError(f"the equations are {look.state.shape[2]} and the unknowns {len(plain)}; finite elements are "
                         f"offered where they are equally many")
    if np.abs(look.rate[..., standing]).max(initial=0.0) > 0:
        raise ValueError("a gradient is differentiated in time; finite elements are offered where fields are")
    defined, defining = _defined(problem, look, standing)
    unknowns = [k for k in plain if k not in defined]
    rows = [e for e in range(look.state.shape[2]) if e not in defining]
    second = _second_parts(problem, look, unknowns, rows)
    if defined:
        second += _through_defined(look, unknowns, rows, defined, defining)
    differentiated = [k for n, k in enumerate(unknowns) if second[:, n].max() > 0]
    taken, given = linear_sum_assignment(-second[:, [unknowns.index(k) for k in differentiated]])
    partner = {differentiated[g]: rows[t] for t, g in zip(taken, given)}
    size = np.abs(look.space).max()
    for t, g in zip(taken, given):
        if second[t, unknowns.index(differentiated[g])] <= NOTHING * size:
            raise ValueError(f"the equations have no second derivatives of their own for "
                             f"'{labels[differentiated[g]]}'")
    rest, left = [k for k in unknowns if k not in partner], [e for e in rows if e not in partner.values()]
    if rest:
        use = [np.abs(part).max((0, 1))[np.ix_(left, rest)] for part in (look.rate, look.state)]
        use.append(np.abs(look.space).max((0, 1, 3))[np.ix_(left, rest)])
        taken, given = linear_sum_assignment(-sum(w * (u > 0) for w, u in zip((100.0, 10.0, 1.0), use)))
        partner |= {rest[g]: left[t] for t, g in zip(taken, given)}
    own = [partner[k] for k in differentiated]
    pressures = [k for k in rest if np.abs(look.space[:, :, own][..., k]).max(initial=0.0) > 0
                 and not np.abs(look.rate[..., k]).max() > 0]
    _check_affine(problem, look, unknowns)
    return Roles(tuple(unknowns), tuple(pressures), tuple(defined), tuple(defining),
                 tuple(partner[k] for k in unknowns))


def _defined(problem: Problem, look: Look, standing: list[int]) -> tuple[list[int], list[int]]:
    """Fields of which derivatives are taken and that equations give without their derivatives; and these equations."""
    schema = problem.schema
    space, state = (np.abs(part).max(axes) for part, axes in ((look.space, (0, 1, 3)), (look.state, (0, 1))))
    of_second = np.abs(look.laplacian).max((0, 1, 3)) + np.abs(look.rate).max((0, 1, 3))
    plain_rows = [e for e in range(len(space)) if not of_second[e] + space[e, standing].max(initial=0.0) > 0]
    bases = [base for _, base in schema.gradients]
    used = np.abs(look.rate).max((0, 1, 2)) + np.abs(look.laplacian).max((0, 1, 2))
    defined: list[int] = []
    defining: list[int] = []
    # Fluxes come before what they are fluxes of: those with more components first.
    for name, where in sorted(schema.slices.items(), key=lambda item: item[1].start - item[1].stop):
        own = list(range(where.start, where.stop))
        if name in bases or own[0] in standing or used[own].max() > 0 or not space[:, own].max() > 0:
            continue
        rows = [e for e in plain_rows if e not in defining and not space[e, [*defined, *own]].max() > 0
                and state[e, own].max() > 0]
        if len(rows) == len(own) and np.linalg.cond(look.state[:, :, rows][..., own]).max() < 1e9:
            defined, defining = defined + own, defining + rows
    return defined, defining


def _second_parts(problem: Problem, look: Look, unknowns: list[int], rows: list[int]) -> np.ndarray:
    """How much of Σᵢ ∂ᵢ∂ᵢ of each unknown is in each equation, (rows, unknowns)."""
    schema, found = problem.schema, np.zeros((len(rows), len(unknowns)))
    for n, k in enumerate(unknowns):
        found[:, n] = np.abs(look.laplacian[:, :, rows][..., k]).max((0, 1))
    for gradient, base in schema.gradients:
        first, own = schema.slices[gradient].start, schema.slices[base]
        for j, k in enumerate(range(own.start, own.stop)):
            if k in unknowns:
                part = look.space[:, :, rows][..., first + schema.dim * j + np.arange(schema.dim)]
                found[:, unknowns.index(k)] += np.abs(np.einsum("nseii->nse", part)).max((0, 1))
    return found


def _through_defined(look: Look, unknowns: list[int], rows: list[int], defined: list[int],
                     defining: list[int]) -> np.ndarray:
    """The same of what the equations that define a flux say of it."""
    inverse = np.linalg.inv(look.state[:, :, defining][..., defined])
    slopes = np.einsum("nsab,nsbik->nsaik", inverse, look.space[:, :, defining][..., unknowns])
    second = np.einsum("nseia,nsaik->nsek", look.space[:, :, rows][..., defined], slopes)
    return np.abs(second).max((0, 1))


def _check_affine(problem: Problem, look: Look, unknowns: list[int]) -> None:
    """Second derivatives enter with coefficients that depend on the point and values alone."""
    others = [k for k in range(problem.schema.size) if k not in unknowns]
    schema = problem.schema
    x = problem.sample(jax.random.key(9), LOOKS)
    q = jax.random.normal(jax.random.key(11), (schema.size,))

    @jit_simply
    def second(key: Array) -> Array:
        fixed = q.at[np.array(others, int)].set(jax.random.normal(key, (len(others),)))
        dq = jax.random.normal(key, (problem.derivatives, schema.size))

        def one(x: Array) -> Array:
            slope = jax.jacfwd(lambda dq: problem.stated_equations(x, schema.state(fixed), schema.derivatives(dq)))(dq)
            parts = [slope[:, : schema.dim][..., np.array(others, int)].ravel()]
            return jnp.concatenate([*parts, slope[:, -1].ravel()] if problem.order == 2 else parts)

        return jax.vmap(one)(x)

    a, b = (np.asarray(second(jax.random.key(k))) for k in (1, 2))
    if np.abs(a - b).max(initial=0.0) > NOTHING * max(np.abs(a).max(initial=0.0), 1e-300):
        raise ValueError("the coefficients of second derivatives depend on derivatives; finite elements are offered "
                         "where they depend on the place and on values")
