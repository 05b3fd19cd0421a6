"""Properties of random shapes, trees of them and random conditions.

HARDPDE_EXAMPLES says how many examples are tried for each property (default 8; a third of them
where networks are compiled); where it is set, they are other ones at every run.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from hardpde import Ball, Box, Polygon, Problem, Spline, dirichlet, neumann, robin
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.engine import Engine
from hardpde.geometry import check_shape
from hardpde.methods import exact
from hardpde.problem.fields import div

pytestmark = pytest.mark.usefixtures("quick_compilation")

EXAMPLES = int(os.environ.get("HARDPDE_EXAMPLES", 8))


def some(examples):
    return settings(max_examples=examples, deadline=None, derandomize="HARDPDE_EXAMPLES" not in os.environ,
                    database=None, suppress_health_check=list(HealthCheck))


# --- Strategies ------------------------------------------------------------------------------------------------

places = st.floats(-2.0, 2.0).map(lambda v: round(v, 3))
lengths = st.floats(0.1, 2.0).map(lambda v: round(v, 3))
NAMES = ("a", "b", "c", "d", "e", "f")


def vectors(numbers, dim):
    return st.lists(numbers, min_size=dim, max_size=dim).map(np.array)


@st.composite
def boxes(draw, dim, name="box"):
    lo, size = draw(vectors(places, dim)), draw(vectors(lengths, dim))
    sides = {sign + str(k): f"{name}{sign}{k}" for k in range(dim) for sign in "-+"} if draw(st.booleans()) else None
    return Box(lo, lo + size, name, sides)


def balls(dim, name="ball"):
    return st.builds(lambda center, radius: Ball(center, radius, name), vectors(places, dim), lengths)


@st.composite
def outlines(draw, kind, name="outline"):
    """A polygon or a spline, star-shaped, with radii that differ by no more than a factor."""
    n, smooth = draw(st.integers(3, 8) if kind is Polygon else st.integers(6, 10)), 0.3 if kind is Polygon else 0.7
    radii = draw(st.lists(st.floats(smooth, 1.0), min_size=n, max_size=n))
    turn, center, size = draw(st.floats(0.0, 6.0)), draw(vectors(places, 2)), draw(lengths)
    angles = turn + 2 * np.pi * np.arange(n) / n
    points = center + size * np.array(radii)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if draw(st.booleans()):
        points = points[::-1]
    if kind is Polygon:
        return Polygon(points, name)
    corners = tuple(draw(st.sets(st.integers(0, n - 1), max_size=2)))
    return Spline(points, name, corners)


def primitives(dim, name="leaf"):
    kinds = [boxes(dim, name), balls(dim, name)]
    return st.one_of(*kinds, outlines(Polygon, name), outlines(Spline, name)) if dim == 2 else st.one_of(*kinds)


@st.composite
def trees(draw, dim):
    """Two to four primitives joined by | & - in any order; those that the domain check refuses are left out."""
    count = draw(st.integers(2, 4 if dim == 2 else 3))
    parts = [draw(primitives(dim, NAMES[k])) for k in range(count)]
    while len(parts) > 1:
        k = draw(st.integers(0, len(parts) - 2))
        one, two = parts.pop(k), parts.pop(k)
        sign = draw(st.sampled_from("|&-"))
        parts.insert(k, one | two if sign == "|" else one & two if sign == "&" else one - two)
    return accepted(parts[0])


def accepted(shape):
    """The shape, if the check accepts it; a refusal is a sentence, and nothing else may happen."""
    try:
        check_shape(shape)
    except ValueError as error:
        assert str(error) and "\n" not in str(error)
        event("refused: " + str(error).split(":")[0].split("'")[0][:30])
        assume(False)
    return shape


@st.composite
def holed(draw, dim):
    """A box or ball with up to three small holes, which usually keep clear of each other."""
    shape = draw(boxes(dim, "outer") | balls(dim, "outer"))
    lo, hi = map(np.array, shape.bounds)
    for k in range(draw(st.integers(1, 3))):
        u = draw(vectors(st.floats(0.2, 0.8), dim))
        shape = shape - Ball(lo + u * (hi - lo), draw(st.floats(0.02, 0.2)) * float(min(hi - lo)), NAMES[k])
    return accepted(shape)


@st.composite
def shapes(draw):
    dim = draw(st.integers(1, 3))
    return draw(st.one_of(primitives(dim), trees(dim), trees(dim), holed(dim)))


# --- Shapes ----------------------------------------------------------------------------------------------------


def over(function, x):
    """A function of one point over many."""
    return np.asarray(jax.jit(jax.vmap(function))(jnp.asarray(x)))


def around(shape, n):
    lo, hi = map(np.array, shape.bounds)
    return lo + (hi - lo) * np.random.default_rng(3).uniform(-0.2, 1.2, (n, shape.dim))


@some(EXAMPLES)
@given(shapes())
def test_a_shape_is_what_its_distance_says(shape):
    tol = 1e-8 * shape.size
    assert shape.measure > 0 and shape.boundaries
    lo, hi = map(np.array, shape.bounds)
    assert shape.measure <= np.prod(hi - lo) * (1 + 1e-12)
    x = np.asarray(shape.sample(jax.random.key(0), 50))
    assert (over(shape.sdf, x) <= tol).all()
    assert ((x >= lo - tol) & (x <= hi + tol)).all()
    y = around(shape, 50)
    outside = ((y < lo - tol) | (y > hi + tol)).any(axis=1)
    assert (over(shape.sdf, y)[outside] > 0).all()
    step = 1e-5 * shape.size
    for boundary in shape.boundaries.values():
        assert boundary.measure > 0

        @jax.jit
        def look(key, y, boundary=boundary):
            on = boundary.sample(key, 40)
            n = jax.vmap(boundary.normal)(on)
            sdf, foot = jax.vmap(shape.sdf), jax.vmap(boundary.closest)(y)
            distance = jax.vmap(boundary.distance)
            sides = sdf(on), sdf(on + step * n), sdf(on - step * n)
            return on, n, *sides, distance(on), foot, distance(y), distance(foot)

        found = jax.tree.map(np.asarray, look(jax.random.key(1), y))
        on, n, depth, out, back, off, foot, distance, beside = found
        assert np.abs(depth).max() <= tol and off.max() <= tol and beside.max() <= tol
        assert np.abs(np.linalg.norm(n, axis=1) - 1).max() <= 1e-9
        # At points this near to a corner another piece may be nearer.
        assert np.mean((out > 0) & (back < 0)) >= 0.9, boundary.name
        away = np.linalg.norm(y - foot, axis=1)
        assert np.abs(away - distance).max() <= tol
        assert (away <= np.linalg.norm(y[:, None] - on[None], axis=2).min(axis=1) + tol).all()


def test_a_face_whose_middle_is_cut_off_survives():
    """The hole stands where the middle of the face would be."""
    shape = (Box((0, 0), (3, 1)) - Ball((2, 0.5), 0.25, "hole")) & Box((-1, -1), (2, 2), "right")
    assert set(shape.boundaries) == {"box", "hole", "right"}
    assert shape.boundaries["right"].measure == pytest.approx(0.5, abs=1e-3)
    x = np.asarray(shape.boundaries["right"].sample(jax.random.key(0), 50))
    assert (x[:, 0] == 2).all() and (np.abs(x[:, 1] - 0.5) >= 0.25).all()


# --- Conditions ------------------------------------------------------------------------------------------------


@st.composite
def data(draw, dim):
    """A smooth function of the point; at corners it agrees with itself."""
    c, k = draw(st.floats(-3.0, 3.0)), draw(vectors(st.floats(-2.0, 2.0), dim))
    return lambda x: c + jnp.sin(x[:dim] @ k)


@st.composite
def conditions(draw, shape):
    """A condition for every boundary. Where boundaries meet, values of one function agree; derivatives may not."""
    g, dim = draw(data(shape.dim)), shape.dim
    found = []
    for name in shape.boundaries:
        alone = dim == 1 or name in NAMES
        kind = draw(st.sampled_from(["dirichlet", "neumann", "robin"] if alone else ["dirichlet", "robin"]))
        a, b = draw(st.floats(0.1, 5.0)), draw(st.floats(-5.0, 5.0))
        if kind == "dirichlet":
            found.append(dirichlet(name, "u", g))
        elif kind == "neumann":
            found.append(neumann(name, "u", draw(data(dim))))
        else:
            found.append(robin(name, "u", a, b, draw(data(dim))))
    return found


@some(max(2, EXAMPLES // 3))
@given(st.data())
def test_random_conditions_hold_for_any_weights(drawn):
    dim = drawn.draw(st.integers(1, 2))
    shape = drawn.draw(st.one_of(primitives(dim, "outer"), holed(dim)))
    try:
        problem = Problem(domain=shape, fields="u", gradients={"p": "u"}, conditions=drawn.draw(conditions(shape)),
                          residual=lambda x, q, dq: div(dq.p))
    except ValueError as error:
        assert str(error) and "\n" not in str(error)
        event("refused: " + str(error)[:60])
        assume(False)
    formulation = exact(problem, width=4, depth=1, engine=Engine(16))
    rows = certify(formulation, random_models(formulation, 2), 100)
    assert len(rows) == len(problem.conditions) and violation(rows) <= 1e-10, rows
    jax.clear_caches()
