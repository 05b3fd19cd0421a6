"""Which equations a problem states, read off at points: the class decides which bound of the error holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.points import uniform
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply

POINTS = 64  # at which the equations are looked at
STATES = 3  # at each of them
TOLERANCE = 1e-9


class Unrecognised(ValueError):
    """No bound is known, and why."""


class Coefficients(NamedTuple):
    """Those of ρ ∂u/∂t − ∇·(A∇u) + β·∇u + c u = f at points (n, …); of β, through_flux is the part that the equation
    takes from the field that stands for ∇u. spread: ∇·β; drift: ∇·A; aging: ∂ρ/∂t."""

    rho: Any
    a: Any
    beta: Any
    through_flux: Any
    c: Any
    spread: Any
    drift: Any
    aging: Any


@dataclass(frozen=True, eq=False)
class Scalar:
    """One equation ρ ∂u/∂t − ∇·(A∇u) + β·∇u + c(u) = f of a component of the state.

    value, flux: numbers of the components of the state that are u and what stands for ∇u (None: its derivatives are
    taken); row: which of the problem's equations it is; sign and level say by what that is multiplied: sign alone, or
    so that the trace of A is d. linear: c(u) = c u. speed: the component whose derivative in time ρ is of, if not u.
    """

    problem: Problem
    label: str
    value: int
    flux: tuple[int, ...] | None
    row: int
    sign: float
    level: bool
    linear: bool
    speed: int | None = None

    @property
    def dim(self) -> int:
        return self.problem.schema.dim

    def factor(self, second: Array) -> Array:
        """What the stated equation is multiplied with, from its second derivatives (d, d)."""
        return -self.dim / jnp.trace(second) if self.level else jnp.asarray(self.sign)

    def multiplier(self, x: Array) -> Array:
        """The same at a point, for an equation that is linear in its derivatives."""
        schema = self.problem.schema
        dq = jnp.zeros((self.problem.derivatives, schema.size))
        by_dq = jax.grad(lambda dq: self.problem.residuals(x, jnp.zeros(schema.size), dq)[self.row])(dq)
        return self.factor(_second(self.problem, self.value, self.flux, by_dq))

    def derivatives(self, x: Array, q: Array, dq: Array | None = None) -> tuple[Array, ...]:
        """ρ, A, ∂/∂p, ∂/∂∇u and ∂/∂u of the equation at a point and a state."""
        if dq is None:
            dq = jnp.zeros((self.problem.derivatives, self.problem.schema.size), q.dtype)
        by_q, by_dq = jax.grad(lambda q, dq: self.problem.residuals(x, q, dq)[self.row], (0, 1))(q, dq)
        second = _second(self.problem, self.value, self.flux, by_dq)
        f = self.factor(second)
        along = jnp.zeros(self.dim) if self.flux is None else by_q[np.array(self.flux)]
        moving = self.value if self.speed is None else self.speed
        rate = by_dq[self.dim, moving] if self.timed else jnp.zeros(())
        return f * rate, -f * second, f * along, f * by_dq[: self.dim, self.value], f * by_q[self.value]

    def _convection(self, x: Array) -> tuple[Array, Array, Array]:
        """β, the part of it that is taken from the flux, and ∇·A."""
        zero = jnp.zeros(self.problem.schema.size)
        _, _, along, plain, _ = self.derivatives(x, zero)
        slopes = jax.jacfwd(lambda x: self.derivatives(x, zero)[1])(x)[..., : self.dim]
        divergence = jnp.einsum("iji->j", slopes)
        if self.flux is None:
            return plain + divergence, jnp.zeros(self.dim), divergence
        return along + divergence + plain, along + divergence, divergence

    @cached_property
    def _look(self) -> Callable[..., Coefficients]:
        def look(x: Array) -> Coefficients:
            rho, a, _, _, c = self.derivatives(x, jnp.zeros(self.problem.schema.size))
            beta, through, drift = self._convection(x)
            spread = jnp.trace(jax.jacfwd(lambda x: self._convection(x)[0])(x)[:, : self.dim])
            aging = jnp.zeros(())
            if self.timed:
                aging = jax.grad(lambda x: self.derivatives(x, jnp.zeros(self.problem.schema.size))[0])(x)[self.dim]
            return Coefficients(rho, a, beta, through, c, spread, drift, aging)

        return jit_simply(jax.vmap(look))

    def coefficients(self, x: np.ndarray) -> Coefficients:
        """At points (n, c)."""
        found = Coefficients(*map(np.asarray, self._look(jnp.asarray(x))))
        if not all(np.isfinite(part).all() for part in found):
            raise Unrecognised(f"the coefficients of the equation of '{self.label}' are not finite everywhere")
        return found

    def at_states(self, x: np.ndarray, jets: np.ndarray) -> list[np.ndarray]:
        """What `derivatives` says at points (n, c) for states with these jets (n, m, slots)."""
        states = jit_simply(jax.vmap(lambda x, jet: self.derivatives(x, jet[:, 0], jet[:, 1:].T)))
        return list(map(np.asarray, states(jnp.asarray(x), jnp.asarray(jets))))

    @cached_property
    def _slopes(self) -> Callable[..., Array]:
        def slope(x: Array, u: Array) -> Array:
            q = jnp.zeros(self.problem.schema.size).at[self.value].set(u)
            return self.derivatives(x, q)[4]

        return jit_simply(jax.vmap(slope))

    def reaction_slope(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """c′(u) at points (n, c) for values (n,)."""
        return np.asarray(self._slopes(jnp.asarray(x), jnp.asarray(u)))

    @cached_property
    def _residual(self) -> Callable[..., tuple[Array, Array]]:
        def residual(x: Array, jet: Array) -> tuple[Array, Array]:
            q, dq = jet[:, 0], jet[:, 1:].T
            by_dq = jax.grad(lambda dq: self.problem.residuals(x, q, dq)[self.row])(dq)
            factor = self.factor(_second(self.problem, self.value, self.flux, by_dq))
            value = factor * self.problem.residuals(x, q, dq)[self.row]
            if self.flux is None:
                return value, jnp.zeros(self.dim)
            apart = q[np.array(self.flux)] - dq[: self.dim, self.value]
            return value - self._convection(x)[1] @ apart, apart

        return jit_simply(jax.vmap(residual))

    def residuals(self, x: np.ndarray, jets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """−R₁ (n,) and p − ∇v (n, d) of states with these jets (n, m, slots); convection takes ∇v."""
        one, two = self._residual(jnp.asarray(x), jnp.asarray(jets))
        return np.asarray(one), np.asarray(two)

    @property
    def timed(self) -> bool:
        return self.problem.schema.timed


def recognised(problem: Problem) -> tuple[Scalar, ...]:
    """The scalar equations of a problem that does not couple them; Unrecognised says what is in the way."""
    check_ordinary(problem)
    values, fluxes, by_q, by_dq = unknowns_apart(problem)
    count = by_q.shape[2]
    if count != len(values):
        raise Unrecognised(f"its equations are {count} and its unknowns {len(values)}")
    rows = _matched(problem, values, fluxes, by_q, by_dq)
    return tuple(_scalar(problem, value, flux, row, by_q[:, :, row], by_dq[:, :, row])
                 for value, flux, row in zip(values, fluxes, rows))


def check_ordinary(problem: Problem) -> None:
    """Unrecognised where something is stated that no bound takes in."""
    if problem.mapping is not None:
        raise Unrecognised("its shape depends on parameters by a mapping")
    if problem.measurements:
        raise Unrecognised("it has measurements, and what they leave open is no field of its equations")
    if problem.regions:
        raise Unrecognised("its fields live in regions that meet at an interface")
    if any(not period.hard for period in problem.periods):
        raise Unrecognised("a periodic condition is soft")


def unknowns_apart(problem: Problem) -> tuple[list[int], list[tuple[int, ...] | None], np.ndarray, np.ndarray]:
    """Components that stand for no gradient, what stands for the gradient of each, and derivatives of the equations."""
    return *_unknowns(problem), *_jacobians(problem)


def _unknowns(problem: Problem) -> tuple[list[int], list[tuple[int, ...] | None]]:
    """Numbers of the components that stand for no gradient, and of those that stand for the gradient of each."""
    schema = problem.schema
    standing = dict(schema.gradients)
    gradient_of = {base: name for name, base in schema.gradients}
    values: list[int] = []
    fluxes: list[tuple[int, ...] | None] = []
    for name, where in schema.slices.items():
        if name in standing:
            continue
        for k in range(where.stop - where.start):
            values.append(where.start + k)
            if name in gradient_of:
                first = schema.slices[gradient_of[name]].start + k * schema.dim
                fluxes.append(tuple(range(first, first + schema.dim)))
            else:
                fluxes.append(None)
    return values, fluxes


def _jacobians(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the stated equations by the state (points, states, e, m) and by its derivatives."""
    schema = problem.schema
    m, d = schema.size, problem.derivatives
    gradients = sum(where.stop - where.start for name, where in schema.slices.items() if name in dict(schema.gradients))

    @jit_simply
    def look(key: Array) -> tuple[Array, ...]:
        keys = jax.random.split(key, 3)
        x = uniform(problem, keys[0], POINTS)
        q = jax.random.normal(keys[1], (POINTS, STATES, m)).at[:, 0].set(0.0)
        dq = jax.random.normal(keys[2], (POINTS, STATES, d, m)).at[:, 0].set(0.0)

        def one(x: Array, q: Array, dq: Array) -> tuple[Array, Array]:
            return jax.jacfwd(lambda q, dq: problem.residuals(x, q, dq), (0, 1))(q, dq)

        by_q, by_dq = jax.vmap(jax.vmap(one, (None, 0, 0)))(x, q, dq)
        return by_q, by_dq

    by_q, by_dq = map(np.asarray, look(jax.random.key(5)))
    count = by_q.shape[2] - gradients
    by_q, by_dq = by_q[:, :, :count], by_dq[:, :, :count]
    if not (np.isfinite(by_q).all() and np.isfinite(by_dq).all()):
        raise Unrecognised("its equations have no derivatives at some points or states")
    return by_q, by_dq


def _second(problem: Problem, value: int, flux: tuple[int, ...] | None, by_dq: Any) -> Any:
    """Coefficients of ∂ᵢ∂ⱼu, (…, d, d), from the derivatives of an equation by those of the state (…, D, m)."""
    d = problem.schema.dim
    if flux is not None:
        return by_dq[..., :d, np.array(flux)]
    laplacian = by_dq[..., -1, value] if problem.order == 2 else 0.0 * by_dq[..., -1, value]
    return laplacian[..., None, None] * np.eye(d)


def _matched(problem: Problem, values: list[int], fluxes: list[tuple[int, ...] | None], by_q: np.ndarray,
             by_dq: np.ndarray) -> list[int]:
    """For each unknown the equation with its second derivatives, where no equation couples two unknowns."""
    rows = []
    touches = (np.abs(by_q).max((0, 1)) > 0) | (np.abs(by_dq).max((0, 1, 3)) > 0)  # (e, m)
    for value, flux in zip(values, fluxes):
        sizes = np.abs(np.asarray(_second(problem, value, flux, by_dq))).max((0, 1, 3, 4))
        found = np.flatnonzero(sizes > 0)
        if not len(found):
            raise Unrecognised(f"'{problem.schema.labels()[value]}' has no second derivatives in its equations")
        rows.append(int(found[0]))
        own = {value, *(flux or ())}
        others = [k for k in np.flatnonzero(touches[rows[-1]]) if k not in own]
        if len(found) > 1 or others:
            raise Unrecognised("its equations couple several unknowns")
    if len(set(rows)) < len(rows):
        raise Unrecognised("its equations couple several unknowns")
    return rows


def _scalar(problem: Problem, value: int, flux: tuple[int, ...] | None, row: int, by_q: np.ndarray,
            by_dq: np.ndarray) -> Scalar:
    """by_q (points, states, m), by_dq (points, states, D, m): derivatives of one equation."""
    schema = problem.schema
    d, label = schema.dim, schema.labels()[value]
    if _differ(by_dq, by_dq[:, :1]):
        raise Unrecognised(f"derivatives of '{label}' enter its equation nonlinearly")
    fixed = np.ones(schema.size, bool)
    fixed[value] = False
    if _differ(by_q[..., fixed], by_q[:, :1, fixed]):
        raise Unrecognised(f"derivatives of '{label}' enter its equation nonlinearly")
    linear = not _differ(by_q, by_q[:, :1])
    second = np.asarray(_second(problem, value, flux, by_dq[:, 0]))
    size = np.abs(second).max()
    if flux is not None and (schema.timed and np.abs(by_dq[..., d, np.array(flux)]).max() > TOLERANCE * size):
        raise Unrecognised(f"the gradient of '{label}' is differentiated in time")
    if flux is not None and problem.order == 2 and np.abs(by_dq[..., -1, :]).max() > TOLERANCE * size:
        raise Unrecognised(f"its equation takes both a Laplacian and the divergence of the gradient of '{label}'")
    if np.abs(second - np.swapaxes(second, 1, 2)).max() > TOLERANCE * size:
        raise Unrecognised(f"the coefficients of the second derivatives of '{label}' are not symmetric")
    eigenvalues = np.linalg.eigvalsh(second)
    signs = np.sign(eigenvalues)
    if not (signs == signs[0, 0]).all() or signs[0, 0] == 0:
        raise Unrecognised(f"the equation of '{label}' is not elliptic in space: the coefficients of its second "
                           f"derivatives are not definite")
    sign = -float(signs[0, 0])
    if schema.timed:
        rate = sign * by_dq[..., d, value]
        if np.abs(rate).max() == 0:
            raise Unrecognised(f"'{label}' has no derivative in time in its equation")
        if not (rate > 0).all():
            raise Unrecognised(f"the equation of '{label}' runs backwards in time")
    return without_drift(Scalar(problem, label, value, flux, row, sign, False, linear))


def without_drift(plain: Scalar) -> Scalar:
    """The same equation, divided by its conductivity where it has convection otherwise and none then."""
    levelled = replace(plain, level=True)
    x = np.asarray(uniform(plain.problem, jax.random.key(6), POINTS))
    return levelled if _drifts(plain, x) and not _drifts(levelled, x) else plain


def _drifts(scalar: Scalar, x: np.ndarray) -> bool:
    """Whether there is convection."""
    found = scalar.coefficients(x)
    return bool(np.abs(found.beta).max() > TOLERANCE * np.abs(found.a).max() / scalar.problem.domain.size)


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) > TOLERANCE * max(np.abs(a).max(initial=0.0), 1e-300))
