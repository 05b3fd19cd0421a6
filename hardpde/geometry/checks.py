"""What is wrong with a domain, said in one sentence before anything is solved on it."""

from __future__ import annotations

import numpy as np

from hardpde.geometry.algorithms.gaps import TOUCH, closed_gaps, is_uncut, numeric_gap
from hardpde.geometry.algorithms.sampling import depths, unit_points
from hardpde.geometry.algorithms.stacking import concrete, place
from hardpde.geometry.base import Shape
from hardpde.geometry.csg import Compound, Difference, contained, describe, near_pairs
from hardpde.geometry.inlay import Inlay
from hardpde.geometry.shapes import Ball
from hardpde.support.compiling import jit_simply


def check_shape(shape: Shape) -> None:
    """Raise ValueError where holes or inlays meet each other or the outer solid, or where the domain is empty."""
    for node in parts_of(shape):
        if isinstance(node, Difference):
            _check_holes(node)
        elif isinstance(node, Inlay):
            _check_inlay(node)
    if not shape.measure > 0 or not shape.pieces:
        raise ValueError("the domain is empty: nothing is left of it; check what is subtracted")


def parts_of(shape: Shape) -> list[Shape]:
    """The shape, and all that it is made of."""
    parts = shape.operands if isinstance(shape, Compound) else ()
    parts = (shape.base, shape.inner) if isinstance(shape, Inlay) else parts
    return [shape, *[node for part in parts for node in parts_of(part)]]


def _check_holes(node: Difference) -> None:
    tol = TOUCH * node.base.size
    for hole in node.holes:
        gap = np.inf if contained(hole, node.base, strict=True) else _room(hole, node.base, tol)
        if gap <= tol:
            raise ValueError(
                f"the hole {describe(hole)} touches or leaves {describe(node.base)} (gap {_number(gap)}); "
                "move or shrink it, or write (larger - hole) & outer if it is meant to cut the outline"
            )
    for i, j in near_pairs(node.holes, margin=tol):
        one, two = node.holes[i], node.holes[j]
        gap = solid_gap(one, two, tol)
        if gap <= tol:
            raise ValueError(
                f"the holes {describe(one)} and {describe(two)} overlap or touch (gap {_number(gap)}); "
                "move them apart, or subtract them as one hole: outer - (a | b)"
            )


def _check_inlay(node: Inlay) -> None:
    shared = {p.name for p in node.pieces if p.two_sided} & {p.name for p in node.pieces if not p.two_sided}
    if shared:
        raise ValueError(f"a boundary of an inlay is named '{min(shared)}' like one of the domain; rename one of them")
    tol = TOUCH * node.size
    gap = np.inf if contained(node.inner, node.base, strict=True) else _room(node.inner, node.base, tol)
    if gap <= tol:
        raise ValueError(
            f"the inlay {describe(node.inner)} touches or leaves the domain or another inlay (gap {_number(gap)}); "
            "move or shrink it"
        )


def _number(gap: float) -> str:
    return f"{gap:.3g}"


def _surface(shape: Shape, n: int = 128) -> np.ndarray:
    """n points on each piece of a shape, (k, d)."""
    pieces = shape.pieces
    which = np.repeat(np.arange(len(pieces)), n)
    u = np.tile(unit_points(n, shape.dim), (len(pieces), 1))
    return concrete(jit_simply(place, static_argnums=0), pieces, which, u)[0]


def solid_gap(one: Shape, two: Shape, tol: float) -> float:
    """Distance between two solids, negative (a depth) where they overlap."""
    if isinstance(one, Ball) and isinstance(two, Ball):
        return float(np.linalg.norm(np.subtract(one.center, two.center))) - one.radius - two.radius
    deepest = min(concrete(depths, two, _surface(one)).min(), concrete(depths, one, _surface(two)).min())
    return float(deepest) if deepest < -tol else boundary_gap(one, two)


def _room(hole: Shape, base: Shape, tol: float) -> float:
    """Distance of a hole to the boundary of the solid around it, negative where it leaves it."""
    if isinstance(hole, Ball) and isinstance(base, Ball):
        return base.radius - hole.radius - float(np.linalg.norm(np.subtract(hole.center, base.center)))
    outside = -float(concrete(depths, base, _surface(hole)).max())
    return outside if outside < -tol else boundary_gap(hole, base)


def boundary_gap(one: Shape, two: Shape) -> float:
    """Smallest distance between the boundaries of two shapes."""
    best = np.inf
    for a in one.pieces:
        for b in two.pieces:
            gap = np.nan
            if is_uncut(a, one) and is_uncut(b, two):
                params = np.array(a.params)[None], np.array(b.params)[None]
                gap = float(np.ravel(closed_gaps(a.kind, params[0], b.kind, params[1]))[0])
            best = min(best, numeric_gap(a, b, one, two)[0] if np.isnan(gap) else gap)
    return best
