"""Bounds of the error of ρ ∂u/∂t − ∇·(A∇u) + β·∇u + c u = f from norms of residuals over space and time.

The letters are those of `elliptic`, R₁ with −ρ ∂v/∂t too; e = 0 at the start. No constant is needed, as growth in time
takes its place: with κ ≥ −c/ρ, ½ d/dt ‖√ρ e‖² + E² ≤ ∫R₂·∇e + ∫R₁e + κ‖√ρ e‖².
"""

import math
from typing import NamedTuple


class Residuals(NamedTuple):
    """rho2 = (∫‖R₂‖²_{A⁻¹} dt)^½, rho1 a bound of ∫‖R₁/√ρ‖ dt, and total = (∫‖R₁/√ρ‖² dt)^½."""

    rho2: float
    rho1: float
    total: float


class TimeBounds(NamedTuple):
    """worst: of ‖e(t)‖ at any time; the others as in `elliptic`, of norms over time too."""

    worst: float
    value: float
    energy: float
    gradient: float
    flux: float
    combined: float | None = None
    at_least: float = 0.0


def parabolic(found: Residuals, span: float, least: float, density: float, growth: float, rate: float, plain: bool,
              low: float) -> TimeBounds:
    """span: length of time; density: the least ρ; growth: κ, of any sign; rate: E² ≥ rate ‖√ρ e‖²; plain: no
    convection and κ ≤ 0, so that ∫‖∇e‖²_A + ‖η‖²_{A⁻¹} + … = ρ₂² + 2∫∫R₁e; low: a lower bound of ρ₂.

    With growth κ > 0, e^{−κt} e solves an equation without it, whose residuals are no larger: e is at most e^{κT} times
    what that gives.
    """
    grown = math.exp(min(max(growth, 0.0) * span, 700.0))
    rho2, rho1, total = found
    worst = rho1 + math.sqrt(rho1**2 + 0.5 * rho2**2) if rho2 else rho1
    value = math.sqrt(span) * worst if rho2 else min(math.sqrt(span) * worst, span / math.sqrt(2) * total)
    product = min(total * value, rho1 * worst)
    energy = 0.5 * rho2 + math.sqrt(0.25 * rho2**2 + product)
    if rate > 0:
        energy = min(energy, rho2 + total / math.sqrt(rate))
        value = min(value, energy / math.sqrt(rate))
        product = min(product, total * value)
    root = math.sqrt(density)
    bounds = TimeBounds(grown * worst / root, grown * value / root, grown * energy, grown * energy / math.sqrt(least),
                        grown * energy + rho2)
    if not plain:
        return bounds
    both = math.sqrt(rho2**2 + 2 * product)
    return bounds._replace(flux=min(bounds.flux, both), combined=both,
                           at_least=math.sqrt(max(low**2 - 2 * product, 0.0)))
