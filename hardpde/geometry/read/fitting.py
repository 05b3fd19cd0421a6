"""A smooth airfoil outline: a quintic spline fitted to the points of a file."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline, PPoly

from hardpde.geometry.base import Kind
from hardpde.geometry.kinds import Arc, Segment
from hardpde.geometry.shapes import floats

DEGREE, CLOSE, SYMMETRIC = 5, 5e-5, 2e-6


def fit_airfoil(points: np.ndarray, blunt: bool) -> tuple[tuple[Kind, tuple[float, ...]], ...]:
    """One C4 arc from the trailing edge over the upper side and round the nose back, and the base of a blunt edge.

    With x = x0 + s^2, s < 0 above and s > 0 below, y is a least-squares quintic spline of s: no root at the nose.
    The arc passes through the ends of `points` (n, 2; Selig order) and within 5e-5 of the others.
    """
    points = points if blunt else np.concatenate([points, points[:1]])
    mirrored = points[::-1] * [1, -1]
    symmetric = bool(np.abs(points - mirrored).max() <= SYMMETRIC)
    if symmetric:
        points = (points + mirrored) / 2
    nose, s = _roots(points)
    curve = _least_squares(s, points[:, 1], symmetric)
    slope = curve(s, 1)
    miss = float(np.max(np.abs(curve(s) - points[:, 1]) * np.abs(2 * s) / np.hypot(2 * s, slope)))
    if not miss <= CLOSE:
        raise ValueError(
            f"the fitted outline misses the airfoil's points by {miss:.1e}, more than {CLOSE:g}; "
            "pass smooth=True for a spline through every point"
        )
    knots = curve.x
    x = np.zeros_like(curve.c)
    x[-3:] = np.ones_like(knots[:-1]), 2 * knots[:-1], nose + knots[:-1] ** 2
    arc = Arc(len(knots) - 1, False, DEGREE), floats(knots) + floats(np.stack([x, curve.c], axis=-1))
    ends = [(nose + z * z, float(curve(z))) for z in (knots[0], knots[-1])]
    return (arc, (Segment(), floats(np.array(ends[::-1])))) if blunt else (arc,)


def _roots(points: np.ndarray) -> tuple[float, np.ndarray]:
    """x0 of the nose, and s of each point."""
    x = points[:, 0]
    first = int(np.argmin(x))
    nose = min(float(x[first]), 0.0)
    below = np.arange(len(x)) > first
    below[first] = points[first, 1] < 0
    s = np.sqrt(x - nose) * np.where(below, 1, -1)
    if np.any(np.diff(s) <= 0):
        i = int(np.argmin(np.diff(s)))
        raise ValueError(
            f"the airfoil's points turn back in x near ({x[i]:g}, {points[i, 1]:g}), so that no outline can be fitted; "
            "pass smooth=True for a spline through every point"
        )
    return nose, s


def _least_squares(s: np.ndarray, y: np.ndarray, symmetric: bool) -> PPoly:
    """A quintic spline through the first and last value that follows the others, weighted by distance off the curve."""
    count = min(20, len(s) // 12)
    if count < 3:
        raise ValueError(f"an outline is fitted to at least 36 points, got {len(s)}; pass smooth=True instead")
    inner = np.arange(1, count) / count
    inner = np.append(inner, 0.985) if count == 20 else inner
    inner = np.concatenate([-s[0] * -inner[::-1], [0.0], s[-1] * inner])
    knots = np.concatenate([[s[0]] * (DEGREE + 1), inner, [s[-1]] * (DEGREE + 1)])
    matrix = BSpline.design_matrix(s, knots, DEGREE).toarray()
    weight = 1 / np.hypot(1, 0.09 / np.maximum(np.abs(s), 1e-3))[1:-1, None]
    c = np.zeros(matrix.shape[1])
    c[[0, -1]] = y[[0, -1]]
    rest = (y - matrix @ c)[1:-1]
    c[1:-1], _, rank, _ = np.linalg.lstsq(weight * matrix[1:-1, 1:-1], weight[:, 0] * rest)
    if rank < len(c) - 2:
        raise ValueError("the airfoil's points leave gaps too wide for a fitted outline; pass smooth=True instead")
    if symmetric:
        c = (c - c[::-1]) / 2
    fitted = PPoly.from_spline(BSpline(knots, c, DEGREE))
    return PPoly(fitted.c[:, DEGREE:-DEGREE], fitted.x[DEGREE:-DEGREE])
