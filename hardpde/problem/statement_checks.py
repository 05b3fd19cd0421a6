"""Checks of a statement: that everything in it is of its kind, fits together, and can be evaluated."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Shape, check_shape
from hardpde.problem.condition_checks import check_conditions
from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.hints import Hints
from hardpde.problem.measurements import check_measurements
from hardpde.problem.parameters import Undeclared, declaring
from hardpde.problem.reference import Reference
from hardpde.support.checking import is_whole
from hardpde.support.compiling import compiled_quickly
from hardpde.support.messages import evaluating, first_line

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


def check_statement(problem: "Problem") -> None:
    """Everything but its kinds; every fault is a ValueError of one sentence."""
    with compiled_quickly(), declaring(problem.parameters, problem.schema.point):
        check_time(problem)
        check_boundaries(problem)
        check_shape(problem.domain)
        check_mapping(problem)
        check_regions(problem)
        check_residual(problem)
        check_hints(problem)
        check_conditions(problem)
        check_measurements(problem)
        check_others(problem)


def check_kinds(problem: "Problem") -> None:
    """What is no matter of mathematics: that everything stated is of its kind."""
    if not isinstance(problem.domain, Shape):
        raise ValueError(f"the domain is {problem.domain!r}; it is a shape, like Box((0, 0), (1, 1))")
    lists = {name: getattr(problem, name) for name in ("conditions", "free", "parameters", "measurements")}
    for name, stated in lists.items():
        if not isinstance(stated, Iterable):
            raise ValueError(f"{name} is {stated!r}; it is a list")
    if not isinstance(problem.regions, Mapping):
        raise ValueError(f"regions is {problem.regions!r}; it is a dictionary {{field: where it lives}}")
    functions = {name: getattr(problem, name) for name in ("mapping", "exact") if getattr(problem, name) is not None}
    for name, stated in {"residual": problem.residual, **functions}.items():
        if not callable(stated):
            raise ValueError(f"{name} is {stated!r}; it is a function")
    if not (problem.reference is None or callable(problem.reference) or isinstance(problem.reference, Reference)):
        raise ValueError(f"the reference is {problem.reference!r}; it is a Reference or a function that makes one")
    if problem.equations is not None and not is_whole(problem.equations):
        raise ValueError(f"equations is {problem.equations!r}; it is how many equations the residual has")
    if not isinstance(problem.hints, Hints):
        raise ValueError(f"hints is {problem.hints!r}; write Hints(decay=True, …)")
    if not isinstance(problem.name, str) or not problem.name or "/" in problem.name or "\\" in problem.name:
        raise ValueError(f"the name of the problem is {problem.name!r}; it is a word, as it names folders and files")
    _ = problem.schema
    if problem.parameters and problem.reference is not None and not callable(problem.reference):
        raise ValueError("the reference of a family is a function of its parameters, by name, that makes one")


def check_time(problem: "Problem") -> None:
    """Time is an interval."""
    if problem.time is None:
        return
    try:
        start, end = map(float, problem.time)
    except (TypeError, ValueError):
        start = end = np.nan
    if not (np.isfinite([start, end]).all() and start < end):
        raise ValueError(f"time is {problem.time}; it must be (start, end) with start < end")


def check_boundaries(problem: "Problem") -> None:
    """Every boundary has a condition or is free, and what is named exists."""
    known = list(problem.domain.boundaries)
    if INITIAL in known:
        raise ValueError(f"a boundary is named '{INITIAL}', the name of the start of time; choose another")
    listing = ", ".join(known)
    for condition in problem.conditions:
        if not isinstance(condition, Condition | Periodic):
            raise ValueError(f"{condition!r} is not a condition; use dirichlet, neumann, robin, … or Condition")
        if isinstance(condition, Condition) and condition.on == INITIAL and problem.time is None:
            raise ValueError("an initial condition needs time; state time=(start, end) in the problem")
        for name in _places(condition):
            if name not in known and not (name == INITIAL and isinstance(condition, Condition)):
                raise ValueError(f"there is no boundary '{name}'; the boundaries are {listing}")
    for name in problem.free:
        if name not in known:
            raise ValueError(f"'{name}' is declared free, but there is no such boundary; they are {listing}")
    for hint in ("distances", "normals"):
        for name in getattr(problem.hints, hint):
            if name not in known:
                raise ValueError(f"the hint {hint} names '{name}', and there is no such boundary; "
                                 f"they are {listing}")
    for condition in problem.conditions:
        if isinstance(condition, Periodic):
            _check_alone(problem, condition)
    stated = {name for condition in problem.conditions for name in _places(condition)}
    for name in known:
        if name not in stated and name not in problem.free:
            raise ValueError(f"boundary '{name}' has no condition; give it one or declare it free=['{name}']")


def _check_alone(problem: "Problem", periodic: Periodic) -> None:
    for name in _places(periodic):
        others = [c.name for c in problem.conditions if c is not periodic and name in _places(c)]
        if others:
            raise ValueError(f"boundary '{name}' is periodic and has another condition, '{others[0]}'; "
                             f"keep one of them")


def _places(condition: Condition | Periodic) -> tuple[str, ...]:
    """The boundaries that a condition concerns."""
    return (condition.on, condition.to) if isinstance(condition, Periodic) else (condition.on,)


def check_mapping(problem: "Problem") -> None:
    """The mapping keeps the domain in one piece for all times and parameters."""
    if problem.mapping is None:
        return
    d, mapping = problem.schema.dim, problem.mapping
    if problem.order == 2 or problem.regions or problem.periods:
        raise ValueError("with a mapping, state gradients={…} in place of a Laplacian, and no regions or periodic "
                         "conditions")
    x = problem.sample(jax.random.key(15), 4000)
    with evaluating("the mapping"):
        place, slope = jax.jit(jax.vmap(lambda x: (mapping(x), jax.jacfwd(mapping)(x))))(x)
    if place.shape != (len(x), d):
        raise ValueError(f"the mapping returns an array of shape {place.shape[1:]}; it is the place, ({d},)")
    if problem.time is not None and np.abs(slope[:, :, d]).max() > 0:
        raise ValueError("the mapping depends on time; shapes may depend on parameters alone")
    size = np.asarray(jnp.linalg.det(slope[:, :, :d]))
    if not (np.isfinite(size).all() and size.min() > 0.02):
        where = np.round(np.asarray(x[int(np.nanargmin(size))]), 4).tolist()
        raise ValueError(f"the mapping squeezes the domain to {size.min():.2g} of its volume near {where}; move or "
                         f"grow things less, or over a larger distance")


def check_regions(problem: "Problem") -> None:
    """Every region is one of the domain and belongs to a field."""
    for name, region in problem.regions.items():
        if name not in problem.schema.names or name in dict(problem.schema.gradients):
            raise ValueError(f"a region is stated for '{name}'; regions are for fields that are not gradients")
        if not callable(region) and not (isinstance(region, Shape) and region.dim == problem.domain.dim):
            raise ValueError(f"the region of '{name}' is neither a Shape in {problem.domain.dim}-D nor a function")
        if not problem.lives(name, np.asarray(problem.domain.sample(jax.random.key(8), 4000))).any():
            raise ValueError(f"the region of '{name}' holds no point of the domain; a function is negative inside")


def check_residual(problem: "Problem") -> None:
    """The equations are as many as expected and finite, with the hints that are functions of the point."""
    schema = problem.schema
    expected = problem.equations
    if expected is None:
        gradients = dict(schema.gradients)
        expected = sum(int(np.prod(shape)) for name, shape in schema.fields if name not in gradients)

    @jax.jit
    def evaluate(key: Array, q: Array, dq: Array) -> tuple[Array, list[Array]]:
        x = problem.sample(key, 64)
        hints = [jax.vmap(hint)(x) for hint in (problem.guess, problem.hints.inputs, problem.hints.outputs) if hint]
        state, derivatives = schema.state(q), schema.derivatives(dq)
        return jax.vmap(lambda x: problem.stated_equations(problem.place(x), state, derivatives))(x), hints

    with evaluating("residual"):
        q, *dq = np.random.default_rng(4).standard_normal((1 + problem.derivatives, schema.size))
        values, hints = jax.tree.map(np.asarray, evaluate(jax.random.key(4), q, np.stack(dq)))
    if values.shape[1] != expected:
        raise ValueError(f"residual returns {values.shape[1]} equations and {expected} are expected, one for each "
                         f"component of a field that is not a gradient; state equations={values.shape[1]} "
                         f"if that is meant")
    if not np.isfinite(values).all():
        raise ValueError("residual is not a finite number at points inside the domain; check its data for NaN")
    if not all(np.isfinite(part).all() for part in jax.tree.leaves(hints)):
        raise ValueError("the hints guess, inputs or outputs are not finite inside the domain; check them for NaN")
    if problem.hints.outputs is not None and (hints[-1].ndim != 3 or hints[-1].shape[1] != schema.size):
        raise ValueError(f"the hint outputs returns an array of shape {hints[-1].shape[1:]}; it must be a matrix "
                         f"with {schema.size} rows, one for each component of the state")


def check_hints(problem: "Problem") -> None:
    """Shapes of what focus and scale state."""
    schema = problem.schema
    for place in problem.hints.focus:
        if np.shape(place.at) != (schema.dim,):
            raise ValueError(f"{place} is not about a place with {schema.dim} coordinates")
    stated = problem.hints.scale
    if stated is None:
        return
    jet = jnp.zeros((problem.derivatives, schema.size))
    number = jax.eval_shape(problem.residuals, jnp.zeros(schema.point), jnp.zeros(schema.size), jet).shape[0]
    try:
        shape = jax.eval_shape(lambda x: jnp.asarray(stated(x)), jnp.ones(schema.point)).shape
    except Exception as error:
        raise ValueError(f"the hint scale cannot be evaluated: {first_line(error)}") from None
    if shape not in ((), (1,), (number,)):
        raise ValueError(f"the hint scale returns an array of shape {shape}; it is one number, or one for each of "
                         f"the {number} equations")


def check_others(problem: "Problem") -> None:
    """Functions that are evaluated later know the parameters of the problem alone; other faults are said then."""
    hints = {f"the hint {kind} of '{name}'": function for kind in ("distances", "normals")
             for name, function in getattr(problem.hints, kind).items()}
    for what, function in {**({"exact": problem.exact} if problem.exact else {}), **hints}.items():
        try:
            jax.eval_shape(function, jnp.zeros(problem.schema.point))
        except Undeclared as error:
            raise ValueError(f"{what}: {error}") from None
        except Exception:
            continue
