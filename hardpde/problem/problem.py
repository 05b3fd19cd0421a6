"""Problems: what is to be solved. Knows no network; checks everything a user states."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Face, Piece, Shape, TimeSlice, check_shape, gap_matrix
from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.fields import Filled, Schema, State, asks_for_laplacian, laplacian, make_schema
from hardpde.problem.hints import Hints
from hardpde.problem.layout import Layout, arrange, stacked_rows
from hardpde.problem.parameters import Parameter, Undeclared, append, column, declaring, middle, single
from hardpde.problem.reference import Reference
from hardpde.support.checking import is_number
from hardpde.support.compiling import compiled_quickly
from hardpde.support.messages import first_line


@dataclass(frozen=True, eq=False)
class Measurement:
    """What was measured of a field at points x (n, d), at times t where there is time: values (n, *shape of the field).

    The loss gets weight × mean (difference)² / variance of the values. A field that no equation determines, such as
    an unknown coefficient, can so be found together with the solution.
    """

    field: str
    x: Any
    values: Any
    t: Any = None
    weight: float = 1.0

    def points(self, problem: "Problem") -> tuple[np.ndarray, np.ndarray]:
        """Points (n, c) of the problem and values (n, components); every fault is a ValueError of one sentence."""
        schema = problem.schema
        what = f"the measurement of '{self.field}'"
        if self.field not in schema.names:
            raise ValueError(f"{what} is of no field; the fields are {', '.join(schema.names)}")
        try:
            x, values = np.atleast_2d(np.asarray(self.x, float)), np.asarray(self.values, float)
        except (TypeError, ValueError):
            raise ValueError(f"{what} has points or values that are not numbers") from None
        if x.shape[1:] != (schema.dim,) or not len(x):
            raise ValueError(f"{what} has points of shape {x.shape}; they must be (n, {schema.dim})")
        if values.shape != (len(x), *schema.shapes[self.field]):
            raise ValueError(f"{what} has values of shape {values.shape}; at {len(x)} points they must be "
                             f"{(len(x), *schema.shapes[self.field])}")
        if not (np.isfinite(x).all() and np.isfinite(values).all()):
            raise ValueError(f"{what} holds numbers that are not finite; leave these points out")
        if not (is_number(self.weight) and 0 < self.weight < float("inf")):
            raise ValueError(f"{what} has weight {self.weight!r}; it must be positive")
        if (self.t is None) != (problem.time is None):
            raise ValueError(f"{what} {'needs the times t' if self.t is None else 'has times, and the problem none'}")
        if problem.time is not None:
            start, end = problem.time
            t = column(f"t of {what}", self.t, len(x))
            if not (t.min() >= start and t.max() <= end):
                raise ValueError(f"{what} has a time outside {problem.time}")
            x = np.concatenate([x, t], axis=1)
        x = problem.back(x)
        off = np.asarray(jax.jit(jax.vmap(problem.domain.sdf))(x[:, : schema.dim]))
        if off.max() > 1e-6 * problem.domain.size:
            raise ValueError(f"{what} has a point outside the domain, {np.round(x[int(off.argmax())], 6).tolist()}")
        return x, values.reshape(len(x), -1)


@dataclass(frozen=True)
class Period:
    """A periodic condition worked out: x on the face `condition.on` and x + shift e_axis are the same place."""

    condition: Periodic
    axis: int
    shift: float
    faces: tuple[Piece, Piece]
    values: tuple[int, ...]  # components of the state that are compared
    slopes: tuple[int, ...]  # those whose derivative along the axis is compared too

    @property
    def hard(self) -> bool:
        return self.condition.soft is None

    def pair(self, x: Any) -> tuple[Any, Any]:
        """Points (n, c) moved along the axis onto the two faces."""
        start = self.faces[0].params[self.axis]
        return tuple(jnp.asarray(x).at[:, self.axis].set(at) for at in (start, start + self.shift))  # type: ignore

    def rows(self, x: Array, jet: Array) -> Array:
        """What differs between a pair of points: their jets (2, m, slots) → (r,)."""
        difference = jet[0] - jet[1]
        slopes = [difference[np.array(self.slopes), 1 + self.axis]] if self.slopes else []
        return jnp.concatenate([difference[np.array(self.values), 0], *slopes])


@dataclass(frozen=True, eq=False)
class Problem:
    """F[q] = 0 in a domain, with its conditions.

    domain: a Shape. fields: names, or {name: shape}. gradients: {field: whose spatial gradient it is}.
    residual(x, q, dq): the equations, each zero for the solution; the equations ∇u = p of the gradient
    fields are added. It may use first derivatives, and the Laplacian (`laplacian(dq.u)`): then `order` is 2.
    time: (start, end). free: boundaries that carry no condition on purpose.
    equations: how many scalar equations `residual` has, where that is not the number of plain fields.
    regions: {field: where it lives}, a Shape or a function that is negative there, for materials that meet at an Inlay;
    `residual` then returns {field: its equations}, each asked for in the region of its field alone. Gradient fields
    live where their field does, and solutions are NaN where a field does not live.
    parameters: numbers left open within ranges (see `parameters`); they are the last coordinates of every point,
    after time, and the conditions hold for every value of them.
    mapping(x): where a point of the domain really is, (d,): for a shape that depends on parameters (see `moving`).
    Equations, conditions and solutions are stated where things really are, hints in the domain.
    measurements: what was measured, each a Measurement, for fields that the equations leave open.
    exact(x): the solution as {field: value}, where it is known; reference: a Reference or a function
    that makes one, of the values of the parameters if there are any.
    """

    domain: Shape
    fields: Any
    residual: Callable[..., Any]
    conditions: Sequence[Condition | Periodic]
    gradients: Mapping[str, str] = field(default_factory=dict)
    time: tuple[float, float] | None = None
    free: Sequence[str] = ()
    equations: int | None = None
    regions: Mapping[str, Shape | Callable[[Array], Any]] = field(default_factory=dict)
    parameters: Sequence[Parameter] = ()
    mapping: Callable[[Array], Array] | None = None
    measurements: Sequence[Measurement] = ()
    hints: Hints = field(default_factory=Hints)
    exact: Callable[[Array], Mapping[str, Any]] | None = None
    reference: Reference | Callable[..., Reference] | None = None
    name: str = "problem"

    def __post_init__(self) -> None:
        self._check_kinds()
        # Conditions at points come first, so that their numbers are those of the layout.
        ordered = sorted(self.conditions, key=lambda condition: isinstance(condition, Periodic))
        object.__setattr__(self, "conditions", tuple(ordered))
        object.__setattr__(self, "parameters", _checked(self.parameters))
        if self.parameters and self.reference is not None and not callable(self.reference):
            raise ValueError("the reference of a family is a function of its parameters, by name, that makes one")
        with compiled_quickly(), declaring(self.parameters, self.schema.point):
            self._check_time()
            self._check_boundaries()
            check_shape(self.domain)
            self._check_mapping()
            self._check_regions()
            self._check_residual()
            self._check_hints()
            self.check_conditions()
            self._check_measurements()
            self._check_others()

    @property
    def stated(self) -> "Problem":
        """The problem as its user stated it."""
        return self

    def _repr_html_(self) -> str | None:
        """What a notebook shows: what is stated, and the drawing of the domain."""
        from hardpde.evaluation.notebook import problem_html

        return problem_html(self)

    def check_conditions(self) -> None:
        """Whether the conditions are linear and agree with each other, so that they can be built in."""
        with compiled_quickly():
            for condition in self.pointwise:
                self._check_linear(condition)
            _ = self.layout, self.views
            if self.layout.slopes.any():
                self._check_slopes()
            for period in self.periods:
                if period.hard:
                    self._check_period(period)

    @cached_property
    def schema(self) -> Schema:
        schema = make_schema(self.fields, self.gradients, self.domain.dim, self.time is not None,
                             len(self.parameters))
        try:
            laplacian = asks_for_laplacian(schema, self.residual)
        except Exception:
            return schema  # what is wrong with the residual is said when it is checked
        return replace(schema, traces=laplacian and len(schema.gradients) < len(schema.fields))

    @cached_property
    def pointwise(self) -> tuple[Condition, ...]:
        """The conditions at single points: all but the periodic ones."""
        return tuple(condition for condition in self.conditions if isinstance(condition, Condition))

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        """The periodic conditions, worked out."""
        return tuple(self._period(condition) for condition in self.conditions if isinstance(condition, Periodic))

    @cached_property
    def order(self) -> int:
        """2 if the residual asks for a Laplacian, else 1."""
        return 1 + asks_for_laplacian(self.schema, self.residual)

    @property
    def derivatives(self) -> int:
        """How many derivatives `residuals` is given: one for each coordinate, and the Laplacian if it is used."""
        return self.schema.coordinates + self.order - 1

    @cached_property
    def layout(self) -> Layout:
        layout = arrange(self.domain, self.schema, self.pointwise, self.time, self.hints.collar,
                         self.hints.sharp, self.parameters)
        room = self._room(layout)
        collar = self.hints.collar
        stated = [collar is not None and (not isinstance(collar, dict) or piece.name in collar)
                  for piece in layout.pieces]
        share = np.where(stated, room / layout.collar, np.inf)
        if (share < 1).any():
            k = int(share.argmin())
            raise ValueError(f"the collar of '{layout.pieces[k].name}' is {layout.collar[k]:g} and reaches a periodic "
                             f"boundary; it must be at most {room[k]:g}")
        return replace(layout, collar=np.minimum(layout.collar, room)) if self.periods else layout

    @cached_property
    def boundaries(self) -> dict[str, Any]:
        """All boundaries by name; with time, the slice at its start is the boundary `initial`."""
        named: dict[str, Any] = dict(self.domain.boundaries)
        if self.time is not None:
            named[INITIAL] = TimeSlice(self.domain, self.time[0])
        return named

    def guess(self, x: Array) -> Array:
        """The hint `guess` as a vector (m,); zero without one."""
        if self.hints.guess is None:
            return jnp.zeros(self.schema.size)
        found = self.hints.guess(x)
        if not isinstance(found, Mapping):
            raise ValueError(f"the hint guess returns {found!r}; it returns {{field: value}}")
        stated = dict(found)
        parts = [jnp.broadcast_to(jnp.asarray(stated.pop(name, 0.0), float), shape).ravel()
                 for name, shape in self.schema.fields]
        if stated:
            raise ValueError(f"the hint guess has a field '{next(iter(stated))}'; the fields are "
                             f"{', '.join(self.schema.names)}")
        return jnp.concatenate(parts)

    @cached_property
    def views(self) -> tuple[tuple[Callable[[Array], Array], np.ndarray], ...]:
        """Where the network looks for a point, and the signs (m,) of what it sees there: with a mirror, two places."""
        plain = (lambda x: x, np.ones(self.schema.size))
        mirror = self.hints.mirror
        if mirror is None:
            return (plain,)
        labels = self.schema.labels()
        if mirror.axis not in range(self.schema.dim) or set(mirror.odd) - set(labels):
            raise ValueError(f"{mirror} needs an axis from 0 to {self.schema.dim - 1} and odd components from "
                             f"{', '.join(labels)}")
        signs = np.array([-1.0 if label in mirror.odd else 1.0 for label in labels])
        return plain, (lambda x: x.at[mirror.axis].set(2 * mirror.at - x[mirror.axis]), signs)

    def residuals(self, x: Array, q: Array, dq: Array) -> Array:
        """All equations at one point, the gradient fields' included: x (c,), q (m,), dq (c, m) → (e,).

        For a problem of order 2, dq (c + 1, m) ends with the Laplacian.
        """
        if self.mapping is not None:
            x, dq = self.place(x), self._really(x, dq)
        state, derivatives = self.schema.state(q), self.schema.derivatives(dq)
        parts = [self._equations(x, state, derivatives)]
        for gradient, base in self.schema.gradients:
            parts.append(self._where(base, x, jnp.ravel(state[gradient] - derivatives[base].space)))
        return jnp.concatenate(parts)

    def place(self, x: Array) -> Array:
        """Where a point (c,) of the domain really is, its time and parameters kept."""
        return x if self.mapping is None else jnp.concatenate([self.mapping(x), x[self.schema.dim :]])

    def _really(self, x: Array, dq: Array) -> Array:
        """Derivatives (c, m) by the coordinates of the domain as those by the coordinates of the real place."""
        d = self.schema.dim
        return jnp.concatenate([_solve(self._slope(x).T, dq[:d]), dq[d:]])

    def _slope(self, x: Array) -> Array:
        """∂(real place)/∂(place in the domain), (d, d)."""
        d = self.schema.dim
        return jax.jacfwd(lambda y: self.place(x.at[:d].set(y))[:d])(x[:d])

    def places(self, x: np.ndarray) -> np.ndarray:
        """Where points (n, d) of the domain really are, for a problem without parameters."""
        full = self.everywhen(jnp.asarray(x))
        return np.asarray(jax.jit(jax.vmap(self.place))(full))[:, : self.schema.dim]

    def back(self, x: np.ndarray) -> np.ndarray:
        """The points (n, c) of the domain that really are at x (n, c)."""
        if self.mapping is None or not len(x):
            return x
        found, miss = self._back(jnp.asarray(x))
        worst = int(np.argmax(miss))
        if not miss[worst] <= 1e-9 * self.domain.size:
            raise ValueError(f"the point {np.round(x[worst], 6).tolist()} is not where the mapping takes the domain; "
                             f"give points of the real shape")
        return np.asarray(found)

    @cached_property
    def _back(self) -> Callable[[Array], tuple[Array, Array]]:
        d = self.schema.dim

        def one(x: Array) -> tuple[Array, Array]:
            def newton(_, y: Array) -> Array:
                return y.at[:d].add(_solve(self._slope(y), x[:d] - self.place(y)[:d]))

            y = jax.lax.fori_loop(0, 30, newton, x)
            return y, jnp.abs(self.place(y) - x).max()

        return jax.jit(jax.vmap(one))

    def _equations(self, x: Array, q: State, dq: State) -> Array:
        """The user's equations at one point; those of a field that does not live there are 0."""
        values = self.residual(x, q, dq)
        if not isinstance(values, Mapping):
            if self.regions:
                raise ValueError("with regions it returns {field: its equations}, so that each holds in one of them")
            return _vector(values)
        for name in values:
            q[name]
        return jnp.concatenate([self._where(name, x, _vector(part)) for name, part in values.items()])

    def _where(self, name: str, x: Array, equations: Array) -> Array:
        region = self._region(name)
        return equations if region is None else jnp.where(region(x[: self.schema.dim]) <= 0, equations, 0.0)

    def _region(self, name: str) -> Callable[[Array], Any] | None:
        """A function that is negative where a field lives; None: everywhere."""
        gradients = dict(self.schema.gradients)
        while name in gradients:
            name = gradients[name]
        region = self.regions.get(name)
        return region.sdf if isinstance(region, Shape) else region

    def lives(self, name: str, x: np.ndarray) -> np.ndarray:
        """Whether a field lives at points (n, d), edges of its region included, (n,)."""
        region = self._region(name)
        if region is None:
            return np.full(len(x), True)
        return np.asarray(jax.jit(jax.vmap(region))(jnp.asarray(x))) <= 1e-9 * self.domain.size

    def masked(self, values: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
        """Values of fields at points x (n, d), (n, *shape) or (k, n, *shape), NaN where a field does not live."""
        found = {}
        for name, part in values.items():
            shape = self.schema.shapes.get(name, ())
            keep = self.lives(name, x).reshape(-1, *[1] * len(shape))
            found[name] = np.asarray(part) if keep.all() else np.where(keep, part, np.nan)
        return found

    def make_reference(self) -> Reference | None:
        """The reference, if the problem has one; a known solution is evaluated at sample points.

        Of a family it is that of the problem in the middle of all ranges.
        """
        if self.parameters:
            return self.at(**middle(self.parameters)).make_reference()
        if self.reference is not None:
            return self.reference() if callable(self.reference) else self.reference
        if self.exact is None:
            return None
        return exact_reference(self)

    def at(self, /, **stated: float) -> "Problem":
        """The problem with a value for each of its parameters, which then has none."""
        fixed = jnp.array(single(self.parameters, stated))
        if not self.parameters:
            return self
        return _fixed(self, lambda x: jnp.concatenate([x, fixed.astype(x.dtype)]), stated)

    def _check_kinds(self) -> None:
        """What is no matter of mathematics: that everything stated is of its kind."""
        if not isinstance(self.domain, Shape):
            raise ValueError(f"the domain is {self.domain!r}; it is a shape, like Box((0, 0), (1, 1))")
        lists = {name: getattr(self, name) for name in ("conditions", "free", "parameters", "measurements")}
        for name, stated in lists.items():
            if not isinstance(stated, Iterable):
                raise ValueError(f"{name} is {stated!r}; it is a list")
        if not isinstance(self.regions, Mapping):
            raise ValueError(f"regions is {self.regions!r}; it is a dictionary {{field: where it lives}}")
        if isinstance(self.free, str):
            object.__setattr__(self, "free", (self.free,))
        functions = {name: getattr(self, name) for name in ("mapping", "exact") if getattr(self, name) is not None}
        for name, stated in {"residual": self.residual, **functions}.items():
            if not callable(stated):
                raise ValueError(f"{name} is {stated!r}; it is a function")
        if not (self.reference is None or callable(self.reference) or isinstance(self.reference, Reference)):
            raise ValueError(f"the reference is {self.reference!r}; it is a Reference or a function that makes one")
        if self.equations is not None and not isinstance(self.equations, int):
            raise ValueError(f"equations is {self.equations!r}; it is how many equations the residual has")
        if not isinstance(self.hints, Hints):
            raise ValueError(f"hints is {self.hints!r}; write Hints(decay=True, …)")
        if not isinstance(self.name, str) or not self.name or "/" in self.name or "\\" in self.name:
            raise ValueError(f"the name of the problem is {self.name!r}; it is a word, as it names folders and files")
        _ = self.schema

    def _check_time(self) -> None:
        if self.time is None:
            return
        try:
            start, end = map(float, self.time)
        except (TypeError, ValueError):
            start = end = np.nan
        if not (np.isfinite([start, end]).all() and start < end):
            raise ValueError(f"time is {self.time}; it must be (start, end) with start < end")

    def _check_boundaries(self) -> None:
        known = list(self.domain.boundaries)
        if INITIAL in known:
            raise ValueError(f"a boundary is named '{INITIAL}', the name of the start of time; choose another")
        listing = ", ".join(known)
        for condition in self.conditions:
            if isinstance(condition, Periodic):
                continue
            if not isinstance(condition, Condition):
                raise ValueError(f"{condition!r} is not a condition; use dirichlet, neumann, robin, … or Condition")
            if condition.on == INITIAL and self.time is None:
                raise ValueError("an initial condition needs time; state time=(start, end) in the problem")
            if condition.on not in (*known, INITIAL):
                raise ValueError(f"there is no boundary '{condition.on}'; the boundaries are {listing}")
        for name in self.free:
            if name not in known:
                raise ValueError(f"'{name}' is declared free, but there is no such boundary; they are {listing}")
        for hint in ("distances", "normals"):
            for name in getattr(self.hints, hint):
                if name not in known:
                    raise ValueError(f"the hint {hint} names '{name}', and there is no such boundary; "
                                     f"they are {listing}")
        stated = {condition.on for condition in self.conditions}
        for condition in self.conditions:
            if not isinstance(condition, Periodic):
                continue
            for name in (condition.on, condition.to):
                if name not in known:
                    raise ValueError(f"there is no boundary '{name}'; the boundaries are {listing}")
                others = [c.name for c in self.conditions if c is not condition and name in _places(c)]
                if others:
                    raise ValueError(f"boundary '{name}' is periodic and has another condition, '{others[0]}'; "
                                     f"keep one of them")
            stated |= {condition.to}
        for name in known:
            if name not in stated and name not in self.free:
                raise ValueError(f"boundary '{name}' has no condition; give it one or declare it free=['{name}']")

    def _check_mapping(self) -> None:
        """The mapping keeps the domain in one piece for all times and parameters; conditions hold where things are."""
        if self.mapping is None:
            return
        d, mapping = self.schema.dim, self.mapping
        if self.order == 2 or self.regions or self.periods:
            raise ValueError("with a mapping, state gradients={…} in place of a Laplacian, and no regions or periodic "
                             "conditions")
        x = self._points(jax.random.key(15), 4000)
        try:
            place, slope = jax.jit(jax.vmap(lambda x: (mapping(x), jax.jacfwd(mapping)(x))))(x)
        except ValueError as error:
            raise ValueError(f"the mapping: {first_line(error)}") from None
        except Exception as error:
            raise ValueError(f"the mapping cannot be evaluated: {type(error).__name__}: {first_line(error)}") from None
        if place.shape != (len(x), d):
            raise ValueError(f"the mapping returns an array of shape {place.shape[1:]}; it is the place, ({d},)")
        if self.time is not None and np.abs(slope[:, :, d]).max() > 0:
            raise ValueError("the mapping depends on time; shapes may depend on parameters alone")
        size = np.asarray(jnp.linalg.det(slope[:, :, :d]))
        if not (np.isfinite(size).all() and size.min() > 0.02):
            where = np.round(np.asarray(x[int(np.nanargmin(size))]), 4).tolist()
            raise ValueError(f"the mapping squeezes the domain to {size.min():.2g} of its volume near {where}; move or "
                             f"grow things less, or over a larger distance")
        object.__setattr__(self, "conditions", tuple(self._really_there(c) for c in self.conditions))

    def _really_there(self, condition: Any) -> Any:
        """A condition stated at the real place, as one at points of the domain with normals of the domain."""

        def lhs(q, x, n):
            normal = _solve(self._slope(x).T, n)
            length = jnp.sqrt((normal**2).sum())
            return condition.lhs(q, self.place(x), normal / jnp.where(length > 0, length, 1.0))

        rhs = condition.rhs
        return replace(condition, lhs=lhs, rhs=(lambda x: rhs(self.place(x))) if callable(rhs) else rhs)

    def _check_regions(self) -> None:
        for name, region in self.regions.items():
            if name not in self.schema.names or name in dict(self.schema.gradients):
                raise ValueError(f"a region is stated for '{name}'; regions are for fields that are not gradients")
            if not callable(region) and not (isinstance(region, Shape) and region.dim == self.domain.dim):
                raise ValueError(f"the region of '{name}' is neither a Shape in {self.domain.dim}-D nor a function")
            if not self.lives(name, np.asarray(self.domain.sample(jax.random.key(8), 4000))).any():
                raise ValueError(f"the region of '{name}' holds no point of the domain; a function is negative inside")

    def _check_linear(self, condition: Condition) -> None:
        where = f"condition '{condition.name}' on '{condition.on}'"
        boundary, schema = self.boundaries[condition.on], self.schema

        @jax.jit
        def evaluate(key, q1, q2):
            points = boundary.sample(key, 4)
            normals = jax.vmap(boundary.normal)(points)[:, : schema.dim]
            points = self.everywhen(points) if condition.on != INITIAL else append(self.parameters, points)

            def side(q, x, n):
                gradient = q[:, 1:] if schema.traces else None
                return _vector(condition.lhs(schema.state(q[:, 0], gradient), x, n))

            rows = jax.vmap(side, (None, 0, 0))
            across = jax.vmap(lambda q, x, n: side(q.at[:, 1:].set(jnp.outer(q[:, 1:] @ n, n)), x, n), (None, 0, 0))
            found = [rows(q, points, normals) for q in (0 * q1, q1, q2, 2 * q1 - 3 * q2)]
            return [*found, across(q1, points, normals)], points, normals

        try:
            drawn = np.random.default_rng(2).standard_normal((2, schema.size, 1 + schema.dim))  # compiles nothing
            found = evaluate(jax.random.key(2), *drawn)
            (zero, f1, f2, mixed, across), points, normals = jax.tree.map(np.asarray, found)
        except ValueError as error:
            raise ValueError(f"{where}: {first_line(error)}") from None
        except Exception as error:
            raise ValueError(f"{where} cannot be evaluated: {type(error).__name__}: {first_line(error)}") from None
        size = 1 + np.abs(mixed).max(initial=0.0)
        if np.abs(zero).max(initial=0.0) > 1e-9 * size or np.abs(mixed - 2 * f1 + 3 * f2).max() > 1e-9 * size:
            raise ValueError(f"{where} is not linear in the state; put constants on the right side, "
                             f"and products of fields into the residual")
        if schema.traces and np.abs(across - f1).max(initial=0.0) > 1e-9 * size:
            raise ValueError(f"{where} needs derivatives along the boundary, and only n·∇u is known without gradient "
                             f"fields; state gradients={{…}} in the problem")
        try:
            jax.eval_shape(lambda x, n: condition.matrix(schema, x, n), points[0], normals[0])
        except Undeclared as error:
            raise ValueError(f"the data of {where}: {error}") from None
        except Exception as error:
            raise ValueError(f"the data of {where} cannot be evaluated or does not have {f1.shape[1]} rows: "
                             f"{first_line(error)}") from None

    def _check_hints(self) -> None:
        """Shapes of what focus and scale state."""
        schema = self.schema
        for place in self.hints.focus:
            if np.shape(place.at) != (schema.dim,):
                raise ValueError(f"{place} is not about a place with {schema.dim} coordinates")
        stated = self.hints.scale
        if stated is None:
            return
        jet = jnp.zeros((self.derivatives, schema.size))
        number = jax.eval_shape(self.residuals, jnp.zeros(schema.point), jnp.zeros(schema.size), jet).shape[0]
        try:
            shape = jax.eval_shape(lambda x: jnp.asarray(stated(x)), jnp.ones(schema.point)).shape
        except Exception as error:
            raise ValueError(f"the hint scale cannot be evaluated: {first_line(error)}") from None
        if shape not in ((), (1,), (number,)):
            raise ValueError(f"the hint scale returns an array of shape {shape}; it is one number, or one for each of "
                             f"the {number} equations")

    def _check_measurements(self) -> None:
        for measurement in self.measurements:
            if not isinstance(measurement, Measurement):
                raise ValueError(f"{measurement!r} is not a Measurement; write Measurement(field, x, values)")
            if self.parameters:
                raise ValueError("a family has no measurements; solve it, then find its parameters with infer(…)")
            measurement.points(self)

    def _check_others(self) -> None:
        """Functions that are evaluated later know the parameters of the problem alone; other faults are said then."""
        hints = {f"the hint {kind} of '{name}'": function for kind in ("distances", "normals")
                 for name, function in getattr(self.hints, kind).items()}
        for what, function in {**({"exact": self.exact} if self.exact else {}), **hints}.items():
            try:
                jax.eval_shape(function, jnp.zeros(self.schema.point))
            except Undeclared as error:
                raise ValueError(f"{what}: {error}") from None
            except Exception:
                continue

    def _check_slopes(self) -> None:
        """Normal derivatives at the start of time must be those of the initial data."""
        if not self.layout.initial:
            return
        schema, m = self.schema, self.schema.size
        start = self.time[0] if self.time else 0.0
        conditions = [self.pointwise[k] for k in self.layout.initial]

        def begin(x):
            a, g = stacked_rows(conditions, schema, x.at[schema.dim].set(start), jnp.zeros(schema.dim))
            return jnp.linalg.pinv(a[:, :m]) @ g

        for k in np.flatnonzero(self.layout.slopes.any(axis=1)):
            piece, rows = self.layout.pieces[k], [self.pointwise[c] for c in self.layout.conditions[k]]

            def miss(x, n, rows=rows):
                a, g = stacked_rows(rows, schema, x, n)
                q, slope = jax.jvp(begin, (x,), (jnp.concatenate([n, jnp.zeros(x.size - n.size)]),))
                r = g - a[:, :m] @ q - a[:, m:] @ slope
                a0 = stacked_rows(conditions, schema, x, jnp.zeros(schema.dim))[0][:, :m]
                return jnp.abs(a0 @ jnp.linalg.pinv(a[:, m:]) @ r).max()

            x = piece.sample(jax.random.key(6), 16)
            early = append(self.parameters, jnp.concatenate([x, jnp.full((len(x), 1), start)], axis=1))
            off = np.asarray(jax.jit(jax.vmap(miss))(early, jax.vmap(piece.normal)(x)))
            if off.max() > 1e-8:
                raise ValueError(f"the normal derivative on '{piece.name}' and the initial condition disagree by "
                                 f"{off.max():.3g} at the start of time; make them agree, or state gradient fields")

    def _period(self, condition: Periodic) -> Period:
        """Work out and check which faces a periodic condition joins, and what it compares."""
        schema = self.schema
        whole = dict(zip(self.domain.pieces, self.domain.whole))
        faces = []
        for name in (condition.on, condition.to):
            pieces = self.domain.boundaries[name].pieces
            if len(pieces) != 1 or not isinstance(pieces[0].kind, Face) or not whole[pieces[0]]:
                raise ValueError(f"periodic joins two whole faces of a Box, and '{name}' is not one; name the faces "
                                 f"of a Box with sides=")
            faces.append(pieces[0])
        d = schema.dim
        (a, na), (b, nb) = [(np.array(face.params[: 2 * d]), np.array(face.params[2 * d :])) for face in faces]
        axis = int(np.abs(na).argmax())
        shift = np.zeros(2 * d)
        shift[[axis, d + axis]] = b[axis] - a[axis]
        ends = sorted((float(a[axis]), float(b[axis])))
        bounds = [float(bound[axis]) for bound in self.domain.bounds]
        if (na + nb).any() or not np.allclose(ends, bounds, rtol=1e-12, atol=0.0):
            raise ValueError(f"'{condition.on}' and '{condition.to}' are not opposite faces of the domain, so they "
                             f"cannot be periodic")
        if not np.allclose(a + shift, b, rtol=0.0, atol=1e-12 * self.domain.size):
            raise ValueError(f"'{condition.on}' and '{condition.to}' have different extents, so they cannot be "
                             f"periodic; one must be the other, shifted")
        names = condition.fields or schema.names
        for name in names:
            if name not in schema.names:
                raise ValueError(f"the condition '{condition.name}' on '{condition.on}': there is no field '{name}'; "
                                 f"the fields are {', '.join(schema.names)}")
        gradients = [gradient for gradient, base in schema.gradients if base in names]
        values = [k for name in dict.fromkeys((*names, *gradients)) for k in _components(schema, name)]
        plain = [name for name in names if schema.gradient_of(name) is None and name not in dict(schema.gradients)]
        slopes = [k for name in plain for k in _components(schema, name)] if self.order == 2 else []
        return Period(condition, axis, float(b[axis] - a[axis]), (faces[0], faces[1]), tuple(values), tuple(slopes))

    def _room(self, layout: Layout) -> np.ndarray:
        """How wide collars may be without reaching a periodic face; faces that run from one to the other may, (n,)."""
        room = np.full(len(layout.pieces), np.inf)
        for period in self.periods:
            if not period.hard or not layout.pieces:
                continue
            gaps = gap_matrix((*layout.pieces, *period.faces), self.domain)
            room = np.where([self._spans(piece, period) for piece in layout.pieces], room,
                            np.minimum(room, np.minimum(gaps, gaps.T)[:-2, -2:].min(axis=1)))
        return room

    def _spans(self, piece: Piece, period: Period) -> bool:
        """Whether a piece is a face that runs from one periodic face to the other."""
        if not isinstance(piece.kind, Face):
            return False
        d, k = self.schema.dim, period.axis
        return bool(np.isclose(abs(piece.params[d + k] - piece.params[k]), abs(period.shift)))

    def _check_period(self, period: Period) -> None:
        """The data of other conditions, and extra inputs, must be periodic too."""
        axis, ends = period.axis, f"between '{period.condition.on}' and '{period.condition.to}'"
        smooth = self.order == 2 or bool(self.schema.gradients)

        def differs(function: Callable[[Array], Any], x: Array) -> float:
            """By how much a function, or its slope where the problem needs one, differs between paired points."""
            def sides(x):
                value, slope = jax.jvp(function, (x,), (jnp.zeros_like(x).at[axis].set(1.0),))
                return (value, slope) if smooth else (value,)

            one, two = (jax.jit(jax.vmap(sides))(side) for side in period.pair(x))
            apart = [np.abs(np.asarray(a - b)).max(initial=0.0) / max(1.0, np.abs(np.asarray(a)).max(initial=0.0))
                     for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two))]
            return max(apart, default=0.0)

        for condition in self.pointwise:
            if condition.on == INITIAL:
                normal = jnp.zeros(self.schema.dim)
                x = append(self.parameters, self.boundaries[INITIAL].sample(jax.random.key(3), 16))
            else:
                piece = next((p for p in self.domain.boundaries[condition.on].pieces if self._spans(p, period)), None)
                if piece is None:
                    continue
                x = self.everywhen(piece.sample(jax.random.key(3), 16))
                normal = piece.normal(x[0])
            miss = differs(lambda x, c=condition, n=normal: c.matrix(self.schema, x, n), x)  # type: ignore[misc]
            if not miss <= 1e-9:
                raise ValueError(f"the data of '{condition.name}' on '{condition.on}' or their slopes differ by "
                                 f"{miss:.2g} {ends}; make them periodic, or give periodic soft=WEIGHT")
        if self.hints.decay:
            raise ValueError(f"the hint decay=True gives inputs that are not periodic {ends}; leave it out")
        if self.hints.inputs is not None:
            miss = differs(self.hints.inputs, self._points(jax.random.key(3), 16))
            if not miss <= 1e-9:
                raise ValueError(f"the extra inputs or their slopes differ by {miss:.2g} {ends}; make the hint inputs "
                                 f"periodic")

    def _check_residual(self) -> None:
        schema = self.schema
        expected = self.equations
        if expected is None:
            gradients = dict(schema.gradients)
            expected = sum(int(np.prod(shape)) for name, shape in schema.fields if name not in gradients)

        @jax.jit
        def evaluate(key, q, dq):
            x = self._points(key, 64)
            hints = [jax.vmap(hint)(x) for hint in (self.guess, self.hints.inputs, self.hints.outputs) if hint]
            return jax.vmap(lambda x: self._equations(self.place(x), schema.state(q), schema.derivatives(dq)))(x), hints

        try:
            q, *dq = np.random.default_rng(4).standard_normal((1 + self.derivatives, schema.size))
            values, hints = jax.tree.map(np.asarray, evaluate(jax.random.key(4), q, np.stack(dq)))
        except ValueError as error:
            raise ValueError(f"residual: {first_line(error)}") from None
        except Exception as error:
            raise ValueError(f"residual cannot be evaluated: {type(error).__name__}: {first_line(error)}") from None
        if values.shape[1] != expected:
            raise ValueError(f"residual returns {values.shape[1]} equations and {expected} are expected, one for each "
                             f"component of a field that is not a gradient; state equations={values.shape[1]} "
                             f"if that is meant")
        if not np.isfinite(values).all():
            raise ValueError("residual is not a finite number at points inside the domain; check its data for NaN")
        if not all(np.isfinite(part).all() for part in jax.tree.leaves(hints)):
            raise ValueError("the hints guess, inputs or outputs are not finite inside the domain; check them for NaN")
        if self.hints.outputs is not None and (hints[-1].ndim != 3 or hints[-1].shape[1] != schema.size):
            raise ValueError(f"the hint outputs returns an array of shape {hints[-1].shape[1:]}; it must be a matrix "
                             f"with {schema.size} rows, one for each component of the state")

    def _points(self, key: Array, n: int) -> Array:
        points = self.domain.sample(key, n)
        if self.time is not None:
            t = jax.random.uniform(key, (n, 1), minval=self.time[0], maxval=self.time[1])
            points = jnp.concatenate([points, t], axis=1)
        return append(self.parameters, points)

    def everywhen(self, points: Array) -> Array:
        """Points of space (n, d) as points of the problem, at times and parameters all over their ranges, (n, c)."""
        if self.time is not None:
            points = jnp.concatenate([points, jnp.linspace(*self.time, len(points))[:, None]], axis=1)
        return append(self.parameters, points)


@dataclass(frozen=True, eq=False)
class Unfilled(Problem):
    """A problem whose gradient fields are filled by differentiation; made of one that was checked.

    Its conditions may be more than an ansatz can build in: `check_conditions` tells.
    """

    origin: Problem | None = None

    def __post_init__(self) -> None:
        with compiled_quickly():
            self._check_residual()

    @property
    def stated(self) -> Problem:
        assert self.origin is not None
        return self.origin


def without_gradients(problem: Problem, hints: Hints | None = None) -> Problem:
    """The same problem with its gradient fields filled by differentiation: fewer fields, second derivatives.

    The residual may read a gradient field and its divergence. hints: in place of the problem's own.
    """
    schema = problem.schema
    if not schema.gradients:
        return problem
    if problem.mapping is not None:
        raise ValueError("a problem with a mapping keeps its gradient fields; choose gradients='fields', with the "
                         "command --set gradients=fields")
    gradients = dict(schema.gradients)
    fields = {name: shape for name, shape in schema.fields if name not in gradients}

    def residual(x, q, dq):
        values = {name: q[name] for name in fields}
        derivatives: dict[str, Any] = {name: dq[name] for name in fields}
        for gradient, base in gradients.items():
            values[gradient] = dq[base].space
            derivatives[gradient] = Filled(laplacian(dq[base]))
        return problem.residual(x, State(schema, values), State(schema, derivatives))

    hints = problem.hints if hints is None else hints
    stated = hints.scale
    if stated is not None:  # factors of the gradients' equations go with them
        gone = sum(int(np.prod(schema.shapes[name])) for name in gradients)

        def scale(x):
            factors = jnp.asarray(stated(x))
            return factors[: factors.size - gone] if factors.size > 1 else factors

        hints = replace(hints, scale=scale)
    conditions = tuple(c if c.on == INITIAL or isinstance(c, Periodic) else _unfilled(c, problem)
                       for c in problem.conditions)
    return Unfilled(problem.domain, fields, residual, conditions, time=problem.time, free=problem.free,
                    equations=problem.equations, regions=problem.regions, parameters=problem.parameters,
                    measurements=problem.measurements, hints=hints,
                    name=problem.name, origin=problem)


@dataclass(frozen=True, eq=False)
class Member(Problem):
    """One problem of a family, with a value for every parameter; the family was checked."""

    def __post_init__(self) -> None:
        pass


def _fixed(family: Problem, full: Callable[[Array], Array], stated: Mapping[str, float]) -> Problem:
    """A member of a family: its functions of the point get the values of the parameters from `full`."""

    def point(function: Any) -> Any:
        return (lambda x: function(full(x))) if callable(function) else function

    def condition(one: Condition | Periodic) -> Condition | Periodic:
        if isinstance(one, Periodic):
            return one
        return replace(one, lhs=lambda q, x, n: one.lhs(q, full(x), n), rhs=point(one.rhs))

    stated_hints = {name: getattr(family.hints, name) for name in (
        "inputs", "outputs", "guess", "scale", "distances", "normals")}
    changed: dict[str, Any] = {
        name: {key: point(one) for key, one in hint.items()} if isinstance(hint, Mapping) else point(hint)
        for name, hint in stated_hints.items()}
    hints = replace(family.hints, **changed)
    reference = family.reference
    return Member(family.domain, family.fields, lambda x, q, dq: family.residual(full(x), q, dq),
                  tuple(condition(one) for one in family.conditions), family.gradients, family.time, family.free,
                  family.equations, family.regions, (), point(family.mapping), (), hints, point(family.exact),
                  partial(reference, **stated) if callable(reference) else reference, family.name)


def _checked(stated: Any) -> tuple[Parameter, ...]:
    """The parameters of a problem: all that were made together, in their order."""
    found = tuple(stated)
    for place, parameter in enumerate(found):
        if not isinstance(parameter, Parameter):
            raise ValueError(f"{parameter!r} is not a parameter; make them with parameters(h=(0.5, 2.0))")
        if parameter.place != place - len(found):
            raise ValueError(f"parameter '{parameter.name}' is not in its place; state all parameters that were made "
                             f"together by one call of parameters(…), in their order")
    return found


def _unfilled(condition: Condition, problem: Problem) -> Condition:
    """A condition on the gradient fields as one on the gradients themselves."""
    gradients = dict(problem.schema.gradients)

    def lhs(q, x, n):
        values = {name: q.gradient(gradients[name]) if name in gradients else q[name]
                  for name in problem.schema.names}
        return condition.lhs(State(problem.schema, values), x, n)

    return replace(condition, lhs=lhs)


def exact_reference(problem: Problem, points: int | None = None, times: int = 11) -> Reference:
    """The known solution at points drawn in the domain (4,000, or 10,000 in more than three dimensions), at
    equally spaced times."""
    assert problem.exact is not None
    points = points or (4_000 if problem.schema.dim <= 3 else 10_000)
    x = np.asarray(problem.domain.sample(jax.random.key(7), points))
    if problem.mapping is not None:
        x = problem.places(x)
    evaluate = jax.jit(jax.vmap(problem.exact))
    about = {"kind": "known solution", "points": points}
    if problem.time is None:
        return Reference(x, problem.masked(evaluate(x), x), about=about)
    instants = np.linspace(*problem.time, times)
    slices = [evaluate(np.concatenate([x, np.full((len(x), 1), t)], axis=1)) for t in instants]
    values = {name: np.stack([np.asarray(s[name]) for s in slices]) for name in slices[0]}
    return Reference(x, problem.masked(values, x), instants, about=about)


def _components(schema: Schema, name: str) -> range:
    part = schema.slices[name]
    return range(part.start, part.stop)


def _places(condition: Any) -> tuple[str, ...]:
    """The boundaries that a condition concerns."""
    return (condition.on, condition.to) if isinstance(condition, Periodic) else (condition.on,)


def _solve(a: Array, b: Array) -> Array:
    """a⁻¹ b of a small matrix; in the plane by a formula, which fuses, where a call to a library would not."""
    if len(a) == 1:
        return b / a[0, 0]
    if len(a) == 2:
        (p, q), (r, s) = a
        return jnp.stack([s * b[0] - q * b[1], p * b[1] - r * b[0]]) / (p * s - q * r)
    return jnp.linalg.solve(a, b)


def _vector(value: Any) -> Array:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return jnp.concatenate([jnp.ravel(jnp.asarray(part)) for part in parts])
