"""A regular grid of blocks over a box, the faces between them, and points sorted by block.

Blocks divide the first d coordinates of a point; further ones (time) are left whole.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Shape
from hardpde.support.checking import check_at_least

MOST_ALONG_A_LINE = 8  # blocks of an interval


class Faces(NamedTuple):
    """Faces between neighbouring blocks: block b follows block a along the axis where lo and hi agree."""

    a: np.ndarray  # (F,)
    b: np.ndarray  # (F,)
    lo: np.ndarray  # (F, d)
    hi: np.ndarray  # (F, d)


@dataclass(frozen=True)
class Grid:
    """Blocks of equal size that fill the box between two corners, numbered with the last axis fastest."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.lower) == len(self.upper) == len(self.counts) > 0:
            raise ValueError(f"the grid has corners of {len(self.lower)} and {len(self.upper)} numbers and "
                             f"{len(self.counts)} counts; give one of each for every dimension")
        if any(m < 1 for m in self.counts):
            raise ValueError(f"the grid has {self.counts} blocks; give at least 1 along every axis")
        if not all(lo < hi for lo, hi in zip(self.lower, self.upper)):
            raise ValueError(f"the box from {self.lower} to {self.upper} is empty; give its lower corner first")

    @property
    def dim(self) -> int:
        """How many coordinates are divided."""
        return len(self.counts)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return math.prod(self.counts)

    @cached_property
    def lines(self) -> list[np.ndarray]:
        """Where the blocks begin and end along each axis, (count + 1,)."""
        return [np.linspace(lo, hi, m + 1) for lo, hi, m in zip(self.lower, self.upper, self.counts)]

    @cached_property
    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corners (number, d) of the blocks."""
        index = self._indices
        return (np.stack([line[i] for line, i in zip(self.lines, index.T)], axis=1),
                np.stack([line[i + 1] for line, i in zip(self.lines, index.T)], axis=1))

    @property
    def centres(self) -> np.ndarray:
        """The middles (number, d) of the blocks."""
        lo, hi = self.corners
        return (lo + hi) / 2

    @property
    def widths(self) -> np.ndarray:
        """The extents (d,) of a block."""
        return (np.array(self.upper) - np.array(self.lower)) / np.array(self.counts)

    @property
    def _indices(self) -> np.ndarray:
        """Where each block stands along every axis, (number, d)."""
        return np.array(list(product(*map(range, self.counts))))

    def block(self, x: Array) -> Array:
        """The number of the block that holds a point; beyond the outer edges it is the nearest one."""
        number = jnp.zeros((), int)
        for j, (line, m) in enumerate(zip(self.lines, self.counts)):
            number = m * number + (x[j] >= line[1:-1]).sum()
        return number

    @cached_property
    def faces(self) -> Faces:
        """All faces between neighbouring blocks, each once, axis by axis."""
        index, (lower, upper) = self._indices, self.corners
        parts = []
        for j, m in enumerate(self.counts):
            a = np.nonzero(index[:, j] < m - 1)[0]
            b = a + math.prod(self.counts[j + 1 :])
            lo, hi = lower[a], upper[a]
            lo[:, j] = hi[:, j]
            parts.append(Faces(a, b, lo, hi))
        return Faces(*map(np.concatenate, zip(*parts)))


def default_counts(lower: tuple[float, ...], upper: tuple[float, ...], most: int = 24) -> tuple[int, ...]:
    """Into how many nearly square blocks a box is cut along each axis; between half of `most` and `most` in all.

    An interval gets no more than 8 blocks; where half of `most` cannot be had there are fewer.
    """
    d = len(lower)
    if d > 3:
        raise ValueError(f"domain decomposition does not suit many dimensions, and the domain has {d}; "
                         f"use a method with one network, such as exact")
    check_at_least(1, most=most)
    if d == 1:
        return (min(most, MOST_ALONG_A_LINE),)
    lengths, counts = np.subtract(upper, lower), np.ones(d, int)
    possible = []
    while counts.prod() <= most:
        possible.append(counts)
        # Every count is its length over a common side, rounded; the side shrinks to where the next count grows.
        side = lengths / (counts + 0.5)
        counts = counts + (side > (1 - 1e-9) * side.max())
    many = [c for c in possible if c.prod() >= most / 2] or possible[-1:]
    squarest = min(reversed(many), key=lambda c: round(np.ptp(np.log(lengths / c)), 9))
    return tuple(map(int, squarest))


def group(ids: Array, number: int, capacity: int) -> tuple[Array, Array]:
    """The points of each block, from the block numbers (n,) of all points.

    Returns order (number, capacity), indices of points, and mask (number, capacity), True where such a point is of
    that block; other places hold any valid index. Points come in their order, and those beyond the capacity of
    their block are left out. Numbers that are not those of a block are of points in none.
    """
    order = jnp.argsort(ids, stable=True)
    blocks = jnp.arange(number)
    ordered = ids[order]
    first, end = jnp.searchsorted(ordered, blocks), jnp.searchsorted(ordered, blocks, side="right")
    place = first[:, None] + jnp.arange(capacity)
    return order[jnp.minimum(place, ids.size - 1)], place < end[:, None]


def face_points(grid: Grid, key: Array, each: int) -> Array:
    """Points (F, each, d), uniform on every face."""
    u = jax.random.uniform(key, (len(grid.faces.a), each, grid.dim))
    return jnp.asarray(grid.faces.lo)[:, None] * (1 - u) + jnp.asarray(grid.faces.hi)[:, None] * u


def live_faces(grid: Grid, domain: Shape, samples: int = 1000) -> np.ndarray:
    """Which faces (F,) have a part in the domain, as random points on them tell."""
    points = face_points(grid, jax.random.key(0), samples)
    inside = jax.jit(lambda x: jax.lax.map(lambda x: domain.sdf(x) < 0, x, batch_size=4096))
    return np.asarray(inside(points.reshape(-1, grid.dim)).reshape(points.shape[:2]).any(1))
