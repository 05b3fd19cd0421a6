"""Marching: features of space whose last layer goes from one instant to the next by implicit Runge–Kutta steps."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hardpde.direct.kept import Kept, Record
from hardpde.direct.runge_kutta import DAMPING, FINEST, KEEPING, Ladder, Tableau
from hardpde.direct.stages import System
from hardpde.direct.together import Together
from hardpde.networks.marched import polynomial_parts, polynomial_starts, polynomial_weights

RATIO = 4  # rows of evolving equations for each unknown, at least
CLOSE = 0.02  # of the error that a step may have: changes at which Newton's method ends
SHARE = 0.02  # of the tolerance: what a step may add to the error where errors are forgotten
MISFIT = 1.0  # what a step may add to the error is as much as features of space leave
SHORTEST = 34  # rung: a step of 2^-34 of the time is no step
FRESH = 100  # steps after which what is linearised about states is so anew: a march may go on from there
EARLY = 6  # rung of the first step that is tried
MOST_STEPS = 100_000
NOTHING = Kept(None)  # is kept


class Knot(NamedTuple):
    """The last layer and its slope, as vectors (unknowns,), at a time; the error that the step to it was estimated to
    have, and its rung; misfit: what is left of the equations of its stages, as a change of the state in units of it.
    within: of a stage, between the ends of a step."""

    t: float
    last: np.ndarray
    slope: np.ndarray
    error: float
    rung: int = 0
    misfit: float = 0.0
    within: bool = False


class Broken(NamedTuple):
    """Why a march ended before the end, when, and at what place."""

    why: str
    t: float


class Path(NamedTuple):
    """A march: the knots, steps that were taken and tried again, and why it ended too early, if it did."""

    system: System
    knots: list[Knot]
    refused: int
    broken: Broken | None

    @property
    def method(self) -> Tableau:
        return KEEPING if len(self.knots) > 1 and self.knots[1].within else DAMPING

    @property
    def stages(self) -> int:
        """How many knots a step adds."""
        return self.method.stages if self.method.together else 1

    @property
    def steps(self) -> int:
        return (len(self.knots) - 1) // self.stages

    @property
    def times(self) -> np.ndarray:
        return np.array([knot.t for knot in self.knots])

    @property
    def fades(self) -> float:
        """The time of the first step."""
        return self.knots[self.stages].t - self.knots[0].t

    def without_initial(self) -> list[Knot]:
        """The knots of what is added to an ansatz that has the initial state itself, which fades in the first step as
        1 − s² (3 − 2 s): there a polynomial of the same degree is taken away, and slopes of it vanish at both ends."""
        begin, first = self.knots[0], self.knots[: self.stages]
        known = np.where(self.system.initial, begin.last, 0.0)
        parts = [(knot.t - begin.t) / self.fades for knot in first]
        return [knot._replace(last=knot.last - (1 - s * s * (3 - 2 * s)) * known)
                for knot, s in zip(first, parts)] + self.knots[self.stages :]

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """The last layer and its slope at a time."""
        k = int(polynomial_starts(self.times, t, self.stages))
        here = self.knots[k : k + self.stages + 1]
        weights = polynomial_weights([knot.t for knot in here], t)
        parts = polynomial_parts([knot.last for knot in here], [knot.slope for knot in here], 0, self.stages)
        value, slope = (sum(w * part for w, part in zip(own, parts)) for own in weights)
        return value, slope  # type: ignore[return-value]


def step(system: System, knot: Knot, h: float, allowed: float) -> list[Knot] | None:
    """The next knot after a step h, stage by stage; None where a stage has no solution."""
    t, slopes, method = knot.t, list[np.ndarray](), DAMPING
    new, misfit = knot.last, 0.0
    for i, (row, c) in enumerate(zip(method.a, method.c)):
        past = knot.last + h * sum(a * slope for a, slope in zip(row[:i], slopes) if a)
        theta = h * row[i]
        guess = past + theta * (slopes[-1] if slopes else knot.slope)
        found = system.stage(past, theta, t + c * h, guess, CLOSE * allowed)
        if found is None or not np.isfinite(found.last).all():
            return None
        misfit = max(misfit, found.misfit)
        slopes.append((found.last - past) / theta)
        new = found.last
    apart = h * sum((b - o) * slope for b, o, slope in zip(method.b, method.other, slopes))
    apart = system.damped(apart, theta)
    return [Knot(t + h, new, slopes[-1], system.size_of(apart), 0, misfit)]


def step_together(together: Together, knot: Knot, h: float, allowed: float) -> list[Knot] | None:
    """The same with all stages at once: a knot for each of them."""
    method, system = together.method, together.system
    found = together.stages(knot.last, knot.slope, knot.t, h, CLOSE * allowed)
    if found is None or not np.isfinite(found.last).all():
        return None
    error = system.size_of(together.damped(h * ((method.b - method.other) @ found.slopes), h))
    every = [Knot(knot.t + c * h, last, slope, 0.0, 0, found.misfit, True)
             for c, last, slope in zip(method.c, found.last, found.slopes)]
    return [*every[:-1], every[-1]._replace(error=error, within=False)]


def integrate(system: System, tolerance: float, begin: Knot, adding: bool = False, plan: "Path | None" = None,
              report: Callable[[Knot], None] = lambda knot: None, seconds: float = math.inf,
            kept: Kept = NOTHING) -> Path:
    """March from a knot at the start to the end; adding: errors of steps add up, as nothing is damped; plan: a march of
    the same problem whose steps are tried first; kept: the steps of before, to which others are added."""
    start, end = system.space.span
    method = KEEPING if adding else DAMPING
    together = Together(system, method) if method.together else None
    make = partial(step, system) if together is None else partial(step_together, together)
    ladder, knots, refused = Ladder(EARLY if plan is None else plan.knots[1].rung), [begin], 0
    if before := _before(system, kept):
        ladder, knots, refused = _gone_on(system, together, before)
    began = time.perf_counter()
    while not ladder.ended:
        if plan is not None and ladder.since == 0 and refused == 0:
            ladder.follow(_planned(plan, start + ladder.passed * (end - start)))
        now, h = knots[-1], ladder.step * (end - start)
        allowed = tolerance * (ladder.step if adding else max(SHARE, ladder.step))
        made = make(now, h, allowed)
        if made is not None and system.too_large(made[-1].last):
            continue
        ratio = made[-1].error / max(allowed, MISFIT * made[-1].misfit) if made is not None else math.inf
        if not ratio <= 1:
            refused += 1
            ladder.rejected(ratio, method.lower)
            if ladder.rung > SHORTEST:
                what = "the equations of a step have no solution" if made is None else "its error does not fall"
                return Path(system, knots, refused, Broken(f"steps shrink to nothing, as {what}", now.t))
            continue
        assert made is not None
        rung, begun = ladder.rung, len(knots)
        ladder.accepted(ratio, method.lower)
        t = end if ladder.ended else start + ladder.passed * (end - start)
        knots += [knot._replace(rung=rung) for knot in made]
        knots[-1] = knots[-1]._replace(t=t)
        if begun == 1 and method.together:
            knots[0] = _extrapolated(system, knots)
        elif begun == 1:
            knots = _begun(system, *knots)
        if plan is not None:
            ladder.follow(_planned(plan, t))
        keep = knots[begun if begun > 1 else 0 :]
        if not system.space.steady_operator and (len(knots) - 1) // len(made) % FRESH == 0:
            system.frozen.clear()
            if together is not None:
                together.known.clear()
        kept.add(_as_record(system, together, ladder, refused, keep))
        report(knots[-1])
        if len(knots) > MOST_STEPS:
            return Path(system, knots, refused, Broken(f"{MOST_STEPS} steps are not enough", t))
        if time.perf_counter() - began > seconds:
            return Path(system, knots, refused, Broken("the seconds are over", t))
    return Path(system, knots, refused, None)


def _as_record(system: System, together: Together | None, ladder: Ladder, refused: int, knots: list[Knot]) -> Record:
    """A step as it is kept: its knots, in the first one that of the start too, and what the next step needs."""
    lengths = [] if together is None else [[h, one.steps, one.misfit] for h, one in together.known.items()]
    plain = {"ladder": [ladder.rung, ladder.at, ladder.since], "refused": refused, "made": dict(system.made),
             "thetas": list(system.frozen), "lengths": lengths, "rungs": [knot.rung for knot in knots],
             "within": [knot.within for knot in knots]}
    return Record("step", plain, {
        "numbers": np.array([[knot.t, knot.error, knot.misfit] for knot in knots]),
        "last": np.stack([knot.last for knot in knots]), "slope": np.stack([knot.slope for knot in knots])})


def _before(system: System, kept: Kept) -> list[Record]:
    """The steps of before from which a march may go on: where factorisations were made about states, up to where they
    were forgotten."""
    steps, ends = list[Record](), [kept.good]
    while (record := kept.next("step")) is not None:
        steps.append(record)
        ends.append(kept.good)
    many = len(steps) if system.space.steady_operator or (steps and steps[-1].plain["ladder"][1] >= 1 << FINEST) else (
        len(steps) // FRESH * FRESH)
    if many < len(steps):
        kept.back_to(ends[many])
    return steps[:many]


def _gone_on(system: System, together: Together | None, steps: list[Record]) -> tuple[Ladder, list[Knot], int]:
    """The ladder, the knots and how many steps were refused, after steps that were kept; with the factorisations that
    there were."""
    knots = []
    for one in steps:
        parts = *(one.arrays[name] for name in ("numbers", "last", "slope")), one.plain["rungs"], one.plain["within"]
        knots += [Knot(float(t), last, slope, float(error), rung, float(misfit), within)
                  for (t, error, misfit), last, slope, rung, within in zip(*parts)]
    found = steps[-1].plain
    if system.space.steady_operator and found["ladder"][1] < 1 << FINEST:
        system.made.update(found["made"])
        for theta in found["thetas"]:
            system.freeze_linear(theta)
        for h, many, misfit in found["lengths"]:
            if together is not None:
                together.go_on_with(h, many, misfit)
    system.made.update(found["made"])
    return Ladder(*found["ladder"]), knots, found["refused"]


def _begun(system: System, begin: Knot, first: Knot) -> list[Knot]:
    """The first two knots, with the slope at the start of the parabola to the first one and along its slope: where data
    do not fit together there is no other. Fields without derivatives by time are the same at both."""
    slope = 2 * (first.last - begin.last) / (first.t - begin.t) - first.slope
    still = system.still
    return [begin._replace(last=np.where(still, first.last, begin.last), slope=np.where(still, 0.0, slope)),
            first._replace(slope=np.where(still, 0.0, first.slope))]


def _extrapolated(system: System, knots: list[Knot]) -> Knot:
    """The first knot, with fields without derivatives by time on the polynomial through the stages of the first step.
    """
    begin, *stages = knots
    weights, _ = polynomial_weights([knot.t for knot in stages], begin.t)
    last = sum(weight * knot.last for weight, knot in zip(weights, stages))
    return begin._replace(last=np.where(system.still, last, begin.last))


def _planned(plan: Path, t: float) -> int:
    """The rung of the step that another march took from a time."""
    k = int(np.searchsorted(plan.times, t * (1 + 1e-12) + 1e-300, side="right"))
    return plan.knots[min(k, len(plan.knots) - 1)].rung

