"""The error bar of an answer: what is guaranteed or estimated of its error, and how that is known."""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from hardpde.bounds.barta import Operator
from hardpde.bounds.boundary_rows import Side, find_sides
from hardpde.bounds.constants import Constant, lower_bound
from hardpde.bounds.elliptic import NOTHING, Bounds, by_constant, tighter, with_reaction
from hardpde.bounds.estimate import correction, estimate_error
from hardpde.bounds.parabolic import Residuals, TimeBounds, parabolic
from hardpde.bounds.quadrature import Between, Sample, level, mean_between, points_drawn, volume
from hardpde.bounds.recognise import Coefficients, Scalar, Unrecognised, check_ordinary, recognised
from hardpde.bounds.soundness import Probes, check_continuous, check_linear_at, probes_of, unseen
from hardpde.bounds.vibration import Vibration, check_steady, vibrating, vibration
from hardpde.formulation.formulation import Formulation
from hardpde.problem.problem import Problem
from hardpde.support.compiling import runs_once
from hardpde.support.messages import first_line

POINTS = 7168  # with probes not more than are evaluated at once
CONSTANT_SECONDS = 4.0  # in which a constant is searched for
HELD = 1e-8  # conditions that are further off are not taken for exact
WIDER = 10.0  # a reaction that is not linear is looked at for states so many times larger than the answer,
STATES, FAR = 40, 7  # at so many, and whether its slope is less for those that are larger by powers of ten
SEED = 11
OTHER_POINTS = 2**21  # the seed of those at which a correction is found
FINE = 1e-10  # of an answer: a bar that is smaller is not made sharper
USELESS = 1e3  # times the answer: a bar that is larger is not told
UNSETTLED = 2e-2  # of a field: an answer that changes by more with more features has not settled
ROUNDED = 1e-12
ROUNDING = 10.0  # times what the conditions are off is added
UNKNOWN = "no class with a known bound"
GUARANTEED, ESTIMATED, NONE = "guaranteed", "estimated", "none"


@dataclass(frozen=True)
class FieldBar:
    """How far a field is from the solution: l2 is a bound of the norm of the error over the domain (and over time),
    relative_l2 over the norm of the solution, None where the field may vanish; largest: of the error at any point."""

    l2: float
    relative_l2: float | None = None
    largest: float | None = None
    word: str = GUARANTEED
    largest_word: str | None = None


@dataclass(frozen=True)
class ErrorBar:
    """word: "guaranteed", "estimated" or "none". kind: the class of the equations. fields: {name: FieldBar}.

    energy: of the energy norm of the error; combined: between which numbers the error of field and flux together lies;
    at_any_time: of the L2 norm of the error at any instant. level: how the integrals were found; constant: λ₁ and how;
    why: what is in the way of a guaranteed bar.
    """

    word: str
    kind: str
    fields: dict[str, FieldBar] = field(default_factory=dict)
    energy: float | None = None
    combined: tuple[float, float] | None = None
    at_any_time: float | None = None
    level: str | None = None
    constant: str | None = None
    why: str | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**{key: value for key, value in asdict(self).items() if value is not None}, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.word == NONE:
            return f"no error bar: {self.why}"
        bars = ", ".join(f"{name} {_shown(bar)}{f' ({bar.word})' if bar.word != self.word else ''}"
                         for name, bar in self.fields.items())
        more = f"; {self.constant}" if self.constant else ""
        why = f" (no guaranteed one: {self.why})" if self.why else ""
        return f"error bar, {self.word}: {bars} ({self.kind}{more}){why}"


def _shown(bar: FieldBar) -> str:
    if bar.relative_l2 is not None:
        return f"≤ {bar.relative_l2:.2g} of its L2 norm"
    return f"≤ {bar.l2:.2g} in the L2 norm"


def error_bar(formulation: Formulation, model: Any, stated: Problem, method: str, violation: float,
              points: int = POINTS, seed: int = 2**20) -> ErrorBar:
    """The error bar of a model. stated: the problem whose fields are asked for; violation: how far its conditions are
    from exact, as a certificate says."""
    if method != "exact" or formulation.penalties:
        return ErrorBar(NONE, UNKNOWN, why="its conditions hold only approximately")
    if not violation <= HELD:
        return ErrorBar(NONE, UNKNOWN, why=f"its conditions are off by {violation:.1e}")
    try:
        with runs_once():
            return _told(formulation, model, stated, violation, points, seed)
    except Exception as error:  # an answer is not lost because its bar is
        return ErrorBar(NONE, UNKNOWN, why=f"{type(error).__name__}: {first_line(error)}")


class Answer(NamedTuple):
    """An answer at fresh points x, those of a sample and then probes, with its jets (n, m, slots) there. space: the
    measure of the domain; off: how far its conditions are from exact; wave: what its equations are, if that."""

    formulation: Formulation
    model: Any
    stated: Problem
    sample: Sample
    probes: Probes | None
    x: np.ndarray
    jets: np.ndarray
    space: Between
    off: float
    wave: Vibration | None = None

    def integral(self, values: np.ndarray, which: int | None = None) -> Between:
        """Between which numbers the integral of values (n,) that are not negative lies; which: of the spans."""
        n, probes, sample = len(self.sample.x), self.probes, self.sample
        assert probes is not None
        weighted = values[:n] * sample.weights * (1.0 if which is None else sample.spans[which])
        beside = values[n:] * probes.weights * (1.0 if which is None else probes.spans[which])
        mean = mean_between(weighted)
        return Between(self.space.low * mean.low, self.space.high * (mean.high + unseen(beside, mean.high, probes)))


def _told(formulation: Formulation, model: Any, stated: Problem, violation: float, points: int, seed: int) -> ErrorBar:
    """The bar that theory has, else the estimate."""
    problem, why = formulation.problem, ""
    sample, space = points_drawn(problem, points, seed), volume(problem.domain, seed)
    x, probes, known, wave = sample.x, None, None, None
    try:
        check_ordinary(problem)
        wave = vibration(problem)
        known = [(equation, find_sides(equation)) for equation in ([wave.equation] if wave else recognised(problem))]
        probes = probes_of(problem, space.low, seed)
        x = np.concatenate([x, probes.x])
    except Unrecognised as error:
        why = str(error)
    jets = formulation.jet(model, x)
    answer = Answer(formulation, model, stated, sample, probes, x, jets, space, violation, wave)
    if not np.isfinite(jets[: len(sample.x)]).all():
        return ErrorBar(NONE, UNKNOWN, why="the answer is not finite everywhere")
    try:
        if known is not None:
            return _with_others(_guaranteed(answer, known), answer)
    except Unrecognised as error:
        why = str(error)
    return _estimate(answer, why)


def _with_others(bar: ErrorBar, answer: Answer) -> ErrorBar:
    """With estimates for the fields of which theory says nothing."""
    if bar.fields.keys() >= set(answer.stated.schema.names):
        return bar
    return replace(bar, fields={**_estimate(answer, "").fields, **bar.fields})


def at_least_change(bar: ErrorBar, change: float | None) -> ErrorBar:
    """An estimated bar that is not below what the fields still change by from half as many features, where that is so
    much that the answer is none to linearise about."""
    if bar.word != ESTIMATED or change is None or not change > UNSETTLED:
        return bar

    def wider(one: FieldBar) -> FieldBar:
        factor = max(change / one.relative_l2, 1.0) if one.relative_l2 else 1.0
        return replace(one, l2=factor * one.l2, relative_l2=one.relative_l2 and factor * one.relative_l2,
                       largest=one.largest and factor * one.largest)

    return replace(bar, fields={name: wider(one) for name, one in bar.fields.items()})


def _estimate(answer: Answer, why: str) -> ErrorBar:
    """What the linearised equations say of every field."""
    problem, stated, space = answer.formulation.problem, answer.stated, answer.space.high
    answer = answer._replace(jets=answer.jets[: len(answer.sample.x)])
    found = estimate_error(answer.formulation, answer.model, answer.sample, answer.jets)
    own, d = problem.schema.slices, problem.schema.dim
    fields = {}
    for name in stated.schema.names:
        base = name if name in own else dict(stated.schema.gradients)[name]
        axes = None if base == name else slice(1, 1 + d)
        there = stated.lives(name, answer.sample.x[:, :d])
        values = answer.jets[:, own[base], 0] if axes is None else answer.jets[:, own[base], axes]
        squares = (values.reshape(len(there), -1) ** 2).sum(1) * there
        size = math.sqrt(float((squares * answer.sample.weights).mean()))
        sizes = found.at(own[base], axes, stated.lives(name, found.x[:, :d]))
        error = found.norm(sizes)
        fields[name] = FieldBar(math.sqrt(space) * error, error / size if size > 0 else None, float(sizes.max()),
                                ESTIMATED, ESTIMATED)
    return ErrorBar(ESTIMATED, UNKNOWN, fields, level=f"the linearised equations at {len(found.x)} random points",
                    why=why)


class Norms(NamedTuple):
    """Integrals over the domain, time and parameters (a mean over these), each between two numbers: of R₁², the same
    with each span, R₂², R₁²/c (None where c is not positive), of v², of the square of the gradient."""

    r1: Between
    spans: tuple[Between, ...]
    r2: Between
    by_c: Between | None
    value: Between
    gradient: Between


def _guaranteed(answer: Answer, known: list[tuple[Scalar, tuple[Side, ...]]]) -> ErrorBar:
    if not np.isfinite(answer.jets).all():
        raise Unrecognised("the answer is not finite near the boundary")
    frames = [_frame(equation, sides, answer) for equation, sides in known]
    found = [_bounded(frame, answer) for frame in frames]
    if any(not part.sharp and not part.bounds.value <= FINE * math.sqrt(part.norms.value.high) for part in found):
        found = _corrected(answer, frames, found)
    for frame, part in zip(frames, found):
        if not math.isfinite(part.bounds.value):
            raise Unrecognised(f"no positive lower bound of λ₁ was found ({frame.kind})")
        if part.bounds.value > USELESS * math.sqrt(part.norms.value.high):
            raise Unrecognised(f"what theory says is {USELESS:g} times larger than the answer ({frame.kind})")
    return _assembled(answer, frames, found)


class Frame(NamedTuple):
    """What is known of one scalar equation, whatever the answer is: its coefficients at the points; the least c′ − ½∇·β
    there and its minimum c; the least eigenvalue of A; λ₁."""

    equation: Scalar
    known: Coefficients
    reaction: np.ndarray
    c: float
    least: float
    drifts: bool
    kind: str
    constant: Constant


class Part(NamedTuple):
    """Bounds for one scalar, and norms of the answer. sharp: they are the error, up to the confidence of integrals."""

    bounds: Bounds | TimeBounds
    norms: Norms
    sharp: bool
    largest: float | None = None


def _frame(equation: Scalar, borders: tuple[Side, ...], answer: Answer) -> Frame:
    x = answer.x
    known = equation.coefficients(x)
    check_continuous(equation, x)
    check_linear_at(equation, x, answer.jets)
    reaction, kind = _reaction(equation, x, answer.jets, known)
    least = float(np.linalg.eigvalsh(known.a).min())
    extra = [_across(equation, side) for side in borders]
    h = tuple(None if side.given else float((side.h + more).min()) for side, more in zip(borders, extra))
    if any(value is not None and value < -ROUNDED for value in h):
        worst = next(side.name for side, value in zip(borders, h) if value is not None and value < -ROUNDED)
        raise Unrecognised(f"on '{worst}' more flows in than the condition takes out (h + n·β/2 < 0)")
    h = tuple(None if value is None else max(value, 0.0) for value in h)
    c = float(reaction.min())
    fixed = not equation.timed and not equation.problem.parameters and equation.linear
    a = known.a if fixed else np.tile(least * np.eye(equation.dim), (len(x), 1, 1))
    drift = known.drift if fixed else np.zeros((len(x), equation.dim))
    positive = np.maximum(reaction if fixed else c, 0.0) * np.ones(len(x))
    of = Operator(equation, borders, least, max(c, 0.0), h, fixed, x, a, drift, positive)
    drifts = bool(np.abs(known.beta).max() > 1e-9 * np.abs(known.a).max() / equation.problem.domain.size)
    if answer.wave is not None:
        check_steady(answer.wave, borders, x, known)
        if drifts or c < 0:
            raise Unrecognised("a wave equation with convection or a negative reaction has no bound here")
    constant = lower_bound(of, 0.0 if equation.timed else CONSTANT_SECONDS)
    return Frame(equation, known, reaction, c, least, drifts, _kind(equation, kind, drifts, c), constant)


def _bounded(frame: Frame, answer: Answer) -> Part:
    equation = frame.equation
    own, apart = equation.residuals(answer.x, answer.jets)
    norms = _norms(frame, answer, own, apart)
    if answer.wave is not None:
        return Part(_of_wave(frame, norms, answer, own, apart), norms, False)
    if equation.timed:
        return Part(_in_time(frame, norms), norms, False)
    return _steady(frame, norms, float(np.abs(own).max()))


def _corrected(answer: Answer, frames: list[Frame], found: list[Part]) -> list[Part]:
    """Bounds by way of an answer that features come nearer to the solution with: its error, and how far it is away.

    The features are found at points of their own.
    """
    formulation, problem = answer.formulation, answer.formulation.problem
    other = points_drawn(problem, len(answer.x), OTHER_POINTS)
    shift = correction(formulation, answer.model, other, formulation.jet(answer.model, other.x)).jets(answer.x)
    if not np.isfinite(shift).all():
        return found
    nearer = answer._replace(jets=answer.jets + shift)
    return [part if part.sharp else _by_way_of(frame, part, _bounded(frame, nearer), answer, shift)
            for frame, part in zip(frames, found)]


def _by_way_of(frame: Frame, part: Part, nearer: Part, answer: Answer, shift: np.ndarray) -> Part:
    """shift (n, m, slots): from the answer to the one that is nearer to the solution."""
    equation, d, a = frame.equation, frame.equation.dim, frame.known.a
    e, steep = shift[:, equation.value, 0], shift[:, equation.value, 1 : 1 + d]
    flux = steep if equation.flux is None else shift[:, list(equation.flux), 0]
    energy, across = (np.einsum("ni,nij,nj->n", v, a, v) for v in (steep, flux))
    energy = energy + max(frame.c, 0.0) * e**2
    moved = [answer.integral(values) for values in (e**2, energy, (steep**2).sum(1), across, energy + across)]
    value, inner, gradient, through, both = (math.sqrt(between.high) for between in moved)
    old, new = part.bounds, nearer.bounds
    better = old._replace(value=min(old.value, new.value + value), energy=min(old.energy, new.energy + inner),
                          gradient=min(old.gradient, new.gradient + gradient), flux=min(old.flux, new.flux + through))
    if old.combined is not None and new.combined is not None:
        better = better._replace(combined=min(old.combined, new.combined + both),
                                 at_least=max(old.at_least, math.sqrt(moved[-1].low) - new.combined))
    return part._replace(bounds=better)


def _reaction(equation: Scalar, x: np.ndarray, jets: np.ndarray, known: Coefficients) -> tuple[np.ndarray, str]:
    """The least c′ − ½∇·β − ½∂ρ/∂t at points, and a word for c."""
    aside = 0.5 * (known.spread + known.aging)
    if equation.linear:
        return known.c - aside, ""
    reach = WIDER * max(float(np.abs(jets[:, equation.value, 0]).max()), 1.0)
    random = np.random.default_rng(SEED)
    near, far = ([equation.reaction_slope(x, size * random.uniform(-1, 1, len(x))) for size in sizes]
                 for sizes in (reach * np.linspace(0.1, 1, STATES), reach * 10.0 ** np.arange(1, FAR)))
    near += [equation.reaction_slope(x, np.full(len(x), u)) for u in np.linspace(-reach, reach, STATES + 1)]
    least, beyond = np.min(near, axis=0), np.min(far, axis=0)
    if not (np.isfinite(least).all() and beyond.min() >= least.min() - 1e-9 * np.abs(least).max()):
        raise Unrecognised(f"the slope of the reaction in the equation of '{equation.label}' falls without bound")
    return least - aside, ", semilinear"


def _across(equation: Scalar, side: Side) -> np.ndarray:
    """½ n·β at the points of a boundary."""
    return 0.5 * np.einsum("nj,nj->n", equation.coefficients(side.x).beta, side.normals)


def _kind(equation: Scalar, nonlinear: str, drifts: bool, c: float) -> str:
    words = ["wave" if equation.speed is not None else "parabolic" if equation.timed else "elliptic"]
    words.append("with convection" if drifts else "symmetric")
    if c > 0:
        words.append(f"reaction ≥ {c:.3g}")
    words.append("u and its gradient" if equation.flux is not None else "u alone")
    return ", ".join(words) + nonlinear


def _norms(frame: Frame, answer: Answer, own: np.ndarray, apart: np.ndarray) -> Norms:
    """own, apart: −R₁ and p − ∇v at the points."""
    equation, jets, known = frame.equation, answer.jets, frame.known
    gradient = jets[:, equation.value, 1 : 1 + equation.dim]
    gradient = gradient if equation.flux is None else jets[:, list(equation.flux), 0]
    squared = own**2 / (known.rho if equation.timed else 1.0)
    return Norms(answer.integral(squared), tuple(answer.integral(squared, k) for k in range(len(answer.sample.spans))),
                 answer.integral(np.einsum("ni,nij,nj->n", apart, known.a, apart)),
                 answer.integral(own**2 / frame.reaction) if frame.c > 0 else None,
                 answer.integral(jets[:, equation.value, 0] ** 2), answer.integral((gradient**2).sum(1)))


def _steady(frame: Frame, norms: Norms, highest: float) -> Part:
    """highest: |R₁| at any of the points."""
    m1, m2 = math.sqrt(norms.r1.high), math.sqrt(norms.r2.high)
    constant, plain = frame.constant, frame.c >= 0 and not frame.drifts
    bounds, largest = NOTHING, None
    sharp = norms.by_c is not None and not frame.drifts and frame.equation.linear
    if sharp:
        assert norms.by_c is not None
        bounds = with_reaction(m2, math.sqrt(norms.by_c.high), frame.least, frame.c)
        bounds = bounds._replace(at_least=math.sqrt(norms.r2.low + norms.by_c.low))
    if constant.value > 0:
        other = by_constant(m2, m1, frame.least, constant.value, max(-frame.c, 0.0), plain, math.sqrt(norms.r2.low))
        bounds = tighter(bounds, other)
        if not m2 and constant.high is not None and plain:
            largest = constant.high * highest
    return Part(bounds, norms, sharp, largest)


def _in_time(frame: Frame, norms: Norms) -> TimeBounds:
    time = frame.equation.problem.time
    assert time is not None
    density = float(frame.known.rho.min())
    found = Residuals(math.sqrt(norms.r2.high), math.sqrt(min(span.high for span in norms.spans)),
                      math.sqrt(norms.r1.high))
    growth = max(float((-frame.reaction / frame.known.rho).max()), 0.0)
    rate = frame.constant.value / float(frame.known.rho.max()) if growth == 0 else 0.0
    return parabolic(found, time[1] - time[0], frame.least, density, growth, rate, not frame.drifts and growth == 0,
                     math.sqrt(norms.r2.low))


def _of_wave(frame: Frame, norms: Norms, answer: Answer, own: np.ndarray, apart: np.ndarray) -> TimeBounds:
    assert answer.wave is not None and frame.equation.problem.time is not None
    start, end = frame.equation.problem.time
    lag = frame.known.rho * answer.wave.lag(answer.x, answer.jets) ** 2
    if frame.constant.value > 0:
        lag = lag + own**2 / frame.constant.value
    elif own.any():
        raise Unrecognised("no positive lower bound of λ₁ was found for the wave equation")
    two = np.einsum("ni,nij,nj->n", apart, frame.known.a, apart)
    lags, twos = ([answer.integral(values, k).high for k in range(len(answer.sample.spans))] for values in (lag, two))
    return vibrating(math.sqrt(min(lags)), math.sqrt(min(twos)), end - start, float(frame.known.rho.min()))


def _assembled(answer: Answer, frames: list[Frame], found: list[Part]) -> ErrorBar:
    """One bar of those of all scalars; components of a field add up."""
    schema, off = answer.stated.schema, ROUNDING * answer.off * math.sqrt(answer.space.high)
    bases = dict(schema.gradients)
    values: dict[str, list[tuple[float, Between, float | None]]] = {}
    for frame, part in zip(frames, found):
        equation = frame.equation
        slices = equation.problem.schema.slices.items()
        name = next(name for name, where in slices if where.start <= equation.value < where.stop)
        values.setdefault(name, []).append((part.bounds.value, part.norms.value, part.largest))
        for gradient, base in bases.items():
            if base == name:
                least = part.bounds.gradient if equation.flux is None else part.bounds.flux / math.sqrt(frame.least)
                if math.isfinite(least):
                    values.setdefault(gradient, []).append((least, part.norms.gradient, None))
    fields = {name: _bar(values[name], off) for name in schema.names if name in values}
    bounds = [part.bounds for part in found]
    combined = None
    if all(b.combined is not None for b in bounds):
        combined = (math.hypot(*(b.at_least for b in bounds)), math.hypot(*(b.combined or 0.0 for b in bounds)))
    energy = math.hypot(*(b.energy for b in bounds))
    worst = [b.worst for b in bounds if isinstance(b, TimeBounds)]
    return ErrorBar(GUARANTEED, " · ".join(dict.fromkeys(frame.kind for frame in frames)), fields,
                    energy if math.isfinite(energy) else None, combined, math.hypot(*worst) if worst else None,
                    level(len(answer.sample.x)), _constants(frames, found))


def _constants(frames: list[Frame], found: list[Part]) -> str | None:
    """The least λ₁ that was needed and how it was found, in a sentence."""
    if all(part.sharp for part in found):
        return "the reaction makes residuals the error, without a constant"
    needed = [frame.constant for frame, part in zip(frames, found) if not part.sharp and frame.constant.value > 0]
    return _said(min(needed, key=lambda one: one.value)) if needed else None


def _said(constant: Constant) -> str:
    return f"λ₁ ≥ {constant.value:.3g}: {constant.how}"


def _bar(parts: list[tuple[float, Between, float | None]], off: float) -> FieldBar:
    """off: what the rounding of the conditions adds."""
    l2 = math.hypot(*(value for value, _, _ in parts)) + off
    size = math.sqrt(sum(norm.low for _, norm, _ in parts)) - l2  # of the solution, at least
    largest = [most for _, _, most in parts if most is not None]
    whole = len(largest) == len(parts)
    return FieldBar(l2, l2 / size if size > 0 else None, max(largest) if whole else None, GUARANTEED,
                    ESTIMATED if whole else None)
