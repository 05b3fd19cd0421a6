"""Lower bounds of λ₁ = min (∫A∇w·∇w + c w² + ∮h w²) / ∫w² over all w that vanish where u is given."""

import math
from typing import NamedTuple

import numpy as np

from hardpde.bounds.barta import Operator, barta
from hardpde.bounds.boundary_rows import Side
from hardpde.geometry import Box, Shape
from hardpde.geometry.csg import Difference


class Constant(NamedTuple):
    """λ₁ is at least `value`; how that was found. high: a bound of the function whose image under the operator is at
    least one, where that was found on the way."""

    value: float
    how: str
    high: float | None = None

    @property
    def length(self) -> float:
        """C with ‖w‖ ≤ C |||w|||."""
        return 1 / math.sqrt(self.value) if self.value > 0 else math.inf


def lower_bound(of: Operator, seconds: float) -> Constant:
    """The best lower bound that is found within some seconds; value 0 where there is none."""
    found = [Constant(max(of.c, 0.0), f"the reaction is at least {of.c:.3g}" if of.c > 0 else "none")]
    found += _on_box(of)
    best = max(found, key=lambda one: one.value)
    if best.how.endswith("exactly"):
        return best
    searched = barta(of, seconds)
    if searched is None and of.fixed:  # A that differs much between places or directions: its least alone
        eye = np.tile(np.eye(of.scalar.dim), (len(of.x), 1, 1))
        searched = barta(of._replace(fixed=False, a=of.least * eye, drift=0 * of.drift,
                                     reaction=np.full(len(of.x), of.c)), seconds)
        searched = None if searched is None else searched._replace(high=None)
    if searched is not None and searched.value > best.value:
        how = (f"Lψ ≥ {searched.value:.3g} ψ for a positive function ψ made for this, checked at {searched.points} "
               f"points")
        return Constant(searched.value, how, searched.high)
    return best if searched is None else best._replace(high=searched.high)


def _on_box(of: Operator) -> list[Constant]:
    """What the bounding box says, where w vanishes on all of the boundary, or on all but the sides of a box."""
    domain = of.scalar.problem.domain
    lo, hi = (np.array(b) for b in domain.bounds)
    lengths = hi - lo
    if all(value is None for value in of.h) and not of.scalar.problem.periods:
        rate = of.least * math.pi**2 * float((lengths**-2.0).sum()) + of.c
        exact = isinstance(domain, Box)
        return [Constant(rate, f"the bounding box, {_sizes(lengths)}{', exactly' if exact else ''}")]
    base, holes = _base_and_holes(domain)
    if not isinstance(base, Box) or of.scalar.problem.periods:
        return []
    ends: dict[tuple[int, int], float | None] = {}
    for side, value in zip(of.sides, of.h):
        along = _face(side, lo, hi)
        if along is None:
            if value is not None:
                return []
            continue
        if value is not None and value < 0:
            return []
        for face in along:
            ends[face] = value
    if len(ends) < 2 * len(lengths):
        return []
    rate = of.c
    for axis, length in enumerate(lengths):
        first, second = (ends[axis, end] for end in (0, 1))
        rate += of.least * _one_dimension(length, *(None if h is None else h / of.least for h in (first, second)))
    what = "exactly" if not holes else "w = 0 in its holes"
    return [Constant(rate, f"the box {_sizes(lengths)} with its sides' conditions, {what}")]


def _base_and_holes(domain: Shape) -> tuple[Shape, tuple[Shape, ...]]:
    return (domain.base, tuple(domain.holes)) if isinstance(domain, Difference) else (domain, ())


def _face(side: Side, lo: np.ndarray, hi: np.ndarray) -> set[tuple[int, int]] | None:
    """The faces of the box that the points of a boundary lie on; None if any lies on none."""
    d, found = len(lo), set()
    small = 1e-9 * float((hi - lo).max())
    for x, n in zip(side.x[:, :d], side.normals):
        axis = int(np.argmax(np.abs(n)))
        end = int(n[axis] > 0)
        if abs(abs(n[axis]) - 1) > 1e-9 or abs(x[axis] - (lo, hi)[end][axis]) > small:
            return None
        found.add((axis, end))
    return found


def _one_dimension(length: float, first: float | None, second: float | None) -> float:
    """The least μ² of −w″ = μ² w on (0, length) with w′ = ± h w at its ends, or w = 0 where h is None."""
    if first == 0 and second == 0:
        return 0.0

    def excess(mu: float) -> float:
        """The angle of the end that a wave reaches that starts at the first one, less the one that is asked for."""
        start = 0.0 if first is None else math.atan2(mu, first)
        end = 0.0 if second is None else math.atan2(mu, second)
        return mu * length - (math.pi - start - end)

    low, high = 0.0, math.pi / length
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return low**2


def _sizes(lengths: np.ndarray) -> str:
    shown = " × ".join(f"{length:.4g}" for length in lengths[:4])
    return shown + " × …" * (len(lengths) > 4)
