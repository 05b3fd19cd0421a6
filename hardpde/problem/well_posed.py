"""Does the problem make sense? How many conditions each boundary needs and has, from the statement alone.

Nothing is solved. What is found wrong is said in a sentence with a remedy; where it cannot be told, that is said.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from hardpde.problem.balances import Balance, balances
from hardpde.problem.conditions import INITIAL, Condition, dirichlet, neumann, slip, supported
from hardpde.problem.free_modes import Mode, free_modes
from hardpde.problem.lopatinski import SHORT, Count, counted, frequencies, rank
from hardpde.problem.places import Linear, Place, places_inside, places_of, places_on
from hardpde.problem.waves import Singular, evolution, half_space
from hardpde.support.compiling import compiled_quickly
from hardpde.support.hardware import one_thread_in_libraries
from hardpde.support.messages import first_line

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem

REMEDIES = 2  # that are named
EVOLVING = 1e4  # waves in the domain, of which the rates of change are looked at
GROWTH = 1e-2  # of a rate: what grows less as waves get shorter is no sign of a wrong direction of time
LEFT = 0.1  # of the largest: components of a free state that are named


class Finding(NamedTuple):
    """A sentence; fault: whether the problem is not well posed for it, or (None) that this cannot be told; last: with
    that, there is nothing to ask of the boundaries."""

    sentence: str
    fault: bool | None = True
    last: bool = False


class WellPosed(NamedTuple):
    """What was found. needs: {boundary: {"needed", "stated"}}, numbers or None; modes: what may be added to solutions.
    """

    findings: tuple[Finding, ...]
    needs: dict[str, dict[str, int | None]]
    modes: tuple[Mode, ...] = ()

    @property
    def verdict(self) -> bool | None:
        """Whether the problem is well posed; None: it cannot be told."""
        faults = {finding.fault for finding in self.findings}
        return False if True in faults else None if None in faults else True

    @property
    def sentences(self) -> list[str]:
        return [finding.sentence for finding in self.findings]

    def refuse(self) -> None:
        """A ValueError of all that is wrong, if anything is."""
        if wrong := [finding.sentence for finding in self.findings if finding.fault]:
            raise ValueError(f"the problem is not well posed: {'; '.join(wrong)}")

    def summary(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"well_posed": self.verdict, "needs": self.needs, "free_modes": [mode.summary() for mode in self.modes],
                "findings": self.sentences}


def check_well_posed(problem: "Problem") -> WellPosed:
    """How many conditions the boundaries and the start of time need and have, and whether the equations suffice."""
    try:
        with compiled_quickly(), one_thread_in_libraries():
            return _checked(problem.completed)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:  # of states that are not those of a solution
        why = f"whether the problem is well posed cannot be told: the linearised equations fail ({first_line(error)})"
        return WellPosed((Finding(why, None),), {})


def _checked(problem: "Problem") -> WellPosed:
    linear = Linear(problem)
    inside = places_inside(linear)
    findings = list(_of_equations(problem, inside))
    if any(finding.fault is not False for finding in findings):
        return WellPosed(tuple(findings), {})
    needs: dict[str, dict[str, int | None]] = {}
    if problem.time is not None:
        findings += _of_start(problem, inside, needs)
    if not any(finding.last for finding in findings):
        findings += _of_ends(linear, inside, needs) if _is_ode(problem) else _of_boundaries(linear, needs)
    if any(finding.fault for finding in findings):  # what is missing leaves all kinds of states free
        return WellPosed(tuple(findings), needs)
    shown = problem.stated.schema.names
    modes = [replace(mode, fields=tuple(name for name in mode.fields if name in shown) or mode.fields)
             for mode in free_modes(linear)]
    findings += [Finding(_of_mode(problem, mode)) for mode in modes]
    findings += [Finding(_of_balance(problem, one)) for one in balances(linear)]
    return WellPosed(tuple(findings), needs, tuple(modes))


def _of_mode(problem: "Problem", mode: Mode) -> str:
    """What is free, and what would fix it."""
    if not mode.constant:
        states = "a state" if len(mode.coefficients) == 1 else f"{len(mode.coefficients)} states"
        return (f"there are solutions that differ: {states} of {_listed(mode.fields)} may be added to any, which all "
                f"equations and conditions leave alone; hold the solution somewhere with a Dirichlet condition, or at "
                f"a resonance change the coefficients")
    (name,) = mode.fields
    when = "" if problem.time is None else " at every time"
    what = f"nothing fixes the level of '{name}': a constant may be added to it{when}"
    if problem.schema.shapes[name]:
        return f"{what}; state a Dirichlet condition for it somewhere"
    return f'{what}; state mean("{name}", 0) or pin("{name}", at=…, value=…) among the conditions'


def _of_balance(problem: "Problem", balance: Balance) -> str:
    """By how much data disagree."""
    equations = _listed([str(1 + k) for k in balance.equations])
    where = "" if not balance.boundaries else f" and of {_listed([repr(name) for name in balance.boundaries])}"
    return (f"no solution can exist: in equation{'s' * (len(balance.equations) > 1)} {equations}, added up over the "
            f"domain, the data inside{where} must cancel, and leave {balance.amount:.3g} of {balance.size:.3g}; "
            f"change the source or what flows through the boundary by that")


def _is_ode(problem: "Problem") -> bool:
    return problem.domain.dim == 1 and problem.time is None


def _of_equations(problem: "Problem", inside: list[list[Place]]) -> Iterator[Finding]:
    """Whether there are as many equations as fields, and they say something of each."""
    labels = problem.schema.labels()
    symbols = [(side.symbol, side.fields) for place in inside for side in place[0].sides]
    short = [(s, f) for s, f in symbols if s.equations < len(f)]
    if short:
        symbol, fields = short[0]
        missing = len(fields) - symbol.equations
        what = (f"there are {symbol.equations} equations for the {len(fields)} components "
                f"{', '.join(labels[k] for k in fields)}")
        if problem.measurements:
            yield Finding(f"{what}: measurements are to determine the rest; whether they do cannot be told", None)
        else:
            yield Finding(f"{what}: {_number(missing, 'equation')} {'is' if missing == 1 else 'are'} missing; add to "
                          f"what the residual returns")
        return
    if problem.measurements and any(s.equations > len(f) for s, f in symbols):
        yield Finding("there are more equations than components of fields, and measurements: all are met as well as "
                      "possible, and whether that determines the fields cannot be told", None)
        return
    wave = np.random.default_rng(7).normal(size=problem.domain.dim) * SHORT / problem.domain.size
    free = list[list[str]]()  # of every state the fields that are left open
    for place in inside:
        for state in place:
            side = state.sides[0]
            try:
                half_space(side.symbol, wave / np.linalg.norm(wave), wave, _rate(problem) * (0.4 + 1j), SHORT)
                free.append([])
            except Singular as error:
                free.append([labels[side.fields[k]] for k in np.flatnonzero(error.free > LEFT)])
    if free and all(free):
        yield Finding(f"the equations do not determine {_listed(free[0])}: some follow from others, or say nothing of "
                      f"it; state an equation for it")


def _rate(problem: "Problem") -> float:
    return 0.0 if problem.time is None else SHORT / (problem.time[1] - problem.time[0])


def _of_start(problem: "Problem", inside: list[list[Place]], needs: dict[str, Any]) -> Iterator[Finding]:
    """How many initial conditions are needed, and whether waves that get shorter stay bounded."""
    wave = np.random.default_rng(8).normal(size=problem.domain.dim)
    wave *= EVOLVING / np.linalg.norm(wave) / problem.domain.size
    counts, backwards = [], []
    for place in inside:
        for state in place:
            side = state.sides[0]
            if not side.symbol.in_time.any():
                counts.append((0, 0))
                continue
            try:
                rates, basis = evolution(side.symbol, wave)
            except Singular:
                continue
            rows = state.values[0][:, side.fields]
            size = (np.abs(rows) @ np.abs(basis)).sum(1)
            counts.append((len(rates), rank(rows @ basis / np.where(size > 0, size, 1.0)[:, None])))
            fast = np.abs(rates) * (problem.time[1] - problem.time[0]) > EVOLVING**0.5  # type: ignore[index]
            backwards.append(bool((rates.real[fast] > GROWTH * np.abs(rates[fast])).any()))
    if not counts or len({needed for needed, _ in counts}) > 1:
        needs[INITIAL] = {"needed": None, "stated": None}
        yield Finding("how many initial conditions are needed depends on the state about which the equations are "
                      "linearised, so that it cannot be told; exact= or the hint guess says about which", None)
        return
    needed, held = counts[0][0], min(held for _, held in counts)
    needs[INITIAL] = {"needed": needed, "stated": held}
    if held < needed:
        yield Finding(f"the start of time needs {_number(needed, 'initial condition')} and has {held}: the equations "
                      f"have {_number(needed, 'rate')} of change; state initial(…) for {_unstated(problem, inside)}")
    if not needed:
        yield Finding("the problem has time, and no equation a derivative by it: what the fields are at one time says "
                      "nothing of another", False)
    if backwards and all(backwards):
        yield Finding("the equations let waves grow without bound as they get shorter, like the heat equation "
                      "backwards in time: turn the sign of the derivative by time, or of the highest ones in space",
                      last=True)


def _unstated(problem: "Problem", inside: list[list[Place]]) -> str:
    """Fields with a derivative by time, or other plain ones, that no initial condition is stated for."""
    symbol, rows = inside[0][0].sides[0].symbol, inside[0][0].values[0]
    gradients = dict(problem.schema.gradients)
    names = []
    for name, where in problem.schema.slices.items():
        if name not in gradients and not rows[:, where].any() and symbol.in_time[:, where].any():
            names.append(name)
    return _listed(names or [name for name in problem.schema.names if name not in gradients], "or")


def _of_ends(linear: Linear, inside: list[list[Place]], needs: dict[str, Any]) -> Iterator[Finding]:
    """An ordinary differential equation: how many conditions its two ends need together."""
    problem = linear.problem
    orders = set()
    for place in inside:
        for state in place:
            waves = half_space(state.sides[0].symbol, np.ones(1), np.zeros(1), 0.0, 1 / problem.domain.size)
            orders.add(waves.values.shape[1] - waves.decaying)
    name = " and ".join(problem.domain.boundaries)
    if len(orders) > 1:
        needs[name] = {"needed": None, "stated": None}
        yield Finding("how many conditions the ends need depends on the state, so that it cannot be told", None)
        return
    needed = orders.pop()
    stated = 0
    for end in problem.domain.boundaries:
        for period in problem.periods:
            stated += needed if period.condition.on == end else 0
        if end in {condition.on for condition in problem.pointwise}:
            for first in {float(states[0].at[0]): states[0] for states in places_on(linear, end)}.values():
                side = first.sides[0]
                waves = half_space(side.symbol, side.normal, np.zeros(1), 0.0, 1 / problem.domain.size)
                stated += rank(first.values[0] @ waves.values - first.slopes[0] @ waves.slopes)
    needs[name] = {"needed": needed, "stated": stated}
    if stated != needed:
        yield Finding(f"the ends need {_number(needed, 'condition')} together and have {stated}: "
                      + ("state more" if stated < needed else "leave some out"))


def _of_boundaries(linear: Linear, needs: dict[str, Any]) -> Iterator[Finding]:
    """How many conditions every boundary needs and has."""
    problem, which = linear.problem, frequencies(linear.problem)
    of_period = {period.condition.on: period for period in problem.periods}
    joined = {period.condition.to for period in problem.periods}
    found: dict[str, list[tuple[Place, Count | None]]] = {}
    for name in problem.domain.boundaries:
        if name in joined:
            continue
        places = places_of(linear, of_period[name]) if name in of_period else places_on(linear, name)
        if not places:
            needs[name] = {"needed": None, "stated": None}
            yield Finding(f"'{name}' runs through the domain, and its fields live on both sides: how many conditions "
                          f"it needs cannot be told; state regions={{…}} for fields of their own", None)
            continue
        found[name] = [_agreed(states, which) for states in places]
    sign = _sign([count for counts in found.values() for _, count in counts if count is not None])
    for name, counts in found.items():
        yield from _of_boundary(linear, name, counts, sign, needs)


def _agreed(states: Sequence[Place], which: list) -> tuple[Place, Count | None]:
    """What a boundary point needs and has, if it does so about every state; of what it has, the most."""
    counts = []
    for state in states:
        try:
            counts.append(counted(state, which))
        except (Singular, np.linalg.LinAlgError, ValueError):
            counts.append(None)
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or len({(count.needed, count.neutral) for count in known}) > 1:
        return states[0], None
    return states[0], max(known, key=lambda count: (count.held, -count.stated))


def _sign(counts: list[Count]) -> int:
    """Which way what is only carried along is taken to run: as equations are signed, unless the conditions fit the
    other way."""
    for sign in (1, -1):
        if all(0 in count.neutral or count.stated == count.needed + count.neutral.count(sign) for count in counts):
            return sign
    return 1


def _of_boundary(linear: Linear, name: str, counts: list[tuple[Place, Count | None]], sign: int,
                 needs: dict[str, Any]) -> Iterator[Finding]:
    known = [(place, count) for place, count in counts if count is not None and 0 not in count.neutral]
    if not known:
        needs[name] = {"needed": None, "stated": None}
        why = ("depends on the state about which the equations are linearised, so that it cannot be told; exact= or "
               "the hint guess says about which" if not linear.linear else
               "differs from one wave to the other, so that it cannot be told: the equations are of no common type")
        yield Finding(f"how many conditions '{name}' needs {why}", None)
        return
    wanted = [count.needed + count.neutral.count(sign) for _, count in known]
    wrong = [k for k, (_, count) in enumerate(known)
             if count.stated != wanted[k] or count.held < min(count.needed, count.stated)]
    place, count = known[wrong[0]] if wrong else known[0]
    needed = wanted[wrong[0]] if wrong else max(wanted)
    needs[name] = {"needed": needed, "stated": count.stated}
    if not wrong:
        if len(known) < len(counts):
            yield Finding(f"how many conditions '{name}' needs cannot be told everywhere on it: it depends on the "
                          f"state about which the equations are linearised", None)
        return
    where = f"'{name}'"
    if len(wrong) < len(known):
        where = f"part of '{name}', such as ({', '.join(f'{c:.4g}' for c in place.at[: linear.schema.dim])}),"
    remedy = _remedy(linear, name, place, needed)
    if len(wrong) < len(known):
        then = remedy.removeprefix(":").replace(repr(name), "…").replace(f'"{name}"', "…")
        remedy = f": give it a name of its own{' and' if remedy else ''}{then}"
    if count.stated == needed:
        yield Finding(f"the conditions on {where} are as many as it needs, {needed}, and do not determine all that the "
                      f"equations leave open there{remedy}")
    else:
        yield Finding(f"{where} needs {_number(needed, 'condition')} and has {count.stated}{remedy}")


def _remedy(linear: Linear, name: str, place: Place, needed: int) -> str:
    """What would do instead: rows that could be left out, or conditions that could be stated."""
    which = frequencies(linear.problem)

    def suits(other: Place) -> bool:
        try:
            count = counted(other, which)
        except (Singular, np.linalg.LinAlgError, ValueError):
            return False
        return count is not None and count.stated == needed and count.held == count.needed

    stated = list(dict.fromkeys(place.names))
    if needed == 0 and stated:
        return f": leave out what is stated there and declare it free=['{name}']"
    fewer = [one for one in stated if suits(place.with_rows(k for k, n in enumerate(place.names) if n != one))]
    if fewer:
        return f": leave out {_listed([repr(one) for one in fewer[:REMEDIES]], 'or')}"
    more, instead = [], []
    for call, condition in _candidates(linear.problem, name):
        try:
            rows = _rows_of(linear.problem, condition, place)
        except ValueError:
            continue
        if suits(rows):
            instead.append(call)
        elif stated and suits(_joined(place, rows)):
            more.append(f"{call} too")
    found = instead[:REMEDIES] or more[:REMEDIES]
    if not found:
        return ""
    place_of = f" in place of {_listed([repr(one) for one in stated])}" if stated and instead else ""
    return f": state {_listed(found, 'or')}{place_of}"


def _candidates(problem: "Problem", name: str) -> Iterator[tuple[str, Condition]]:
    """Conditions that are often right, as they are written."""
    gradients = dict(problem.schema.gradients)
    added = {field: base for base, field in problem.schema.laplacians}
    plain = [field for field in problem.schema.names if field not in gradients and field not in added]
    for field in plain:
        yield f'dirichlet("{name}", "{field}", …)', dirichlet(name, field)
        if problem.schema.shapes[field] == (problem.schema.dim,):
            yield f'slip("{name}", "{field}")', slip(name, field)
    for base in added.values():
        yield f'supported("{name}", "{base}")', supported(name, base)
    for field in plain:
        yield f'neumann("{name}", "{field}", …)', neumann(name, field)


def _rows_of(problem: "Problem", condition: Condition, place: Place) -> Place:
    """The place with the rows of one condition alone."""
    m = problem.schema.size
    a = np.asarray(condition.matrix(problem.schema, jnp.asarray(place.at), jnp.asarray(place.sides[0].normal))[0])
    b = a[:, m:] if problem.schema.traces else np.zeros_like(a)
    return place._replace(values=(a[:, :m],), slopes=(b,), names=(condition.name,) * len(a))


def _joined(place: Place, other: Place) -> Place:
    """Rows of two; those that follow from others left out."""
    values, slopes = (np.concatenate([getattr(place, part)[0], getattr(other, part)[0]])
                      for part in ("values", "slopes"))
    return place._replace(values=(values,), slopes=(slopes,), names=(*place.names, *other.names))


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
