"""Waves, ∂u/∂t = v and ρ ∂v/∂t + γ v − ∇·(A∇u) + c u = f, with ρ, A, c and h that do not change in time.

The letters are those of `elliptic`; s is the residual of the first equation, R₁ and R₂ are those of the second, w the
error of v. With φ that solves −∇·(A∇φ) + c φ = ρ w and the homogeneous conditions, Φ² = ‖√ρ e‖² + |||φ|||² obeys
½ dΦ²/dt = ∫ρ e s + ∫φ R₁ + ∫∇φ·R₂ − ∫φ γ w, all boundary terms cancel, and where γ/ρ ≥ 0 is one number the last is
−(γ/ρ) |||φ|||². So Φ(t) ≤ ∫ (‖√ρ s‖² + ‖R₁‖²/λ₁)^½ + ‖R₂‖_{A⁻¹} dt.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from hardpde.bounds.boundary_rows import Side
from hardpde.bounds.parabolic import TimeBounds
from hardpde.bounds.recognise import TOLERANCE, Coefficients, Scalar, Unrecognised, unknowns_apart, without_drift
from hardpde.geometry import at_times
from hardpde.problem.conditions import INITIAL
from hardpde.problem.layout import stacked_rows
from hardpde.problem.parameters import append
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply


@dataclass(frozen=True)
class Vibration:
    """Which components and equations make a wave: speed is v, first the row of ∂u/∂t = v times `factor`."""

    equation: Scalar
    speed: int
    first: int
    factor: float

    def lag(self, x: np.ndarray, jets: np.ndarray) -> np.ndarray:
        """s (n,): ∂u/∂t − v less its data, of states with these jets (n, m, slots)."""
        problem = self.equation.problem
        row = jit_simply(jax.vmap(lambda x, jet: problem.residuals(x, jet[:, 0], jet[:, 1:].T)[self.first]))
        return np.asarray(row(jnp.asarray(x), jnp.asarray(jets))) / self.factor


def vibration(problem: Problem) -> Vibration | None:
    """The wave that a problem states, if it does."""
    if not problem.schema.timed:
        return None
    values, fluxes, by_q, by_dq = unknowns_apart(problem)
    if len(values) != 2 or by_q.shape[2] != 2:
        return None
    d, m = problem.schema.dim, problem.schema.size
    for (u, flux), (v, _) in ((list(zip(values, fluxes)), list(zip(values, fluxes))[::-1])[k] for k in range(2)):
        for first in range(2):
            q, dq, second = by_q[:, :, first], by_dq[:, :, first], 1 - first
            factor = float(dq[0, 0, d, u])
            expected_q, expected_dq = np.zeros(m), np.zeros((problem.derivatives, m))
            expected_q[v], expected_dq[d, u] = -factor, factor
            if not factor or np.abs(q - expected_q).max() > TOLERANCE * abs(factor) or np.abs(
                    dq - expected_dq).max() > TOLERANCE * abs(factor):
                continue
            return _second(problem, u, flux, v, first, factor, by_q[:, :, second], by_dq[:, :, second])
    return None


def _second(problem: Problem, u: int, flux: tuple[int, ...] | None, v: int, first: int, factor: float,
            by_q: np.ndarray, by_dq: np.ndarray) -> Vibration:
    """The second equation with derivatives by the state (points, states, m) and by its own (points, states, D, m)."""
    d, label = problem.schema.dim, problem.schema.labels()[u]
    if np.ptp(by_q, axis=1).max() > TOLERANCE * np.abs(by_q).max() or np.ptp(by_dq, axis=1).max() > TOLERANCE * np.abs(
            by_dq).max():
        raise Unrecognised(f"the wave equation of '{label}' is not linear")
    own, rest = {u, *(flux or ())}, by_dq[:, 0].copy()
    rest[:, d, v] = 0.0
    others = [k for k in range(problem.schema.size) if k not in own]
    beside = [k for k in others if k != v]
    if np.abs(rest[:, :, others]).max() > 0 or np.abs(by_q[..., beside]).max(initial=0.0) > 0 or np.abs(
            by_dq[..., d, u]).max() > 0:
        raise Unrecognised(f"the wave equation of '{label}' has other terms than ∂v/∂t, ∇·(A∇u), u and v")
    rate, damping = by_dq[:, 0, d, v], by_q[:, 0, v]
    if not (np.abs(rate).min() > 0 and (damping / rate).min() >= -TOLERANCE
            and np.ptp(damping / rate) <= TOLERANCE * np.abs(damping / rate).max()):
        raise Unrecognised(f"the damping in the wave equation of '{label}' is not a number ≥ 0 times its inertia")
    second = by_dq[:, 0, :d][:, :, np.array(flux)] if flux else by_dq[:, 0, -1, u][:, None, None] * np.eye(d)
    sign = -float(np.sign(second[0].trace()))
    if np.abs(second - np.swapaxes(second, 1, 2)).max() > TOLERANCE * np.abs(second).max() or not (
            np.linalg.eigvalsh(-sign * second) > 0).all() or not (sign * rate > 0).all():
        raise Unrecognised(f"the equation of '{label}' is no wave equation: A is not symmetric and positive, or its "
                           f"inertia has the wrong sign")
    return Vibration(without_drift(Scalar(problem, label, u, flux, 1 - first, sign, False, True, v)), v, first, factor)


def check_steady(wave: Vibration, sides: tuple[Side, ...], x: np.ndarray, known: Coefficients) -> None:
    """Unrecognised unless coefficients do not change in time and v is given at its start."""
    problem, d = wave.equation.problem, wave.equation.dim
    assert problem.time is not None
    other = np.array(x)
    other[:, d] = np.random.default_rng(3).permutation(x[:, d])
    for one, two in zip(known, wave.equation.coefficients(other)):
        if np.abs(one - two).max() > TOLERANCE * max(np.abs(one).max(), 1e-300):
            raise Unrecognised("coefficients of a wave equation change in time")
    if any(np.ptp(side.h) > TOLERANCE * np.abs(side.h).max() for side in sides if side.h.any()):
        raise Unrecognised("a coefficient h in a condition of a wave equation may change in time")
    stated = [c for c in problem.pointwise if c.on == INITIAL]
    points = append(problem.parameters, at_times(problem.domain.sample(jax.random.key(8), 8), problem.time[0]))
    rows = np.asarray(jax.vmap(lambda x: stacked_rows(stated, problem.schema, x, jnp.zeros(d))[0])(points))
    if not (np.abs(rows[:, :, wave.speed]).max(1) > 0).all():
        raise Unrecognised("the rate of a wave equation is not given at the start of time")


def vibrating(rho1: float, rho2: float, span: float, density: float) -> TimeBounds:
    """rho1, rho2: bounds of ∫(‖√ρ s‖² + ‖R₁‖²/λ₁)^½ dt and ∫‖R₂‖_{A⁻¹} dt; density: the least ρ."""
    worst = (rho1 + rho2) / math.sqrt(density)
    return TimeBounds(worst, math.sqrt(span) * worst, math.inf, math.inf, math.inf)
