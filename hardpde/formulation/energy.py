"""Energies: the integral whose minimum solves a problem (Ritz), found from the statement of the problem alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.points import uniform
from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL, Condition
from hardpde.problem.layout import stacked_rows
from hardpde.problem.problem import Problem
from hardpde.support.compiling import compiled_quickly

PointFunction = Callable[[Array, Array, Array], Array]

_SAMPLES = 16  # points at which a statement is looked at
_TOLERANCE = 1e-8
_GAUSS = np.polynomial.legendre.leggauss(16)
_NODES, _WEIGHTS = 0.5 + 0.5 * _GAUSS[0], 0.5 * _GAUSS[1]  # on (0, 1)


@dataclass(frozen=True, eq=False)
class Energy:
    """E(q) = ∫ density + Σ ∮ edge, over all q that satisfy the essential conditions.

    For equations −∇·(K ∇q) + r(x, q) = 0 with K symmetric and positive definite and r the gradient of a potential Φ,

        density = ½ Σ K_ij ∇q_i·∇q_j + Φ(x, q),   Φ = ∫₀¹ r(x, s q)·q ds,

    and for natural conditions a q + b n·∇q = g the edges add up to ½ q·K b⁻¹a q − q·K b⁻¹g. E is stationary exactly
    at the solutions; whether that is a minimum is not checked (it is one where Φ and the edges are convex in q).
    Where no flux is stated, on a free boundary or for components that the values given on a boundary leave open, the
    minimum adds the natural condition K n·∇q = 0.

    With time, ∂q/∂t enters r as if it were a given source, and the integrals run over time too: the heat equation
    gives ½ k |∇u|² + u_t u − f u. This is no variational principle, and its minimum is not the solution. It is what
    the paper's PFNN does with such problems, reproduced as described; it fails as published.

    density(x, q, dq): per unit of volume (and time); only the first derivatives of dq (c or c + 1, m) are read.
    edge: for each natural condition a function (x, n, q) of a point, its outward normal and the state there, per unit
    of surface (and time).
    essential: conditions on values, those at the start of time included. natural: those with normal derivatives.
    """

    density: PointFunction
    edge: tuple[PointFunction, ...]
    essential: tuple[Condition, ...]
    natural: tuple[Condition, ...]


def find_energy(plain: Problem) -> Energy:
    """The energy of a problem without gradient fields (see `without_gradients`); a ValueError where there is none.

    Each equation may have either sign. Everything is read off at random points by automatic differentiation.
    """
    with compiled_quickly():
        _check_kind(plain)
        signs = _check_equations(plain)
        points = {name: _boundary_points(plain, name) for name in {c.on: None for c in plain.pointwise}}
        steep = [_is_natural(plain, condition, *points[condition.on]) for condition in plain.pointwise]
        natural = tuple(c for c, asks in zip(plain.pointwise, steep) if asks)
        essential = tuple(c for c, asks in zip(plain.pointwise, steep) if not asks)
        edges = {}
        for name in {c.on: None for c in natural}:
            edges[name] = _Edges(plain, signs, tuple(c for c in natural if c.on == name),
                                 tuple(c for c in essential if c.on == name))
            edges[name].check(*points[name])
    return Energy(_density(plain, signs), tuple(edges[c.on].energy(c) for c in natural), essential, natural)


def _density(plain: Problem, signs: np.ndarray) -> PointFunction:
    d, timed = plain.schema.dim, plain.schema.timed

    def density(x: Array, q: Array, dq: Array) -> Array:
        k, slopes = _diffusion(plain, signs, x).astype(q.dtype), dq[:d]
        potential = _potential(plain, signs, x, q, dq[d] if timed else None)
        return 0.5 * jnp.einsum("ij,ai,aj->", k, slopes, slopes) + potential.astype(q.dtype)

    return density


def _diffusion(plain: Problem, signs: np.ndarray, x: Array) -> Array:
    """K (m, m) at one point."""
    q = jnp.zeros(plain.schema.size, x.dtype)
    dq = jnp.zeros((plain.derivatives, plain.schema.size), x.dtype)
    second = jax.jacfwd(lambda laplacian: plain.residuals(x, q, dq.at[-1].set(laplacian)))(q)
    return -jnp.asarray(signs, x.dtype)[:, None] * second


def _rest(plain: Problem, signs: np.ndarray | Array, x: Array, q: Array, rate: Array | None) -> Array:
    """r (m,): the equations without derivatives in space; rate (m,) is ∂q/∂t."""
    dq = jnp.zeros((plain.derivatives, plain.schema.size), q.dtype)
    if rate is not None:
        dq = dq.at[plain.schema.dim].set(rate)
    return jnp.asarray(signs, q.dtype) * plain.residuals(x, q, dq)


def _potential(plain: Problem, signs: np.ndarray | Array, x: Array, q: Array, rate: Array | None) -> Array:
    """Φ = ∫₀¹ r(x, s q)·q ds at one point."""
    nodes = jnp.asarray(_NODES, q.dtype)
    r = jax.vmap(lambda s: _rest(plain, signs, x, s * q, rate))(nodes)
    return jnp.asarray(_WEIGHTS, q.dtype) @ r @ q


def _check_kind(plain: Problem) -> None:
    """What can be told without looking at the equations closely."""
    if plain.schema.gradients:
        raise ValueError("an energy is found for a problem without gradient fields; apply without_gradients first")
    if plain.regions or any(piece.two_sided for piece in plain.domain.pieces):
        raise ValueError(f"no energy is worked out for '{plain.name}', whose materials meet at an interface; "
                         f"use exact")
    if plain.periods:
        raise ValueError(f"no energy is worked out for '{plain.name}', which has periodic conditions; "
                         f"use pinn, hc or exact")
    if plain.order == 1:
        raise _refusal(plain, "the equations contain no second derivatives")
    m = plain.schema.size
    number = jax.eval_shape(plain.residuals, jnp.zeros(plain.schema.point), jnp.zeros(m),
                            jnp.zeros((plain.derivatives, m))).shape[0]
    if number != m:
        raise _refusal(plain, f"the equations are {number} and the components of the solution {m}")


def _check_equations(plain: Problem) -> np.ndarray:
    """Whether the equations are −∇·(K ∇q) + ∇Φ(q) = 0; returns the signs (m,) that make them so."""
    schema, m, d = plain.schema, plain.schema.size, plain.schema.dim

    @jax.jit
    def look(key: Array) -> tuple[Array, ...]:
        """Derivatives of the equations at points, for several states at each."""
        keys = jax.random.split(key, 3)
        x = uniform(plain, keys[0], _SAMPLES)
        q = jax.random.normal(keys[1], (_SAMPLES, 3, m))
        dq = jax.random.normal(keys[2], (_SAMPLES, 3, plain.derivatives, m))
        jets = jax.vmap(jax.vmap(jax.jacfwd(plain.residuals, 2), (None, 0, 0)))(x, q, dq)
        steepness = jax.vmap(jax.jacfwd(lambda x: _diffusion(plain, np.ones(m), x)))(x)
        return x, q, dq[:, :, d], jets, steepness

    @jax.jit
    def rest(x: Array, q: Array, rate: Array, signs: Array) -> tuple[Array, ...]:
        def one(x: Array, q: Array, slope: Array) -> tuple[Array, ...]:
            rate = slope if schema.timed else None
            return (_rest(plain, signs, x, q, rate), jax.jacfwd(lambda q: _rest(plain, signs, x, q, rate))(q),
                    jax.grad(lambda q: _potential(plain, signs, x, q, rate))(q))

        return jax.vmap(jax.vmap(one, (None, 0, 0)))(x, q, rate)

    x, q, rate, jets, steepness = jax.tree.map(np.asarray, look(jax.random.key(0)))
    second, first = jets[..., -1, :], jets[..., :d, :]  # (points, states, m, m), (points, states, m, d, m)
    if _differ(second, second[:, :1]):
        raise _refusal(plain, "the coefficients of the second derivatives depend on the solution or its derivatives")
    k = -second[:, 0]
    drift = -np.moveaxis(steepness[..., :d], -1, 2)[:, None]  # −∇K: the first derivatives that −∇·(K ∇q) has
    size = np.abs(k).max(axis=(1, 2)) / plain.domain.size  # of a first derivative's coefficient that matters
    if _differ(first, drift, size):
        raise _refusal(plain, "the equations contain first derivatives of the solution that are not a divergence "
                              "(e.g. convection or a pressure)")
    values = np.linalg.svd(k, compute_uv=False)
    if (values[:, -1] <= 1e-12 * values[:, 0]).any():
        raise _refusal(plain, "an equation has no second derivatives, or several have the same ones")
    signs = np.where(np.diagonal(k[0]) < 0, -1.0, 1.0)
    k = signs[:, None] * k
    if _differ(k, np.swapaxes(k, 1, 2)):
        raise _refusal(plain, "the coefficients of the second derivatives are not a symmetric matrix")
    if (np.linalg.eigvalsh(k) <= 0).any():
        raise _refusal(plain, "the coefficients of the second derivatives are not a definite matrix of one sign")
    r, jacobian, slope = jax.tree.map(np.asarray, rest(x, q, rate, signs))
    if _differ(jacobian, np.swapaxes(jacobian, 2, 3), size / plain.domain.size):
        raise _refusal(plain, "the derivatives of the equations by the solution are not a symmetric matrix")
    if _differ(slope, r, size / plain.domain.size):
        raise _refusal(plain, "the terms without derivatives cannot be integrated from zero (singular or too uneven)")
    return signs


def _is_natural(plain: Problem, condition: Condition, x: np.ndarray, n: np.ndarray) -> bool:
    """Whether a condition asks for normal derivatives, in all its rows; at points x with normals n."""
    where = f"the condition '{condition.name}' on '{condition.on}'"
    schema, m = plain.schema, plain.schema.size
    try:
        a, _ = jax.jit(jax.vmap(lambda x, n: condition.matrix(schema, x, n, gradients=True)))(x, n)
    except ValueError as error:
        raise _refusal(plain, f"{where} cannot be read without gradient fields ({error})") from None
    a = np.asarray(a)
    slopes = a[:, :, m:].reshape(*a.shape[:2], m, schema.dim)
    steep = np.abs(slopes).max(axis=(2, 3)) > 1e-12 * np.abs(a).max(axis=2)  # (points, rows)
    if not steep.any():
        return False
    if condition.on == INITIAL:
        raise _refusal(plain, f"{where} is not on values alone")
    if not steep[:, steep.any(axis=0)].all():
        raise _refusal(plain, f"the normal derivatives in {where} vanish on a part of it", "split the boundary")
    if not steep.all():
        raise _refusal(plain, f"{where} has rows on values and rows on derivatives", "state two conditions")
    across = np.einsum("krmd,kd->krm", slopes, n)
    if _differ(slopes, across[..., None] * n[:, None, None]):
        raise _refusal(plain, f"{where} asks for derivatives along the boundary")
    return True


@dataclass(frozen=True, eq=False)
class _Edges:
    """The conditions on one boundary: natural ones, and essential ones that hold there too."""

    plain: Problem
    signs: np.ndarray
    natural: tuple[Condition, ...]
    essential: tuple[Condition, ...]

    def flux(self, x: Array, n: Array) -> tuple[Array, Array]:
        """P (m, m) and W (m, r): P projects on states that satisfy the essential conditions without data, and
        P K n·∇q = W (g − a q) where the natural conditions hold."""
        m = self.plain.schema.size
        project = jnp.eye(m)
        if self.essential:
            e = self._rows(self.essential, x, n)[0][:, :m]
            project = project - e.T @ _inverse(e @ e.T) @ e
        b = self._rows(self.natural, x, n)[0][:, m:]
        return project, project @ _diffusion(self.plain, self.signs, x) @ b.T @ _inverse(b @ b.T)

    def energy(self, condition: Condition) -> PointFunction:
        """What one of the natural conditions adds to the energy; all together, ½ q·W a q − q·W g where P = 1."""
        m = self.plain.schema.size

        def edge(x: Array, n: Array, q: Array) -> Array:
            project, weight = self.flux(x, n)
            free = project @ q  # the part of the state that no essential condition fixes
            pull = []
            for other in self.natural:
                a, g = self._rows([other], x, n)
                pull.append(g - a[:, :m] @ (q - 0.5 * free) if other is condition else jnp.zeros_like(g))
            return -(free @ weight @ jnp.concatenate(pull)).astype(q.dtype)

        return edge

    def check(self, x: np.ndarray, n: np.ndarray) -> None:
        """Whether these conditions are those of an energy, at points x with normals n."""
        plain, m = self.plain, self.plain.schema.size
        where = f"the conditions on '{self.natural[0].on}'"

        @jax.jit
        @jax.vmap
        def look(x: Array, n: Array) -> tuple[Array, ...]:
            project, weight = self.flux(x, n)
            a = self._rows(self.natural, x, n)[0]
            stiff = project @ _diffusion(plain, self.signs, x)
            number = len(a) + sum(len(self._rows([c], x, n)[1]) for c in self.essential)
            size = jnp.abs(weight).max() * jnp.abs(a[:, :m]).max()
            return stiff, weight @ a[:, m:], weight @ a[:, :m] @ project, size, jnp.asarray(number)

        stiff, fixed, coupling, size, number = map(np.asarray, look(x, n))
        if (number > m).any():
            raise _refusal(plain, f"{where} are more than one for each component of the solution")
        if (number < m).any() or _differ(stiff, fixed):
            raise _refusal(plain, f"{where} do not give the flux K n·∇q of every component that they leave free")
        if _differ(coupling, np.swapaxes(coupling, 1, 2), size):
            raise _refusal(plain, f"{where} couple the components by a matrix that is not symmetric")

    def _rows(self, conditions: Sequence[Condition], x: Array, n: Array) -> tuple[Array, Array]:
        return stacked_rows(conditions, self.plain.schema, x, n)


def _boundary_points(plain: Problem, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points of a boundary, with times, and its normals there (zero at the start of time)."""
    boundary, d = plain.boundaries[name], plain.schema.dim

    @jax.jit
    def sample(key: Array) -> tuple[Array, Array]:
        x = boundary.sample(key, _SAMPLES)
        n = jax.vmap(boundary.normal)(x)[:, :d]
        if plain.time is not None and name != INITIAL:
            x = at_times(x, jax.random.uniform(key, (_SAMPLES, 1), float, *plain.time))
        return x, n

    x, n = sample(jax.random.key(1))
    return np.asarray(x), np.asarray(n)


def _inverse(matrix: Array) -> Array:
    return 1 / matrix if len(matrix) == 1 else jnp.linalg.inv(matrix)


def _differ(a: np.ndarray, b: np.ndarray, size: Any = 0.0) -> bool:
    """Whether numbers by point differ by more than rounding, of themselves or of what has the given size (points,)."""
    axes = tuple(range(1, a.ndim))
    size = np.maximum(size, np.maximum(np.abs(a).max(axis=axes), np.abs(b).max(axis=axes)))
    return not (np.abs(a - b).max(axis=axes) <= _TOLERANCE * size).all()


def _refusal(plain: Problem, obstacle: str, remedy: str = "use pinn, hc or exact") -> ValueError:
    return ValueError(f"there is no energy whose minimum solves '{plain.name}': {obstacle}; {remedy}")
