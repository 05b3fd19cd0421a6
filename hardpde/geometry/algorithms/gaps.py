"""Distances between pieces: which touch, where, and how far apart the others are."""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hardpde.geometry.algorithms.sampling import depths, unit_points
from hardpde.geometry.algorithms.stacking import concrete, distances, safe_norm, stack
from hardpde.geometry.algorithms.triangles import point_gaps, soup_contacts, soup_gap
from hardpde.geometry.base import Kind, Piece, Shape
from hardpde.geometry.kinds import Arc, Face, Segment, Sphere
from hardpde.support.compiling import jit_simply

__all__ = ["distances", "gap_matrix", "stack", "touching_points"]

# Relative to the size of the shape: pieces closer than this touch.
TOUCH = 1e-9
SAMPLES, STARTS = 512, 12


def gap_matrix(pieces: tuple[Piece, ...], shape: Shape) -> np.ndarray:
    """Smallest distances (n, n) between the surviving parts of pieces; exactly 0 where they touch.

    Spheres, faces and segments that survive whole have formulas; other pairs are sampled and refined.
    """
    pieces = tuple(pieces)
    gaps = np.full((len(pieces), len(pieces)), np.nan)
    groups = stack(pieces)
    for a, b in product(groups, groups):
        gaps[np.ix_(a.index, b.index)] = closed_gaps(a.kind, a.params, b.kind, b.params)
    partly = ~are_whole(pieces, shape)
    gaps[partly] = gaps[:, partly] = np.nan
    for i, j in np.argwhere(np.triu(np.isnan(gaps), 1)):
        gaps[i, j] = gaps[j, i] = numeric_gap(pieces[i], pieces[j], shape)[0]
    gaps[gaps <= TOUCH * shape.size] = 0.0
    np.fill_diagonal(gaps, 0.0)
    return gaps


def touching_points(piece_i: Piece, piece_j: Piece, shape: Shape) -> np.ndarray:
    """Up to 8 points (k, d) common to two pieces: corners, points along an edge with its ends."""
    if isinstance(piece_i.kind, Face) and isinstance(piece_j.kind, Face):
        points = _common_rectangle(piece_i, piece_j, TOUCH * shape.size)
    elif (soups := _whole_soups((piece_i, piece_j), shape)) is not None:
        points = soup_contacts(soups[0], soups[1], TOUCH * shape.size)
    else:
        points = numeric_gap(piece_i, piece_j, shape)[1]
    if not len(points):
        return np.zeros((0, shape.dim))
    on = np.abs(concrete(depths, shape.home(piece_i), points)) <= 10 * TOUCH * shape.size
    return _spread(points[on], 1e-6 * shape.size)


def _whole_soups(pieces: tuple[Piece, Piece], shape: Shape) -> list[np.ndarray] | None:
    soups = [piece.kind.triangles(piece.params) for piece in pieces]
    found = [soup for soup in soups if soup is not None]
    return found if len(found) == 2 and are_whole(pieces, shape).all() else None


def are_whole(pieces: tuple[Piece, ...], shape: Shape) -> np.ndarray:
    """Whether all of each piece is known to lie on the boundary of the shape, (n,)."""
    whole = dict(zip(shape.pieces, shape.whole))
    return np.array([whole.get(piece, True) for piece in pieces], dtype=bool)


def is_uncut(piece: Piece, shape: Shape) -> bool:
    """Whether all of a piece is known to lie on the boundary of the shape."""
    return bool(are_whole((piece,), shape)[0])


# -- formulas ---------------------------------------------------------------------------------------


def closed_gaps(kind_a: Kind, a: np.ndarray, kind_b: Kind, b: np.ndarray) -> np.ndarray | float:
    """Gaps (n, m) of pieces with stacked parameters where there is a formula, NaN otherwise."""
    d = kind_a.dim
    if d == 1 and not isinstance(kind_a, Arc):
        return np.abs(_ends(kind_a, a)[:, None, :, None] - _ends(kind_b, b)[None, :, None, :]).min((2, 3))
    if isinstance(kind_a, Sphere) and isinstance(kind_b, Sphere):
        between = np.linalg.norm(a[:, None, :d] - b[None, :, :d], axis=-1)
        ra, rb = a[:, None, d], b[None, :, d]
        return np.maximum(np.maximum(between - ra - rb, np.abs(ra - rb) - between), 0.0)
    if isinstance(kind_a, Sphere) and isinstance(kind_b, Face | Segment):
        return np.asarray(closed_gaps(kind_b, b, kind_a, a)).T
    if isinstance(kind_b, Sphere) and isinstance(kind_a, Face | Segment):
        near, far = _near_far(kind_a, a, b[:, :d])
        return np.maximum(np.maximum(near - b[None, :, d], b[None, :, d] - far), 0.0)
    if isinstance(kind_a, Face) and isinstance(kind_b, Face):
        apart = np.maximum(a[:, None, :d] - b[None, :, d : 2 * d], b[None, :, :d] - a[:, None, d : 2 * d])
        return np.linalg.norm(np.maximum(apart, 0.0), axis=-1)
    if isinstance(kind_a, Face | Segment) and isinstance(kind_b, Face | Segment):
        return _segment_gaps(a[:, :4], b[:, :4])
    if d == 3:
        return _soup_gaps(kind_a, a, kind_b, b)
    return np.nan


def _soup_gaps(kind_a: Kind, a: np.ndarray, kind_b: Kind, b: np.ndarray) -> np.ndarray | float:
    """Gaps (n, m) of spheres and pieces made of triangles with stacked parameters, NaN where there is no formula."""
    if isinstance(kind_a, Sphere):
        return np.asarray(_soup_gaps(kind_b, b, kind_a, a)).T
    gaps = np.full((len(a), len(b)), np.nan)
    for (i, p), (j, q) in product(enumerate(a), enumerate(b)):
        one, two = kind_a.triangles(p), kind_b.triangles(q)
        if one is not None and isinstance(kind_b, Sphere):
            far = np.linalg.norm(one - q[:3], axis=-1).max()
            gaps[i, j] = max(point_gaps(q[None, :3], one)[0] - q[3], q[3] - far, 0.0)
        elif one is not None and two is not None:
            gaps[i, j] = gaps[j, i] if a is b and j < i else soup_gap(one, two)
    return gaps


@lru_cache(maxsize=4096)
def clear(one: Shape, two: Shape) -> bool:
    """Whether formulas show that the boundaries of two primitives keep apart; False where they do not tell."""
    tol = TOUCH * max(one.size, two.size)
    for (kind_a, a, slack_a), (kind_b, b, slack_b) in product(_bones(one), _bones(two)):
        if not np.min(closed_gaps(kind_a, a, kind_b, b)) > tol + slack_a + slack_b:  # NaN: no formula
            return False
    return True


def _bones(shape: Shape) -> list[tuple[Kind, np.ndarray, float]]:
    """Kinds and stacked parameters of a shape's pieces, arcs as chords, and how far off the chords may be."""
    found: list[tuple[Kind, np.ndarray, float]] = []
    for group in stack(shape.pieces):
        if not isinstance(group.kind, Arc):
            found.append((group.kind, group.params, 0.0))
            continue
        for params in group.params:
            curve = group.kind.polynomial(params)
            s = np.concatenate([np.linspace(u, v, 9)[:-1] for u, v in pairwise(curve.x)] + [curve.x[-1:]])
            y = curve(s)
            slack = 2 * np.linalg.norm(curve((s[:-1] + s[1:]) / 2) - (y[:-1] + y[1:]) / 2, axis=1).max()
            found.append((Segment(), np.concatenate([y[:-1], y[1:]], axis=1), float(slack)))
    return found


def _ends(kind: Kind, p: np.ndarray) -> np.ndarray:
    """The points (n, 1 or 2) of one-dimensional pieces."""
    return np.stack([p[:, 0] - p[:, 1], p[:, 0] + p[:, 1]], axis=1) if isinstance(kind, Sphere) else p[:, :1]


def _near_far(kind: Kind, p: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest distance (n, m) of points c (m, d) to faces or segments p."""
    d = c.shape[1]
    one, two, c = p[:, None, :d], p[:, None, d : 2 * d], c[None]
    if isinstance(kind, Face):
        far = np.maximum(np.abs(c - one), np.abs(c - two))
        return np.linalg.norm(c - np.clip(c, one, two), axis=-1), np.linalg.norm(far, axis=-1)
    ends = np.maximum(np.linalg.norm(c - one, axis=-1), np.linalg.norm(c - two, axis=-1))
    return _to_segment(c, one, two), ends


def _to_segment(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    edge = b - a
    t = np.sum((x - a) * edge, axis=-1) / np.sum(edge * edge, axis=-1)
    return np.linalg.norm(x - a - np.clip(t, 0, 1)[..., None] * edge, axis=-1)


def _segment_gaps(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    a, b, c, d = p[:, None, :2], p[:, None, 2:], q[None, :, :2], q[None, :, 2:]
    gaps = np.minimum(
        np.minimum(_to_segment(a, c, d), _to_segment(b, c, d)),
        np.minimum(_to_segment(c, a, b), _to_segment(d, a, b)),
    )

    def side(o: np.ndarray, e: np.ndarray, x: np.ndarray) -> np.ndarray:
        u, v = e - o, x - o
        return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]

    crossing = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    return np.where(crossing, 0.0, gaps)


def _common_rectangle(one: Piece, two: Piece, tol: float) -> np.ndarray:
    """Corners and centre of what two axis-aligned faces share."""
    d = one.kind.dim
    a, b = np.array(one.params), np.array(two.params)
    lo, hi = np.maximum(a[:d], b[:d]), np.minimum(a[d : 2 * d], b[d : 2 * d])
    if np.any(lo > hi + tol):
        return np.zeros((0, d))
    hi = np.maximum(lo, hi)
    axes = [(u, v) if v > u + tol else (u,) for u, v in zip(lo, hi)]
    return np.array([*list(product(*axes))[:7], (lo + hi) / 2])


# -- sampling and refinement ------------------------------------------------------------------------


def numeric_gap(one: Piece, two: Piece, shape: Shape, other: Shape | None = None) -> tuple[float, np.ndarray]:
    """Gap of two pieces and the points (k, d) where they touch, by samples and local refinement.

    Pieces count as far as they lie on the boundary of `shape` (the second one of `other`, if given).
    """
    other = shape if other is None else other
    tol = TOUCH * max(shape.size, other.size)
    u = _grid(shape.dim)
    clouds = [concrete(_place, p.kind, np.array(p.params), u) for p in (one, two)]
    alive = [_on_boundary(p, s, y) for p, s, y in zip((one, two), (shape, other), clouds)]
    best, points = np.inf, [np.zeros((0, shape.dim))]
    if alive[0].any() and alive[1].any():
        best = _cloud_gap(clouds[0][alive[0]], clouds[1][alive[1]])
    ways = (alive[0], one, two, shape, other), (alive[1], two, one, other, shape)
    for mask, a, b, home, away in ways:
        if not mask.any():
            continue
        kinds, params = (a.kind, b.kind), (np.array(a.params), np.array(b.params))
        start = _starts(np.where(mask, concrete(_gaps_at, *kinds, *params, u), np.inf), shape.dim)
        y, foot, gap = concrete(_refine, *kinds, *params, u[start])
        ok = _on_boundary(a, home, y) & _on_boundary(b, away, foot)
        best = min(best, float(np.min(gap[ok], initial=np.inf)))
        points.append(y[ok & (gap <= tol)])
    return (0.0 if best <= tol else best), np.concatenate(points)


def _grid(dim: int) -> np.ndarray:
    """Unit-cube coordinates (k, d) of the samples of a piece; along a curve its ends are among them."""
    if dim == 2:
        return np.stack([np.linspace(0, 1, SAMPLES + 1)] * 2, axis=1)
    return unit_points(SAMPLES, dim)


def _on_boundary(piece: Piece, shape: Shape, points: np.ndarray) -> np.ndarray:
    if is_uncut(piece, shape):
        return np.ones(len(points), dtype=bool)
    return np.abs(concrete(depths, shape.home(piece), points)) <= 1e-7 * shape.size


def _cloud_gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.min(np.sum((a[:, None] - b[None]) ** 2, axis=-1))))


def _starts(gap: np.ndarray, dim: int) -> np.ndarray:
    """Numbers of the samples to refine, always equally many: along a curve the local minima of the gap."""
    if dim != 2:
        return np.argsort(gap)[: 4 * STARTS]
    padded = np.concatenate([[np.inf], gap, [np.inf]])
    minima = np.flatnonzero((gap <= padded[:-2]) & (gap <= padded[2:]))
    return np.resize(minima[np.argsort(gap[minima])[:STARTS]], STARTS)


# Compiled once per kind (and shape), whatever the parameters.


@partial(jit_simply, static_argnums=0)
def _place(kind: Kind, p: jax.Array, u: jax.Array) -> jax.Array:
    return jax.vmap(kind.place, (None, 0))(p, u)


@partial(jit_simply, static_argnums=(0, 1))
def _gaps_at(kind_a: Kind, kind_b: Kind, a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    y = _place(kind_a, a, u)
    return safe_norm(y - jax.vmap(kind_b.closest, (None, 0))(b, y))


@partial(jit_simply, static_argnums=(0, 1))
def _refine(
    kind_a: Kind, kind_b: Kind, a: jax.Array, b: jax.Array, u: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Points (k, d) of a of locally smallest distance to b, their feet (k, d) on b, the distances (k,)."""
    method = _golden if u.shape[1] == 2 else _alternate
    y = jax.vmap(partial(method, kind_a, kind_b, a, b))(u)
    foot = jax.vmap(kind_b.closest, (None, 0))(b, y)
    return y, foot, safe_norm(y - foot)


def _golden(kind_a: Kind, kind_b: Kind, a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """Golden-section search along a curve: it finds tangential contacts, where projections crawl."""
    ratio = (np.sqrt(5) - 1) / 2

    def at(t: jax.Array) -> jax.Array:
        y = kind_a.place(a, jnp.stack([t, t]))
        return safe_norm(y - kind_b.closest(b, y))

    def shrink(_: int, bracket: tuple) -> tuple:
        lo, hi = bracket
        left, right = hi - ratio * (hi - lo), lo + ratio * (hi - lo)
        keep = at(left) <= at(right)
        return jnp.where(keep, lo, left), jnp.where(keep, right, hi)

    h = 1.01 / SAMPLES
    start = jnp.maximum(u[0] - h, 0.0), jnp.minimum(u[0] + h, 1.0)
    lo, hi = lax.fori_loop(0, 70, shrink, start)
    # The ends of the bracket and the start itself compete: a minimum may sit at an end of the curve.
    t = jnp.stack([lo, hi, (lo + hi) / 2, u[0]])
    k = jnp.argmin(jax.vmap(at)(t))
    return kind_a.place(a, jnp.stack([t[k], t[k]]))


def _alternate(kind_a: Kind, kind_b: Kind, a: jax.Array, b: jax.Array, u: jax.Array) -> jax.Array:
    """Alternating projections; surfaces that cross are met fast, tangential contact has formulas."""
    y = kind_a.place(a, u)
    return lax.fori_loop(0, 500, lambda _, y: kind_a.closest(a, kind_b.closest(b, y)), y)


def _spread(points: np.ndarray, tol: float, most: int = 8) -> np.ndarray:
    """At most 8 distinct points, far from each other first."""
    chosen: list[np.ndarray] = []
    apart = np.full(len(points), np.inf)
    while len(points) and len(chosen) < most and apart.max() > tol:
        chosen.append(points[int(np.argmax(apart))])
        apart = np.minimum(apart, np.linalg.norm(points - chosen[-1], axis=1))
    return np.array(chosen).reshape(-1, points.shape[1])
