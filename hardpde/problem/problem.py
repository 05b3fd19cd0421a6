"""Problems: what is to be solved. Knows no network; everything a user states is checked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Boundary, Shape, TimeSlice, at_times
from hardpde.problem.completed import completed
from hardpde.problem.condition_checks import check_conditions
from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.corner_jumps import CornerJump
from hardpde.problem.datum import Datum
from hardpde.problem.family import in_order, member
from hardpde.problem.fields import Schema, State, asks_for_laplacian, flat, make_schema
from hardpde.problem.hints import Hints, guessed
from hardpde.problem.layout import Layout, arrange
from hardpde.problem.mapping import Placement
from hardpde.problem.measurements import Measurement
from hardpde.problem.parameters import Parameter, append, middle
from hardpde.problem.periods import Period, clear_of_periods, work_out
from hardpde.problem.reference import Reference, exact_reference
from hardpde.problem.regions import FieldRegions
from hardpde.problem.statement_checks import check_kinds, check_statement
from hardpde.support.compiling import jit_simply


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
    presets: settings that suit the problem of this name, a `hardpde.problems.presets.Presets`.
    """

    domain: Shape
    fields: Any
    residual: Callable[..., Any]
    conditions: Sequence[Condition | Periodic | Datum]
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
    presets: object = None
    origin: "Problem | None" = field(default=None, init=False, repr=False)  # of a problem that is made of another one
    jumps: tuple[CornerJump, ...] = field(default=(), init=False, repr=False)  # of data at corners
    laplacians: Mapping[str, str] = field(default_factory=dict, init=False, repr=False)  # {field: what stands for it}

    def __post_init__(self) -> None:
        if isinstance(self.free, str):
            object.__setattr__(self, "free", (self.free,))
        check_kinds(self)
        # Conditions at points come first, so that their numbers are those of the layout.
        ordered = sorted(self.conditions, key=lambda condition: not isinstance(condition, Condition))
        object.__setattr__(self, "conditions", tuple(ordered))
        object.__setattr__(self, "parameters", in_order(self.parameters))
        check_statement(self)

    @cached_property
    def completed(self) -> "Problem":
        """The problem with the fields that its statement needs and lacks, with which it is solved; mostly itself."""
        return completed(self) if self.origin is None else self

    @cached_property
    def fitting(self) -> bool:
        """True, once its conditions were found to be such that an ansatz can build them in; else a ValueError."""
        check_conditions(self)
        return True

    @property
    def stated(self) -> "Problem":
        """The problem as its user stated it."""
        return self if self.origin is None else self.origin

    def derived(self, **changed: Any) -> "Problem":
        """A problem made of this one, which was checked, with other statements; nothing is checked again."""
        made = object.__new__(Problem)
        vars(made).update({one.name: getattr(self, one.name) for one in fields(self)} | changed)
        return made

    def renamed(self, name: str) -> "Problem":
        """The problem by another name."""
        return self.derived(**self._worked_out(), name=name)

    def with_reference(self, reference: Reference) -> "Problem":
        """The problem with another reference."""
        return self.derived(**self._worked_out(), reference=reference)

    def _worked_out(self) -> dict[str, Any]:
        """What has been worked out so far of all but the name and the reference."""
        stated = {one.name for one in fields(self)}
        return {name: value for name, value in vars(self).items() if name not in stated}

    def _repr_html_(self) -> str | None:
        """What a notebook shows: what is stated, and the drawing of the domain."""
        from hardpde.evaluation.notebook import problem_html

        return problem_html(self)

    @cached_property
    def schema(self) -> Schema:
        """Its fields, in the order of the state."""
        schema = make_schema(self.fields, self.gradients, self.domain.dim, self.time is not None,
                             len(self.parameters))
        try:
            laplacian = asks_for_laplacian(schema, self.residual)
        except Exception:
            return schema  # what is wrong with the residual is said when it is checked
        return replace(schema, laplacians=tuple(self.laplacians.items()),
                       traces=laplacian and len(schema.gradients) < len(schema.fields))

    @cached_property
    def pointwise(self) -> tuple[Condition, ...]:
        """The conditions at single points, all but the periodic ones, at points of the domain."""
        found = tuple(condition for condition in self.conditions if isinstance(condition, Condition))
        return found if self.placement is None else tuple(map(self.placement.condition, found))

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        """The periodic conditions, worked out."""
        return tuple(work_out(condition, self.domain, self.schema, self.order) for condition in self.conditions
                     if isinstance(condition, Periodic))

    @cached_property
    def levels(self) -> tuple[Datum, ...]:
        """What is stated of the levels of fields."""
        return tuple(condition for condition in self.conditions if isinstance(condition, Datum))

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
        """Which conditions hold on which piece of the boundary."""
        layout = arrange(self.domain, self.schema, self.pointwise, self.time, self.hints.collar,
                         self.hints.sharp, self.parameters, [jump.at for jump in self.jumps])
        return clear_of_periods(layout, self.periods, self.domain, self.hints.collar)

    @cached_property
    def boundaries(self) -> dict[str, Boundary | TimeSlice]:
        """All boundaries by name; with time, the slice at its start is the boundary `initial`."""
        if self.time is None:
            return dict(self.domain.boundaries)
        return {**self.domain.boundaries, INITIAL: TimeSlice(self.domain, self.time[0])}

    def guess(self, x: Array) -> Array:
        """The hint `guess` as a vector (m,); zero without one."""
        return guessed(self.hints, self.schema, x)

    @cached_property
    def views(self) -> tuple[tuple[Callable[[Array], Array], np.ndarray], ...]:
        """Where the network looks for a point, and the signs (m,) of what it sees there: with a mirror, two places."""
        plain, mirror = (lambda x: x, np.ones(self.schema.size)), self.hints.mirror
        return (plain,) if mirror is None else (plain, (mirror.image, mirror.signs(self.schema)))

    def residuals(self, x: Array, q: Array, dq: Array) -> Array:
        """All equations at one point, the gradient fields' included: x (c,), q (m,), dq (c, m) → (e,).

        For a problem of order 2, dq (c + 1, m) ends with the Laplacian.
        """
        if self.placement is not None:
            x, dq = self.placement.place(x), self.placement.derivatives(x, dq)
        state, derivatives = self.schema.state(q), self.schema.derivatives(dq)
        parts = [self.stated_equations(x, state, derivatives)]
        for gradient, base in self.schema.gradients:
            difference = jnp.ravel(state[gradient] - derivatives[base].space)
            parts.append(self._living.only_there(base, x, difference))
        return jnp.concatenate(parts)

    def stated_equations(self, x: Array, q: State, dq: State) -> Array:
        """The user's equations at one real point, (e,); those of a field that does not live there are 0."""
        values = self.residual(x, q, dq)
        if not isinstance(values, Mapping):
            if self.regions:
                raise ValueError("with regions it returns {field: its equations}, so that each holds in one of them")
            return flat(values)
        for name in values:
            q[name]
        return jnp.concatenate([self._living.only_there(name, x, flat(part)) for name, part in values.items()])

    @cached_property
    def placement(self) -> Placement | None:
        """Where the points of the domain really are, if a mapping is stated."""
        return None if self.mapping is None else Placement(self.mapping, self.schema.dim)

    def place(self, x: Array) -> Array:
        """Where a point (c,) of the domain really is, its time and parameters kept."""
        return x if self.placement is None else self.placement.place(x)

    def places(self, x: np.ndarray) -> np.ndarray:
        """Where points (n, d) of the domain really are, for a problem without parameters."""
        full = self.everywhen(jnp.asarray(x))
        return np.asarray(jax.jit(jax.vmap(self.place))(full))[:, : self.schema.dim]

    def back(self, x: np.ndarray) -> np.ndarray:
        """The points (n, c) of the domain that really are at x (n, c)."""
        if self.placement is None or not len(x):
            return x
        found, miss = self.placement.back(jnp.asarray(x))
        worst = int(np.argmax(miss))
        if not miss[worst] <= 1e-9 * self.domain.size:
            raise ValueError(f"the point {np.round(x[worst], 6).tolist()} is not where the mapping takes the domain; "
                             f"give points of the real shape")
        return np.asarray(found)

    @cached_property
    def _living(self) -> FieldRegions:
        return FieldRegions(self.regions, self.schema, self.domain.size)

    def where(self, name: str) -> Callable[[Array], Any]:
        """A function of a point (d,) that is negative where a field lives."""
        return self._living.of(name) or (lambda x: -1.0)

    def lives(self, name: str, x: np.ndarray) -> np.ndarray:
        """Whether a field lives at points (n, d), edges of its region included, (n,)."""
        return self._living.lives(name, x)

    def masked(self, values: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
        """Values of fields at points x (n, d), (n, *shape) or (k, n, *shape), NaN where a field does not live."""
        return self._living.masked(values, x)

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

    @cached_property
    def known_everywhere(self) -> Callable[[Any], dict[str, Any]]:
        """`exact` at points (n, c), compiled."""
        assert self.exact is not None
        return jit_simply(jax.vmap(self.exact))

    def at(self, /, **stated: float) -> "Problem":
        """The problem with a value for each of its parameters, which then has none."""
        return member(self, stated)

    def sample(self, key: Array, n: int) -> Array:
        """n points (n, c) at random places, times and values of the parameters spread over their ranges."""
        points = self.domain.sample(key, n)
        if self.time is not None:  # by a key of their own: else times follow places
            late = jax.random.uniform(jax.random.fold_in(key, 1), (n, 1), minval=self.time[0], maxval=self.time[1])
            points = at_times(points, late)
        return append(self.parameters, points)

    def everywhen(self, points: Array) -> Array:
        """Points of space (n, d) as points of the problem, at times and parameters all over their ranges, (n, c)."""
        if self.time is not None:
            points = at_times(points, jnp.linspace(*self.time, len(points)))
        return append(self.parameters, points)
