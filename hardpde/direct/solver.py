"""A direct solve: the scales of features are searched on a small system, then their number grows until it is enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from hardpde.ansatz.corners import Corner
from hardpde.direct.continuation import led
from hardpde.direct.groups import Asked, Drawn, asked
from hardpde.direct.grown import Grown, look_at, looked_at
from hardpde.direct.in_windows import Start, in_windows, many_holes, possible
from hardpde.direct.newton import Balance, Equations, Fitted, fitted, last_layer, right_side, rms
from hardpde.direct.recipe import FIRST, Recipe, draw, kinds, searched
from hardpde.direct.system import Rows, matrix
from hardpde.formulation.formulation import Formulation
from hardpde.networks.features import (
    RandomFeatures,
    Source,
    Units,
    each_its_own,
    outputs,
    random_features,
)
from hardpde.networks.mlp import MLP
from hardpde.problem.problem import Problem
from hardpde.support.compiling import compiled_quickly

SMALL, FEWEST = 400, 100  # unknowns and features of the systems on which scales are searched
RATIO = 4  # rows for each unknown
SLOW = 0.1  # twice as many features lower the residual by less: larger scales are tried
FINER = 1.5
LOCAL = 0.3  # twice as many features lower the residual by less: some are put where the residual is large
MOST_SMOOTH = 800  # features over the whole domain beside those
FIRST_TRIED = 2  # systems too small to say how the residual falls
STALL = 0.5  # twice as many features lower the residual by less: more of them do not help
FLOOR = 0.1  # of what an equation could be: its terms are taken for as large as that where they vanish
SURE = 1e-2  # of the tolerance: scales with such a residual on small systems are good enough
HIDDEN = 3.0  # a residual on other points that is so many times larger: rows are added where it is large
CROWD = 4  # points among which one is chosen, where the residual is large


TOLERANCE, SIZE, TIME, STALLED = "tolerance", "size", "time", "stalled"


class Direct(NamedTuple):
    """What a direct solve found: whether the equations are linear, how features were drawn, every size it tried."""

    linear: bool
    recipe: Recipe
    balance: Balance
    tried: list[Grown]
    base: MLP | None
    sources: tuple[Source, ...]
    without: float  # the held-out residual without features
    ended: str  # why there are no more unknowns, TOLERANCE, SIZE, TIME or STALLED

    @property
    def best(self) -> Grown:
        return min(self.tried, key=lambda one: (one.error, one.held_out))

    @property
    def shared(self) -> bool:
        """Whether outputs are slopes of others."""
        return any(source.axis for source in self.sources)

    def model(self) -> RandomFeatures:
        """The best one as a network."""
        best = self.best.fitted
        return random_features(best.units, best.last, self.base, self.sources if self.shared else ())


@dataclass(frozen=True)
class Draws:
    """Points that are drawn as they are needed, and kept: those to fit to, and those to look at alone."""

    asked: Asked
    second: int
    keys: jax.Array
    kept: tuple[list[Drawn], list[Drawn]] = field(default_factory=lambda: ([], []))
    made: dict[bool, tuple[int, Equations]] = field(default_factory=dict)  # of so many draws

    def equations(self, held_out: bool, points: float) -> Equations:
        """The equations at so many points or a few more."""
        formulation, draws = self.asked.formulation, self.kept[held_out]
        while not draws or sum(draw.points for draw in draws) < points:
            key = jax.random.fold_in(self.keys[int(held_out)], len(draws))
            draws.append(Drawn(formulation.draw_held_out(key) if held_out else formulation.draw(key)))
        many, equations = self.made.get(held_out, (0, None))
        if equations is None or many < len(draws):
            equations = Equations(self.asked.groups(draws), self.second)
            self.made[held_out] = len(draws), equations
        return equations

    def follow(self, found: Fitted, balance: Balance, points: int) -> None:
        """Add about so many points to those to fit to, where the residual is large."""
        formulation = self.asked.formulation
        for _ in range(max(1, round(CROWD * points / formulation.points))):
            drawn = Drawn(formulation.draw(jax.random.fold_in(self.keys[2], len(self.kept[0]))))
            main = Equations(self.asked.groups([drawn])[:1], self.second)
            if main.groups[0].places == drawn.points:  # else some have no derivatives, and numbers are others
                sizes = np.abs(main.residuals(main.jets(found.units, found.last), balance))
                order = np.argsort(sizes.reshape(len(balance.equations), -1).max(0))
                self.kept[0].append(drawn._replace(chosen=np.sort(order[-(len(order) // CROWD) :])))


class Plan(NamedTuple):
    """How a problem is solved: draws of its points, how features are drawn, what is divided by; per_point: how many
    rows a point has; first: a small solution."""

    draws: Draws
    recipe: Recipe
    balance: Balance
    linear: bool
    per_point: float
    straight: np.ndarray
    first: Fitted


def directly(formulation: Formulation, corners: list[Corner], tolerance: float, most: int, seconds: float = np.inf,
             seed: int = 0, report: Callable[[Grown], None] = lambda grown: None, base: MLP | None = None,
             shared: tuple[Source, ...] = ()) -> Direct:
    """Systems of growing size, until the error they show is below the tolerance or falls no more.

    corners: those whose inputs the formulation gives its network. most: unknowns; seconds: no larger system is begun
    that would take longer. base: a trained network, which the features are given the hidden layer of, and add to.
    shared: what each output is made of, where the formulation also gives derivatives of its inputs; without it outputs
    share nothing.
    """
    with compiled_quickly():
        return _directly(formulation, corners, tolerance, most, seconds, seed, report, base, shared)


def _directly(formulation: Formulation, corners: list[Corner], tolerance: float, most: int, seconds: float, seed: int,
              report: Callable[[Grown], None], base: MLP | None, shared: tuple[Source, ...]) -> Direct:
    began = time.perf_counter()
    plan = _plan(_draws(formulation, corners, seed, base, shared), most, SURE * tolerance, seed)
    planned = time.perf_counter() - began
    draws, recipe, balance, columns = plan.draws, plan.recipe, plan.balance, len(plan.balance.columns)
    first = draws.equations(True, 1).groups[0].points
    look, tried, count = look_at(draws.asked, seed), list[Grown](), max(1, _small(columns, most) // 2)
    windows = base is None and possible(draws.asked, first)
    ended = ""
    while not tried or not (ended or (windows and _local(tried, draws))):
        count *= 2 if tried else 1
        points = RATIO * count * columns / plan.per_point
        held = draws.equations(True, max(formulation.points, points / 4))

        def solved(recipe: Recipe, held: Equations = held, count: int = count, points: float = points) -> Grown:
            train = draws.equations(False, points)
            before = tried[-1].fitted if tried else plan.first
            near = None if plan.linear else train.jets(before.units, before.last)
            y = train.groups[0].points.terms[0].inputs
            found = fitted(train, draw(seed, y[:, 0], count, recipe), balance, plan.linear, near)
            return looked_at(found, len(train.groups[0].points.x), held, look, balance, tried, began)

        now = solved(recipe)
        if now.error > tolerance and now.held_out > HIDDEN * now.fitted.residual:
            draws.follow(now.fitted, balance, round(points / CROWD))
            other = solved(recipe)
            now = min(now, other, key=lambda one: one.held_out)._replace(seconds=other.seconds)
        if now.error > tolerance and _slow(now, tried):
            recipe, now = _finer(recipe, now, solved)
        tried.append(now)
        report(tried[-1])
        ended = _enough(tried, tolerance, most, seconds, planned)
    if tried[-1].error > tolerance and windows and (ended in ("", STALLED) or (ended == SIZE and not _falls(tried))):
        start = Start(draws.asked, draws.second, balance, plan.linear, plan.per_point, recipe, min(count, MOST_SMOOTH),
                      plan.straight, look, seed)
        tried += in_windows(start, tried[-1], held, tolerance, lambda: seconds - (time.perf_counter() - began), began,
                            report)
    return Direct(plan.linear, recipe, balance, tried, base, draws.asked.sources,
                  held.residual(held.offsets, balance), ended or STALLED)


def _small(columns: int, most: int) -> int:
    """How many features the smallest system has."""
    return min(max(SMALL // columns, FEWEST), max(8, most // columns))


def _slow(now: Grown, tried: list[Grown]) -> bool:
    """Whether twice as many features lowered the residual by less than they usually do where they suit."""
    return bool(tried) and now.held_out > SLOW * tried[-1].held_out


def _finer(recipe: Recipe, now: Grown, solved: Callable[[Recipe], Grown]) -> tuple[Recipe, Grown]:
    """The recipe at larger scales, as often as that lowers the residual: more features want larger ones."""
    while True:
        finer = recipe._replace(scales=FINER * recipe.scales)
        other = solved(finer)
        if not other.held_out < now.held_out:
            return recipe, now._replace(seconds=other.seconds)
        recipe, now = finer, other


def _draws(formulation: Formulation, corners: list[Corner], seed: int, base: MLP | None,
           shared: tuple[Source, ...]) -> Draws:
    problem, keys = formulation.problem, jax.random.split(jax.random.key(seed), 3)
    first = Drawn(formulation.draw(jax.random.fold_in(keys[0], 0)))
    main = first.batch.terms[0]
    apart = each_its_own(main.matrix.shape[1] // (1 if main.dual is None else 2))
    made = asked(formulation, corners, shared or apart, problem.schema.dim if shared else 0, base)
    return Draws(made, problem.schema.dim if problem.order == 2 else 0, keys, ([first], []))


def _plan(draws: Draws, most: int, sure: float, seed: int) -> Plan:
    """How features are drawn, by the held-out residual of small systems, linearised about the state of a first one;
    and what the residuals are divided by. sure: a residual that is small enough."""
    problem, corners = draws.asked.formulation.problem, draws.asked.corners
    train, held = draws.equations(False, 1), draws.equations(True, 1)
    linear, small = train.linear(), _small(train.columns, most)
    per_point = _rows_of_a_point(train)
    few = max(1, round(RATIO * small * train.columns / per_point))
    train, held = _first(train, few), _first(held, few)
    y = train.groups[0].points.terms[0].inputs
    group, coordinate = kinds(y, problem.schema.dim, len(corners))
    sizes = train.sizes(train.offsets)
    balance = Balance(np.where(sizes > 0, sizes, 1.0), np.ones(train.columns))
    scales = np.where(np.append(coordinate, False)[group], FIRST, 0.0)
    first = Recipe(scales, "tanh", 0.0, tuple(corner.exponent for corner in corners), bool(problem.schema.gradients))
    units = draw(seed, y[:, 0], small, first)
    balance = balance._replace(columns=_possible_columns(train, units, balance))
    found = _begun(train, units, balance, linear, problem)
    for again in (True, False):
        last = found.last
        balance, near = _balance(train, units, last, balance), train.jets(units, last)
        if again:
            found = fitted(train, units, balance, linear, near)
    jets = (train.offsets, held.offsets) if linear else (train.jets(units, last), held.jets(units, last))
    rows, others = train.about(jets[0], balance), held.about(jets[1], balance)
    known = right_side(others)

    def score(recipe: Recipe) -> float:
        units = draw(seed, y[:, 0], small, recipe)
        weights = last_layer(rows, units, balance) / balance.columns
        return held.size(matrix(others, units) @ weights.T.ravel() + known)

    straight = np.append(coordinate, False)[group]
    return Plan(draws, searched(score, first, group, coordinate, sure), balance, linear, per_point, straight, found)


def _begun(train: Equations, units: Units, balance: Balance, linear: bool, problem: Problem) -> Fitted:
    """A first small solution: at the end of a stated way; else by Newton's method, led where it comes to no end."""
    if problem.hints.continuation is not None and (ahead := led(train, units, balance, problem)) is not None:
        return ahead
    found = fitted(train, units, balance, linear)
    if found.converged:
        return found
    ahead = led(train, units, balance)
    return ahead if ahead is not None and ahead.residual < found.residual else found


def _rows_of_a_point(train: Equations) -> float:
    """How many rows of the equations a point has that are not zero, in the mean."""
    balance = Balance(np.ones(len(train.groups[0].points.scale)), np.ones(train.columns))
    (main,) = train._replace(groups=train.groups[:1]).about(train.offsets[:1], balance)
    return len(main.right) / train.groups[0].places


def _first(equations: Equations, points: int) -> Equations:
    """The equations at some of the points, spread over all of them."""
    main = equations.groups[0]
    which = np.unique(np.linspace(0, len(main.points.x) - 1, points).round().astype(int))
    return equations._replace(groups=(main._replace(points=main.points.chosen(which)), *equations.groups[1:]))


def _possible_columns(train: Equations, units: Units, balance: Balance) -> np.ndarray:
    """Sizes of columns with which features move the equations as much as the offset does, (c,)."""
    rows = train.about(train.offsets, balance)
    columns = rms(matrix(rows, units).T.reshape(train.columns, -1), axis=1)
    known = rms(right_side(rows))
    return np.where(columns > 0, (known or 1.0) / np.where(columns > 0, columns, 1.0), 1.0)


def _balance(train: Equations, units: Units, last: np.ndarray, before: Balance) -> Balance:
    """The sizes of the equations' terms and of what the columns make in a first solution."""
    points = train.groups[0].points
    found = outputs(units, last, points.terms[0].inputs[:, :1], None, 0)[:, 0]
    row = train.about(train.offsets, Balance(before.equations, np.ones(len(found))))[0]
    values = rms(found, axis=1, where=_asked_of(row))
    values = np.maximum(values, 1e-6 * values.max()) if values.max() > 0 else np.ones(len(values))
    row = train.about(train.offsets, Balance(before.equations, values))[0]
    kept = np.ones(row.known.shape, bool) if row.kept is None else row.kept
    moved = np.zeros(kept.shape)
    moved[kept] = (matrix([row], units) ** 2).mean(1)
    possible = np.sqrt(moved.mean(1)) * before.equations
    sizes = np.maximum(train.sizes(train.jets(units, last)), FLOOR * possible)
    return Balance(np.where(sizes > 0, sizes, 1.0), values)


def _asked_of(row: Rows) -> np.ndarray:
    """At which points something is asked of what each column makes, (c, n): a field may live in a part of the domain.
    """
    g = row.terms[0].g
    some = np.zeros((row.columns, g.shape[-1]), bool)
    for source, own in zip(row.sources, (g != 0).any((0, 2))):
        some[source.column] |= own
    return some | ~some.any(1, keepdims=True)


def _falls(tried: list[Grown]) -> bool:
    """Whether twice as many features lower the residual by much."""
    return len(tried) > 1 and tried[-1].held_out <= LOCAL * tried[-2].held_out


def _local(tried: list[Grown], draws: Draws) -> bool:
    """Whether features are rather wanted in some places than all over the domain."""
    if many_holes(draws.asked.formulation.problem):
        return True
    return len(tried) > FIRST_TRIED and not _falls(tried)


def _enough(tried: list[Grown], tolerance: float, most: int, seconds: float, planned: float) -> str:
    """Why no larger system is solved: the tolerance is met, or it is not to be had, or would not help; "" where it is
    solved. planned: the seconds before the first one."""
    last = tried[-1]
    if last.error <= tolerance:
        return TOLERANCE
    if 2 * last.unknowns > most:
        return SIZE
    took = last.seconds - (tried[-2].seconds if len(tried) > 1 else planned)
    if last.seconds + 7 * took > seconds:
        return TIME
    return STALLED if len(tried) > FIRST_TRIED + 1 and last.held_out > STALL**2 * tried[-3].held_out else ""
