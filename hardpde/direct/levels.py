"""A whole march: how features are drawn and which method suits is found on small systems, then the number of features
grows until the solution changes no more."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hardpde.direct.instants import Space
from hardpde.direct.kept import Kept, Record
from hardpde.direct.least_squares import least_squares
from hardpde.direct.march import NOTHING, RATIO, Knot, Path, integrate
from hardpde.direct.newton import LARGEST, LARGEST_FOR_SLOPES, rms
from hardpde.direct.recipe import FIRST, Recipe, draw, searched
from hardpde.direct.stages import Sizes, System, values_alone
from hardpde.direct.system import state
from hardpde.networks.features import Layer, Units
from hardpde.support.compiling import compiled_quickly
from hardpde.support.hardware import one_thread_in_libraries

SMALL, ON_A_LINE = 400, 100  # unknowns of the systems on which scales are searched, and of those in one dimension
CERTAIN = 100.0  # times as good as asked for: then scales are good enough
STEPS = (1e-2, 3e-1)  # of the time: θ of the stages on which scales are searched
MANY, CHANCE = 4, 0.5  # of so many inputs of a kind, or more, a feature sees one; how much of which is chance
LOOKED_AT = (1e-3, 3e-3, 1e-2, 3e-2, 0.07, 0.15, 0.25, 0.37, 0.51, 0.63, 0.78, 0.9, 1.0)  # of the time
SAFETY = 10.0  # of an estimated error
MOST_GROWN = 1e4  # by which a field is believed to grow from what first stages make of it
STALL = 0.7  # twice as many features change the solution by more of what they did before: more of them do not help
GROWTH = 6.0  # by so much a level takes longer than the last one
ROUGH = 0.03  # what steps may add to the error while features are counted
SPARED = 0.3  # of the error of too few features: steps need not be finer
UNDAMPED, MUCH = 1e-2, 0.2  # of the rate of a mode is damping; of the modes


class Level(NamedTuple):
    """A march with so many features; held_out: the residual at other places and times, in units of the equations'
    terms; change: an estimate of the relative L2 error of the worst field at the worst time, by its change from half as
    many features; rough: what steps were allowed to add to the error; worst: where (n,) and when the residual is
    largest, and the number of the equation."""

    path: Path
    held_out: float
    change: float
    rough: float
    seconds: float
    took: float
    worst: tuple[np.ndarray, int]

    @property
    def of_steps(self) -> float:
        """The errors of all steps, as if none were ever forgotten."""
        return sum(knot.error for knot in self.path.knots)

    @property
    def estimate(self) -> float:
        """Of the error: what a tolerance is compared with."""
        return max(self.change, self.of_steps)

    @property
    def unknowns(self) -> int:
        return self.path.system.unknowns

    @property
    def misfit(self) -> float:
        """The rms over the steps of what features leave of the equations of a stage."""
        return float(rms(np.array([knot.misfit for knot in self.path.knots[1:]] or [math.inf])))


class Marching(NamedTuple):
    """What a march found: whether errors of steps add up, how features were drawn, every level that was tried."""

    space: Space
    adding: bool
    recipe: Recipe
    tried: list[Level]

    @property
    def best(self) -> Level:
        """Of those that came to the end, or furthest, the one with the least estimate of the error, or the last one."""
        return max(reversed(self.tried), key=lambda one: (one.path.broken is None, one.path.knots[-1].t, -one.estimate))


def march(space: Space, tolerance: float, most: int, seconds: float = math.inf, seed: int = 0,
          report: Callable[[Level], None] = lambda level: None, kept: Kept = NOTHING,
          going: Callable[[int, float, float], None] = lambda unknowns, t, share: None) -> Marching:
    """March with growing numbers of features until the change of the solution is below the tolerance, or falls no more.

    most: unknowns; seconds: no level is begun that would take longer; kept: what a march that was stopped had come to;
    going: told after every step of so many unknowns where it has come to, and to what share of the time.
    """
    with compiled_quickly(), one_thread_in_libraries():
        return _march(space, tolerance, most, seconds, seed, report, kept, going)


def _march(space: Space, tolerance: float, most: int, seconds: float, seed: int, report: Callable[[Level], None],
           kept: Kept, going: Callable[[int, float, float], None]) -> Marching:
    began = time.perf_counter()
    found = kept.once("features", lambda: _looked_for(space, tolerance, most, seed))
    sizes = Sizes(found.arrays["state"], found.arrays["terms"])
    recipe, adding = Recipe(found.arrays["scales"], found.plain["kind"]), bool(found.plain["adding"])
    count, tried = max(_small(space, most) // 2, 8), list[Level]()
    rough, before = max(tolerance, ROUGH), None
    while True:
        system = _system(space, sizes, recipe, count, seed)
        left = seconds - (time.perf_counter() - began) if tried else math.inf
        plan = before.path if before is not None and len(before.path.knots) > 1 else None
        kept.once("level", partial(Record, "level", {"features": count, "rough": rough}, {}))
        path = integrate(system, rough, _begin(system), adding, plan, partial(_told, going, system), left, kept)
        passed = time.perf_counter() - began
        now = _looked_at(path, before, rough, passed, passed - (tried[-1].seconds if tried else 0.0))
        if not tried:
            sizes = sizes_along(path, sizes)
        tried.append(now)
        system.forget()
        report(now)
        if before is not None and _features_end(before, now, tolerance, most, seconds):
            fine = max(tolerance, SPARED * now.change)
            if now.of_steps > tolerance and rough <= tolerance:
                fine = rough * max(0.5 * tolerance / now.of_steps, 1e-3)
            if rough <= fine or path.broken is not None or now.seconds + GROWTH * now.took > seconds:
                break
            rough, count, before = fine, count // 2, None
        else:
            count, before = 2 * count, now
    _check_begun(tried)
    return Marching(space, adding, recipe, tried)


def _told(going: Callable[[int, float, float], None], system: System, knot: Knot) -> None:
    start, end = system.space.span
    going(system.unknowns, knot.t, (knot.t - start) / (end - start))


def _looked_for(space: Space, tolerance: float, most: int, seed: int) -> Record:
    """How features are drawn, the sizes of the state and the equations, and whether errors of steps add up."""
    sizes = sizes_of(space, Sizes(np.ones(space.problem.schema.size), np.ones(len(space.kinds.evolving))), seed)
    recipe = recipe_of(space, sizes, seed, tolerance)
    sizes = sizes_of(space, sizes, seed, recipe)
    adding = conserves(_system(space, sizes, recipe, _small(space, most), seed))
    return Record("features", {"kind": recipe.kind, "adding": adding},
                  {"scales": recipe.scales, "state": sizes.state, "terms": sizes.terms})


def _features_end(before: Level, now: Level, tolerance: float, most: int, seconds: float) -> bool:
    """Whether more features are not needed, not to be had, or would not help."""
    if now.change <= tolerance or 2 * now.unknowns > most or now.seconds + GROWTH * now.took > seconds:
        return True
    return now.change > STALL * before.change


def _check_begun(tried: list[Level]) -> None:
    if all(len(level.path.knots) == 1 for level in tried):
        broken = tried[-1].path.broken
        assert broken is not None
        raise ValueError(f"the march comes to no first step at t = {broken.t:g}: {broken.why}; look for data that "
                         f"contradict the equations there, or solve with --solver train")


def _small(space: Space, most: float = math.inf) -> int:
    """How many features small systems have."""
    columns = 1 + max(source.column for source in space.sources)
    return int(max(min(ON_A_LINE if space.problem.schema.point == 2 else SMALL // columns, most // columns), 8))


def _begin(system: System) -> Knot:
    return Knot(system.space.span[0], system.start(), np.zeros(system.unknowns), 0.0)


def _system(space: Space, sizes: Sizes, recipe: Recipe, count: int, seed: int) -> System:
    places = space.drawn(RATIO * count)
    return System(space, drawn_for(space, places.at(space.span[0]).terms[0].inputs[:, 0], count, recipe, seed), places,
                  sizes)


def drawn_for(space: Space, inputs: np.ndarray, count: int, recipe: Recipe, seed: int) -> Units:
    """Features of which each sees one of many inputs of a kind, mostly one that is far from its usual value where the
    feature's plane passes through: that of a hole near by."""
    (layer,) = draw(seed, inputs, count, recipe)
    group, random = space.inputs.group, np.random.default_rng((seed, 2))
    at, weights = random.integers(0, inputs.shape[1], count), layer.weights.copy()
    seen: dict[int, np.ndarray] = {}
    for k in range(group.max() + 1):
        which = np.flatnonzero(group == k)
        if space.inputs.coordinate[k] or len(which) < MANY:
            continue
        if len(which) not in seen:
            far = np.abs(inputs[which] - np.median(inputs[which], axis=1, keepdims=True))
            far /= far.max(1, keepdims=True) + 1e-300
            chance = np.log(far[:, at] + 1e-9) + CHANCE * random.gumbel(size=(len(which), count))
            seen[len(which)] = chance == chance.max(0)
        weights[which] *= seen[len(which)]
    shift = random.uniform(0, 2 * np.pi, count) if recipe.kind == "sine" else 0.0
    return (Layer(layer.kind, weights, -(weights * inputs[:, at]).sum(0) + shift),)


def sizes_of(space: Space, sizes: Sizes, seed: int, recipe: Recipe | None = None) -> Sizes:
    """Sizes of the state and of the terms of the equations at the start and after a stage of a small system."""
    start, end = space.span
    count = _small(space)
    system = _system(space, sizes, _first(space) if recipe is None else recipe, count, seed)
    points = system.places.begun(start)
    jets, first = [points.offset], system.start()
    for share in STEPS:
        theta = share * (end - start)
        found = system.stage(first, theta, start + theta, first, 1e-4)
        if found is not None:
            points = system.places.at(start + theta)
            jets.append(system.jets(points, found.last, (found.last - first) / theta))
    values = np.max([rms(jet[:, 0], axis=1) for jet in jets], axis=0)
    for where in space.problem.schema.slices.values():
        values[where] = values[where].max()
    terms = [rms(np.abs(np.asarray(space.linearise(points.x, jet, None)[1]) * jet).sum((1, 2)), axis=1) for jet in jets]
    return Sizes(_not_zero(values), _not_zero(np.max(terms, axis=0)))


def sizes_along(path: Path, sizes: Sizes) -> Sizes:
    """The largest sizes of the state in a march, and those before where a first one has gone wrong."""
    space, system = path.system.space, path.system
    held = System(space, system.units, space.drawn(1, held_out=True), system.sizes)
    found = [sizes.state]
    for knot in path.knots[:: max(1, len(path.knots) // len(LOOKED_AT))]:
        values = values_alone(held.places.at(knot.t))
        now = values.offset[:, 0] + state(values, system.units, system.layer(knot.last), 0)[:, 0]
        found.append(rms(now, axis=1))
    largest = np.minimum(np.max(found, axis=0), MOST_GROWN * sizes.state)
    for where in space.problem.schema.slices.values():
        largest[where] = largest[where].max()
    return sizes._replace(state=largest)


def _not_zero(sizes: np.ndarray) -> np.ndarray:
    return np.where(sizes > 1e-9 * sizes.max(initial=0.0), sizes, 1.0)


def _first(space: Space) -> Recipe:
    group, coordinate = space.inputs.group, space.inputs.coordinate
    return Recipe(np.where(np.append(coordinate, False)[group], FIRST, 0.0), "tanh")


def recipe_of(space: Space, sizes: Sizes, seed: int, tolerance: float = 0.0) -> Recipe:
    """How features are drawn, by the residual that stages of small systems leave at other points: about, and then more
    closely with twice as many features; or as soon as that is much less than a tolerance."""
    count, sure = _small(space), len(STEPS) * math.log(max(tolerance / CERTAIN, 1e-16))
    return searched(_score(space, sizes, count, seed), _first(space), space.inputs.group, space.inputs.coordinate,
                    sure, coarse=_score(space, sizes, count // 2, seed))


def _score(space: Space, sizes: Sizes, count: int, seed: int) -> Callable[[Recipe], float]:
    """The sum over some stages from the start of the logarithm of what so many features leave at other points."""
    start, end = space.span
    every = space.drawn(RATIO * count), space.drawn(1, held_out=True)
    common: list[dict[str, Any]] = [{}, {}]  # what does not depend on the features
    inputs = every[0].at(start).terms[0].inputs[:, 0]

    def score(recipe: Recipe) -> float:
        units, total = drawn_for(space, inputs, count, recipe, seed), 0.0
        fit, other = (System(space, units, places, sizes, known=known) for places, known in zip(every, common))
        for share in STEPS:
            theta = share * (end - start)
            matrix, known = fit.about_start(theta, start + theta)
            found = least_squares(matrix, -known, LARGEST_FOR_SLOPES if space.ansatz.sloping else LARGEST)
            matrix, known = other.about_start(theta, start + theta)
            total += math.log(max(float(rms(matrix @ found + known) / max(rms(known), 1e-300)), 1e-16))
        return total

    return score


def conserves(system: System) -> bool:
    """Whether the equations let much of what features resolve swing undamped, as with waves.

    Told by the modes of an implicit Euler step about the start, u → u / (1 − θλ): those that are not too fast.
    """
    start, end = system.space.span
    theta = STEPS[0] * (end - start)
    modes = system.modes(theta, start + theta)
    rates = (1 - 1 / modes[(np.abs(modes) > 0.5) & (np.abs(modes) < 1.5)]) / theta
    rates = rates[np.abs(rates) * (end - start) > 1]
    swings = np.abs(rates.real) < UNDAMPED * np.abs(rates)
    return bool(swings.sum() > MUCH * len(swings))


def _looked_at(path: Path, before: Level | None, rough: float, seconds: float, took: float) -> Level:
    """A march with its residual at other places and times, and by how much the one before differed."""
    if len(path.knots) == 1:
        return Level(path, math.inf, math.inf, rough, seconds, took, (np.zeros(0), 0))
    space, system = path.system.space, path.system
    start, end = space.span
    reached = path.knots[-1].t
    times = [t for share in LOOKED_AT if (t := start + share * (end - start)) <= reached] or [reached]
    held = System(space, system.units, space.drawn(1, held_out=True), system.sizes)
    values, terms, places = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    stated = space.problem.stated.schema.names
    fields = [name for name in space.problem.schema.names
              if name not in dict(space.problem.schema.gradients) and name in stated]
    sizes = {name: 0.0 for name in fields}
    differences = {name: 0.0 for name in fields}
    for t in times:
        points = held.places.at(t)
        w, slope = path.at(t)
        jets = held.jets(points, w, slope)
        value, by_jet = map(np.asarray, space.linearise(points.x, jets, None))
        values.append(value)
        terms.append(rms(np.abs(by_jet * jets).sum((1, 2)), axis=1))
        places.append(points.x)
        other = None
        if before is not None and before.path.knots[-1].t >= t > start:
            plain = values_alone(points)
            layer = before.path.system.layer(before.path.at(t)[0])
            other = plain.offset[:, 0] + state(plain, before.path.system.units, layer, 0)[:, 0]
        for name in fields:
            where = space.problem.schema.slices[name]
            there = space.problem.lives(name, points.x[:, : space.problem.schema.dim])
            sizes[name] = max(sizes[name], float(rms(jets[where, 0][:, there])))
            if other is not None:
                differences[name] = max(differences[name], float(rms((jets[:, 0] - other)[where][:, there])))
    # At some instants all terms may vanish, so they are those of all instants.
    size = rms(np.stack(terms), axis=0)
    parts = np.abs(np.stack(values)) / np.where(size > 0, size, 1.0)[:, None]
    k, e, n = np.unravel_index(parts.argmax(), parts.shape)
    held_out, estimate = math.sqrt((parts**2).sum() / (len(times) * parts.shape[2])), math.inf
    if before is not None:
        least = 1e-9 * max(sizes.values())
        apart = max(differences[name] / max(sizes[name], least, 1e-300) for name in fields)
        estimate = apart * min(1.0, SAFETY * held_out / before.held_out if before.held_out else 1.0)
    return Level(path, held_out, estimate, rough, seconds, took, (places[k][n], int(e)))
