"""What the conditions on a boundary say: which values are fixed there, and what n·F is, which the weak form needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.problem.problem import Problem
from hardpde.problems.fem.roles import NOTHING, check_offered
from hardpde.problems.fem.weak import Extras, Weak, in_blocks_of
from hardpde.support.compiling import jit_simply
from hardpde.support.messages import in_ones_words

THIN = 1e-10  # of the largest singular value: what is less is rounding
SAMPLE = 32  # points of a boundary at which it is decided what is added to a flux


def weak_form(problem: Problem) -> "tuple[Weak, dict[str, Side]]":
    """A problem's weak form and its boundaries; ValueError says what is in the way."""
    check_offered(problem)
    try:
        weak = Weak(problem)
        sides = {name: Side(weak, name) for name in problem.domain.boundaries}
        extras = chosen_extras(weak, sides)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"the equations cannot be evaluated: {in_ones_words(error)}") from None
    if extras is None:
        return weak, sides
    weak = replace(weak, extras=extras)
    return weak, {name: Side(weak, name) for name in sides}


class Fixed(NamedTuple):
    """What is fixed on a boundary: D u = d, of orthonormal rows D (n, r, k) and data (n, r) at its points."""

    rows: np.ndarray
    data: np.ndarray


class Analysed(NamedTuple):
    """Conditions at points of a boundary: what is fixed; the projection (n, k, k) on what is not; the inverse (n, s, r)
    of the derivatives of the rows by slopes and pressures, None if it depends on the state; these derivatives and their
    rank; those of n·F (n, k, s) and of the equations beside the pressures (n, p, s)."""

    fixed: Fixed
    project: np.ndarray
    back: np.ndarray | None
    natural: np.ndarray
    rank: int
    flux: np.ndarray
    zero: np.ndarray


@dataclass(frozen=True, eq=False)
class Side:
    """The conditions on a boundary: those of values alone, which are fixed, and those that tell n·F."""

    weak: Weak
    name: str

    @cached_property
    def _natural(self) -> np.ndarray:
        """Slots of the jet that only conditions of n·F may take: slopes and pressures."""
        weak, slots = self.weak, np.arange(self.weak.count * (1 + self.weak.dim))
        pressure = np.isin(weak.roles.unknowns, weak.roles.pressures)
        return slots[(slots >= weak.count) | np.append(pressure, np.zeros(len(slots) - weak.count, bool))]

    @cached_property
    def _values(self) -> np.ndarray:
        return np.setdiff1d(np.arange(self.weak.count), self._natural)

    @cached_property
    def _linear(self) -> Callable[..., tuple[Array, ...]]:
        weak = self.weak

        def look(x: Array, n: Array, z: Array) -> tuple[Array, ...]:
            def rows(z: Array) -> Array:
                return weak.rows(self.name, x, n, z)

            nothing = jnp.zeros(weak.slots)
            return jax.jacfwd(rows)(z), jax.jacfwd(rows)(nothing), rows(nothing)

        return jit_simply(jax.vmap(look))

    def analysed(self, x: np.ndarray, n: np.ndarray) -> Analysed:
        """What the conditions say at points (n, c) with normals (n, d)."""
        weak, z = self.weak, np.zeros((len(x), self.weak.slots))
        z[:, : weak.count] = np.random.default_rng(4).normal(size=weak.count)  # a general state: F may vanish at 0
        rows, other, at_zero = in_blocks_of(self._linear, x, n, z)
        flux, zero = in_blocks_of(weak.flux_slopes, x, n, z)
        varies = np.abs(rows - other).max(initial=0.0) > NOTHING * np.abs(rows).max(initial=0.0)
        if not all(np.isfinite(part).all() for part in (rows, at_zero, flux)):
            raise ValueError(f"the conditions on '{self.name}' are not finite everywhere")
        natural, values = rows[:, :, self._natural], rows[:, :, self._values]
        size = max(float(np.abs(rows).max(initial=0.0)), 1e-300)
        left, sizes, _ = np.linalg.svd(natural, full_matrices=True)
        rank = self._rank(sizes, size)
        free = np.swapaxes(left[:, :, rank:], 1, 2)
        d, data = free @ values, -np.einsum("nrs,ns->nr", free, at_zero)
        one, scale, other = np.linalg.svd(d, full_matrices=False)
        kept = self._rank(scale, size)
        loose = np.einsum("nrs,nr->ns", one[:, :, kept:], data)
        if np.abs(loose).max(initial=0.0) > 1e-8 * max(float(np.abs(at_zero).max(initial=0.0)), 1e-300):
            raise ValueError(f"the conditions on '{self.name}' contradict each other")
        fixed_rows = np.zeros((len(x), kept, weak.count))
        fixed_rows[:, :, self._values] = other[:, :kept]
        fixed = Fixed(fixed_rows, np.einsum("nrs,nr->ns", one[:, :, :kept], data) / scale[:, :kept])
        if kept == 1:  # its sign is that of the stated condition everywhere
            stated = np.swapaxes(free, 1, 2) @ d
            largest = int(np.square(stated).sum((0, 2)).argmax())
            turned = np.sign(np.einsum("ns,ns->n", stated[:, largest], other[:, 0]))
            fixed = Fixed(fixed.rows * turned[:, None, None], fixed.data * turned[:, None])
        project = -np.swapaxes(fixed_rows, 1, 2) @ fixed_rows
        project[:, self._values, self._values] += 1.0
        back = np.linalg.pinv(natural, rcond=THIN)
        return Analysed(fixed, project, None if varies else back, natural, rank, flux[:, :, self._natural],
                        zero[:, :, self._natural])

    def split(self, x: np.ndarray, n: np.ndarray) -> tuple[Fixed, np.ndarray, np.ndarray | None]:
        """At points (n, c) with normals: what is fixed; the projection (n, k, k) on what is not; and what turns rows
        into slopes, (n, natural slots, r), None if it depends on the state. ValueError where the conditions do not tell
        n·F."""
        found = self.analysed(x, n)
        flux = found.flux
        if self.weak.extras is not None:
            flux = flux + np.tensordot(extra_fluxes(self, n, found.zero), flat_extras(self.weak.extras), (-1, 0))
        self._check_told(found.project @ flux, found.natural, found.rank)
        return found.fixed, found.project, found.back

    def _rank(self, sizes: np.ndarray, size: float) -> int:
        counts = (sizes > NOTHING * size).sum(-1)
        if len(counts) and counts.min() < counts.max():
            raise ValueError(f"the conditions on '{self.name}' change their kind along it; finite elements are offered "
                             f"where they do not: name its parts")
        return int(counts.max(initial=0))

    def _check_told(self, flux: np.ndarray, natural: np.ndarray, rank: int) -> None:
        """The conditions tell what the weak form needs: n·F, in the directions that are not fixed."""
        size = max(float(np.abs(flux).max(initial=0.0)), 1e-300)
        missing = np.abs(flux - flux @ np.linalg.pinv(natural, rcond=THIN) @ natural).max(initial=0.0)
        name = self.name
        if missing > 1e-7 * size:
            what = ", ".join(c.name for c in self.weak.problem.pointwise if c.on == name) or "none"
            raise ValueError(f"the conditions on '{name}' ({what}) do not tell the flux through it whose divergence "
                             f"the equations take; finite elements are offered where n·flux, or values, are stated")
        needed = int(np.linalg.matrix_rank(flux[0], tol=1e-9 * size)) if len(flux) else 0
        if rank > needed:
            raise ValueError(f"there are more conditions on '{name}' than the equations take")

    @cached_property
    def _outflow(self) -> Callable[..., tuple[Array, Array]]:
        weak, natural = self.weak, self._natural

        def known(x: Array, n: Array, project: Array, back: Array | None, z: Array) -> tuple[Array, Array]:
            def rows(z: Array) -> Array:
                return weak.rows(self.name, x, n, z)

            def flux(z: Array) -> Array:
                return project @ (weak.flux(x, z) @ n)

            if back is None:
                back = jax.lax.stop_gradient(jnp.linalg.pinv(jax.jacfwd(rows)(z)[:, natural], rtol=THIN))

            def value(z: Array) -> tuple[Array, Array]:
                told = flux(z) - jax.jacfwd(flux)(z)[:, natural] @ (back @ rows(z))
                return told, told

            slope, told = jax.jacfwd(value, has_aux=True)(z)
            return told, slope[:, : weak.count]

        return jit_simply(jax.vmap(known))

    def outflow(self, x: np.ndarray, n: np.ndarray, project: np.ndarray, back: np.ndarray | None,
                u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """n·F (n, k) in the directions that are not fixed, at values u (n, k), and its derivatives by them."""
        if not np.abs(project).max(initial=0.0) > THIN:
            return np.zeros_like(u), np.zeros((*u.shape, u.shape[1]))
        z = np.zeros((len(x), self.weak.slots))
        z[:, self._values] = u[:, self._values]
        return in_blocks_of(self._outflow, x, n, project, back, z)


def _turns(count: int, dim: int) -> np.ndarray:
    """All τ (turns, k, d, k, d) of two entries that are opposite."""
    found = []
    for e, k, i in product(range(count), range(count), range(dim)):
        for j in range(i):
            one = np.zeros((count, dim, count, dim))
            one[e, i, k, j], one[e, j, k, i] = 1.0, -1.0
            found.append(one)
    return np.array(found).reshape(-1, count, dim, count, dim)


def flat_extras(extras: Extras) -> np.ndarray:
    """As one vector, in the order of `extra_fluxes`."""
    turned, kept = extras
    count, dim = turned.shape[:2]
    return np.concatenate([np.einsum("teikj,eikj->t", _turns(count, dim), turned) / 2, kept.ravel()])


def extra_fluxes(side: Side, n: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Derivatives by slopes and pressures of n·F, (n, k, s, extras), for a unit of each of what may be added to F."""
    weak, natural = side.weak, side._natural
    k, d, p = weak.count, weak.dim, zero.shape[1]
    turns = np.einsum("teikj,ni->nekjt", _turns(k, d), n).reshape(len(n), k, k * d, -1)
    whole = np.concatenate([np.zeros((len(n), k, k, turns.shape[-1])), turns], axis=2)[:, :, natural]
    kept = np.einsum("ef,ni,nps->nesfip", np.eye(k), n, zero).reshape(len(n), k, len(natural), k * d * p)
    return np.concatenate([whole, kept], axis=3)


def chosen_extras(weak: Weak, sides: dict[str, Side]) -> Extras | None:
    """The least that has to be added to F so that the conditions tell n·F on every boundary; None: nothing."""
    k, d, problem = weak.count, weak.dim, weak.problem
    p = len(weak.roles.pressures)
    systems, wanted, sizes = [], [], [1e-300]
    for name, boundary in problem.domain.boundaries.items():
        space = boundary.sample(jax.random.key(14), SAMPLE)
        n = np.asarray(jax.vmap(boundary.normal)(space))
        found = sides[name].analysed(np.asarray(problem.everywhen(space)), n)
        told = np.linalg.pinv(found.natural, rcond=THIN) @ found.natural
        off = np.eye(told.shape[2]) - told  # what the rows leave open
        units = extra_fluxes(sides[name], n, found.zero)
        systems.append(np.einsum("nfe,nest,nsr->nfrt", found.project, units, off).reshape(-1, units.shape[-1]))
        wanted.append((found.project @ found.flux @ off).ravel())
        sizes.append(float(np.abs(found.flux).max()))
    miss, size = np.concatenate(wanted), max(sizes)
    if np.abs(miss).max(initial=0.0) <= 1e-9 * size:
        return None
    matrix = np.concatenate(systems)
    best = -np.linalg.lstsq(matrix, miss, rcond=1e-10)[0]
    if np.abs(matrix @ best + miss).max() > 1e-7 * size:
        return None  # `split` says on which boundary
    best[np.abs(best) < 1e-10 * np.abs(best).max()] = 0.0
    turns = _turns(k, d)
    return Extras(np.tensordot(best[: len(turns)], turns, 1), best[len(turns) :].reshape(k, d, p))
