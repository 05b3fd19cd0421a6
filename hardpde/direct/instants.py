"""The equations of a problem at places that stay, at any instant: what a march solves again and again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.exact import Exact
from hardpde.ansatz.inputs import with_slopes
from hardpde.ansatz.space_inputs import SpaceInputs, space_inputs
from hardpde.direct.evaluations import Points, as_numpy, potentials, put_together
from hardpde.direct.groups import Linearise, linearisation
from hardpde.direct.newton import rms
from hardpde.formulation.batch import Batch
from hardpde.formulation.built_in import Collars, assemble, class_sizes, pick
from hardpde.formulation.points import graded
from hardpde.formulation.scales import plain_scale
from hardpde.networks.features import Source, each_its_own
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply, run_on_cpu

DRAWN, ON_A_LINE = 1024, 256  # points of a draw, and of one where a point has one coordinate beside time
INSTANTS = 6  # at which points are kept
CONTRADICTION = 1e-6  # of the terms of an equation
SAME = 1e-12  # what differs less, relatively, does not depend on time


class Unsuited(ValueError):
    """A problem that a march cannot solve, and why."""


class Kinds(NamedTuple):
    """Which equations have derivatives by time (e,), and of which components of the state (m,); alone: those by which
    a gradient field is the gradient of another (e,)."""

    evolving: np.ndarray
    moving: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True, eq=False)
class Places:
    """Draws of points that stay where they are, at any time."""

    space: "Space"
    draws: list[tuple[Array, Array]]
    kept: dict[float, Points] = field(default_factory=dict)
    initial: dict[float, np.ndarray] = field(default_factory=dict)  # what the initial state adds to the offset
    about: dict[float, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # linearised equations

    def at(self, t: float) -> Points:
        """The points with all that the ansatz needs there at a time; the last few are kept."""
        steady = self.space.steady_offset and self.space.steady_matrices and bool(self.kept)
        if steady:
            known = next(iter(self.kept.values()))
            return known._replace(x=_at_time(known.x, self.space.problem.schema.dim, t))
        if t not in self.kept:
            while len(self.kept) >= INSTANTS:
                self.kept.pop(next(iter(self.kept)))
            self.kept[t] = put_together([self.space.points(x, ids, t) for x, ids in self.draws])
        return self.kept[t]

    @cached_property
    def state(self) -> np.ndarray:
        """The initial state (m, n)."""
        return np.asarray(self.space.initial(jnp.asarray(self.at(self.space.span[0]).x)))

    def begun(self, t: float) -> Points:
        """The same with the initial state in the offset."""
        points, at = self.at(t), self.space.span[0] if self.space.steady_matrices else t
        if at not in self.initial:
            whole = put_together([self.space.points(x, ids, at, 1.0) for x, ids in self.draws])
            self.initial[at] = whole.offset - self.at(at).offset
        return points._replace(offset=points.offset + self.initial[at])

    def linearised(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """The equations (e, n) with the initial state at a time, and their derivatives (e, m, slots, n)."""
        if t not in self.about:
            points = self.begun(t)
            value, slope = self.space.linearise(points.x, points.offset, None)
            self.about[t] = np.asarray(value), np.asarray(slope)
        return self.about[t]


@dataclass(frozen=True, eq=False)
class Space:
    """A problem as a march sees it: the ansatz whose network is zero at the start, inputs of space alone."""

    problem: Problem
    ansatz: Exact
    collars: Collars
    classes: tuple[int, ...]
    inputs: SpaceInputs
    sources: tuple[Source, ...]
    sloped: int
    key: Array

    @property
    def second(self) -> int:
        """Coordinates that the Laplacian sums over; 0: there is none."""
        return self.problem.schema.dim if self.problem.order == 2 else 0

    @property
    def time_slot(self) -> int:
        """Where jets have their derivatives by time."""
        return 1 + self.problem.schema.dim

    @property
    def span(self) -> tuple[float, float]:
        assert self.problem.time is not None
        return self.problem.time

    @cached_property
    def linearise(self) -> Linearise:
        return linearisation(self.problem)

    @cached_property
    def values(self) -> Callable[[Any, Any], Array]:
        """The equations (e, n) at points (n, c) with jets (m, slots, n)."""
        problem = self.problem
        return jax.jit(jax.vmap(lambda x, jet: problem.residuals(x, jet[:, 0], jet[:, 1:].T), (0, -1), -1))

    @cached_property
    def _assembled(self) -> Callable[..., Batch]:
        problem = self.problem
        scale = plain_scale(problem)

        def batch(x: Array, ids: Array, t: Array, share: Array) -> Batch:
            x = x.at[:, problem.schema.dim].set(t)
            return assemble(self.ansatz.with_share(share), scale, x, ids, self.classes, True, self.second)

        return jit_simply(batch)

    @cached_property
    def initial(self) -> Callable[[Array], Array]:
        """The initial state (m, n) at points (n, c): what the march begins near."""
        return jit_simply(jax.vmap(self.ansatz.start.kept, 0, -1))

    def points(self, x: Array, ids: Array, t: float, share: float = 0.0) -> Points:
        """Points at a time, with such a share of the initial state in the offset."""
        made = self._assembled(x, ids, jnp.asarray(t, float), jnp.asarray(share, float))
        return as_numpy(made, self.sources, self.sloped)

    def drawn(self, points: float, held_out: bool = False, already: Places | None = None) -> Places:
        """So many points or a few more, beginning with those that there are already."""
        draws = [] if already is None else list(already.draws)
        while len(draws) * sum(self.classes) < points:
            key = jax.random.fold_in(jax.random.fold_in(self.key, int(held_out)), len(draws))
            draws.append(run_on_cpu(lambda key: pick(*self.collars.look(key), self.classes), key))
        return Places(self, draws)

    @cached_property
    def _probed(self) -> tuple[Points, Points]:
        """A draw at two times."""
        start, end = self.span
        x, ids = self.drawn(1).draws[0]
        one, two = (self.points(x, ids, start + part * (end - start), 1.0) for part in (0.31, 0.77))
        return one, two

    @cached_property
    def steady_offset(self) -> bool:
        """Whether what the conditions ask for does not depend on time."""
        return _same(self._probed[0].offset, self._probed[1].offset)

    @cached_property
    def steady_matrices(self) -> bool:
        """Whether what the conditions are linear in does not depend on time."""
        return all(_same(a.matrix, b.matrix) and _same(a.inputs[:-1], b.inputs[:-1]) and (
            a.dual is None or b.dual is None or _same(a.dual, b.dual))
            for a, b in zip(*(points.terms for points in self._probed)))

    @cached_property
    def slopes(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Values and derivatives of the equations at two states at one time, and at the second at another time."""
        one, two = self._probed
        random = np.random.default_rng(0)
        size = np.maximum(rms(one.offset, axis=-1)[..., None], 1e-3)
        jets = [one.offset, one.offset + size * random.standard_normal(one.offset.shape)]
        return [tuple(map(np.asarray, self.linearise(x, jet, None)))  # type: ignore[misc]
                for x, jet in ((one.x, jets[0]), (one.x, jets[1]), (two.x, jets[1]))]

    @cached_property
    def linear(self) -> bool:
        """Whether the equations are linear in the state."""
        (_, a), (_, b), _ = self.slopes
        return _same(a, b, 1e-9)

    @cached_property
    def steady_operator(self) -> bool:
        """Whether the equations are linear and what they are linear in does not depend on time."""
        _, (_, a), (_, b) = self.slopes
        return self.linear and self.steady_matrices and _same(a, b)

    @cached_property
    def steady_sources(self) -> bool:
        """Whether what is known in the equations does not depend on time either."""
        _, (a, _), (b, _) = self.slopes
        return self.steady_operator and self.steady_offset and _same(a, b)

    @cached_property
    def kinds(self) -> Kinds:
        """Found from the derivatives of the equations by those of the state by time."""
        by_time = sum(np.abs(slope[:, :, self.time_slot]).max(-1) for _, slope in self.slopes)
        assert isinstance(by_time, np.ndarray)
        schema = self.problem.schema
        gradients = sum(schema.slices[name].stop - schema.slices[name].start for name, _ in schema.gradients)
        alone = np.arange(len(by_time)) >= len(by_time) - gradients
        return Kinds(by_time.max(1) > 0, by_time.max(0) > 0, alone)


def _same(a: np.ndarray, b: np.ndarray, tolerance: float = SAME) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= tolerance * max(np.abs(a).max(initial=0.0), 1e-300))


def _at_time(x: np.ndarray, dim: int, t: float) -> np.ndarray:
    x = x.copy()
    x[:, dim] = t
    return x


def in_space(problem: Problem, seed: int) -> Space:
    """A problem as a march sees it; `Unsuited` where there is nothing to march, or what it starts from is not known."""
    _check_statement(problem)
    inputs = space_inputs(problem)
    sources = potentials(problem, marched=True)
    function, sloped = inputs.function, problem.schema.dim if sources else 0
    ansatz = Exact(problem, with_slopes(function, sloped) if sloped else function, marched=True)
    drawn = ON_A_LINE if problem.schema.point == 2 else DRAWN
    collars = Collars(ansatz, problem, graded, drawn + drawn // 4 + 256)
    outputs = problem.schema.size
    if problem.hints.outputs is not None:
        outputs = jax.eval_shape(problem.hints.outputs, jnp.zeros(problem.schema.point)).shape[1]
    space = Space(problem, ansatz, collars, class_sizes(collars.counts(), drawn, 1), inputs,
                  sources or each_its_own(outputs), sloped, jax.random.key(seed))
    _check_equations(space)
    return space


def _check_statement(problem: Problem) -> None:
    if problem.time is None:
        raise Unsuited("the problem has no time, so there is nothing to march")
    if problem.measurements:
        raise Unsuited("measurements are of all times at once, and a march goes from one to the next")
    if any(not period.hard for period in problem.periods):
        raise Unsuited("a periodic condition is a penalty here, and a march knows no penalties")


def _check_equations(space: Space) -> None:
    problem, kinds = space.problem, space.kinds
    for value, slope in space.slopes:
        if not (np.isfinite(value).all() and np.isfinite(slope).all()):
            raise Unsuited("the equations, data or hints are not finite somewhere")
    if not kinds.evolving.any():
        raise Unsuited("no equation has a derivative by time")
    point = jnp.asarray(space._probed[0].x[0])
    free = np.abs(np.asarray(space.ansatz.start.projector(point))).max(1) > 1e-9
    for name, where in problem.schema.slices.items():
        if (free & kinds.moving)[where].any():
            raise Unsuited(f"the equations have the time derivative of '{name}' and no initial condition says where it "
                           f"starts")
    _check_start(space)


def _check_start(space: Space) -> None:
    """Equations without derivatives by time, of fields that the initial condition gives, hold at the start."""
    kinds, (start, _) = space.kinds, space.span
    read = np.max([np.abs(slope).max((2, 3)) for _, slope in space.slopes], axis=0)
    alone = ~kinds.evolving & ~kinds.gradient & (read[:, ~kinds.moving].max(1, initial=0.0) == 0)
    points = space.points(*space.drawn(1).draws[0], start, 1.0)
    corrected = points.terms[1].inputs.shape[-1] if len(points.terms) > 1 else 0
    if not alone.any() or corrected == len(points.x):
        return
    value, slope = map(np.asarray, space.linearise(points.x, points.offset, None))
    terms = np.abs(slope * points.offset).sum((1, 2))[alone, corrected:].max(1, initial=0.0)
    off = np.abs(value[alone, corrected:])
    worst = off.max(1) / np.where(terms > 0, terms, 1.0)
    if worst.max() > CONTRADICTION:
        k = int(worst.argmax())
        at = ", ".join(f"{c:.4g}" for c in points.x[corrected + int(off[k].argmax()), : space.problem.schema.dim])
        raise ValueError(f"the initial state contradicts equation {np.flatnonzero(alone)[k] + 1}, which has no "
                         f"derivative by time: it is off by {off[k].max():.2g} at t = {start:g}, ({at}); state an "
                         f"initial condition that satisfies it")
