"""Bounds of the error of −∇·(A∇u) + β·∇u + c(u) = f from norms of residuals.

v and p are the answer, y = A p its flux (p = ∇v where derivatives are taken), e = u − v, η = A∇u − y;
R₂ = y − A∇v, R₁ = f + ∇·y − β·∇v − c(v), m₂ = ‖R₂‖_{A⁻¹}, m₁ = ‖R₁‖. As the conditions hold, all boundary terms of
∫A∇e·∇w + … cancel but ∮h e w. E² = ‖∇e‖²_A + ‖√c₊ e‖² + ∮h e².
"""

import math
from typing import NamedTuple


class Bounds(NamedTuple):
    """value: of ‖e‖; energy: of E; gradient: of ‖∇e‖; flux: of ‖η‖_{A⁻¹}; combined, at_least: between which √(‖∇e‖²_A +
    ‖η‖²_{A⁻¹} + …) lies, the error that field and flux have together (None where nothing is known)."""

    value: float
    energy: float
    gradient: float
    flux: float
    combined: float | None = None
    at_least: float = 0.0


def with_reaction(m2: float, m1_by_c: float, least: float, rate: float) -> Bounds:
    """c > 0 and no convection: ‖∇e‖²_A + ‖√c e‖² + ‖η‖²_{A⁻¹} + ‖∇·η/√c‖² + 2∮h e² = m₂² + ‖R₁/√c‖².

    rate: E² ≥ rate ‖e‖²; least: the smallest eigenvalue of A.
    """
    total = math.hypot(m2, m1_by_c)
    return Bounds(total / math.sqrt(rate), total, total / math.sqrt(least), total, total, total)


def by_constant(m2: float, m1: float, least: float, rate: float, below: float, plain: bool,
                low: float) -> Bounds:
    """E² ≥ rate ‖e‖², and c′ ≥ −below with below < rate: (1 − below/rate) E ≤ m₂ + m₁/√rate.

    plain: c′ ≥ 0 and no convection; then √(m₂² + C²m₁²) ± C m₁ are bounds of the combined error on both sides, with
    C = 1/√rate. low: a lower bound of m₂, which makes the lower one.
    """
    share = 1 - below / rate
    if not share > 0:
        return NOTHING
    c = 1 / math.sqrt(rate)
    energy = (m2 + c * m1) / share
    value = c * energy if m2 else min(c * energy, m1 / (rate - below))
    if not plain:
        return Bounds(value, energy, energy / math.sqrt(least), energy + m2)
    both = math.hypot(m2, c * m1) + c * m1
    at_least = math.hypot(low, c * m1) - c * m1
    return Bounds(value, energy, energy / math.sqrt(least), min(both, energy + m2), both, max(at_least, 0.0))


NOTHING = Bounds(math.inf, math.inf, math.inf, math.inf)


def tighter(one: Bounds, other: Bounds) -> Bounds:
    """Of two bounds of the same numbers the smaller ones."""
    whole = one if (one.combined or math.inf) <= (other.combined or math.inf) else other
    return Bounds(min(one.value, other.value), min(one.energy, other.energy), min(one.gradient, other.gradient),
                  min(one.flux, other.flux), whole.combined, whole.at_least)
