"""A weak form on a mesh: continuous elements, coefficients at the points of quadrature, Newton's method.

With time the unknowns at all stages of a Runge–Kutta step stand side by side; their rates are combinations of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from hardpde.problems.fem.base import ngsolve
from hardpde.problems.fem.meshing import Outlined
from hardpde.problems.fem.sides import Fixed, Side
from hardpde.problems.fem.weak import Weak

MOST_STEPS, TOLERANCE, KEPT = 30, 1e-10, 0.2  # of Newton's method; how well it must converge with an old matrix
SMALL = 1e-13  # of the largest: coefficients that are rounding
ALIGNED = 1e-8
ROUNDING = 1e-14  # of the largest unknown: one that is smaller is 0
UNBALANCED = 1e-4  # of the terms of an equation: so little may be left by elements that are too large


class Quadrature:
    """Functions by their values at the points of quadrature of a mesh, inside or on its boundary."""

    def __init__(self, mesh: Any, order: int, boundary: bool):
        from ngsolve.comp import IntegrationRuleSpace, IntegrationRuleSpaceSurface

        self.ng, self.mesh, self.boundary = ngsolve(), mesh, boundary
        self.space = (IntegrationRuleSpaceSurface if boundary else IntegrationRuleSpace)(mesh, order=order)
        self.rules = self.space.GetIntegrationRules()
        self.measure = self.ng.ds(intrules=self.rules) if boundary else self.ng.dx(intrules=self.rules)

    def part(self, names: str) -> Any:
        """The measure on a part of the boundary."""
        return self.ng.ds(definedon=self.mesh.Boundaries(names), intrules=self.rules)

    def values(self, function: Any) -> np.ndarray:
        """Values (n, components) of a function of the mesh."""
        where = {"definedon": self.mesh.Boundaries(".*")} if self.boundary else {}
        found = self.ng.GridFunction(self.space ** function.dim if function.dim > 1 else self.space)
        found.Interpolate(function, **where)
        return found.vec.FV().NumPy().reshape(function.dim, -1).T.copy()

    def function(self, values: np.ndarray) -> Any:
        """A function with these values (n,); a number if they are all one."""
        if len(values) and np.ptp(values) <= SMALL * np.abs(values).max():
            return self.ng.CF(float(values[0]))
        found = self.ng.GridFunction(self.space)
        found.vec.FV().NumPy()[:] = values
        return found


@dataclass(eq=False)
class Discrete:
    """A weak form with elements of an order on a mesh; stages: how many copies of the unknowns.

    A state is a vector of the coefficients of all stages, one after the other.
    """

    weak: Weak
    sides: dict[str, Side]
    outlined: Outlined
    order: int
    stages: int = 1

    def __post_init__(self) -> None:
        ng, mesh = ngsolve(), self.outlined.mesh
        self.ng, self.mesh = ng, mesh
        self.volume = Quadrature(mesh, 2 * self.order + 2, False)
        self.surface = Quadrature(mesh, 2 * self.order + 2, True)
        coordinates = ng.CF((ng.x, ng.y, ng.z)[: self.weak.dim])
        self.inside, self.outside = self.volume.values(coordinates), self.surface.values(coordinates)
        self.normals = self.surface.values(ng.specialcf.normal(self.weak.dim))
        names = list(self.outlined.names)
        number = mesh.BoundaryCF({self.outlined.names[name]: float(k) for k, name in enumerate(names)}, default=-1.0)
        which = self.surface.values(ng.CF(number))[:, 0].round().astype(int)
        self.places = {name: np.flatnonzero(which == k) for k, name in enumerate(names)}
        self._split: dict[float | None, dict[str, tuple[Fixed, np.ndarray, np.ndarray | None]]] = {}
        self.space = self._make_space()
        self.free = np.array(list(self.space.FreeDofs()), bool)

    # -- spaces ----------------------------------------------------------------------------------------

    @cached_property
    def fixed(self) -> list[dict[str, bool]]:
        """For each unknown the boundaries on which it is fixed."""
        found: list[dict[str, bool]] = [{} for _ in range(self.weak.count)]
        for name, (fixed, _, _) in self.conditions(self._begin).items():
            if name not in self.slanted and len(fixed.rows):
                for k in np.flatnonzero(np.einsum("rk,rk->k", fixed.rows[0], fixed.rows[0]) > 0.5):
                    found[k][name] = True
        return found

    @property
    def _begin(self) -> float | None:
        return None if self.weak.problem.time is None else self.weak.problem.time[0]

    @cached_property
    def slanted(self) -> list[str]:
        """Boundaries on which one combination of the unknowns is fixed, like n·u on a wall that bends."""
        found = []
        for name, (fixed, _, _) in self.conditions(self._begin).items():
            own = np.einsum("nrk,nrl->nkl", fixed.rows, fixed.rows)
            straight = np.round(np.einsum("nkk->nk", own))
            off = np.abs(own - straight[:, :, None] * np.eye(self.weak.count)).max(initial=0.0)
            if off > ALIGNED or (len(straight) and np.ptp(straight, axis=0).max() > 0):
                found.append(name)
                if fixed.rows.shape[1] > 1:
                    raise ValueError(f"the conditions on '{name}' fix several combinations of fields; finite elements "
                                     f"are offered where components are fixed, or one combination")
        return found

    def _make_space(self) -> Any:
        ng, parts = self.ng, []
        for k, names in zip(range(self.weak.count), self.fixed):
            low = self.weak.roles.unknowns[k] in self.weak.roles.pressures
            where = "|".join(self.outlined.names[name] for name in names)
            parts.append(ng.H1(self.mesh, order=self.order - low, dirichlet=where))
        self.levels = [self.weak.roles.unknowns.index(level.component(self.weak.problem))
                       for level in self.weak.problem.levels]
        parts += [ng.NumberSpace(self.mesh) for _ in self.levels]
        parts += [ng.SurfaceL2(self.mesh, order=max(self.order - 2, 0), definedon=self.mesh.Boundaries(
            self.outlined.names[name])) for name in self.slanted]
        self.own = len(parts)  # spaces of a stage
        every = parts * self.stages
        return ng.FESpace(every) if len(every) > 1 else every[0]

    def _each(self, whole: Any) -> Sequence[Any]:
        """The parts of a state or of the trial and test functions, one for each space."""
        if isinstance(whole, tuple | list):
            return whole
        return whole.components if self.own * self.stages > 1 else (whole,)

    def state(self) -> Any:
        return self.ng.GridFunction(self.space)

    # -- coefficients ----------------------------------------------------------------------------------

    def at(self, x: np.ndarray, t: float | None) -> np.ndarray:
        """Points of space as points of the problem."""
        return x if t is None else np.concatenate([x, np.full((len(x), 1), t)], axis=1)

    def conditions(self, t: float | None) -> dict[str, tuple[Fixed, np.ndarray, np.ndarray | None]]:
        """What the conditions say on each boundary at a time."""
        if t not in self._split:
            self._split = {} if len(self._split) > 8 else self._split
            self._split[t] = {name: self.sides[name].split(self.at(self.outside[k], t), self.normals[k])
                              for name, k in self.places.items()}
        return self._split[t]

    def _jets(self, state: Any, rates: np.ndarray | None, before: np.ndarray | None) -> list[np.ndarray]:
        """Jets (n, slots) of every stage; the rates are rates (s, s) times what states have changed by."""
        parts, k = self._each(state), self.weak.count
        u = np.stack([np.concatenate([self.volume.values(parts[s * self.own + i]) for i in range(k)], axis=1)
                      for s in range(self.stages)])
        found = []
        for s in range(self.stages):
            slopes = [self.volume.values(self.ng.grad(parts[s * self.own + i])) for i in range(k)]
            jet = [u[s], *slopes]
            if rates is not None:
                jet.append(np.einsum("j,jnk->nk", rates[s], u - before))
            found.append(np.concatenate(jet, axis=1))
        return found

    def assemble(self, state: Any, times: Sequence[float | None], rates: np.ndarray | None, before: np.ndarray | None,
                 with_matrix: bool) -> tuple[np.ndarray, Any]:
        """The residual of the weak form, and its derivative."""
        ng, k, d = self.ng, self.weak.count, self.weak.dim
        trial, test = (self._each(part) for part in self.space.TnT())
        load, form = ng.LinearForm(self.space), ng.BilinearForm(self.space) if with_matrix else None
        parts = self._each(state)
        for s, jet in enumerate(self._jets(state, rates, before)):
            own = range(s * self.own, s * self.own + k)
            u, v = [trial[i] for i in own], [test[i] for i in own]
            tests = [*v, *(-ng.grad(v[e])[a] for e, a in product(range(k), range(d)))]
            value, slope = self.weak.evaluate(self.at(self.inside, times[s]), jet)
            for j, i in enumerate(self.levels):
                terms = np.abs(value[:, i]) + np.einsum("nc,nc->n", np.abs(slope[:, i]), np.abs(jet))
                self._terms[s, j] = np.sqrt(np.mean(terms**2))
            load += self._sum([(self.volume.function(value[:, r]), tests[r]) for r in range(k * (1 + d))
                               if np.abs(value[:, r]).max() > 0]) * self.volume.measure
            if form is not None:
                trials = [*u, *(ng.grad(u[i])[a] for i, a in product(range(k), range(d)))]
                if rates is not None:
                    trials += [sum(float(rates[s, j]) * trial[j * self.own + i] for j in range(self.stages))
                               for i in range(k)]
                size = np.abs(slope).max((0, 2), keepdims=True)
                used = np.argwhere((np.abs(slope) > SMALL * size).any(0))
                form += self._sum([(self.volume.function(slope[:, r, c]), trials[c] * tests[r])
                                   for r, c in used]) * self.volume.measure
            self._outside(load, form, parts[s * self.own : s * self.own + k], u, v, times[s])
            self._hold_levels(load, form, parts, trial, test, s)
            self._hold_slanted(load, form, parts, trial, test, s, times[s])
        load.Assemble()
        if form is not None:
            form.Assemble()
        return load.vec.FV().NumPy().copy(), form

    def _outside(self, load: Any, form: Any, parts: Sequence[Any], u: Sequence[Any], v: Sequence[Any],
                 t: float | None) -> None:
        """What the conditions say of n·F."""
        k, n = self.weak.count, len(self.outside)
        values = np.concatenate([self.surface.values(part) for part in parts], axis=1)
        told, slope = np.zeros((n, k)), np.zeros((n, k, k))
        for name, at in self.places.items():
            _, project, back = self.conditions(t)[name]
            told[at], slope[at] = self.sides[name].outflow(self.at(self.outside[at], t), self.normals[at], project,
                                                                back, values[at])
        load += self._sum([(self.surface.function(told[:, e]), v[e]) for e in range(k)
                           if np.abs(told[:, e]).max() > 0]) * self.surface.measure
        if form is not None:
            used = np.argwhere((np.abs(slope) > SMALL * max(np.abs(slope).max(), 1e-300)).any(0))
            form += self._sum([(self.surface.function(slope[:, e, i]), u[i] * v[e]) for e, i in used]
                              ) * self.surface.measure

    def _hold_levels(self, load: Any, form: Any, parts: Sequence[Any], trial: Sequence[Any], test: Sequence[Any],
                     s: int) -> None:
        """Fields that are free up to a constant have no mean, and what balances that is a number."""
        first = s * self.own
        for j, i in enumerate(self.levels):
            number, field = first + self.weak.count + j, first + i
            load += (parts[field] * test[number] + parts[number] * test[field]) * self.ng.dx
            if form is not None:
                form += (trial[field] * test[number] + trial[number] * test[field]) * self.ng.dx

    def _hold_slanted(self, load: Any, form: Any, parts: Sequence[Any], trial: Sequence[Any], test: Sequence[Any],
                      s: int, t: float | None) -> None:
        """D u = d, tested on the boundary; what balances it there is a function, n·F along D."""
        first, k = s * self.own, self.weak.count
        for j, name in enumerate(self.slanted):
            own, at, fixed = first + k + len(self.levels) + j, self.places[name], self.conditions(t)[name][0]
            where = self.surface.part(self.outlined.names[name])
            rows, data = np.zeros((len(self.outside), k)), np.zeros(len(self.outside))
            rows[at], data[at] = fixed.rows[:, 0], fixed.data[:, 0]
            used = [(i, self.surface.function(rows[:, i])) for i in range(k) if np.abs(rows[:, i]).max() > 0]

            def along(u: Sequence[Any], used: list[tuple[int, Any]] = used) -> Any:
                return sum(row * u[first + i] for i, row in used)

            load += (parts[own] * along(test) + (along(parts) - self.surface.function(data)) * test[own]) * where
            if form is not None:
                form += (trial[own] * along(test) + along(trial) * test[own]) * where

    def _sum(self, terms: list[tuple[Any, Any]]) -> Any:
        """Σ coefficient · function, which may have no terms."""
        return sum((a * b for a, b in terms), self.ng.CF(0.0) * self._each(self.space.TnT()[1])[0])

    # -- states ----------------------------------------------------------------------------------------

    def last(self, state: Any) -> list[Any]:
        """The unknowns as functions; with stages, those of the last."""
        first = (self.stages - 1) * self.own
        return list(self._each(state)[first : first + self.weak.count])

    def present(self, state: Any) -> np.ndarray:
        """Values (n, k) of the unknowns at the points of quadrature, of the last stage."""
        return np.concatenate([self.volume.values(part) for part in self.last(state)], axis=1)

    def repeat_last(self, state: Any) -> None:
        """Copy the last stage to all others: where a step begins."""
        vector = state.vec.FV().NumPy().reshape(self.stages, -1)
        vector[:] = vector[-1].copy()

    def put(self, state: Any, values: dict[int, np.ndarray]) -> None:
        """Write values (n,) at the points of quadrature into unknowns of all stages, as the best fit."""
        parts = self._each(state)
        for k, value in values.items():
            space = parts[k].space
            u, v = space.TnT()
            mass, load = self.ng.BilinearForm(space), self.ng.LinearForm(space)
            mass += u * v * self.volume.measure
            load += self.volume.function(value) * v * self.volume.measure
            mass.Assemble()
            load.Assemble()
            parts[k].vec.data = mass.mat.Inverse(inverse="umfpack") * load.vec
            for s in range(1, self.stages):
                parts[s * self.own + k].vec.data = parts[k].vec

    # -- solving ---------------------------------------------------------------------------------------

    def fix(self, state: Any, times: Sequence[float | None]) -> None:
        """Write what is fixed on the boundary into a state, as the best fit there."""
        for s, t in enumerate(times):
            for i in range(self.weak.count):
                if self.fixed[i]:
                    self._fix_one(self._each(state)[s * self.own + i], i, t)

    def _fix_one(self, part: Any, i: int, t: float | None) -> None:
        ng, space = self.ng, part.space
        data, on = np.zeros(len(self.outside)), "|".join(self.outlined.names[name] for name in self.fixed[i])
        for name in self.fixed[i]:
            fixed = self.conditions(t)[name][0]
            data[self.places[name]] = np.einsum("nr,nr->n", fixed.rows[:, :, i], fixed.data)
        if i not in self._fits:
            u, v = space.TnT()
            mass = ng.BilinearForm(space)
            mass += u.Trace() * v.Trace() * ng.ds(on)
            mass.Assemble()
            there = ~space.FreeDofs()
            self._fits[i] = np.array(list(there), bool), mass.mat.Inverse(there, inverse="umfpack")
        load = ng.LinearForm(space)
        load += self.surface.function(data) * space.TestFunction().Trace() * self.surface.part(on)
        load.Assemble()
        load.vec.data = self._fits[i][1] * load.vec
        held = self._fits[i][0]
        part.vec.FV().NumPy()[held] = load.vec.FV().NumPy()[held]

    def _ratios(self, step: Any, state: Any) -> tuple[float, float]:
        """How large a step is: of the size of each unknown, at most; and of the largest of all."""
        sizes = []
        for one, own in zip(self._each(step), self._each(state)):
            sizes.append([np.abs(part.vec.FV().NumPy()).max(initial=0.0) for part in (one, own)])
        moved, largest = np.array(sizes).T
        top = max(float(largest.max()), 1e-300)
        return float((moved / np.maximum(largest, ROUNDING * top)).max()), float(moved.max()) / top

    def _check_balanced(self, state: Any) -> None:
        """What balances a field that is free up to a constant is 0: else no state has these sources and fluxes."""
        for (s, j), size in self._terms.items():
            number = float(self._each(state)[s * self.own + self.weak.count + j].vec.FV().NumPy()[0])
            if abs(number) > UNBALANCED * size:
                field = self.weak.problem.levels[j].field
                raise ValueError(f"there is no solution: what is stated for '{field}' inside and on the boundaries "
                                 f"does not add up; it is off by {abs(number):.2g} everywhere")

    @cached_property
    def _terms(self) -> dict[tuple[int, int], float]:
        """How large the terms are of the equation that a stage's field with a stated level is beside."""
        return {}

    @cached_property
    def _fits(self) -> dict[int, Any]:
        return {}

    def newton(self, state: Any, times: Sequence[float | None], rates: np.ndarray | None = None,
               before: np.ndarray | None = None, kept: Any = None) -> Any:
        """Solve by Newton's method, in place; kept: an inverse to begin with. The one that is used last is returned."""
        step, size = self.state(), np.inf
        for count in range(MOST_STEPS):
            residual, form = self.assemble(state, times, rates, before, kept is None)
            if kept is None:
                kept = _inverse(form, self.space)
            step.vec.FV().NumPy()[:] = residual
            step.vec.data = kept * step.vec
            moved, whole = self._ratios(step, state)
            if not np.isfinite(moved) or (count > 8 and whole > 1e8):
                break
            state.vec.data -= step.vec
            if moved <= TOLERANCE or (whole <= TOLERANCE and moved > KEPT * size):
                self._check_balanced(state)
                return kept
            if moved > KEPT * size:
                kept = None
            size = moved
        raise ValueError(f"Newton's method does not converge on finite elements in {MOST_STEPS} steps: the problem may "
                         f"have no solution near 0, or more than one (`hardpde check` says whether it is well posed)")


def _inverse(form: Any, space: Any) -> Any:
    try:
        return form.mat.Inverse(space.FreeDofs(), inverse="umfpack")
    except Exception as error:
        raise ValueError(f"the equations of the finite elements cannot be solved ({' '.join(str(error).split())}): the "
                         f"problem may have more than one solution") from None
