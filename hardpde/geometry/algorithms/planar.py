"""Plane outlines: orientation, crossings, winding numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def signed_area(points: np.ndarray) -> float:
    """Area of a closed polygon (n, 2), positive for counter-clockwise order."""
    x, y = points.T
    return float(0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def _on(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Whether collinear c lies between a and b."""
    return np.all((np.minimum(a, b) <= c) & (c <= np.maximum(a, b)), axis=-1)


def crossing_edges(points: np.ndarray) -> tuple[int, int] | None:
    """First two edges (i: point i to i + 1) of a closed polygon that cross or touch, neighbours apart."""
    n = len(points)
    a, b = points, np.roll(points, -1, axis=0)
    edge = b - a
    back = (np.abs(_cross(edge, np.roll(edge, -1, 0))) <= 1e-14 * np.sum(edge**2, 1)) & (
        np.sum(edge * np.roll(edge, -1, 0), 1) < 0
    )
    if back.any():
        i = int(np.argmax(back))
        return i, (i + 1) % n
    for i in range(n - 2):
        j = np.arange(i + 2, n if i else n - 1)
        d1, d2 = _cross(edge[i], a[j] - a[i]), _cross(edge[i], b[j] - a[i])
        d3, d4 = _cross(edge[j], a[i] - a[j]), _cross(edge[j], b[i] - a[j])
        hit = (d1 * d2 < 0) & (d3 * d4 < 0)
        hit |= ((d1 == 0) & _on(a[i], b[i], a[j])) | ((d2 == 0) & _on(a[i], b[i], b[j]))
        hit |= ((d3 == 0) & _on(a[j], b[j], a[i])) | ((d4 == 0) & _on(a[j], b[j], b[i]))
        if hit.any():
            return i, int(j[np.argmax(hit)])
    return None


def ears(points: np.ndarray) -> np.ndarray:
    """Triangles (n − 2, 3) that fill a simple counter-clockwise polygon (n, 2): an ear is cut off again and again."""
    left, found = list(range(len(points))), []
    while len(left) > 3:
        sizes = []
        for k in range(len(left)):
            a, b, c = (points[left[j % len(left)]] for j in (k - 1, k, k + 1))
            others = points[[v for v in left if v not in (left[k - 1], left[k], left[(k + 1) % len(left)])]]
            within = np.all([_cross(q - p, others - p) >= 0 for p, q in ((a, b), (b, c), (c, a))], axis=0)
            area = _cross(b - a, c - a)
            longest = max(np.sum((q - p) ** 2) for p, q in ((a, b), (b, c), (c, a)))
            sizes.append(area / longest if area > 0 and not within.any() else 0.0)
        k = int(np.argmax(sizes))  # the roundest first, as thin ones make thin ones
        found.append((left[k - 1], left[k], left[(k + 1) % len(left)]))
        del left[k]
    return np.array([*found, tuple(left)])


def winds(points: jax.Array, x: jax.Array) -> jax.Array:
    """Whether the closed polygon (n, 2) winds about the point x (2,)."""
    a, b = points, jnp.roll(points, -1, axis=0)
    side = (b[:, 0] - a[:, 0]) * (x[1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (x[0] - a[:, 0])
    up = (a[:, 1] <= x[1]) & (b[:, 1] > x[1]) & (side > 0)
    down = (a[:, 1] > x[1]) & (b[:, 1] <= x[1]) & (side < 0)
    return jnp.sum(up.astype(int) - down.astype(int)) != 0
