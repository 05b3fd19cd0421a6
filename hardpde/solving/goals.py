"""Numbers that are asked of a solution, a mean or a flux, each with what it is between: by the adjoint problem.

With e = u − v the error of an answer v and a the form of the equation, j(u) − j(v) = a(e, z) for the z whose equation
has j on its right side. For a z̃ near it, found directly with exact conditions, a(e, z̃) = ∫R₁ z̃ + ∫R₂·∇z̃ is known and
added; what is left is at most ‖e‖ m₁ + E m₂, with m₁ and m₂ the residuals of z̃ and ‖e‖ and E from the error bar. The
flux through a boundary where u is given is the same with z = 1/A there, and no source.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.polynomial import legendre

from hardpde.bounds.boundary_rows import Side, find_sides
from hardpde.bounds.error_bar import ESTIMATED, GUARANTEED, NONE, POINTS
from hardpde.bounds.estimate import correction, enlarged
from hardpde.bounds.quadrature import mean_between, points_drawn, volume
from hardpde.bounds.recognise import Scalar, Unrecognised, recognised
from hardpde.bounds.soundness import probes_of, unseen
from hardpde.geometry.algorithms.sampling import check_survival
from hardpde.geometry.algorithms.stacking import place
from hardpde.problem.conditions import Condition, dirichlet, evaluate
from hardpde.problem.datum import Datum, domain_rule
from hardpde.problem.fields import State, flat
from hardpde.problem.problem import Problem
from hardpde.solving.direct import direct_settings, run_directly
from hardpde.solving.settings import make_settings
from hardpde.solving.solution import Solution
from hardpde.support.compiling import jit_simply, runs_once

NODES = (32768, 8192)  # of integrals over the domain, and to see how far they are off,
NODES_ON_A_LINE = (2048, 1024)  # in one dimension
PANELS = (64, 48)  # of integrals over each piece of a boundary, with GAUSS points each
GAUSS = 4
ALIKE = 1e-9
ROUNDING = 1e-13  # of what is added up
TOLERANCE = 1e-6  # of the adjoint problem
SEED = 2**22


@dataclass(frozen=True)
class Goal:
    """The integral of density(q, x, n) over a boundary, or over the domain (on None; n is zero then). field: the number
    of which it is an integral, times `weight`, or whose flux it is; None for other functions."""

    name: str
    density: Callable[[State, Array, Array], Any]
    on: str | None
    field: str | None = None
    weight: Callable[[Array], Any] | float = 1.0
    through: bool = False


class Found(NamedTuple):
    """A number of the solution: its value, and between what it lies. word: "guaranteed", "estimated" or "none".

    quadrature: how far integrals of known functions are off, as fewer points tell, and rounding; that is no proof.
    """

    name: str
    value: float
    low: float
    high: float
    word: str
    quadrature: float
    why: str | None = None

    @property
    def sentence(self) -> str:
        more = f" ({self.why})" if self.why else ""
        if self.word == NONE:
            return f"{self.name} = {self.value:.6g}, not enclosed{more}"
        return f"{self.name} = {self.value:.10g}, {self.word} within {(self.high - self.low) / 2:.1e}{more}"


def integral(what: str | Callable[[State, Array, Array], Any], on: str | None = None,
             weight: Callable[[Array], Any] | float = 1.0) -> Goal:
    """The integral of a field that is a number, times a weight(x), over the domain or over the boundary `on`; or of any
    function (q, x, n) of the state, like the force on a body."""
    if callable(what):
        return Goal("the integral", lambda q, x, n: evaluate(weight, x) * what(q, x, n), on)
    name = f"∫{what}" if on is None else f"∫{what} over '{on}'"
    return Goal(name, lambda q, x, n: evaluate(weight, x) * q[what], on, what, weight)


def flux(field: str, on: str) -> Goal:
    """The integral of n·∇u over a boundary, n pointing out of the domain."""
    return Goal(f"flux of {field} through '{on}'", lambda q, x, n: q.gradient(field) @ n, on, field, through=True)


def goal(solution: Solution, asked: Goal | Datum) -> Found:
    """The value of a goal, and what it is between."""
    if isinstance(asked, Datum):
        return _mean(solution, asked)
    problem, inner = solution.problem, solution.formulation.problem
    if problem.time is not None or problem.parameters or problem.mapping is not None or problem.regions:
        raise ValueError("goals are numbers of problems without time, parameters, mappings and regions; integrate the "
                         "solution at points of your own")
    if asked.field is not None and (inner.schema.shapes.get(asked.field) != () or asked.field in dict(
            problem.schema.gradients)):
        raise ValueError(f"'{asked.field}' is no field that is a number; a function (q, x, n) takes any")
    if asked.on is not None and asked.on not in problem.domain.boundaries:
        raise ValueError(f"there is no boundary '{asked.on}'; the boundaries are "
                         f"{', '.join(problem.domain.boundaries)}")
    with runs_once():
        rules = _rules(problem, asked.on)
    (value, size), (coarse, _) = (_integrated(solution, asked, rule) for rule in rules)
    quadrature = abs(value - coarse) + ROUNDING * size
    bar = solution.error_bar()
    if bar.word == NONE:
        return Found(asked.name, value, -math.inf, math.inf, NONE, quadrature, bar.why)
    if bar.word == GUARANTEED:
        try:
            return _enclosed(solution, asked, value, quadrature, rules)
        except Unrecognised as why:
            return _guessed(solution, asked, value, quadrature, rules[1], str(why))
    return _guessed(solution, asked, value, quadrature, rules[1], bar.why)


def _mean(solution: Solution, asked: Datum) -> Found:
    """That of the integral, over the measure of the domain."""
    if asked.at is not None:
        raise ValueError("pin is no goal; hp.mean, hp.integral and hp.flux are")
    found, space = goal(solution, integral(asked.field)), volume(solution.problem.domain)
    ends = [end / size for end in (found.low, found.high) for size in space]
    middle = found.value / ((space.low + space.high) / 2)
    return found._replace(name=f"mean of {asked.field}", value=middle, low=min(ends), high=max(ends))


class Rule(NamedTuple):
    """Points x (n, d), weights (n,) and normals (n, d), zero inside."""

    x: np.ndarray
    weights: np.ndarray
    normals: np.ndarray


def _rules(problem: Problem, on: str | None) -> list[Rule]:
    """A fine and a coarse one."""
    if on is None:
        space = volume(problem.domain)
        rules = [domain_rule(problem, number) for number in (NODES if problem.domain.dim > 1 else NODES_ON_A_LINE)]
        return [Rule(x, w * (space.low + space.high) / 2, np.zeros_like(x)) for x, w in rules]
    return [_on(problem, on, panels) for panels in PANELS]


def _on(problem: Problem, name: str, panels: int) -> Rule:
    """Gauss points on every piece of a boundary that is whole, random ones on others."""
    shape, d = problem.domain, problem.domain.dim
    points, weights = legendre.leggauss(GAUSS)
    found = []
    for k, piece in enumerate(shape.boundaries[name].pieces):
        if d == 2:
            u = ((np.arange(panels)[:, None] + (1 + points) / 2) / panels).ravel()
            w, u = np.tile(weights / 2 / panels, panels), np.repeat(u[:, None], 2, axis=1)
        else:
            u = np.asarray(jax.random.uniform(jax.random.key(k), (panels**2 if d > 2 else 1, d)))
            w = np.full(len(u), 1 / len(u))
        x, n = place((piece,), jnp.zeros(len(u), int), jnp.asarray(u))
        if d > 1 and not bool(check_survival(shape, x, n, jnp.full(len(u), piece.body)).all()):
            raise ValueError(f"a part of '{name}' is cut away, so that no integral over it is exact; integrate the "
                             f"solution at points of your own")
        found.append(Rule(np.asarray(x), w * piece.measure, np.asarray(n)))
    return Rule(*map(np.concatenate, zip(*found)))


def _densities(problem: Problem, asked: Goal, rule: Rule, jets: np.ndarray) -> np.ndarray:
    schema = problem.schema

    def one(x: Array, n: Array, jet: Array) -> Array:
        state = schema.state(jet[:, 0], jet[:, 1 : 1 + schema.dim])
        return jnp.asarray(asked.density(state, x, n), float).reshape(())

    return np.asarray(jit_simply(jax.vmap(one))(jnp.asarray(rule.x), jnp.asarray(rule.normals), jnp.asarray(jets)))


def _integrated(solution: Solution, asked: Goal, rule: Rule) -> tuple[float, float]:
    """j(v), and the integral of the size of what that is one of."""
    jets = solution.formulation.jet(solution.training.model, rule.x)
    parts = rule.weights * _densities(solution.formulation.problem, asked, rule, jets)
    return float(parts.sum()), float(np.abs(parts).sum())


def _guessed(solution: Solution, asked: Goal, value: float, quadrature: float, rule: Rule, why: str | None) -> Found:
    """What the linearised equations say of the error, put into the goal."""
    formulation, model = solution.formulation, solution.training.model
    with runs_once():
        sample = points_drawn(formulation.problem, rule.x.shape[0], SEED)
        found = correction(formulation, model, sample, formulation.jet(model, sample.x))
        jets = formulation.jet(model, rule.x)
        moved, plain = (_densities(formulation.problem, asked, rule, one)
                        for one in (jets + enlarged(found) * found.jets(rule.x), jets))
    half = float(rule.weights @ np.abs(moved - plain)) + quadrature  # of which sign errors are is not known
    return Found(asked.name, value, value - half, value + half, ESTIMATED, quadrature, why)


def _enclosed(solution: Solution, asked: Goal, value: float, quadrature: float, rules: list[Rule]) -> Found:
    """Unrecognised where the adjoint theory has nothing to say."""
    inner, bar = solution.formulation.problem, solution.error_bar()
    equation, sides = _sole(inner, asked)
    adjoint = _adjoint(inner, equation, sides, asked)
    settings = direct_settings(make_settings(adjoint, "exact", "quick", 0), {}, TOLERANCE, None)
    near = run_directly(adjoint, settings)[0]
    sign = -1.0 if asked.through else 1.0
    domain = rules if asked.on is None else _rules(inner, None)
    added, coarse = (sign * _paired(solution, near, equation, rule) for rule in domain)
    one, two = _residual_norms(near, inner, equation, asked)
    assert equation.label in bar.fields and bar.energy is not None
    half = bar.fields[equation.label].l2 * one + bar.energy * two + quadrature + abs(added - coarse)
    middle = value + added
    return Found(asked.name, middle, middle - half, middle + half, GUARANTEED, quadrature + abs(added - coarse))


def _residual_norms(near: Solution, inner: Problem, equation: Scalar, asked: Goal) -> tuple[float, float]:
    """m₁ and m₂ of the answer of the adjoint problem."""
    space, sample = volume(inner.domain), points_drawn(inner, POINTS, SEED)
    probes = probes_of(inner, space.low, SEED)
    x, n = np.concatenate([sample.x, probes.x]), len(sample.x)
    jets = near.formulation.jet(near.training.model, x)
    own, apart = equation.residuals(x, jets)
    linear, _ = equation.residuals(x, np.zeros((len(x), inner.schema.size, 1 + inner.derivatives)))
    source = 0.0 if asked.through else _weights(asked, x)
    a = equation.coefficients(x).a
    norms = []
    for squares in ((own - linear - source) ** 2, np.einsum("ni,nij,nj->n", apart, a, apart)):
        mean = mean_between(squares[:n]).high
        norms.append(math.sqrt(space.high * (mean + unseen(squares[n:], mean, probes))))
    return norms[0], norms[1]


def _weights(asked: Goal, x: np.ndarray) -> np.ndarray:
    return np.asarray(jax.vmap(lambda x: jnp.asarray(evaluate(asked.weight, x), float).reshape(()))(jnp.asarray(x)))


def _sole(problem: Problem, asked: Goal) -> tuple[Scalar, tuple[Side, ...]]:
    """The one equation, if its adjoint is itself and the goal is one that it has theory for."""
    equations = recognised(problem)
    if len(equations) > 1 or not equations[0].linear or asked.field != equations[0].label:
        raise Unrecognised("the adjoint is known for one linear equation and its field alone")
    (equation,) = equations
    sides = find_sides(equation)
    x = points_drawn(problem, 512, SEED).x
    known = equation.coefficients(x)
    if np.abs(known.beta).max() > ALIKE * np.abs(known.a).max() / problem.domain.size:
        raise Unrecognised("with convection the adjoint is another equation")
    if asked.on is None:
        return equation, sides
    side = next((side for side in sides if side.name == asked.on), None)
    if not asked.through or side is None or not side.given:
        raise Unrecognised("the adjoint is known for integrals over the domain and for fluxes where the value is given")
    a = equation.coefficients(side.x).a
    if np.abs(a - a[:, :1, :1] * np.eye(equation.dim)).max() > ALIKE * np.abs(a).max():
        raise Unrecognised("the flux where conductivity depends on direction is none of the equation")
    return equation, sides


def _adjoint(problem: Problem, equation: Scalar, sides: tuple[Side, ...], asked: Goal) -> Problem:
    """The problem of z: the same equation, with the goal for its data."""
    schema = problem.schema
    nothing = schema.state(jnp.zeros(schema.size)), schema.derivatives(jnp.zeros((problem.derivatives, schema.size)))

    def second(x: Array) -> Array:
        return equation.derivatives(x, jnp.zeros(schema.size))[1]

    def residual(x: Array, q: State, dq: State) -> Array:
        linear = flat(problem.residual(x, q, dq)) - flat(problem.residual(x, *nothing))
        if asked.through:
            return linear
        return linear.at[equation.row].add(-evaluate(asked.weight, x) / equation.multiplier(x))

    conditions: list[Any] = []
    for condition in problem.conditions:
        if isinstance(condition, Datum):
            raise Unrecognised(f"'{condition.name}' is no condition of an adjoint problem")
        if not asked.through or condition.on != asked.on:
            conditions.append(replace(condition, rhs=0.0) if isinstance(condition, Condition) else condition)
    if asked.through:
        assert asked.on is not None
        conditions.append(dirichlet(asked.on, equation.label, lambda x: 1 / second(x)[0, 0]))
    try:
        return Problem(problem.domain, problem.fields, residual, conditions,
                       problem.gradients, free=problem.free, equations=problem.equations, name="adjoint")
    except ValueError as error:
        raise Unrecognised(f"the adjoint problem cannot be stated: {error}") from None


def _paired(solution: Solution, near: Solution, equation: Scalar, rule: Rule) -> float:
    """∫R₁ z̃ + ∫R₂·∇z̃."""
    own, apart = equation.residuals(rule.x, solution.formulation.jet(solution.training.model, rule.x))
    jets = near.formulation.jet(near.training.model, rule.x)
    steep = jets[:, equation.value, 1 : 1 + equation.dim]
    across = np.einsum("ni,nij,nj->n", apart, equation.coefficients(rule.x).a, steep)
    return float(rule.weights @ (across - own * jets[:, equation.value, 0]))
