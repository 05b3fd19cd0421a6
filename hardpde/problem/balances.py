"""What the data must satisfy so that there is a solution: balances of sources, fluxes and flows.

For weights w of the equations that solve the adjoint equations, and whose boundary terms the conditions determine,
∫ w·F[q] depends on the data alone: it must be zero, and what it is otherwise is by how much the data disagree. Weights
are looked for among polynomials of low degree, for those equations that are linear.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL
from hardpde.problem.free_modes import INSIDE, ON, Basis, System, balanced, polynomials
from hardpde.problem.parameters import append
from hardpde.problem.places import Linear, sampled

DEGREE, COLUMNS = 2, 200  # of weights, and their coefficients at most
STEP = 1e-4  # of the extent, for differences of coefficients
POINTS = 4096  # of an integral
ROUNDING = 1e-10
SURE = 6.0  # standard errors
ROUGH = 5e-3  # of what is added up: how well measures of domains are known


class Balance(NamedTuple):
    """What data add up to, and what they should, zero; size: of what was added up; equations: those that are weighted;
    boundaries: where data count."""

    amount: float
    size: float
    equations: list[int]
    boundaries: list[str]


def balances(linear: Linear) -> list[Balance]:
    """The balances that data do not keep."""
    problem, which = linear.problem, np.flatnonzero(linear.equations)
    if not len(which) or problem.mapping is not None:
        return []
    basis = polynomials(problem, len(which), DEGREE, COLUMNS)
    adjoint = _adjoint(linear, basis, which)
    if adjoint is None:
        return []
    blocks = [*_apart(adjoint), *(part for rows in _left_open(linear, basis, which) for part in _apart(rows))]
    rows, units = balanced(blocks, np.ones(len(basis.powers), bool))
    found = [_balance(linear, basis, which, one.reshape(len(which), -1), units) for one in System(basis, rows).null()]
    return [one for one in found if one is not None]


def _apart(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows (n, m, e, N) as m blocks (n, e, N)."""
    return (rows[:, k] for k in range(rows.shape[1]))


def _adjoint(linear: Linear, basis: Basis, which: np.ndarray) -> np.ndarray | None:
    """The adjoint equations at points of the domain, as rows (n, m, e, N) for the coefficients of weights; None where
    they would need second derivatives of coefficients."""
    problem, c, d = linear.problem, linear.schema.coordinates, linear.schema.dim
    x = linear.points if problem.regions else linear.points[: 2 * INSIDE * len(basis.powers)]
    slope = _slope(linear, x, which)
    second = problem.order == 2
    jet = basis.jet(x, d if second else 0)
    found = np.einsum("emn,nj->nmej", slope[:, :, 0], jet[:, 0])
    for k in range(c):
        step = np.zeros(x.shape[1])
        step[k] = STEP * (basis.high[k] - basis.low[k])
        ahead, behind = (_slope(linear, x + sign * step, which) for sign in (1, -1))
        change = (ahead - behind) / (2 * step[k])
        if second and np.abs(change[:, :, -1]).max() * step[k] > 1e-9 * np.abs(slope[:, :, -1]).max():
            return None
        jump = np.abs(ahead - 2 * slope + behind).max((0, 1, 2)) > 1e-2 * np.abs(slope).max()
        found[jump] = 0.0  # another material begins between
        found -= np.einsum("emn,nj->nmej", np.where(jump, 0.0, change[:, :, 1 + k]), jet[:, 0])
        found -= np.einsum("emn,nj->nmej", np.where(jump, 0.0, slope[:, :, 1 + k]), jet[:, 1 + k])
    if second:
        found += np.einsum("emn,nj->nmej", slope[:, :, -1], jet[:, -1])
    return found


def _slope(linear: Linear, x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Derivatives (e, m, slots, n) of linear equations by the jet."""
    zero = np.ones((linear.schema.size, 1 + linear.problem.derivatives, len(x)))
    return linear.at(x, zero)[1][which]


def _left_open(linear: Linear, basis: Basis, which: np.ndarray) -> Iterator[np.ndarray]:
    """Boundary terms that the conditions do not determine, as rows (n, columns, e, N) for the coefficients of weights.
    """
    problem, d, m = linear.problem, linear.schema.dim, linear.schema.size
    joined = {period.condition.on for period in problem.periods} | {period.condition.to for period in problem.periods}
    for name, boundary in problem.domain.boundaries.items():
        if name in joined:
            continue
        space, n = sampled(boundary, ON)
        x = np.asarray(problem.everywhen(jnp.asarray(space)))
        term = _boundary_term(linear, basis, which, x, n, any(piece.two_sided for piece in boundary.pieces))
        yield _of_open(linear.rows(name, x, n)[0], term)
    for period in problem.periods:
        space, n = sampled(problem.domain.boundaries[period.condition.on], ON)
        one, two = (np.asarray(x) for x in period.pair(problem.everywhen(jnp.asarray(space))))
        parts = [_boundary_term(linear, basis, which, x, normal, False)[:, :m] for x, normal in ((one, n), (two, -n))]
        yield parts[0] + parts[1]
    if problem.time is not None:
        for end in (0, 1):
            x = linear.points[: INSIDE * len(basis.powers)].copy()
            x[:, d] = problem.time[end]
            term = np.einsum("emn,nj->nmej", _slope(linear, x, which)[:, :, 1 + d], basis.jet(x)[:, 0])
            yield term if end else _of_open(linear.rows(INITIAL, x, np.zeros((len(x), d)))[0][:, :, :m], term)


def _boundary_term(linear: Linear, basis: Basis, which: np.ndarray, x: np.ndarray, n: np.ndarray,
                   two_sided: bool) -> np.ndarray:
    """What multiplies the state, and its normal derivatives if those are known, in ∮: (n, columns, e, N)."""
    problem, d = linear.problem, linear.schema.dim
    jet, found = basis.jet(x), 0.0
    for turned in (1.0, -1.0) if two_sided else (1.0,):
        inside = x.copy()
        inside[:, :d] -= turned * 1e-6 * problem.domain.size * n
        slope = _slope(linear, inside, which)
        term = np.einsum("emkn,nk,nj->nmej", slope[:, :, 1 : 1 + d], n, jet[:, 0])
        if linear.schema.traces:
            across = np.einsum("nk,nkj->nj", n, jet[:, 1 : 1 + d])
            term = term - np.einsum("emn,nj->nmej", slope[:, :, -1], across)
            term = np.concatenate([term, np.einsum("emn,nj->nmej", slope[:, :, -1], jet[:, 0])], axis=1)
        found = found + turned * term
    return np.asarray(found)


def _of_open(a: np.ndarray, term: np.ndarray) -> np.ndarray:
    """What is left of terms (n, m, e, N) in states that rows (n, r, m) do not determine, without rounding."""
    if not a.shape[1]:
        return term
    left = term - np.einsum("nmr,nra,nmej->naej", np.linalg.pinv(a), a, term)
    largest = np.abs(term).max((0, 2, 3), keepdims=True)
    return np.where(np.abs(left) > ROUNDING * largest, left, 0.0)


class Sum(NamedTuple):
    """An integral by points: what it is, its variance, and the integral of the absolute value."""

    total: float
    variance: float
    size: float


def _integral(measure: float, values: np.ndarray) -> Sum:
    return Sum(measure * float(values.mean()), measure**2 * float(values.var()) / len(values),
               measure * float(np.abs(values).mean()))


def _balance(linear: Linear, basis: Basis, which: np.ndarray, weights: np.ndarray, units: np.ndarray) -> Balance | None:
    """What the data add up to with these weights (e, N), in units (e,); None where that is zero, as far as points can
    tell."""
    problem, d, m = linear.problem, linear.schema.dim, linear.schema.size
    weights = np.where(np.abs(weights) > ROUNDING * np.abs(weights).max(), weights, 0.0)
    weighed = np.abs(weights).max(1)
    weights = weights * units[:, None]
    rng = np.random.default_rng(9)
    span = 1.0 if problem.time is None else problem.time[1] - problem.time[0]

    def points(space: np.ndarray, start: bool = False) -> np.ndarray:
        if problem.time is not None:
            t = np.full(len(space), problem.time[0]) if start else rng.uniform(*problem.time, len(space))
            space = at_times(space, t)
        return np.asarray(append(problem.parameters, space))

    space = np.asarray(problem.domain.sample(jax.random.key(27), POINTS))
    x = points(space)
    source = linear.at(x, np.zeros((m, 1 + problem.derivatives, len(x))))[0][which]
    weighted = np.einsum("ej,nj,en->n", weights, basis.jet(x)[:, 0], source)
    parts = {"": _integral(problem.domain.measure * span, weighted)}
    joined = {name for period in problem.periods for name in (period.condition.on, period.condition.to)}
    for name, boundary in problem.domain.boundaries.items():
        if name in joined or name not in {condition.on for condition in problem.pointwise}:
            continue
        at = boundary.sample(jax.random.key(28), POINTS // 2)
        n = np.asarray(jax.vmap(boundary.normal)(at))
        x = points(np.asarray(at))
        a, g, _ = linear.rows(name, x, n)
        term = _boundary_term(linear, basis, which, x, n, any(piece.two_sided for piece in boundary.pieces))
        known = np.einsum("nmr,nr->nm", np.linalg.pinv(a), g)
        parts[name] = _integral(boundary.measure * span, np.einsum("nmej,ej,nm->n", term, weights, known))
    if problem.time is not None:
        x = points(space, start=True)
        a, g, _ = linear.rows(INITIAL, x, np.zeros((len(x), d)))
        if a.shape[1]:
            term = np.einsum("emn,nj,ej->nm", _slope(linear, x, which)[:, :, 1 + d], basis.jet(x)[:, 0], weights)
            known = np.einsum("nmr,nr->nm", np.linalg.pinv(a[:, :, :m]), g)
            parts[INITIAL] = _integral(problem.domain.measure, -(term * known).sum(1))
    amount, variance, whole = (sum(getattr(part, key) for part in parts.values()) for key in Sum._fields)
    if abs(amount) <= max(SURE * variance**0.5, ROUGH * whole):
        return None
    equations = [int(which[k]) for k in np.flatnonzero(weighed > 1e-6 * weighed.max())]
    scale = float(np.abs(basis.jet(linear.points)[:, 0] @ weights.T).max())
    return Balance(amount / scale, whole / scale, equations,
                   [name for name, part in parts.items() if name and part.size > 1e-6 * whole])
