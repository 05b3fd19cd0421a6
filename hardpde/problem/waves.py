"""Short waves of linearised equations: which of them decay from a plane boundary into the domain.

The equations are frozen at a point, and q = v exp(iξ·τ + λ y + s t) is inserted, y the distance from the boundary, τ
along it, with ξ and s so large that all but the leading terms fall away. What is left is a pencil in λ, or a quadratic
one with a Laplacian; its roots with Re λ < 0 are the waves that a boundary must control (Lopatinski and Shapiro).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Complex = NDArray[np.complex128]
NEVER = 1e6  # the logarithm of what is as good as zero
INFINITE = 1e5  # of the scaled roots: larger ones are rounding of infinite ones
UPRIGHT = 1e-4  # real part over size: below it a root neither decays nor grows
SLOW = 0.1  # of the scaled roots
ROUNDING = 1e-12
FASTEST, FASTER, TRIES = 1e20, 1e-8, 8  # more than any rate; from there the largest is looked for, in such steps


class Symbol(NamedTuple):
    """Linearised equations at a point: slope (e, m, slots) by the jet; dim; whether there is time, a Laplacian."""

    slope: np.ndarray
    dim: int
    timed: bool
    laplacian: bool

    def along(self, k: Complex | np.ndarray, s: complex) -> Complex:
        """Acting on exp(k·x + s t), (e, m)."""
        found = self.slope[:, :, 0] + self.slope[:, :, 1 : 1 + self.dim] @ k + 0j
        if self.timed:
            found = found + s * self.slope[:, :, 1 + self.dim]
        return found + (k @ k) * self.slope[:, :, -1] if self.laplacian else found

    @property
    def equations(self) -> int:
        return len(self.slope)

    @property
    def in_time(self) -> np.ndarray:
        """What multiplies ∂q/∂t, (e, m)."""
        return self.slope[:, :, 1 + self.dim]


class Waves(NamedTuple):
    """Waves of a half-space at one frequency: values (m, k) and derivatives by y (m, k) at the boundary.

    The first columns, so many as are `decaying`, are those that decay; the others all that there are. neutral: of each
    wave that neither decays nor grows, +1 where the equations as they are signed take it into the domain, −1 out of it,
    0 where that cannot be told.
    """

    values: Complex
    slopes: Complex
    decaying: int
    neutral: tuple[int, ...]


class Singular(ValueError):
    """The equations do not determine all fields; `free` (m,): how much of each is left free."""

    def __init__(self, free: np.ndarray):
        super().__init__("the equations do not determine all fields")
        self.free = free


def weights_of(sizes: np.ndarray, most: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray] | None:
    """Factors of rows and columns that make entries at most 1, and 1 on a transversal; None where there is none.

    They are the weights that Douglis and Nirenberg give equations and fields, whatever their units. Where equations can
    be solved one after the other there is a choice: the largest are taken whose logarithms of columns are at most
    `most` (m,), 0 unless stated. Of more rows than columns, those of a transversal are looked at, others have size 1.
    """
    if len(sizes) > sizes.shape[1]:
        return _of_many(sizes, most)
    with np.errstate(divide="ignore"):
        cost = -np.log(sizes)
    cost = np.where(np.isfinite(cost), cost, NEVER)
    rows, match = linear_sum_assignment(cost)
    least = cost[rows, match]
    if least.max() >= NEVER:
        return None
    column = np.zeros(len(cost)) if most is None else most
    for _ in range(len(cost)):
        column = np.minimum(column, (cost - least[:, None] + column[match][:, None]).min(0))
    return np.exp(least - column[match]), np.exp(column)


def _of_many(sizes: np.ndarray, most: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
    with np.errstate(divide="ignore"):
        cost = -np.log(sizes)
    chosen, _ = linear_sum_assignment(np.where(np.isfinite(cost), cost, NEVER))
    found = weights_of(sizes[chosen], most)
    if found is None:
        return None
    largest = (sizes * found[1]).max(1)
    rows = 1 / np.where(largest > 0, largest, 1.0)
    rows[chosen] = found[0]
    return rows, found[1]


def half_space(symbol: Symbol, normal: np.ndarray, along: np.ndarray, s: complex, rate: float,
               most: np.ndarray | None = None) -> Waves:
    """The waves exp(i along·x + s t) inside a boundary with that outward normal; rate: about how fast they decay; most:
    see `weights_of`."""
    for _ in range(3):
        waves, size = _half_space(symbol, normal, along, s, rate, most)
        if size is None or 0.1 < size < 10:
            break
        rate *= size
    return waves


def _half_space(symbol: Symbol, normal: np.ndarray, along: np.ndarray, s: complex, rate: float,
                most: np.ndarray | None) -> tuple[Waves, float | None]:
    """The waves, and how fast the decaying ones really decay, in the mean, over the rate."""
    full = _pencil(symbol, normal, along, s, rate, most)
    first, second, columns = _square(full[0]), _square(full[1]), full[2]
    m = len(columns)
    aa, bb, _, _ = scipy.linalg.qz(first, second, output="complex")
    alpha, beta = np.diag(aa), np.diag(bb)
    if (np.maximum(np.abs(alpha), np.abs(beta)) < ROUNDING).any():
        raise Singular(_free(first + 0.7j * second, columns))
    finite = np.abs(alpha) < INFINITE * np.abs(beta)
    root = np.where(finite, alpha / np.where(finite, beta, 1.0), np.inf)
    upright = finite & _neutral(root)
    everything = _solutions(full, lambda mu: np.isfinite(mu))
    inside = _solutions(full, lambda mu: np.isfinite(mu) & (mu.real < 0) & ~_neutral(mu))
    basis = np.concatenate([inside, everything], axis=1)
    values = columns[:, None] * basis[:m]
    slopes = rate * columns[:, None] * basis[m:] if len(basis) > m else np.zeros_like(values)
    neutral = root[upright] if symbol.equations == m else ()  # where equations were mixed, mixtures may have such roots
    found = Waves(values, slopes, inside.shape[1], tuple(_direction(first, second, mu) for mu in neutral))
    sizes = np.abs(root[finite & ~upright & (root.real < 0)])
    return found, float(np.exp(np.log(sizes).mean())) if len(sizes) and sizes.min() > 0 else None


def _neutral(root: np.ndarray) -> np.ndarray:
    """Which roots neither decay nor grow, or much slower than the waves are short."""
    return np.abs(root.real) <= UPRIGHT * np.maximum(np.abs(root), SLOW)


def _pencil(symbol: Symbol, normal: np.ndarray, along: np.ndarray, s: complex, rate: float,
            most: np.ndarray | None) -> tuple[Complex, Complex, np.ndarray]:
    """A, B of A z = μ B z for λ = rate μ, with the scales of the columns."""
    d = symbol.dim
    constant = symbol.along(1j * along, s)
    inwards = symbol.slope[:, :, 1 : 1 + d]
    linear = -rate * (inwards @ normal) + 0j
    linear[np.abs(linear) <= ROUNDING * rate * (np.abs(inwards) @ np.abs(normal))] = 0
    square = rate**2 * symbol.slope[:, :, -1] if symbol.laplacian else np.zeros(linear.shape)
    found = weights_of(np.abs(constant) + np.abs(linear) + np.abs(square), most)
    if found is None:
        raise Singular(_free(constant + 0.7j * linear + square, np.ones(constant.shape[1])))
    row, column = found
    constant, linear, square = (row[:, None] * part * column for part in (constant, linear, square))
    if not square.any():
        return constant, -linear, column
    one, zero = np.eye(len(column)), np.zeros((len(column), len(column)))
    first = np.block([[zero, one], [constant, linear]])
    return first, np.block([[one, zero], [np.zeros(linear.shape), -square]]), column


def _square(pencil: Complex) -> Complex:
    """As many rows as columns: where there are more, mixtures of them."""
    rows, columns = pencil.shape
    if rows == columns:
        return pencil
    return np.linalg.qr(np.random.default_rng(6).normal(size=(rows, columns)))[0].T @ pencil


def _solutions(pencil: tuple[Complex, Complex, np.ndarray], wanted: Callable[[np.ndarray], np.ndarray]) -> Complex:
    """A basis of what solves A z = B z′ with the wanted roots alone; all of it, where there are more rows than columns.
    """
    first, second, _ = pencil
    aa, bb, z, number = _ordered(_square(first), _square(second), wanted)
    z = z[:, :number]
    if len(first) == first.shape[1] or not number:
        return z
    change = np.linalg.solve(bb[:number, :number], aa[:number, :number])
    miss = first @ z - second @ z @ change
    every = np.concatenate([miss @ np.linalg.matrix_power(change, k) for k in range(number)])
    _, sizes, vh = np.linalg.svd(every)
    return z @ vh[int((sizes > UPRIGHT).sum()) :].conj().T


def _ordered(first: Complex, second: Complex,
             wanted: Callable[[np.ndarray], np.ndarray]) -> tuple[Complex, Complex, Complex, int]:
    """The QZ form in which the wanted roots come first, and how many there are."""
    number = 0

    def sort(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
        nonlocal number
        finite = np.abs(alpha) < INFINITE * np.abs(beta)
        found = wanted(np.where(finite, alpha / np.where(finite, beta, 1.0), np.inf))
        number = int(found.sum())
        return found

    aa, bb, _, _, _, z = scipy.linalg.ordqz(first, second, sort=sort, output="complex")
    return aa, bb, z, number


def _direction(first: Complex, second: Complex, root: complex) -> int:
    """The sign of a neutral wave: of what multiplies its growth, with unit vectors turned so that they are real."""
    u, _, vh = np.linalg.svd(first - root * second)
    left, right = u[:, -1].conj(), vh[-1].conj()
    left, right = (v / (v[np.abs(v).argmax()] / np.abs(v).max()) for v in (left, right))
    speed = -(left @ second @ right)
    return int(np.sign(speed.real)) if abs(speed.real) > 0.5 * abs(speed) else 0


def _free(matrix: Complex, columns: np.ndarray) -> np.ndarray:
    """How much of each field a singular matrix leaves free, at most 1."""
    free = np.abs(columns * np.linalg.svd(matrix)[2][-1, : len(columns)])
    return free / free.max()


def evolution(symbol: Symbol, k: np.ndarray) -> tuple[np.ndarray, Complex]:
    """The rates s of all waves exp(i k·x + s t), and a basis (m, n) of their states."""
    constant, rate = symbol.along(1j * k, 0.0), FASTEST
    for _ in range(TRIES):
        found = weights_of(np.abs(constant) + rate * np.abs(symbol.in_time))
        if found is None:
            raise Singular(_free(constant + symbol.in_time, np.ones(constant.shape[1])))
        row, column = found
        first, second = row[:, None] * constant * column, -rate * row[:, None] * symbol.in_time * column
        aa, bb, _, _ = scipy.linalg.qz(first, second + 0j, output="complex")
        alpha, beta = np.diag(aa), np.diag(bb)
        finite = np.abs(alpha) < INFINITE * np.abs(beta)
        roots = alpha[finite] / beta[finite]
        size = float(np.abs(roots).max(initial=0.0))
        if 0.1 < size < 10:
            break
        rate *= max(size, FASTER)
    basis = _ordered(first, second + 0j, np.isfinite)[2][:, : len(roots)]
    return rate * roots, column[:, None] * basis
