"""Triangles in space: closest points for JAX, and gaps between sets of triangles with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.spatial import cKDTree

from hardpde.geometry.algorithms.stacking import clamp

CHUNK = 128  # triangles looked at together: with ten thousand points a chunk of distances takes 10 MB
PAIRS = 2**18  # pairs that NumPy looks at together


def barycentric(triangle: jax.Array, x: jax.Array) -> jax.Array:
    """Weights (3,) of the corners of a triangle (3, 3), of sum 1, at the foot of x on its plane."""
    u, v, w = triangle[1] - triangle[0], triangle[2] - triangle[0], x - triangle[0]
    n = jnp.cross(u, v)
    size = jnp.dot(n, n)
    b, c = jnp.dot(jnp.cross(w, v), n) / size, jnp.dot(jnp.cross(u, w), n) / size
    return jnp.stack([1 - b - c, b, c])


def closest_feature(triangle: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The point (3,) of a triangle (3, 3) nearest to x, and what it lies on.

    0: the inside; 1, 2, 3: the edges from corners 0, 1, 2 to the next; 4, 5, 6: the corners.
    """
    weights = barycentric(triangle, x)
    start, edge = triangle, jnp.roll(triangle, -1, axis=0) - triangle
    t = clamp(jnp.sum((x - start) * edge, axis=1) / jnp.sum(edge * edge, axis=1), 0.0, 1.0)
    feet = start + t[:, None] * edge
    k = jnp.argmin(jnp.sum((x - feet) ** 2, axis=1))
    rim = jnp.where(t[k] <= 0, 4 + k, jnp.where(t[k] >= 1, 4 + (k + 1) % 3, 1 + k))
    inside = jnp.all(weights >= 0)
    within = triangle[0] + weights[1] * edge[0] - weights[2] * edge[2]
    return jnp.where(inside, within, feet[k]), jnp.where(inside, 0, rim)


def frames(triangles: Any) -> Any:
    """For each of (t, 3, 3) what `_square` needs: the first corner, two axes along the triangle and one across it, then
    its edges in these axes. NumPy arrays stay what they are."""
    xp: Any = np if isinstance(triangles, np.ndarray) else jnp
    a, u, v = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    along = u / xp.linalg.norm(u, axis=1, keepdims=True)
    across = xp.cross(u, v)
    across = across / xp.linalg.norm(across, axis=1, keepdims=True)
    other = xp.cross(across, along)
    width, px, py = xp.sum(u * along, axis=1), xp.sum(v * along, axis=1), xp.sum(v * other, axis=1)
    rest = [width]
    for x, y in ((px - width, py), (px, py)):
        length = xp.sqrt(x * x + y * y)
        rest += [x / length, y / length, length]
    return xp.concatenate([a, along, other, across, xp.stack(rest, axis=1)], axis=1)


def _square(frame: jax.Array, x: jax.Array) -> jax.Array:
    """Squared distance of x to the triangle of a frame (19,)."""
    w = x - frame[:3]
    p, q, h = jnp.dot(w, frame[3:6]), jnp.dot(w, frame[6:9]), jnp.dot(w, frame[9:12])
    width, bx, by, b, cx, cy, c = frame[12:]
    along, back = clamp(p, 0.0, width), p - width
    s, t = clamp(back * bx + q * by, 0.0, b), clamp(p * cx + q * cy, 0.0, c)
    rim = jnp.minimum((p - along) ** 2 + q**2, (back - s * bx) ** 2 + (q - s * by) ** 2)
    rim = jnp.minimum(rim, (p - t * cx) ** 2 + (q - t * cy) ** 2)
    inside = (q >= 0) & (bx * q - by * back >= 0) & (cy * p - cx * q >= 0)
    return h**2 + jnp.where(inside, 0.0, rim)


def nearest(frames: Any, x: jax.Array) -> jax.Array:
    """Number of the triangle nearest to x, given their frames (t, 19), a chunk at a time; it has no derivatives."""
    x, count = lax.stop_gradient(x), len(frames)
    if not isinstance(frames, np.ndarray):
        frames = lax.stop_gradient(frames)

    def look(part: jax.Array) -> tuple[jax.Array, jax.Array]:
        square = jax.vmap(_square, (0, None))(part, x)
        k = jnp.argmin(square)
        return square[k], k

    if count <= CHUNK:
        return look(jnp.asarray(frames))[1]
    chunks = -(-count // CHUNK)
    # NumPy arrays are cut here: as constants of a compiled function they would be cut anew at every compilation.
    parts = frames[np.minimum(np.arange(chunks * CHUNK), count - 1)].reshape(chunks, CHUNK, -1)

    def step(best: tuple, item: tuple) -> tuple:
        number, part = item
        square, k = look(part)
        better = square < best[0]
        return (jnp.where(better, square, best[0]), jnp.where(better, number * CHUNK + k, best[1])), None

    start = (jnp.full((), jnp.inf, x.dtype), jnp.zeros((), int))
    return jnp.minimum(lax.scan(step, start, (jnp.arange(chunks), jnp.asarray(parts)))[0][1], count - 1)


def spot(triangles: jax.Array, cumulated: jax.Array, u: jax.Array) -> jax.Array:
    """The point at u (3,) in the unit cube, uniform by area; `cumulated` are the running sums of the areas."""
    k = jnp.minimum(jnp.searchsorted(cumulated, u[0] * cumulated[-1], side="right"), len(cumulated) - 1)
    a, b, c = jnp.asarray(triangles)[k]
    root = jnp.sqrt(u[1])
    return (1 - root) * a + root * (1 - u[2]) * b + root * u[2] * c


def crosses(triangles: np.ndarray) -> np.ndarray:
    """Normals (t, 3) of triangles (t, 3, 3), as long as twice their areas."""
    return np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])


def corner_angles(triangles: np.ndarray) -> np.ndarray:
    """Angles (t, 3) of triangles (t, 3, 3) at their corners."""
    u, v = np.roll(triangles, -1, axis=1) - triangles, np.roll(triangles, -2, axis=1) - triangles
    return np.arctan2(np.linalg.norm(np.cross(u, v), axis=2), np.sum(u * v, axis=2))


def soup_gap(one: np.ndarray, two: np.ndarray) -> float:
    """Distance between two sets of triangles, (n, 3, 3) and (m, 3, 3); 0 where they share a corner or cross."""
    corners = [np.unique(t.reshape(-1, 3), axis=0) for t in (one, two)]
    best = float(cKDTree(corners[0]).query(corners[1])[0].min())
    if best == 0:
        return 0.0
    mine, theirs = _edges(one), _edges(two)
    for edges, triangles in ((mine, two), (theirs, one)):
        if any(passes(edges[i], triangles[j]).any() for i, j in _close(edges, triangles, 0.0)):
            return 0.0
    # No corner, edge or triangle farther apart than two corners can matter.
    for points, triangles in ((corners[0], two), (corners[1], one)):
        for i, j in _close(points[:, None], triangles, best):
            best = min(best, float(np.sqrt(_squares(points[i], triangles[j]).min())))
    for i, j in _close(mine, theirs, best):
        best = min(best, float(_between(mine[i], theirs[j]).min()))
    return best


def _close(one: np.ndarray, two: np.ndarray, gap: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of things, given by their corners (n, k, 3) and (m, l, 3), that may be within a gap; some at a time."""
    (centres, radius), (others, size) = (_ball(x) for x in (one, two))
    found = cKDTree(others).query_ball_point(centres, gap + radius.max() + size.max() + 1e-12 * np.ptp(others))
    counts = np.array([len(f) for f in found])
    if not counts.any():
        return
    i, j = np.repeat(np.arange(len(found)), counts), np.concatenate([np.asarray(f, int) for f in found])
    near = np.linalg.norm(centres[i] - others[j], axis=1) <= (gap + radius[i] + size[j]) * (1 + 1e-9)
    i, j = i[near], j[near]
    for k in range(0, len(i), PAIRS):
        yield i[k : k + PAIRS], j[k : k + PAIRS]


def _ball(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres (n, 3) and radii (n,) of balls around things with corners (n, k, 3)."""
    centres = corners.mean(axis=1)
    return centres, np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)


def point_gaps(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Distances (n,) of points (n, 3) to the nearest of triangles (t, 3, 3)."""
    found = np.full(len(points), np.inf)
    step = max(1, PAIRS // len(triangles))
    for k in range(0, len(points), step):
        found[k : k + step] = _squares(points[k : k + step, None], triangles[None]).min(axis=1)
    return np.sqrt(found)


def _squares(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Squared distances of points to triangles, broadcast: (…, 3) and (…, 3, 3) to (…)."""
    a, u, v = t[..., 0, :], t[..., 1, :] - t[..., 0, :], t[..., 2, :] - t[..., 0, :]
    w, n = x - a, np.cross(u, v)
    size = np.sum(n * n, axis=-1)
    b, c = np.sum(np.cross(w, v) * n, axis=-1) / size, np.sum(np.cross(u, w) * n, axis=-1) / size
    best = np.where((b >= 0) & (c >= 0) & (b + c <= 1), np.sum(w * n, axis=-1) ** 2 / size, np.inf)
    for k in range(3):
        start = t[..., k, :]
        edge = t[..., (k + 1) % 3, :] - start
        s = np.clip(np.sum((x - start) * edge, axis=-1) / np.sum(edge * edge, axis=-1), 0, 1)
        best = np.minimum(best, np.sum((x - start - s[..., None] * edge) ** 2, axis=-1))
    return best


def _edges(triangles: np.ndarray) -> np.ndarray:
    """The edges (k, 2, 3) of triangles, each once."""
    pairs = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    turned = pairs[:, ::-1]
    swap = np.array([tuple(b) < tuple(a) for a, b in pairs])[:, None, None]
    return np.unique(np.where(swap, turned, pairs), axis=0)


def passes(edge: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Whether edges (…, 2, 3) pass through the inside of triangles (…, 3, 3), broadcast."""

    def volume(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.sum(np.cross(b - a, c - a) * (d - a), axis=-1)

    p, q = edge[..., 0, :], edge[..., 1, :]
    a, b, c = (t[..., k, :] for k in range(3))
    sides = volume(a, b, c, p) * volume(a, b, c, q) < 0
    around = np.stack([volume(p, q, *pair) for pair in ((a, b), (b, c), (c, a))])
    return sides & (np.all(around > 0, axis=0) | np.all(around < 0, axis=0))


def _between(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Distances between segments (…, 2, 3) where both feet lie inside them, infinite elsewhere."""
    p, u = one[..., 0, :], one[..., 1, :] - one[..., 0, :]
    q, v = two[..., 0, :], two[..., 1, :] - two[..., 0, :]
    n, w = np.cross(u, v), q - p
    size = np.sum(n * n, axis=-1)
    skew = size > 1e-24 * np.sum(u * u, axis=-1) * np.sum(v * v, axis=-1)
    size = np.where(skew, size, 1.0)
    s, t = np.sum(np.cross(w, v) * n, axis=-1) / size, np.sum(np.cross(w, u) * n, axis=-1) / size
    inside = skew & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    return np.where(inside, np.abs(np.sum(w * n, axis=-1)) / np.sqrt(size), np.inf)


def soup_contacts(one: np.ndarray, two: np.ndarray, tol: float) -> np.ndarray:
    """Points (k, 3) common to two sets of triangles: corners of either on the other, and points between these."""
    corners = [np.unique(t.reshape(-1, 3), axis=0) for t in (one, two)]
    points = np.unique(np.concatenate([_on(c, t, tol) for c, t in zip(corners, (two, one))]), axis=0)
    if not 2 <= len(points) <= 64:
        return points
    i, j = np.triu_indices(len(points), 1)
    return np.concatenate([points, _on(_on((points[i] + points[j]) / 2, one, tol), two, tol)])


def _on(points: np.ndarray, triangles: np.ndarray, tol: float) -> np.ndarray:
    """Those of points (n, 3) that lie on some triangle."""
    on = np.zeros(len(points), bool)
    if len(points):
        for i, j in _close(points[:, None], triangles, tol):
            on[i[_squares(points[i], triangles[j]) <= tol**2]] = True
    return points[on]
