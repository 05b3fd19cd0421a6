"""Is anything left free, or asked too much, as a whole? By polynomials that solve the linearised problem without data.

What solves the equations and conditions without data may be added to any solution: the constant where all conditions
are Neumann, a pressure without datum, a motion of a body that is held nowhere. What solves the adjoint ones is what
data must be orthogonal to, so that there is a solution: the source and the flux of a Neumann problem, the flow through
all boundaries. These are polynomials of low degree as a rule, and then found to rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre

from hardpde.problem.conditions import INITIAL
from hardpde.problem.datum import Datum
from hardpde.problem.places import Linear, sampled

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

COLUMNS = 300  # unknown coefficients, at most
DEGREE = 12  # at most
INSIDE, ON = 3, 64  # points inside for each polynomial, and on each boundary
NODES, INSTANTS = 64, 16  # of a mean, and at so many times
FREE = 1e-7  # of the largest singular value: what is smaller is zero
ROUNDING = 1e-12
SMOOTH = 2  # degree of polynomials by which sizes are measured
ROUNDED = 1e-13  # of the size of an equation or condition: smaller terms are rounding
CHANGED = 1e-6  # of the largest change: smaller ones are none


class Basis(NamedTuple):
    """Products of Legendre polynomials in a box, up to a total degree: powers (N, c)."""

    low: np.ndarray
    high: np.ndarray
    powers: np.ndarray

    def jet(self, x: np.ndarray, laplacian: int = 0) -> np.ndarray:
        """Values and derivatives (n, slots, N) at points (n, c); laplacian: over so many coordinates, in a last slot.
        """
        c = len(self.low)
        half = (self.high - self.low) / 2
        unit = (x[:, :c] - (self.low + self.high) / 2) / half
        top = int(self.powers.max(initial=0))
        one = np.eye(top + 1)
        orders = [one, *(np.array([np.pad(legendre.legder(row, k), (0, min(k, top + 1)))[: top + 1] for row in one])
                         for k in (1, 2))]
        tables = np.stack([legendre.legval(unit, table.T) for table in orders])  # (3, degree, n, c)
        tables = tables / np.stack([np.ones(c), half, half**2])[:, None, None]
        picked = np.stack([tables[..., k][:, self.powers[:, k]] for k in range(c)])  # (c, 3, N, n)

        def product(order: dict[int, int]) -> np.ndarray:
            return np.prod([picked[k, order.get(k, 0)] for k in range(c)], axis=0).T

        slots = [product({}), *(product({k: 1}) for k in range(c))]
        if laplacian:
            slots.append(np.sum([product({k: 2}) for k in range(laplacian)], axis=0))
        return np.stack(slots, axis=1)


def polynomials(problem: "Problem", fields: int, degree: int = DEGREE, most: int = COLUMNS) -> Basis:
    """Of the largest degree so that coefficients of all fields are no more than that; at least 1."""
    low, high = (np.asarray(bound, float) for bound in problem.domain.bounds)
    if problem.time is not None:
        low, high = np.append(low, problem.time[0]), np.append(high, problem.time[1])
    c = len(low)
    found = _powers(c, 1)
    for top in range(2, degree + 1):
        more = _powers(c, top)
        if len(more) * fields > most:
            break
        found = more
    return Basis(low, high, found)


def _powers(c: int, top: int) -> np.ndarray:
    rows = [np.bincount(np.array(which, int), minlength=c) for degree in range(top + 1)
            for which in combinations_with_replacement(range(c), degree)]
    return np.array(rows)


@dataclass(frozen=True, eq=False)
class Mode:
    """States that may be added to any solution: vectors (k, m, N) of coefficients of polynomials.

    fields: those that change, gradients of others left out. constant: whether each of the states is a constant of one
    component (at every time).
    """

    basis: Basis
    coefficients: np.ndarray
    fields: tuple[str, ...]
    constant: bool

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The first of these states (n, m) at points (n, c)."""
        return self.basis.jet(x)[:, 0] @ self.coefficients[0].T

    def summary(self) -> dict[str, Any]:
        """What it is as plain data."""
        return {"fields": list(self.fields), "constant": self.constant, "states": len(self.coefficients)}


class System(NamedTuple):
    """Rows (k, m N) that coefficients of polynomials must be orthogonal to, of about unit size; and the polynomials."""

    basis: Basis
    rows: np.ndarray

    def null(self) -> np.ndarray:
        """An orthonormal basis (n, m N) of the coefficients that solve all rows."""
        size = np.linalg.norm(self.rows, axis=0)
        size = np.where(size > ROUNDING * size.max(), size, 1.0)
        _, values, vectors = np.linalg.svd(np.linalg.qr(self.rows / size, mode="r"))
        free = vectors[values <= FREE * values.max(initial=1.0)] / size
        return np.linalg.qr(free.T)[0].T if len(free) else free


def free_modes(linear: Linear) -> list[Mode]:
    """States that solve the linearised equations and all conditions without data: constants of each field, and others.
    """
    problem = linear.problem
    m = linear.schema.size
    basis = polynomials(problem, m, most=min(COLUMNS, m * _fewest(linear) // INSIDE))
    rows, units = balanced([*_inside(linear, basis), *_stated(linear, basis)], basis.powers.sum(1) <= SMOOTH)
    null = System(basis, rows).null()
    if not len(null):
        return []
    still = basis.powers[:, : linear.schema.dim].sum(1) == 0
    found, gradients, taken = list[Mode](), dict(linear.schema.gradients), [np.zeros((0, null.shape[1]))]
    for name, where in linear.schema.slices.items():
        shifts = [] if name in gradients else [_shifts(null, m, k, still) for k in range(where.start, where.stop)]
        if any(map(len, shifts)):
            taken += shifts
            first = np.stack([one[0].reshape(m, -1) for one in shifts if len(one)])
            found.append(Mode(basis, _stated_in(units, first), (name,), True))
    constants = np.concatenate(taken)
    _, size, vectors = np.linalg.svd(null - null @ constants.T @ constants, full_matrices=False)
    others = vectors[size > 0.5].reshape(-1, m, len(still))
    if len(others):
        largest = np.abs(np.einsum("nj,kmj->knm", basis.jet(linear.points)[:, 0], others)).max((0, 1))
        changed = tuple(name for name, where in linear.schema.slices.items()
                        if name not in gradients and largest[where].max() > CHANGED * largest.max())
        found.append(Mode(basis, _stated_in(units, others), changed or linear.schema.names[:1], False))
    return found


def balanced(blocks: list[np.ndarray], smooth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (k, m N) of blocks (n, m, N), each of one equation or condition, and units (m,) of the components, in which
    what blocks and components have in common is as near to 1 as can be: nothing depends on the units of a statement.
    smooth (N,): polynomials by which that is measured.

    These are Curtis and Reid's factors: the sum of the squared logarithms of what is not zero is least.
    """
    blocks = [block for block in blocks if block[..., smooth].any()]
    sizes = np.stack([np.linalg.norm(block[..., smooth], axis=-1).max(0) for block in blocks])
    row, column = np.nonzero(sizes > ROUNDED * sizes.max(1, keepdims=True))
    system = np.concatenate([np.eye(len(blocks))[row], np.eye(sizes.shape[1])[column]], axis=1)
    found = np.exp(-np.linalg.lstsq(system, np.log(sizes[row, column]), rcond=None)[0])
    factors, units = found[: len(blocks)], found[len(blocks) :]
    rows = [factor * block * units[:, None] for factor, block in zip(factors, blocks)]
    return np.concatenate([row.reshape(len(row), -1) for row in rows]), units


def _stated_in(units: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Coefficients (k, m, N) in units (m,) as those of the statement, the largest of each about 1."""
    found = coefficients * units[:, None]
    return found / np.abs(found).max((1, 2), keepdims=True)


def _shifts(null: np.ndarray, m: int, component: int, still: np.ndarray) -> np.ndarray:
    """Unit vectors (k, m N) of those coefficients of a component that `still` (N,) marks and that are free."""
    found = np.zeros((int(still.sum()), m, len(still)))
    found[range(len(found)), component, np.flatnonzero(still)] = 1.0
    vectors = found.reshape(len(found), -1)
    return vectors[np.linalg.norm(vectors - vectors @ null.T @ null, axis=1) < CHANGED]


def _fewest(linear: Linear) -> int:
    """How many of the points lie where a field lives, for that of which they are fewest."""
    space, gradients = linear.points[:, : linear.schema.dim], dict(linear.schema.gradients)
    return min(int(linear.problem.lives(name, space).sum()) for name in linear.schema.names if name not in gradients)


def _inside(linear: Linear, basis: Basis) -> Iterator[np.ndarray]:
    """The linearised equations at points of the domain, about every state, blocks (n, m, N)."""
    problem = linear.problem
    x = linear.points if linear.problem.regions else linear.points[: INSIDE * len(basis.powers)]
    slopes = linear.slopes(x)
    jet = basis.jet(x, problem.domain.dim if problem.order == 2 else 0)
    rows = np.einsum("semwn,nwj->esnmj", slopes, jet)
    yield from rows.reshape(len(rows), -1, *rows.shape[3:])


def _stated(linear: Linear, basis: Basis) -> Iterator[np.ndarray]:
    """The rows of all conditions at points of their boundaries, blocks (n, m, N)."""
    problem, m, d = linear.problem, linear.schema.size, linear.schema.dim
    for name, boundary in problem.domain.boundaries.items():
        space, n = sampled(boundary, ON)
        x = np.asarray(problem.everywhen(jnp.asarray(space)))
        a, _, _ = linear.rows(name, x, n)
        jet = basis.jet(x)
        found = np.einsum("nrm,nj->nrmj", a[:, :, :m], jet[:, 0])
        if problem.schema.traces:
            found = found + np.einsum("nrm,nk,nkj->nrmj", a[:, :, m:], n, jet[:, 1 : 1 + d])
        yield from _apart(found)
    if problem.time is not None:
        x = linear.points[: INSIDE * len(basis.powers)].copy()
        x[:, d] = problem.time[0]
        a, _, _ = linear.rows(INITIAL, x, np.zeros((len(x), d)))
        yield from _apart(np.einsum("nrm,nj->nrmj", a[:, :, :m], basis.jet(x)[:, 0]))
    for datum in problem.levels:
        yield from _apart(_of_datum(problem, basis, datum))
    for period in problem.periods:
        space, _ = sampled(problem.domain.boundaries[period.condition.on], ON)
        one, two = (basis.jet(np.asarray(x)) for x in period.pair(problem.everywhen(jnp.asarray(space))))
        parts = [np.einsum("rm,nj->nrmj", np.eye(m)[list(which)], (one - two)[:, slot])
                 for which, slot in ((period.values, 0), (period.slopes, 1 + period.axis)) if which]
        for part in parts:
            yield from _apart(part)


def _of_datum(problem: "Problem", basis: Basis, datum: Datum) -> np.ndarray:
    """The rows of a datum (n, 1, m, N), at times all over their range."""
    times = np.zeros((1, 0)) if problem.time is None else np.linspace(*problem.time, INSTANTS)[:, None]
    others = np.concatenate([times, np.zeros((len(times), len(problem.parameters)))], axis=1)
    nodes, weights = datum.rule(problem, NODES)
    x = np.concatenate([np.tile(nodes, (len(others), 1)), np.repeat(others, len(nodes), axis=0)], axis=1)
    values = np.einsum("knj,n->kj", basis.jet(x)[:, 0].reshape(len(others), len(nodes), -1), weights)
    rows = np.zeros((len(others), 1, problem.schema.size, values.shape[1]))
    rows[:, 0, datum.component(problem)] = values
    return rows


def _apart(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows (n, r, m, N) as r blocks (n, m, N)."""
    return (rows[:, r] for r in range(rows.shape[1]))
