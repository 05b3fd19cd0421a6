"""Dense least squares by QR, with scaled columns and a ridge that keeps the solution small."""

import numpy as np
import scipy.linalg as sl

RIDGES = 10.0 ** np.arange(-13, -1, 2)  # of the longest column


def triangular(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R and Qᵀ b of the QR factorisation of a tall matrix, which is overwritten."""
    both = np.empty((len(matrix), matrix.shape[1] + 1), order="F")
    both[:, :-1], both[:, -1] = matrix, right
    found, *_ = sl.lapack.dgeqrf(both, overwrite_a=1, lwork=64 * both.shape[1])
    r = np.triu(found[: both.shape[1]])
    return r[: matrix.shape[1], :-1], r[: matrix.shape[1], -1]


def least_squares(matrix: np.ndarray, right: np.ndarray, largest: float = np.inf) -> np.ndarray:
    """The x of least |A x − b|² + |ridge l x|², l the length of the longest column of A, which is overwritten.

    The ridge is the least with which no entry of x is larger than `largest`.
    """
    lengths = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    longest = lengths.max(initial=0.0) or 1.0
    lengths = np.maximum(lengths, RIDGES[0] * longest)
    matrix /= lengths
    r, b = triangular(matrix, right)
    for ridge in RIDGES:
        small, c = triangular(np.concatenate([r, np.diag(ridge * longest / lengths)]),
                              np.concatenate([b, np.zeros(len(b))]))
        x = sl.solve_triangular(small, c) / lengths
        if np.abs(x).max(initial=0.0) <= largest:
            break
    return x
