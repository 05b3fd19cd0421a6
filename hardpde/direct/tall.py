"""QR of a tall matrix in its own storage, by SciPy's LAPACK: every core has a block of rows.

Each block is factored alone, then triangles are put on top of one another, two by two (Demmel, Grigori, Hoemmen and
Langou, arXiv 0808.2664). Reflectors take the place of the matrix, so Q stays at hand and no second copy is made.
LAPACK is called where SciPy's Cython interface has it: on rows of a larger array, while other threads go on.
"""

import ctypes
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cython_lapack

from hardpde.support.hardware import cores_for_rows, one_thread_in_libraries

BLOCK, NARROW = 128, 32  # columns at a time, of rows and of a triangle on a triangle
SMALL = 2e7  # products of numbers: fewer are not worth a thread


def at_once(function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], work: float) -> list[Any]:
    """A function of several arguments, by as many threads as there are cores where there is work enough; libraries
    take no more threads."""
    given = list(arguments)
    with one_thread_in_libraries():
        if len(given) == 1 or cores_for_rows() == 1 or work < SMALL:
            return [function(*one) for one in given]
        with ThreadPoolExecutor(min(cores_for_rows(), len(given))) as pool:
            return list(pool.map(lambda one: function(*one), given))


@cache
def _routine(name: str, arguments: int) -> Callable[..., None]:
    capsule = cython_lapack.__pyx_capi__[name]
    named = ctypes.pythonapi.PyCapsule_GetName
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(pointer(capsule, named(capsule)))


def _by_reference(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    return ctypes.cast(ctypes.pointer(ctypes.c_int(value)), ctypes.c_void_p) if isinstance(value, int) else value


def _lapack(name: str, *arguments: Any) -> None:
    """Call a routine with numbers, letters and Fortran arrays; its last argument, the complaint, is looked at here."""
    wrong = ctypes.c_int(0)
    _routine(name, len(arguments) + 1)(*map(_by_reference, arguments), ctypes.addressof(wrong))
    assert wrong.value == 0, (name, wrong.value)


def _step(a: np.ndarray) -> int:
    """From a column to the next one, in numbers."""
    return max(1, a.strides[1] // a.itemsize)


class Reduction(NamedTuple):
    """The triangle of block `other` is taken into that of block `kept`, with factors t of the reflectors."""

    kept: int
    other: int
    t: np.ndarray


class Tall(NamedTuple):
    """Q and R of a matrix (m, n), m ≥ n, as reflectors in its storage; blocks are views of it with all columns."""

    blocks: list[np.ndarray]
    t: list[np.ndarray]  # factors of the reflectors of each block
    reductions: list[Reduction]

    @property
    def columns(self) -> int:
        return self.blocks[0].shape[1]

    @property
    def r(self) -> np.ndarray:
        """R (n, n), a copy in Fortran order."""
        n = self.columns
        out = np.zeros((n, n), order="F")
        for j in range(n):
            out[: j + 1, j] = self.blocks[0][: j + 1, j]
        return out

    def project(self, right: np.ndarray) -> np.ndarray:
        """Qᵀ b, (n, k), for b (m, k)."""
        n, out = self.columns, np.array(right, dtype=float, order="F")
        ends = np.cumsum([0, *map(len, self.blocks)])
        parts = [out[a:b] for a, b in pairwise(ends)]
        k, far = out.shape[1], _step(out)

        def own(v: np.ndarray, t: np.ndarray, part: np.ndarray) -> None:
            _lapack("dgemqrt", b"L", b"T", len(part), k, n, len(t), v, _step(v), t, len(t), part, far,
                    np.empty(k * len(t)))

        at_once(own, zip(self.blocks, self.t, parts), 4.0 * right.size * n)
        for kept, other, t in self.reductions:
            _project_triangle(self.blocks[other], t, parts[kept], parts[other])
        return out[:n]


def _project_triangle(v: np.ndarray, t: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Apply the reflectors of a triangle on a triangle to right sides a and b, of which n rows count."""
    n, k = v.shape[1], a.shape[1]
    _lapack("dtpmqrt", b"L", b"T", n, k, n, n, len(t), v, _step(v), t, len(t), a, _step(a), b, _step(b),
            np.empty(k * len(t)))


def _under(a: np.ndarray, rows: np.ndarray) -> None:
    """R of a triangle on rows, which are overwritten, takes the place of the triangle."""
    n = a.shape[1]
    t = np.empty((min(NARROW, n), n), order="F")
    _lapack("dtpqrt", len(rows), n, 0, len(t), a, _step(a), rows, len(rows), t, len(t), np.empty(len(t) * n))


def _put_on_top(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """R of triangle a on triangle b takes the place of a, the reflectors that of b; returns their factors."""
    n = a.shape[1]
    t = np.zeros((min(NARROW, n), n), order="F")
    _lapack("dtpqrt", n, n, n, len(t), a, _step(a), b, _step(b), t, len(t), np.empty(len(t) * n))
    return t


def tall_qr(matrix: np.ndarray, parts: int | None = None) -> Tall:
    """Factor a matrix (m, n), m ≥ n, in Fortran order, which is overwritten; in parts of at least n rows."""
    m, n = matrix.shape
    most = max(1, m // max(1, n))
    work = 2.0 * m * n * n
    parts = min(parts or (cores_for_rows() if work >= SMALL else 1), most)
    blocks = [matrix[m * i // parts : m * (i + 1) // parts] for i in range(parts)]

    def own(block: np.ndarray) -> np.ndarray:
        t = np.zeros((min(BLOCK, n), n), order="F")
        _lapack("dgeqrt", len(block), n, len(t), block, _step(block), t, len(t), np.empty(len(t) * n))
        return t

    t = at_once(own, [(block,) for block in blocks], work)
    reductions: list[Reduction] = []
    apart = 1
    while apart < parts:
        pairs = [(i, i + apart) for i in range(0, parts - apart, 2 * apart)]
        factors = at_once(lambda i, j: _put_on_top(blocks[i], blocks[j]), pairs, work / parts)
        reductions += [Reduction(i, j, found) for (i, j), found in zip(pairs, factors)]
        apart *= 2
    return Tall(blocks, t, reductions)


def added_up(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """R (n, n) and Qᵀ b (n, k) of rows that come in parts, A (r, n) and b (r, k): each core adds some to a triangle."""
    triangles: list[np.ndarray] = []
    n = 0

    def add(triangle: np.ndarray, matrix: np.ndarray, right: np.ndarray) -> None:
        _under(triangle, np.asfortranarray(np.concatenate([matrix, right], axis=1)))

    source = iter(parts)
    while taken := list(islice(source, cores_for_rows())):
        n = taken[0][0].shape[1]
        size = n + taken[0][1].shape[1]
        triangles += [np.zeros((size, size), order="F") for _ in range(len(taken) - len(triangles))]
        at_once(add, ((triangle, *part) for triangle, part in zip(triangles, taken)), math.inf)
    first, *others = triangles
    for other in others:
        _put_on_top(first, other)
    return first[:n, :n], first[:n, n:]


class Ridged(NamedTuple):
    """The factors of R on top of a diagonal."""

    r: np.ndarray
    v: np.ndarray
    t: np.ndarray

    def solve(self, projected: np.ndarray) -> np.ndarray:
        """The y (n, k) of least |R y − c|² + |diagonal y|², for c (n, k)."""
        c, rest = np.array(projected, order="F"), np.zeros(projected.shape, order="F")
        n, k = c.shape
        with one_thread_in_libraries():
            _project_triangle(self.v, self.t, c, rest)
            _lapack("dtrtrs", b"U", b"N", b"N", n, k, self.r, n, c, n)
        return c


def ridged(r: np.ndarray, diagonal: np.ndarray) -> Ridged:
    """Factor R, which is overwritten, on top of a diagonal (n,)."""
    v = np.zeros(r.shape, order="F")
    np.fill_diagonal(v, diagonal)
    with one_thread_in_libraries():
        return Ridged(r, v, _put_on_top(r, v))


def staircase(a: np.ndarray, lead: np.ndarray, own: int, columns: int) -> np.ndarray:
    """R of the first columns of a Fortran matrix, whose later columns are right sides, in its place above reflectors.

    lead (m,), sorted: the first column of each row that is not zero; rows further down need not be touched before.
    Panels end at column `own`. Returns the leads of the rows of R.
    """
    edges = sorted({*range(0, own, BLOCK), *range(own, columns, BLOCK), own, columns})
    row, leads = 0, []
    for j, end in pairwise(edges):
        last, w = int(np.searchsorted(lead, end)), end - j
        panel, beside = a[row:last, j:end], a[row:last, end:]
        k = min(panel.shape)
        if k == 0:
            continue
        t = np.zeros((min(NARROW, k), k), order="F")
        _lapack("dgeqrt", len(panel), w, len(t), panel, _step(a), t, len(t), np.empty(len(t) * w))
        if beside.shape[1]:
            _lapack("dgemqrt", b"L", b"T", len(panel), beside.shape[1], k, len(t), panel, _step(a), t, len(t), beside,
                    _step(a), np.empty(beside.shape[1] * len(t)))
        leads.append(np.arange(j, j + k))
        row += k
    return np.concatenate([np.zeros(0, int), *leads])
