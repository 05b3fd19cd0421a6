"""Points of boundaries with the equations linearised there and the rows of the conditions, for `lopatinski`."""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Boundary, at_times, stack
from hardpde.geometry.algorithms.gaps import are_whole
from hardpde.geometry.algorithms.sampling import depths
from hardpde.problem.conditions import INITIAL
from hardpde.problem.layout import group_samples
from hardpde.problem.linearised import linearisation
from hardpde.problem.parameters import append
from hardpde.problem.periods import Period
from hardpde.problem.waves import Symbol
from hardpde.support.compiling import jit_simply

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

POINTS = 8  # of a boundary
SAMPLE = 512  # points of the domain
BLOCK = 64  # points at which something is evaluated at once
PIECES = 16  # that are looked at
STATES = 3  # about which equations that are not linear are linearised
INSIDE = 1e-6  # of the size: how far from a boundary it is told which fields live there
SPREAD = 0.1  # of states about one that is guessed
DIFFERENT = 1e-9


class Side(NamedTuple):
    """The equations on one side of a boundary point, with the normal out of them; for fields that live there.

    turned: of the boundary's normal, 1 where it points out of this side, −1 where into it.
    """

    symbol: Symbol
    normal: np.ndarray
    fields: np.ndarray  # which components of the state
    turned: float = 1.0

    @property
    def square(self) -> bool:
        equations, fields, _ = self.symbol.slope.shape
        return equations == fields


class Place(NamedTuple):
    """A boundary point: its sides and the rows (r, m) that are stated, for values and for normal slopes of each side.

    names: of the conditions that the rows belong to.
    """

    at: np.ndarray
    sides: tuple[Side, ...]
    values: tuple[np.ndarray, ...]
    slopes: tuple[np.ndarray, ...]
    names: tuple[str, ...]

    def with_rows(self, which: Iterable[int]) -> "Place":
        """The place with some of its rows alone."""
        rows = list(which)
        return self._replace(values=tuple(a[rows] for a in self.values), slopes=tuple(a[rows] for a in self.slopes),
                             names=tuple(self.names[k] for k in rows))


class Linear:
    """The equations of a problem, linearised about states that its data suggest; `points` (n, c) are in its domain."""

    def __init__(self, problem: "Problem"):
        self.problem, self.schema = problem, problem.schema
        self._linearise = linearisation(problem)
        self._rows: dict[str, Any] = {}
        self._hinted = jit_simply(jax.vmap(problem.guess))
        self._rng = np.random.default_rng(3)
        self.points = _spread(problem)
        one, two = (self._slope(self.points[:BLOCK], self._random(BLOCK)) for _ in range(2))
        size, off = (np.abs(part).max((1, 2, 3)) for part in (one, one - two))
        self.equations = np.isfinite(one).all((1, 2, 3)) & (off <= DIFFERENT * size)  # (e,) which are linear
        self.linear = bool(self.equations.all())

    def _random(self, n: int) -> np.ndarray:
        return self._rng.normal(size=(self.schema.size, 1 + self.problem.derivatives, n))

    def _slope(self, x: np.ndarray, jet: np.ndarray) -> np.ndarray:
        return self.at(x, jet)[1]

    def at(self, x: np.ndarray, jet: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (e, n) and their derivatives (e, m, slots, n) by jets (m, slots, n) at points (n, c)."""
        return in_blocks(lambda x, jet: self._linearise(x, np.moveaxis(jet, 0, -1), None), -1, x,
                         np.moveaxis(jet, -1, 0))

    def slopes(self, x: np.ndarray, a: np.ndarray | None = None, g: np.ndarray | None = None) -> np.ndarray:
        """Derivatives (states, e, m, slots, n) by the jet at points (n, c), about states that have the rows a (n, r, m)
        with the data g (n, r); those of states that are not finite are left out."""
        if self.linear:
            return self._slope(x, self._random(len(x)))[None]
        found = [self._slope(x, jet) for jet in self._states(x, a, g)]
        return np.stack([one for one in found[:STATES] if np.isfinite(one).all()] or found[-1:])

    def _states(self, x: np.ndarray, a: np.ndarray | None, g: np.ndarray | None) -> list[np.ndarray]:
        """Jets (m, slots, n): the known solution's; else the guess and the initial data with what they leave open
        random, and then changed to have the rows: STATES of these, and a last one with what is open positive.

        Two are random the opposite way: whatever depends on the sign of what is not known differs between them.
        """
        known = self._known(x)
        if known is not None:
            return [known]
        base, spread = self._guess(x)
        jets, one, other = [], self._random(len(x)), self._random(len(x))
        for jet in (one, -one, other, np.abs(other)):
            jet[:, 0] = base + spread * jet[:, 0]
            if a is not None and g is not None and a.shape[1]:
                miss = g - np.einsum("nrm,mn->nr", a, jet[:, 0])
                jet[:, 0] += np.einsum("nmr,nr->mn", np.linalg.pinv(a), miss)
            jets.append(jet)
        return jets

    def _guess(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A state (m, n), and how far others are from it, (m, n): 1 where nothing is known."""
        problem, m = self.problem, self.schema.size
        hinted = problem.hints.guess is not None
        base = in_blocks(self._hinted, 0, x).T if hinted else np.zeros((self.schema.size, len(x)))
        spread = np.full(base.shape, SPREAD if hinted else 1.0)
        a, g, _ = self.rows(INITIAL, x, np.zeros((len(x), self.schema.dim)))
        if a.shape[1]:
            inverse = np.linalg.pinv(a[:, :, :m])
            base = base + np.einsum("nmr,nr->mn", inverse, g - np.einsum("nrm,mn->nr", a[:, :, :m], base))
            known = np.einsum("nmr,nrk->nmk", inverse, a[:, :, :m])
            fixed = np.einsum("nmm->mn", known) > 1 - 1e-9
            spread = np.where(fixed, 0.0, spread)
        return base, spread

    def rows(self, name: str, x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """A (n, r, columns) and g (n, r) of the conditions on a boundary, and the name of the condition of each row."""
        problem = self.problem
        conditions = [condition for condition in problem.pointwise if condition.on == name]
        if not conditions:
            return np.zeros((len(x), 0, problem.schema.columns)), np.zeros((len(x), 0)), []

        def parts(x: Array, n: Array) -> list[tuple[Array, Array]]:
            if name == INITIAL:
                x = x.at[problem.schema.dim].set(problem.time[0])  # type: ignore[index]
            return [condition.matrix(problem.schema, x, n) for condition in conditions]

        if name not in self._rows:
            self._rows[name] = jit_simply(jax.vmap(parts))
        found = in_blocks(self._rows[name], 0, x, n)
        names = [condition.name for condition, (a, _) in zip(conditions, found) for _ in range(a.shape[1])]
        return np.concatenate([a for a, _ in found], axis=1), np.concatenate([g for _, g in found], axis=1), names

    @cached_property
    def _exact(self) -> Callable[[Array], tuple[Array, Array]]:
        """The known solution as a state (n, m), with its derivatives (n, m, c)."""
        exact = self.problem.exact
        assert exact is not None

        def state(x: Array) -> Array:
            values = exact(x)
            return jnp.concatenate([jnp.broadcast_to(jnp.asarray(values[name], float), shape).ravel()
                                    for name, shape in self.schema.fields])

        return jit_simply(jax.vmap(lambda x: (state(x), jax.jacfwd(state)(x))))

    def _known(self, x: np.ndarray) -> np.ndarray | None:
        """The jet (m, slots, n) of the known solution; None where it or part of it is not known."""
        problem, schema = self.problem, self.schema
        if problem.exact is None:
            return None

        try:
            value, slope = in_blocks(self._exact, 0, x)
        except Exception:
            return None
        jet = np.zeros((schema.size, 1 + problem.derivatives, len(x)))
        c = schema.coordinates
        jet[:, 0], jet[:, 1 : 1 + c] = value.T, np.moveaxis(slope[:, :, :c], 0, -1)
        return jet if np.isfinite(jet).all() else None


def _spread(problem: "Problem") -> np.ndarray:
    """Points (n, c) all over the domain, the time and the ranges of the parameters."""
    space = np.asarray(problem.domain.sample(jax.random.key(21), SAMPLE))
    if problem.time is not None:
        space = at_times(space, np.random.default_rng(21).uniform(*problem.time, len(space)))
    return np.asarray(append(problem.parameters, space))


def in_blocks(function: Callable[..., Any], axis: int, *points: np.ndarray) -> Any:
    """A function of arrays (BLOCK, …), compiled once, of longer ones; points stand on that axis of its results."""
    n = len(points[0])
    parts = []
    for start in range(0, n, BLOCK):
        some = range(min(BLOCK, n - start))
        pad = BLOCK - len(some)
        full = [np.pad(array[start : start + BLOCK], [(0, pad), *[(0, 0)] * (array.ndim - 1)], mode="edge")
                for array in points]
        parts.append(jax.tree.map(lambda a, some=some: np.take(np.asarray(a), some, axis), function(*full)))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays, axis), *parts)


def places_on(linear: Linear, name: str) -> list[list[Place]]:
    """Points of a boundary, each about several states; [] where its sides are no half-spaces of their own fields."""
    problem = linear.problem
    boundary, m = problem.domain.boundaries[name], problem.schema.size
    space, n = sampled(boundary)
    x = np.asarray(problem.everywhen(jnp.asarray(space)))
    a, g, names = linear.rows(name, x, n)
    values, slopes = a[:, :, :m], a[:, :, m:] if problem.schema.traces else np.zeros_like(a)
    two = any(piece.two_sided for piece in boundary.pieces)
    if two and not problem.regions:
        return []
    sides = [_sides(linear, x, n, turned, (values, g)) for turned in ((1.0, -1.0) if two else (1.0,))]
    found = []
    for k in range(len(x)):
        states = min(len(side[k]) for side in sides)
        found.append([Place(x[k], tuple(side[k][i] for side in sides), (values[k],) * len(sides),
                            (slopes[k],) * len(sides), tuple(names)) for i in range(states)])
    return found


def places_inside(linear: Linear) -> list[list[Place]]:
    """Points of the domain, each about several states, with the rows of the initial conditions."""
    d, m = linear.schema.dim, linear.schema.size
    x = linear.points[:POINTS]
    a, _, names = linear.rows(INITIAL, x, np.zeros((len(x), d)))
    sides = _sides(linear, x, np.zeros((len(x), d)), 1.0, None)
    return [[Place(x[k], (side,), (a[k, :, :m],), (np.zeros_like(a[k, :, :m]),), tuple(names)) for side in sides[k]]
            for k in range(len(x))]


def sampled(boundary: Boundary, number: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """About so many points (n, d) spread over the pieces of a boundary, at most BLOCK, and outward normals there."""
    some = boundary.pieces[:: -(-len(boundary.pieces) // PIECES)]
    found = [group_samples(group, -(-BLOCK // len(some))) for group in stack(some)]
    x, n = (np.concatenate(parts) for parts in zip(*found))
    domain = boundary.shape
    if not are_whole(some, domain).all():
        off = np.abs(np.stack([np.asarray(depths(home, x)) for home in {domain.home(piece) for piece in some}])).min(0)
        kept = off < INSIDE * domain.size
        x, n = x[kept], n[kept]
    if not len(x):
        x = np.asarray(boundary.sample(jax.random.key(22), POINTS))
        n = np.asarray(jax.vmap(boundary.normal)(jnp.asarray(x)))
    chosen = np.linspace(0, len(x) - 1, min(number, len(x))).round().astype(int)
    return x[chosen], n[chosen]


def _sides(linear: Linear, x: np.ndarray, n: np.ndarray, turned: float,
           rows: tuple[np.ndarray, np.ndarray] | None) -> list[list[Side]]:
    """One side of boundary points with normals n, about each state."""
    problem, d = linear.problem, linear.schema.dim
    inside = x.copy()
    inside[:, :d] -= turned * INSIDE * problem.domain.size * n
    lives = np.zeros((len(x), linear.schema.size), bool)
    for name, where in linear.schema.slices.items():
        lives[:, where] = problem.lives(name, inside[:, :d])[:, None]
    slopes = linear.slopes(inside, *(rows or ()))
    found = []
    for k in range(len(x)):
        fields = np.flatnonzero(lives[k])
        sides = []
        for slope in slopes[..., k]:
            own = slope[:, fields]
            own = own[np.abs(own).max((1, 2)) > 0] if problem.regions else own
            symbol = Symbol(own, d, problem.time is not None, problem.order == 2)
            sides.append(Side(symbol, turned * n[k], fields, turned))
        found.append(sides)
    return found


def places_of(linear: Linear, period: Period) -> list[list[Place]]:
    """Points of a periodic condition, which joins two sides."""
    problem = linear.problem
    space, n = sampled(problem.domain.boundaries[period.condition.on])
    pair = [np.asarray(side) for side in period.pair(problem.everywhen(jnp.asarray(space)))]
    normals = (n, -n)
    sides = [_sides(linear, x, normal, 1.0, None) for x, normal in zip(pair, normals)]
    one = np.eye(problem.schema.size)
    values, slopes = one[list(period.values)], one[list(period.slopes)]
    empty = np.zeros((len(slopes), problem.schema.size))
    a = np.concatenate([values, empty])
    b = np.concatenate([np.zeros_like(values), slopes])
    found = []
    for k in range(len(n)):
        along = [normal[k, period.axis] for normal in normals]
        found.append([Place(pair[0][k], (one_side, other), (a, -a), (along[0] * b, -along[1] * b),
                            (period.condition.name,) * len(a)) for one_side, other in zip(sides[0][k], sides[1][k])])
    return found

