"""Checks of a statement: that everything in it is of its kind, fits together, and can be evaluated."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Shape, check_shape, describe, parts_of
from hardpde.geometry.algorithms.sampling import depths
from hardpde.problem.conditions import INITIAL, Condition, Periodic
from hardpde.problem.datum import Datum, check_datum
from hardpde.problem.hints import Hints
from hardpde.problem.measurements import check_measurements
from hardpde.problem.parameters import Undeclared, declaring
from hardpde.problem.reference import Reference
from hardpde.support.cache import keep_compiled
from hardpde.support.checking import is_whole, numbers
from hardpde.support.compiling import compiled_quickly, jit_simply
from hardpde.support.messages import evaluating, in_ones_words

SMALLEST = 1e-30  # of lengths and spans of time; its inverse is the largest

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


def check_statement(problem: "Problem") -> None:
    """Everything but its kinds; every fault is a ValueError of one sentence."""
    keep_compiled()
    with compiled_quickly(), declaring(problem.parameters, problem.schema.point):
        check_time(problem)
        check_scale(problem)
        check_boundaries(problem)
        check_shape(problem.domain)
        whole = problem.completed
        check_mapping(whole)
        check_regions(problem)
        check_residual(whole)
        _check_unknowns(whole)
        check_continuation(whole)
        check_hints(whole)
        _ = whole.fitting
        check_start(whole)
        for datum in problem.levels:
            check_datum(whole, datum)
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
        start, end = map(float, numbers(problem.time, "time"))
    except (TypeError, ValueError):
        start = end = np.nan
    if not (np.isfinite([start, end]).all() and start < end):
        raise ValueError(f"time is {problem.time}; it must be (start, end) with start < end")
    if not SMALLEST <= end - start <= 1 / SMALLEST or max(abs(start), abs(end)) > 1e12 * (end - start):
        raise ValueError(f"time is {problem.time}; numbers of this size lose their digits, state time in other units "
                         f"or from 0 on")


def check_scale(problem: "Problem") -> None:
    """The domain has a size that arithmetic bears."""
    lo, hi = (np.asarray(end, float) for end in problem.domain.bounds)
    if not SMALLEST <= (hi - lo).min() <= (hi - lo).max() <= 1 / SMALLEST:
        raise ValueError(f"the domain is {(hi - lo).max():.3g} long; lengths from {SMALLEST:g} to {1 / SMALLEST:g} can "
                         f"be solved on, state it in other units")
    if max(np.abs(lo).max(), np.abs(hi).max()) > 1e8 * (hi - lo).min():
        raise ValueError("the domain lies so far from the origin that its points lose their digits; state it nearer "
                         "to the origin")


def check_boundaries(problem: "Problem") -> None:
    """Every boundary has a condition or is free, and what is named exists."""
    known = list(problem.domain.boundaries)
    if INITIAL in known:
        raise ValueError(f"a boundary is named '{INITIAL}', the name of the start of time; choose another")
    listing = ", ".join(known)
    for condition in problem.conditions:
        if not isinstance(condition, Condition | Periodic | Datum):
            raise ValueError(f"{condition!r} is not a condition; use dirichlet, neumann, robin, … or Condition")
        if isinstance(condition, Condition) and condition.on == INITIAL and problem.time is None:
            raise ValueError("an initial condition needs time; state time=(start, end) in the problem")
        for name in _places(condition):
            if name not in known and not (name == INITIAL and isinstance(condition, Condition)):
                raise ValueError(f"{_missing(problem.domain, name)}; the boundaries are {listing}")
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
        if isinstance(condition, Condition) and condition.straight:
            _check_straight(problem, condition)
    stated = {name for condition in problem.conditions for name in _places(condition)}
    for name in known:
        if name not in stated and name not in problem.free:
            raise ValueError(f"boundary '{name}' has no condition; give it one or declare it free=['{name}']")


def _missing(domain: Shape, name: str) -> str:
    """Words on a boundary that is none of the domain's."""
    gone = [part for part in parts_of(domain) if name in part.boundaries]
    if not gone:
        return f"there is no boundary '{name}'"
    return f"nothing of the boundary '{name}' is on the domain: {describe(gone[-1])} lies outside, or is cut away"


def _check_alone(problem: "Problem", periodic: Periodic) -> None:
    for name in _places(periodic):
        others = [c.name for c in problem.conditions if c is not periodic and name in _places(c)]
        if others:
            raise ValueError(f"boundary '{name}' is periodic and has another condition, '{others[0]}'; "
                             f"keep one of them")


def _check_straight(problem: "Problem", condition: Condition) -> None:
    for piece in problem.domain.boundaries[condition.on].pieces:
        n = np.asarray(jit_simply(lambda key, piece=piece: jax.vmap(piece.normal)(piece.sample(key, 8)))(
            jax.random.key(17)))
        if np.abs(n - n[0]).max() > 1e-9:
            raise ValueError(f"the condition '{condition.name}' is for straight edges, and '{condition.on}' is curved; "
                             f"give it poisson=, Poisson's ratio")


def _places(condition: Condition | Periodic | Datum) -> tuple[str, ...]:
    """The boundaries that a condition concerns."""
    if isinstance(condition, Datum):
        return ()
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
        place, slope = jit_simply(jax.vmap(lambda x: (mapping(x), jax.jacfwd(mapping)(x))))(x)
    if place.shape != (len(x), d):
        raise ValueError(f"the mapping returns an array of shape {place.shape[1:]}; it is the place, ({d},)")
    if problem.time is not None and np.abs(slope[:, :, d]).max() > 0:
        raise ValueError("the mapping depends on time; shapes may depend on parameters alone")
    size = np.asarray(jnp.linalg.det(slope[:, :, :d]))
    if not (np.isfinite(size).all() and size.min() > 0.02):
        where = np.round(np.asarray(x[int(np.nanargmin(size))]), 4).tolist()
        raise ValueError(f"the mapping squeezes the domain to {size.min():.2g} of its volume near {where}; move or "
                         f"grow things less, or over a larger distance")
    _check_one_to_one(problem)


def _check_one_to_one(problem: "Problem", points: int = 600) -> None:
    """No place is that of two points: from points that are taken to near it, Newton's method finds no second one."""
    placement, d = problem.placement, problem.schema.dim
    assert placement is not None
    space = np.asarray(problem.domain.sample(jax.random.key(16), points))
    tails = np.asarray(problem.everywhen(jnp.asarray(space[:4])))[:, d:]  # the ends of the ranges come first
    size = problem.domain.size
    for tail in tails if problem.parameters else tails[:1]:
        x = np.concatenate([space, np.tile(tail, (points, 1))], axis=1)
        real = np.asarray(jit_simply(jax.vmap(placement.place))(x))[:, :d]
        far = np.linalg.norm(space[:, None] - space[None], axis=2) > 0.1 * size
        near = np.where(far, np.linalg.norm(real[:, None] - real[None], axis=2), np.inf).argmin(1)
        found, miss = map(np.asarray, placement.back_from(
            jnp.asarray(x[near]), jnp.asarray(np.concatenate([real, x[:, d:]], axis=1))))
        other = np.linalg.norm(found[:, :d] - space, axis=1) > 1e-3 * size
        inside = np.asarray(jit_simply(jax.vmap(problem.domain.sdf))(np.nan_to_num(found[:, :d]))) < 0
        if (twice := (miss < 1e-9 * size) & other & inside).any():
            k = int(twice.argmax())
            raise ValueError(f"the mapping takes two points to one place, {np.round(space[k], 4).tolist()} and "
                             f"{np.round(found[k, :d], 4).tolist()}; it must be one-to-one")


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

    @jit_simply
    def evaluate(key: Array, q: Array, dq: Array) -> tuple[Array, list[Array]]:
        x = problem.sample(key, 64)
        stated = (problem.guess, problem.hints.inputs, problem.hints.outputs)
        hints = [jax.vmap(lambda x, hint=hint: jnp.asarray(hint(x)))(x) for hint in stated if hint]
        state, derivatives = schema.state(q), schema.derivatives(dq)
        return jax.vmap(lambda x: problem.stated_equations(problem.place(x), state, derivatives))(x), hints

    for name in ("guess", "inputs", "outputs"):
        if (hint := getattr(problem.hints, name)) is not None:
            with evaluating(f"the hint {name}"):
                jax.eval_shape(lambda x, hint=hint: jax.tree.map(jnp.asarray, hint(x)), jnp.ones(schema.point))
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


def _check_unknowns(problem: "Problem") -> None:
    """Every equation asks something of a field."""
    schema, rng = problem.schema, np.random.default_rng(6)
    jet = jnp.asarray(rng.standard_normal((1 + problem.derivatives, schema.size)))

    @jit_simply
    def moves(x: Array) -> Array:
        slopes = jax.vmap(lambda x: jax.jacfwd(lambda jet: problem.stated_equations(
            problem.place(x), schema.state(jet[0]), schema.derivatives(jet[1:])).astype(float))(jet))(x)
        return (slopes != 0).any(axis=(0, 2, 3))

    if problem.regions or (known := np.asarray(moves(problem.sample(jax.random.key(4), 16)))).all():
        return
    raise ValueError(f"equation {int(known.argmin()) + 1} of the residual does not change with any field; an equation "
                     f"is made of q and dq, like hp.div(dq.p) + f(x), and is zero for the solution")


def check_continuation(problem: "Problem") -> None:
    """The hint `continuation` leads to the problem's own residual."""
    if (easier := problem.hints.continuation) is None:
        return
    schema, x = problem.schema, problem.sample(jax.random.key(4), 8)
    q, *dq = np.random.default_rng(4).standard_normal((1 + problem.derivatives, schema.size))
    with evaluating("the hint continuation"):
        end, own = (np.asarray(jax.vmap(lambda x, one=one: one.stated_equations(
            one.place(x), schema.state(q), schema.derivatives(jnp.stack(dq))))(x))
            for one in (problem.derived(residual=easier(jnp.asarray(1.0))), problem))
    if end.shape != own.shape or not np.allclose(end, own, rtol=1e-6, atol=1e-9 * np.abs(own).max()):
        raise ValueError("the hint continuation does not lead to the problem: with s = 1 it must return its residual")


def check_start(problem: "Problem") -> None:
    """What the equations change in time has a value to start from."""
    schema = problem.schema
    if problem.time is None or problem.measurements:
        return
    x, rng = problem.sample(jax.random.key(4), 4), np.random.default_rng(5)
    q, dq = jnp.asarray(rng.standard_normal(schema.size)), rng.standard_normal((problem.derivatives, schema.size))
    place = problem.place

    def change(x: Array) -> Array:
        """The equations' derivatives by ∂q/∂t, (e, m)."""
        return jax.jacfwd(lambda late: problem.stated_equations(place(x), schema.state(q), schema.derivatives(
            jnp.asarray(dq).at[schema.dim].set(late))))(dq[schema.dim])

    with evaluating("residual"):
        moves = np.abs(np.asarray(jit_simply(jax.vmap(change))(x))).max(axis=(0, 1), initial=0.0) > 0
    known = np.zeros(schema.size, bool)
    for condition in problem.pointwise:
        if condition.on == INITIAL:
            a = jax.vmap(lambda x, c=condition: c.matrix(schema, x, jnp.zeros(schema.dim))[0])(x)
            known |= (np.abs(np.asarray(a)) > 0).any(axis=(0, 1))[: schema.size]
    bases = dict(schema.gradients)
    for name, part in schema.slices.items():
        if moves[part].any() and not known[part].any() and not known[schema.slices[bases.get(name, name)]].any():
            raise ValueError(f"the equations have ∂{name}/∂t, and no initial condition says what '{name}' is at "
                             f"t = {problem.time[0]:g}; add initial('{name}', …)")


def check_hints(problem: "Problem") -> None:
    """Shapes of what focus and scale state."""
    schema = problem.schema
    for place in problem.hints.focus:
        if np.shape(place.at) != (schema.dim,):
            raise ValueError(f"{place} is not about a place with {schema.dim} coordinates")
        if (depth := float(depths(problem.domain, np.asarray([place.at], float))[0])) > place.outer:
            raise ValueError(f"{place} holds no point of the domain, from which it is {depth:.3g} away; give another "
                             f"place, or a larger outer")
    _check_symmetry(problem)
    stated = problem.hints.scale
    if stated is None:
        return
    jet = jnp.zeros((problem.derivatives, schema.size))
    number = jax.eval_shape(problem.residuals, jnp.zeros(schema.point), jnp.zeros(schema.size), jet).shape[0]
    try:
        shape = jax.eval_shape(lambda x: jnp.asarray(stated(x)), jnp.ones(schema.point)).shape
        x = problem.sample(jax.random.key(4), 64)
        found = np.asarray(jit_simply(jax.vmap(lambda x: jnp.asarray(stated(x))))(x))
    except Exception as error:
        raise ValueError(f"the hint scale cannot be evaluated: {in_ones_words(error)}") from None
    if shape not in ((), (1,), (number,)):
        raise ValueError(f"the hint scale returns an array of shape {shape}; it is one number, or one for each of "
                         f"the {number} equations")
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError("the hint scale is not a positive, finite number everywhere in the domain; it is the factor "
                         "of a residual")


def _check_symmetry(problem: "Problem") -> None:
    """The domain is symmetric about the plane of a mirror."""
    mirror = problem.hints.mirror
    if mirror is None or mirror.axis >= problem.schema.dim:
        return
    x = np.asarray(problem.domain.sample(jax.random.key(18), 512))
    image = np.array(x)
    image[:, mirror.axis] = 2 * mirror.at - x[:, mirror.axis]
    beyond = np.asarray(depths(problem.domain, image))
    if beyond.max() > 1e-6 * problem.domain.size:
        one, other = (np.round(points[int(beyond.argmax())], 4).tolist() for points in (x, image))
        raise ValueError(f"the hint mirror takes {one} to {other}, which is not in the domain: it is not symmetric "
                         f"about {'xyz'[mirror.axis] if mirror.axis < 3 else mirror.axis} = {mirror.at:g}")


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
