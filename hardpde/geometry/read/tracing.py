"""Closed plane outlines from strands, straight or curved, as files hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.spatial import cKDTree

from hardpde.geometry.algorithms.links import connected_parts
from hardpde.geometry.algorithms.planar import signed_area
from hardpde.geometry.base import Kind, Shape
from hardpde.geometry.kinds import Arc, Segment
from hardpde.geometry.outlines import Loop, Spline
from hardpde.geometry.read.parsing import need, nest
from hardpde.geometry.shapes import Ball, Polygon, floats, pairs

JOIN = 1e-6  # of the size: ends of strands this close are one point
ROUND = 1e-6  # of the radius: so far from a circle points may lie
KINK = 30.0  # degrees: a strand that turns more at one of its points has a corner there
LONG = 3.0  # an edge so much longer than its neighbours along a curve is straight


@dataclass(frozen=True)
class Strand:
    """Points (k, 2) from end to end of a part of an outline: a curve through them, or straight from one to the next."""

    points: np.ndarray
    name: str
    curved: bool = False

    @property
    def turned(self) -> Strand:
        return Strand(self.points[::-1], self.name, self.curved)


@dataclass(frozen=True)
class Ring:
    """A closed outline: points (n, 2), for each edge (point i to i + 1) its name and whether it is part of a curve, and
    for each point whether it is a corner of a curve."""

    points: np.ndarray
    names: tuple[str, ...]
    curved: np.ndarray
    corner: np.ndarray

    @property
    def name(self) -> str:
        """The name that most of the outline has."""
        length = np.linalg.norm(np.roll(self.points, -1, axis=0) - self.points, axis=1)
        totals = {name: sum(l for l, other in zip(length, self.names) if other == name) for name in self.names}
        return max(totals, key=lambda name: totals[name])

    @property
    def counter_clockwise(self) -> Ring:
        if signed_area(self.points) > 0:
            return self
        return Ring(self.points[::-1], (*self.names[-2::-1], self.names[-1]), np.roll(self.curved[::-1], -1),
                    self.corner[::-1])


def turning(points: np.ndarray) -> np.ndarray:
    """Angles (n,) in degrees by which a closed polygon (n, 2) turns at each of its points."""
    ahead = np.roll(points, -1, axis=0) - points
    back = np.roll(ahead, 1, axis=0)
    cross = back[:, 0] * ahead[:, 1] - back[:, 1] * ahead[:, 0]
    return np.degrees(np.arctan2(cross, np.sum(back * ahead, axis=1)))


def shape_of(rings: Sequence[Ring], path: Path) -> Shape:
    """The outlines as one shape; those inside others are holes. They must not cross themselves or each other."""
    shapely = need("shapely", path)
    rings = [ring.counter_clockwise for ring in rings]
    plain = [shapely.Polygon(ring.points) for ring in rings]
    for ring, polygon in zip(rings, plain):
        if not polygon.is_valid:
            where = shapely.is_valid_reason(polygon).partition("[")[2].rstrip("]").replace(" ", ", ")
            raise ValueError(f"the outline '{ring.name}' crosses or touches itself at ({where}); draw it as a simple "
                             f"closed curve")
    tree = shapely.STRtree([p.exterior for p in plain])
    for i, j in tree.query([p.exterior for p in plain], predicate="intersects").T:
        if i < j:
            at = plain[i].exterior.intersection(plain[j].exterior).representative_point()
            raise ValueError(f"the outlines '{rings[i].name}' and '{rings[j].name}' cross or touch at ({at.x:.6g}, "
                             f"{at.y:.6g}); draw one closed curve around the domain and keep holes apart")
    return nest([_solid(ring) for ring in rings], lambda i, j: bool(plain[j].contains(plain[i])))


def _solid(ring: Ring) -> Shape:
    """A Ball, a Polygon, a Spline or a Loop, whichever is enough."""
    if ring.curved.all() and len(set(ring.names)) == 1:
        if (circle := _circle(ring.points)) is not None:
            return Ball(*circle, ring.name)
        if not ring.corner.any():
            return Spline(pairs(ring.points), ring.name)
    starts = np.flatnonzero(_breaks(ring))
    runs = [(int(i), int(j) + (len(ring.points) if j <= i else 0)) for i, j in zip(starts, np.roll(starts, -1))]
    names = tuple(ring.names[i] for i, _ in runs)
    if not ring.curved.any():
        return Polygon(pairs(ring.points[starts]), ring.name, names)
    return Loop(tuple(_run(ring, i, j) for i, j in runs), ring.name, names)


def _circle(points: np.ndarray) -> tuple[tuple[float, ...], float] | None:
    """Centre and radius of the circle through at least 8 points, if there is one."""
    shift = points.mean(axis=0)
    x = points - shift
    fit = np.linalg.lstsq(np.concatenate([2 * x, np.ones((len(x), 1))], axis=1), np.sum(x**2, axis=1))[0]
    radii = np.linalg.norm(x - fit[:2], axis=1)
    radius = float(radii.mean())
    if len(points) < 8 or np.abs(radii - radius).max() > ROUND * radius:
        return None
    return floats(shift + fit[:2]), radius


def _breaks(ring: Ring) -> np.ndarray:
    """Which points end a piece: corners, changes of name, ends of curves; straight edges in line are one piece."""
    before = np.roll(ring.curved, 1)
    other = np.array([a != b for a, b in zip(ring.names, (ring.names[-1], *ring.names[:-1]))])
    bent = ~ring.curved & ~before & (np.abs(turning(ring.points)) > 1e-6)
    return other | bent | (ring.curved != before) | (ring.curved & before & ring.corner)


def _run(ring: Ring, i: int, j: int) -> tuple[Kind, tuple[float, ...]]:
    """The piece from point i to point j, counted on beyond the end of the ring."""
    n = len(ring.points)
    points = ring.points[np.arange(i, j + 1) % n]
    if not ring.curved[i % n] or (len(points) == 2 and ring.corner[i % n] and ring.corner[j % n]):
        return Segment(), floats(points[[0, -1]])
    knots = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    ends = tuple("not-a-knot" if ring.corner[k % n] else (1, _tangent(ring, k % n)) for k in (i, j))
    # Curves that go on smoothly have the tangent of what comes next, to the last digit.
    curve = CubicSpline(knots, points, bc_type=ends)
    return Arc(len(curve.x) - 1, False), floats(curve.x) + floats(curve.c)


def _tangent(ring: Ring, k: int) -> np.ndarray:
    """The direction (2,) of the outline at a point where it is smooth: that of the straight edge there, if any."""
    n = len(ring.points)
    back, ahead = ring.points[k] - ring.points[k - 1], ring.points[(k + 1) % n] - ring.points[k]
    one, two = np.linalg.norm(back), np.linalg.norm(ahead)
    mean = back / one * two + ahead / two * one
    if not ring.curved[k - 1]:
        mean = back
    elif not ring.curved[k]:
        mean = ahead
    return mean / np.linalg.norm(mean)


# -- rings from strands -----------------------------------------------------------------------------


def chain(strands: Sequence[Strand], corner_angle: float) -> list[Ring]:
    """Closed outlines from strands that meet at their ends, in any order and direction."""
    every = np.concatenate([s.points for s in strands])
    tol = JOIN * float(np.ptp(every, axis=0).max())
    strands = [s for s in strands if np.linalg.norm(np.diff(s.points, axis=0), axis=1).sum() > tol]
    ends = np.array([s.points[k] for s in strands for k in (0, -1)])
    node = _clusters(ends, tol)
    degree = np.bincount(node)
    for count, what, remedy in ((1, "is open", "close it there"),
                                (3, "branches", "leave only lines that bound the domain")):
        bad = (degree == 1) if count == 1 else (degree > 2)
        if bad.any():
            k = int(np.argmax(bad[node]))
            x, y = ends[k] + 0.0
            raise ValueError(f"the outline '{strands[k // 2].name}' {what} at ({x:.6g}, {y:.6g}); {remedy}")
    return [_ring(_walk(strands, node, left), corner_angle) for left in _starts(node)]


def _clusters(points: np.ndarray, tol: float) -> np.ndarray:
    """Numbers of the points, the same for those within tol of each other."""
    return connected_parts(len(points), cKDTree(points).query_pairs(tol, output_type="ndarray").reshape(-1, 2))


def _starts(node: np.ndarray) -> list[list[int]]:
    """The strands of each closed outline."""
    ring = connected_parts(int(node.max()) + 1, node.reshape(-1, 2))[node[::2]]
    return [np.flatnonzero(ring == k).tolist() for k in dict.fromkeys(ring.tolist())]


def _walk(strands: Sequence[Strand], node: np.ndarray, left: list[int]) -> list[Strand]:
    """Strands of one outline, one after the other."""
    first, *rest = left
    found, at = [strands[first]], node[2 * first + 1]
    while rest:
        k = next(k for k in rest if at in node[2 * k : 2 * k + 2])
        rest.remove(k)
        forward = node[2 * k] == at
        found.append(strands[k] if forward else strands[k].turned)
        at = node[2 * k + 1] if forward else node[2 * k]
    return found


def _ring(strands: Sequence[Strand], corner_angle: float) -> Ring:
    parts, names, curved, corner = [], [], [], []
    for before, strand in zip([strands[-1], *strands[:-1]], strands):
        count = len(strand.points) - 1
        parts.append(strand.points[:-1])
        names += [strand.name] * count
        curved += [strand.curved] * count
        u, v = -_departs(before.turned), _departs(strand)
        join = np.degrees(np.arctan2(abs(u[0] * v[1] - u[1] * v[0]), u @ v)) > corner_angle
        corner += [bool(join)] + [False] * (count - 1)
    points = np.concatenate(parts)
    inner = np.array(curved) & np.roll(curved, 1) & (np.abs(turning(points)) > KINK)
    return Ring(points, tuple(names), np.array(curved), np.array(corner) | inner)


def _departs(strand: Strand) -> np.ndarray:
    """The direction (2,) in which a strand begins; of a curve, that of the parabola through its first points."""
    p = strand.points
    if not strand.curved or len(p) < 3:
        return p[1] - p[0]
    one, two = np.linalg.norm(p[1] - p[0]), np.linalg.norm(p[2] - p[1])
    whole = one + two
    return -(one + whole) / (one * whole) * p[0] + whole / (one * two) * p[1] - one / (two * whole) * p[2]


# -- rings from polygons of a mesh ------------------------------------------------------------------


def polygon_ring(points: np.ndarray, names: Sequence[str], smooth: bool, corner_angle: float) -> Ring:
    """The outline of a mesh: edges in line are straight, those that turn a little at a time belong to a curve."""
    n = len(points)
    if not smooth:
        return Ring(points, tuple(names), np.zeros(n, bool), np.ones(n, bool))
    turn = np.abs(turning(points))
    corner, level = turn > corner_angle, turn <= 1e-4
    bends = ~corner & ~level
    # An edge is straight if it goes on in line at one of its ends, lies between two corners, or is much longer than
    # those it bends into.
    begin, end = bends, np.roll(bends, -1)
    length = np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=1)
    beside = np.maximum(np.where(begin, np.roll(length, 1), 0.0), np.where(end, np.roll(length, -1), 0.0))
    straight = level | np.roll(level, -1) | ~(begin | end) | (length > LONG * beside)
    lone = straight & np.roll(straight, 1) & bends  # a bend between straight edges is a corner after all
    return Ring(points, tuple(names), ~straight, corner | lone)
