"""The stages of a march: W with the least residuals of the equations at one instant, W' being (W − P)/θ.

Where what the equations are linear in does not depend on time, a factorisation serves every stage with the same θ.
Where they are not linear it serves Newton's method too, until that converges slowly.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hardpde.direct.evaluations import Evaluations, Points
from hardpde.direct.instants import Places, Space
from hardpde.direct.least_squares import RIDGE, Factored, Refactored, factored, least_squares
from hardpde.direct.newton import LARGEST, LARGEST_FOR_SLOPES, rms
from hardpde.direct.system import Rows, contracted, matrix, state
from hardpde.networks.features import Units, number

ITERATIONS, FEW = 20, 4  # of Newton's method: at most, and with a factorisation that is still good
SLOW = 0.6  # what changes fall by in an iteration: more than that is slow
STRONGER, STRONGEST = 10.0, 1e-7  # ridges, where the last layer becomes too large
KEPT = 3  # factorisations
SEEN = 1e-6  # of the size of the largest mode
MOST_BYTES = 4e8  # of what turns last layers into jets
LOOKED_AT = 512  # points at which the error of a step is measured


class Sizes(NamedTuple):
    """The size of each component of the state (m,), that of the terms of each equation (e,)."""

    state: np.ndarray
    terms: np.ndarray


class Solved(NamedTuple):
    """A stage; what is left of its equations, (rms); iterations of Newton's method, 0 where they are linear."""

    last: np.ndarray
    misfit: float
    iterations: int


@dataclass(eq=False)
class Frozen:
    """A factorisation for one θ; where it may grow old, with the matrix itself."""

    factored: Refactored
    mass: np.ndarray
    matrix: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class System:
    """Features with the equations at places, as rows for the last layer as a vector (unknowns,), column by column."""

    space: Space
    units: Units
    places: Places
    sizes: Sizes
    frozen: dict[float, Frozen] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)  # what is worked out once, whatever the features are
    made: dict[str, int] = field(default_factory=lambda: {"factorisations": 0, "iterations": 0, "stronger": 0})

    @cached_property
    def columns(self) -> int:
        return 1 + max(source.column for source in self.space.sources)

    @property
    def unknowns(self) -> int:
        return self.columns * number(self.units)

    @cached_property
    def column_sizes(self) -> np.ndarray:
        """What a unit of each column of the last layer stands for, (c,)."""
        found = np.ones(self.columns)
        if self.space.problem.hints.outputs is None:
            for k, source in enumerate(self.space.sources):
                if not source.axis:
                    found[source.column] = self.sizes.state[k]
        return found

    @cached_property
    def still(self) -> np.ndarray:
        """Which unknowns belong to fields without derivatives by time, (unknowns,)."""
        return ~self._of(self.space.kinds.moving)

    @cached_property
    def initial(self) -> np.ndarray:
        """Which unknowns belong to fields of which the ansatz has an initial state, (unknowns,)."""
        return self._of(self.space.kinds.moving | (np.abs(self.places.state).max(1) > 0))

    def _of(self, components: np.ndarray) -> np.ndarray:
        """Which unknowns belong to some components (m,) of the state, (unknowns,)."""
        found = np.zeros(self.columns, bool)
        for k, source in enumerate(self.space.sources):
            found[source.column] |= self.space.problem.hints.outputs is not None or bool(components[k])
        return np.repeat(found, number(self.units))

    def layer(self, w: np.ndarray) -> np.ndarray:
        """The last layer (h, c) of a vector."""
        return w.reshape(self.columns, -1).T * self.column_sizes

    def jets(self, points: Points, w: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """The state with this last layer, and its slope, (m, slots, n)."""
        jets = points.offset + state(points, self.units, self.layer(w), self.space.second)
        jets[:, self.space.time_slot] += state(values_alone(points), self.units, self.layer(slope), 0)[:, 0]
        return jets

    @cached_property
    def _maps(self) -> tuple[np.ndarray, np.ndarray] | None:
        """What turns a last layer into the entries of the jets that the equations read, and their places (k, 2): values
        of all components first; None where that is too large, or depends on time."""
        read = np.max([np.abs(slope).max(-1).max(0) > 0 for _, slope in self.space.slopes], axis=0)
        read[:, 0] = True
        entries = np.argwhere(read)
        entries = entries[np.argsort(entries[:, 1] > 0, kind="stable")]
        if not self.space.steady_matrices or 8 * len(entries) * self.places_number * self.unknowns > MOST_BYTES:
            return None
        points = self.places.at(self.space.span[0])
        slope = np.zeros((len(entries), *points.offset.shape))
        slope[np.arange(len(entries)), entries[:, 0], entries[:, 1]] = 1.0
        rows = contracted(points, np.zeros((len(entries), len(points.x))), slope, self.column_sizes, self.space.second)
        return matrix([rows._replace(kept=None)], self.units), entries

    def jets_again(self, t: float, w: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """As `jets`, for the same places again and again, as far as the equations read them."""
        points = self.places.at(t)
        if self._maps is None:
            return self.jets(points, w, slope)
        made, entries = self._maps
        jets, m, n = points.offset.copy(), len(self.sizes.state), len(points.x)
        jets[entries[:, 0], entries[:, 1]] += (made @ w).reshape(len(entries), n)
        jets[:, self.space.time_slot] += (made[: m * n] @ slope).reshape(m, n)
        return jets

    def factors(self, theta: float) -> np.ndarray:
        """What the equations are multiplied by, (e,): those with derivatives by time become changes of the state in
        units of it; a gradient field counts by the way that its field diffuses in a step."""
        kinds, (diffusion, base) = self.space.kinds, self._diffusion
        moved = np.where(kinds.evolving, (self._masses * self.sizes.state).max(1), 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            linked = np.sqrt(theta * diffusion) / base
        alone = np.where(diffusion > 0, linked, 1 / self.sizes.terms)
        return np.where(kinds.evolving, theta / moved, alone)

    @cached_property
    def _masses(self) -> np.ndarray:
        """Sizes of the derivatives of the equations by those of the state by time, (e, m)."""
        return np.max([rms(slope[:, :, self.space.time_slot], axis=-1) for _, slope in self.space.slopes], axis=0)

    @cached_property
    def _diffusion(self) -> tuple[np.ndarray, np.ndarray]:
        """For equations ∇u = p whose divergence moves u: by how much, and the size of u; else 0."""
        space, schema = self.space, self.space.problem.schema
        _, slope = space.slopes[0]
        diffusion, base = np.zeros(len(slope)), np.ones(len(slope))
        first = len(slope) - int(space.kinds.gradient.sum())
        for gradient, of in schema.gradients:
            p, u = schema.slices[gradient], schema.slices[of]
            count = p.stop - p.start
            by_divergence = rms(slope[:, p, 1 : 1 + schema.dim], axis=-1).max((1, 2))
            by_time = self._masses[:, u].max(1)
            moves = (by_time > 0) & (by_divergence > 0)
            if moves.any():
                diffusion[first : first + count] = (by_divergence[moves] / by_time[moves]).max()
                base[first : first + count] = self.sizes.state[u].max()
            first += count
        return diffusion, base

    def _rows(self, points: Points, theta: float, slope: np.ndarray, mass_alone: bool) -> Rows:
        """Rows of derivatives (e, m, slots, n) by the jet; mass_alone: of W' = W/θ alone, and of evolving equations."""
        slot, which = self.space.time_slot, self.space.kinds.evolving
        whole = np.zeros(slope.shape) if mass_alone else slope.copy()
        whole[:, :, 0] += slope[:, :, slot] / theta
        whole *= self.factors(theta)[:, None, None, None]
        rows = contracted(points, np.zeros((len(slope), len(points.x))), whole, self.column_sizes, self.space.second)
        if "kept" not in self.known:
            self.known["kept"] = rows.kept
        kept = self.known["kept"]
        rows = rows._replace(kept=kept)
        if not mass_alone:
            return rows
        terms = tuple(term._replace(g=term.g[which], g_dual=None if term.g_dual is None else term.g_dual[which])
                      for term in rows.terms)
        return rows._replace(terms=terms, known=rows.known[which], kept=None if kept is None else kept[which])

    def chosen(self, values: np.ndarray) -> np.ndarray:
        """Values (e, n) row by row."""
        kept = self.known.get("kept")
        return values.ravel() if kept is None else values[kept]

    @property
    def ridge(self) -> float:
        """Relative to the longest column."""
        return 10 * RIDGE * STRONGER ** self.made["stronger"]

    @property
    def _largest(self) -> float:
        return LARGEST_FOR_SLOPES if self.space.ansatz.sloping else LARGEST

    def too_large(self, w: np.ndarray) -> bool:
        """Whether a last layer is so large that rounding would show in the conditions; then the ridge is made stronger.
        """
        large = bool(np.abs(self.layer(w) / self.column_sizes).max() > self._largest)
        if large and self.ridge < STRONGEST:
            self.made["stronger"] += 1
            return True
        return False

    @property
    def rows(self) -> int:
        """How many rows a stage has."""
        kept = self.known.get("kept")
        return len(self.space.kinds.evolving) * self.places_number if kept is None else int(kept.sum())

    @cached_property
    def _lack(self) -> tuple[Points, np.ndarray]:
        """The points at the start, and what their offset lacks of the initial state (m, n)."""
        points = self.places.at(self.space.span[0])
        return points, self.places.state - points.offset[:, 0]

    def start(self) -> np.ndarray:
        """The last layer whose moving components are nearest to the initial state, those of the others zero."""
        moving = np.flatnonzero(self.space.kinds.moving)
        points, lack = self._lack
        slope = np.zeros((len(moving), *points.offset.shape))
        slope[np.arange(len(moving)), moving, 0] = 1 / self.sizes.state[moving, None]
        wished = lack[moving] / self.sizes.state[moving, None]
        rows = contracted(points, wished, slope, self.column_sizes, self.space.second)
        found, free = np.zeros(self.unknowns), np.flatnonzero(~self.still)
        made = matrix([rows._replace(kept=None)], self.units)[:, free]
        found[free] = least_squares(made, wished.ravel(), self._largest)
        return found

    def about_start(self, theta: float, t: float) -> tuple[np.ndarray, np.ndarray]:
        """The equations of a stage from the initial state, linearised about it: they are matrix · W + known."""
        points, near = self.places.at(t), self.places.begun(t).offset
        value, slope = self.places.linearised(t)
        away = points.offset - near
        away[:, self.space.time_slot] -= self._lack[1] / theta
        known = value + np.einsum("emsn,msn->en", slope, away)
        if self.space.steady_operator:
            made = self._steady_parts(theta)[0]
        else:
            made = matrix([self._rows(points, theta, slope, mass_alone=False)], self.units)
        return made, self.chosen(known * self.factors(theta)[:, None])

    def values(self, t: float, jets: np.ndarray) -> np.ndarray:
        """The equations at a state, (e, n)."""
        return np.asarray(self.space.values(self.places.at(t).x, jets))

    def parts_of_stage(self, theta: float, t: float, jets: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The matrix of a stage, linearised about a state, or about the offset, and that of W' = W/θ alone."""
        if jets is None and self.space.steady_operator:
            return self._steady_parts(theta)
        points = self.places.at(t)
        _, slope = map(np.asarray, self.space.linearise(points.x, points.offset if jets is None else jets, None))
        made = matrix([self._rows(points, theta, slope, mass_alone=False)], self.units)
        return made, matrix([self._rows(points, theta, slope, mass_alone=True)], self.units)

    @cached_property
    def _for_one(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the operator is steady: the matrix of a stage and that of W' = W alone, for θ = 1."""
        if "rows" not in self.known:
            t = self.space.span[0]
            points, (_, slope) = self.places.at(t), self.places.linearised(t)
            self.known["rows"] = [self._rows(points, 1.0, slope, mass_alone=alone) for alone in (False, True)]
        made, alone = self.known["rows"]
        return matrix([made], self.units), matrix([alone], self.units)

    def _of_rows(self, values: np.ndarray) -> np.ndarray:
        """Values (e,) of the equations for each row, in a column."""
        return self.chosen(np.broadcast_to(values[:, None], (len(values), self.places_number)))[:, None]

    def _steady_parts(self, theta: float) -> tuple[np.ndarray, np.ndarray]:
        """As `parts_of_stage`, where the operator is steady: features are evaluated once for all θ."""
        one, alone = self._for_one
        factors = self._of_rows(self.factors(theta) / self.factors(1.0))
        made = one * factors
        mass = alone * (factors[self.moving_rows] / theta)
        made[self.moving_rows] += (1 - theta) * mass
        return made, mass

    def modes(self, theta: float, t: float) -> np.ndarray:
        """By what an implicit Euler step of θ about the start multiplies the modes that features resolve, (k,)."""
        points, (_, slope) = self.places.at(t), self.places.linearised(t)
        made = factored(matrix([self._rows(points, theta, slope, mass_alone=False)], self.units), self.ridge)
        mass = matrix([self._rows(points, theta, slope, mass_alone=True)], self.units)
        u, sizes, v = np.linalg.svd(mass, full_matrices=False)
        kept = sizes > SEEN * sizes[0]
        right = np.zeros((self.rows, int(kept.sum())))
        right[self.moving_rows] = u[:, kept]
        step = sizes[kept, None] * (v[kept] @ np.asarray(made.solve(right)))
        return np.linalg.eigvals(step)

    def stage(self, past: np.ndarray, theta: float, t: float, guess: np.ndarray, close: float) -> Solved | None:
        """W with W' = (W − past)/θ at a time; close: changes of the state that are small enough, relative to its size.
        None where Newton's method does not converge."""
        if self.space.steady_operator:
            return self._linear(past, theta, t)
        return self._newton(past, theta, t, guess, close)

    def _linear(self, past: np.ndarray, theta: float, t: float) -> Solved:
        if theta not in self.frozen:
            self.freeze_linear(theta)
        frozen = self.frozen[theta]
        right = -self.chosen(self.without_features(t) * self.factors(theta)[:, None])
        right[self.moving_rows] += frozen.mass @ past
        return Solved(*self._solved(frozen.factored.at(self.ridge), right), 0)

    def freeze_linear(self, theta: float) -> None:
        """Factor the equations of a stage where the operator is steady."""
        made, mass = self._steady_parts(theta)
        self._freeze(theta, Frozen(Refactored(made), mass))

    def _solved(self, made: Factored, right: np.ndarray) -> tuple[np.ndarray, float]:
        """The least-squares solution, and the rms over the places of what is left."""
        projected = np.asarray(made.project(right[:, None]))
        left = (right**2).sum() - (projected**2).sum()
        found = np.asarray(made.back(projected))[:, 0] / np.asarray(made.lengths)
        return found, float(np.sqrt(max(left, 0.0) / self.places_number))

    @cached_property
    def places_number(self) -> int:
        return sum(len(x) for x, _ in self.places.draws)

    @cached_property
    def moving_rows(self) -> np.ndarray:
        evolving = self.space.kinds.evolving
        return np.flatnonzero(self.chosen(np.broadcast_to(evolving[:, None], (len(evolving), self.places_number))))

    def without_features(self, t: float) -> np.ndarray:
        """The equations with W = 0, (e, n)."""
        if "sources" not in self.known or not self.space.steady_sources:
            self.known["sources"] = self.values(t, self.places.at(t).offset)
        return self.known["sources"]

    def _newton(self, past: np.ndarray, theta: float, t: float, guess: np.ndarray, close: float) -> Solved | None:
        factors, w = self.factors(theta)[:, None], guess
        fresh, before, since = False, np.inf, 0
        for k in range(1, ITERATIONS + 1):
            jets = self.jets_again(t, w, (w - past) / theta)
            if not np.isfinite(jets).all():
                return None
            if theta not in self.frozen or (since >= min(FEW + self.unknowns // 200, 10) and not fresh):
                fresh, before, since = True, np.inf, 0
                made, mass = self.parts_of_stage(theta, t, jets)
                self._freeze(theta, Frozen(Refactored(made.copy(order="F")), mass, made))
            value, frozen = self.values(t, jets), self.frozen[theta]
            assert frozen.matrix is not None
            residual = self.chosen(value * factors)
            if not np.isfinite(residual).all():
                return None
            now = frozen.matrix @ w
            new = np.asarray(frozen.factored.at(self.ridge).solve(now - residual))
            change = float(np.sqrt(((frozen.matrix @ new - now) ** 2).sum() / self.places_number))
            w, since = new, since + 1
            self.made["iterations"] += 1
            if change <= close:
                return Solved(w, float(np.sqrt((residual**2).sum() / self.places_number)), k)
            if change > SLOW * before:
                if fresh and change > 2 * before:
                    return None
                since = ITERATIONS
            before = change
        return None

    def damped(self, w: np.ndarray, theta: float) -> np.ndarray:
        """What an implicit Euler step of θ, without sources, makes of a last layer: fast modes are damped."""
        frozen = self.frozen[theta]
        right = np.zeros(self.rows)
        right[self.moving_rows] = frozen.mass @ w
        return np.asarray(frozen.factored.at(self.ridge).solve(right))

    def forget(self) -> None:
        """Let go of what only further steps would need: factorisations and large matrices."""
        self.frozen.clear()
        self.places.kept.clear()
        for name in ("_maps", "_lack", "_look", "_for_one"):
            self.__dict__.pop(name, None)

    def _freeze(self, theta: float, made: Frozen) -> None:
        self.frozen.pop(theta, None)
        while len(self.frozen) >= KEPT:
            self.frozen.pop(next(iter(self.frozen)))
        self.frozen[theta] = made
        self.made["factorisations"] += 1

    @cached_property
    def _look(self) -> np.ndarray:
        """What turns a last layer into moving components at some places, each in units of its size."""
        moving = np.flatnonzero(self.space.kinds.moving)
        points = self.places.at(self.space.span[0])
        n = len(points.x)
        points = points.chosen(np.unique(np.linspace(0, n - 1, min(LOOKED_AT, n)).round().astype(int)))
        slope = np.zeros((len(moving), *points.offset.shape))
        slope[np.arange(len(moving)), moving, 0] = 1 / self.sizes.state[moving, None]
        rows = contracted(points, np.zeros((len(moving), len(points.x))), slope, self.column_sizes, self.space.second)
        return matrix([rows._replace(kept=None)], self.units)

    def size_of(self, w: np.ndarray) -> float:
        """The rms of the moving component of the state that a last layer adds most to, in units of its size."""
        return float(rms((self._look @ w).reshape(int(self.space.kinds.moving.sum()), -1), axis=1).max())


def values_alone(points: Points) -> Points:
    """The same points without derivatives."""
    terms = tuple(Evaluations(term.inputs[:, :1], term.matrix[:, :, :1],
                              None if term.dual is None else term.dual[:, :1],
                              None if term.slopes is None else term.slopes[:, :, :1]) for term in points.terms)
    return points._replace(offset=points.offset[:, :1], terms=terms)
