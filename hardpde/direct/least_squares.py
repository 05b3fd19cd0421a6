"""Dense least squares by QR, with scaled columns and a ridge that keeps the solution small.

A NumPy matrix is factored where it is, by the cores of the CPU, or on a GPU if there is one; a JAX array on the devices
that hold it.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.direct import on_devices
from hardpde.direct.on_devices import scales
from hardpde.direct.tall import added_up, ridged, tall_qr
from hardpde.support.hardware import gpus_for_rows, on_gpu, one_thread_in_libraries

RIDGE = 1e-15  # the least, of the longest column: what rounding does to it
NEAR = 3.0  # a solution is near enough to the largest that is allowed: by this factor
TRIES = 3  # to come near, after a ridge that is strong enough
FAR = math.log(1e5)  # from a ridge to the next
Either = TypeVar("Either", np.ndarray, Array)


class Factored(NamedTuple):
    """A matrix (m, n) factored together with a ridge, for many right sides."""

    project: Callable[[Any], Any]  # Qᵀ b
    back: Callable[[Any], Any]  # R⁻¹ c
    lengths: Any  # (n,) of the columns, by which they are scaled

    def solve(self, right: Either) -> Either:
        """The x (n,) or (n, k) of least |A x − b|² + |ridge l x|² for b (m,) or (m, k)."""
        found = self.back(self.project(right.reshape(len(right), -1))) / self.lengths[:, None]
        return found.reshape(-1, *right.shape[1:])


def least_squares(matrix: Either, right: Either, largest: float = math.inf) -> Either:
    """The x (n,) or (n, k) of least |A x − b|² + |ridge l x|² for b (m,) or (m, k), l the longest column of A (m, n).

    The ridge is RIDGE, or where that leaves entries larger than `largest`, about the least that does not: the largest
    entry is then between largest / NEAR and largest. A NumPy matrix is overwritten. What is not finite gives NaN.
    """
    if isinstance(matrix, np.ndarray) and on_gpu():
        return np.asarray(least_squares(_on_gpus(matrix), _on_gpus(right), largest))
    both = right.reshape(len(right), -1)
    with one_thread_in_libraries():
        if isinstance(matrix, np.ndarray):
            q = tall_qr(_in_columns(matrix, matrix.shape[1]))
            found = _of_triangle(q.r, q.project(_in_columns(both, matrix.shape[1])), largest)
        else:
            found = _of_triangle(*on_devices.reduced(matrix, both), largest)
    return found.reshape(-1, *right.shape[1:])


def least_squares_by_rows(parts: Iterable[tuple[np.ndarray, np.ndarray]], largest: float = math.inf) -> np.ndarray:
    """The x (n, k) of `least_squares` for rows that come in parts, A (r, n) and b (r, k), and are not kept.

    Some hundred rows in a part are enough. Memory is taken for a triangle for each core, not for the matrix.
    """
    with one_thread_in_libraries():
        return _of_triangle(*added_up(parts), largest)


def factored(matrix: np.ndarray | Array, ridge: float = 10 * RIDGE) -> Factored:
    """Factor a matrix (m, n), with a ridge relative to its longest column; a NumPy matrix is overwritten, and kept."""
    return for_ridges(matrix)(ridge)


def for_ridges(matrix: np.ndarray | Array) -> Callable[[float], Factored]:
    """As `factored`, for one ridge after the other."""
    with one_thread_in_libraries():
        if isinstance(matrix, np.ndarray) and not on_gpu():
            n = matrix.shape[1]
            q = tall_qr(_in_columns(matrix, n))
            lengths, diagonal = scales(q.r)
            return lambda ridge: Factored(lambda b: q.project(_in_columns(b, n)),
                                          ridged(q.r / lengths, ridge * diagonal).solve, lengths)
        there = _on_gpus(matrix) if isinstance(matrix, np.ndarray) else matrix
        return lambda ridge: Factored(*on_devices.orthogonal(there, ridge))


def _on_gpus(array: np.ndarray) -> Array:
    """An array where it is factored: on the GPU, or its rows on as many as share them."""
    return on_devices.shared_rows(array, gpus) if (gpus := gpus_for_rows()) > 1 else jnp.asarray(array)


class Refactored:
    """A matrix factored once, with whatever ridge is asked for last; a NumPy matrix is overwritten, and kept."""

    def __init__(self, matrix: np.ndarray | Array):
        self._with_ridge, self._ridge = for_ridges(matrix), math.nan

    def at(self, ridge: float) -> Factored:
        if ridge != self._ridge:
            self._made, self._ridge = self._with_ridge(ridge), ridge
        return self._made


def _of_triangle(r: Either, c: Either, largest: float) -> Either:
    """The x of least |R x − c|² with a ridge."""
    lengths, diagonal = scales(r)
    if isinstance(r, np.ndarray):
        return strong_enough(
            lambda ridge: ridged(r / lengths, ridge * diagonal).solve(c) / lengths[:, None], largest)
    return strong_enough(
        lambda ridge: on_devices.with_diagonal(r / lengths, c, ridge * diagonal) / lengths[:, None], largest)


def strong_enough(solve: Callable[[float], Either], largest: float) -> Either:
    """The solution for about the least ridge that leaves no entry larger than asked for."""
    weak: tuple[float, float] | None = None  # logarithms of a ridge, and of how much larger than allowed entries are
    strong: tuple[float, float] | None = None
    at, step, tries = math.log(RIDGE), math.log(100), 0
    while True:
        found = solve(math.exp(at))
        excess = _logarithm(float(abs(found).max(initial=0.0)) / largest)
        if excess > 0:
            weak = at, excess
        else:
            strong, best = (at, excess), found
        if strong is None:  # the largest entry falls about as the root of the ridge
            at, step = at + min(max(2 * excess, step), FAR), 2 * step
        elif weak is None or -strong[1] < math.log(NEAR) or tries == TRIES or not strong[1] > -math.inf:
            return best
        else:
            at, tries = _between(weak, strong), tries + 1


def _between(weak: tuple[float, float], strong: tuple[float, float]) -> float:
    """The ridge at which a secant puts the largest entry a little below what is allowed."""
    share = (weak[1] + math.log(NEAR) / 2) / (weak[1] - strong[1])
    return weak[0] + min(max(share, 0.2), 0.8) * (strong[0] - weak[0])


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else value if math.isnan(value) else -math.inf


def _in_columns(matrix: np.ndarray, least: int) -> np.ndarray:
    """The same in double precision and Fortran order, copied where it must be, with zeros below up to `least` rows."""
    if len(matrix) < least:
        matrix = np.concatenate([matrix, np.zeros((least - len(matrix), matrix.shape[1]))])
    return np.asfortranarray(matrix, dtype=float)
