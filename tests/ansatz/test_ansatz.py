"""The ansätze: conditions hold for any weights, a solution is left alone, jets are derivatives."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import (
    Ball,
    Box,
    Condition,
    Hints,
    Interval,
    Polygon,
    Problem,
    Spline,
    dirichlet,
    div,
    initial,
    neumann,
    robin,
    slip,
    traction,
)
from hardpde.ansatz.base import act, act_on_cpu
from hardpde.ansatz.exact import Exact
from hardpde.ansatz.paper import Paper
from hardpde.evaluation.certificate import boundary_points, certify, random_models, violation
from hardpde.formulation.batch import split_batch
from hardpde.formulation.engine import Engine
from hardpde.methods import exact, hc, make
from helpers import heat, poisson

SIDES = {"left": "left", "right": "right", "bottom": "bottom", "top": "top"}


def flow(domain, conditions, **more):
    return Problem(domain=domain, fields={"u": 2, "p": ()}, conditions=conditions,
                   residual=lambda x, q, dq: (q.u, div(dq.u)), **more)


def wave(x):
    return jnp.sin(2 * x[0]) + jnp.cos(3 * x[1]) * x[0]


def box_dirichlet():
    return poisson(Box((0, 0), (2, 1), sides=SIDES), [dirichlet(side, "u", wave) for side in SIDES])


def box_mixed():
    return poisson(Box((0, -1), (2, 1), sides=SIDES), [
        dirichlet("left", "u", lambda x: x[1] ** 2), neumann("right", "u", wave),
        robin("top", "u", a=lambda x: 1 + x[0], b=2.0, g=3.0), robin("bottom", "u", a=0.5, b=-1.0, g=wave)])


def box3_minus_balls():
    domain = Box((0, 0, 0), (2, 1, 1), name="box") - Ball((0.5, 0.5, 0.5), 0.2, name="a") - Ball(
        (1.4, 0.5, 0.5), 0.25, name="b")
    return poisson(domain, [dirichlet("box", "u", lambda x: wave(x) + x[2]), robin("a", "u", a=1.0, b=1.0, g=wave),
                            robin("b", "u", a=2.0, b=0.1, g=-1.0)])


def box3_mixed():
    """Every kind of vertex: three sides of the same rows, two and one, none."""
    names = {"-0": "d", "+0": "n", "-1": "d", "+1": "r", "-2": "d", "+2": "n"}
    return poisson(Box((0, 0, 0), (1, 1, 1), sides=names), [
        dirichlet("d", "u", lambda x: x[0] * x[1] * x[2] + 3.0), neumann("n", "u", wave),
        robin("r", "u", a=1.3, b=0.7, g=wave)])


def triangle_dirichlet():
    return poisson(Polygon([(0, 0), (2, 0.3), (0.4, 1.5)], name="edge"), [dirichlet("edge", "u", wave)])


def obtuse_robin():
    """Corners of 120 degrees, where feet are clamped to the corner; one vertex is flat."""
    angles = np.linspace(0, 2 * np.pi, 7)[:-1]
    points = [(float(np.cos(t)), float(np.sin(t))) for t in angles]
    points.insert(1, (0.75, float(np.sqrt(3) / 4)))
    return poisson(Polygon(points, name="edge"), [robin("edge", "u", a=1.0, b=0.5, g=wave)])


def l_shape_robin():
    corner = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    return poisson(Polygon(corner, name="edge"), [robin("edge", "u", a=2.0, b=1.0, g=wave)])


def l_shape_boxes():
    domain = Box((0, 0), (2, 1), name="edge") | Box((0, 0), (1, 2), name="edge")
    return poisson(domain, [dirichlet("edge", "u", wave)])


def spline_neumann():
    angles = np.linspace(0, 2 * np.pi, 13)[:-1]
    points = [((1 + 0.2 * np.cos(3 * t)) * np.cos(t), (1 + 0.2 * np.cos(3 * t)) * np.sin(t)) for t in angles]
    return poisson(Spline(points, name="curve"), [neumann("curve", "u", wave)])


def interval():
    return poisson(Interval(-1, 2, left="l", right="r"), [
        dirichlet("l", "u", 3.0), robin("r", "u", a=1.0, b=2.0, g=-1.0)])


def heat_layers():
    """Data on the box that agree with the initial condition, and a flux on the hole that does not."""
    domain = Box((0, 0), (1, 1), name="box") - Ball((0.5, 0.5), 0.2, name="hole")
    return heat(domain, time=(0.5, 2.0), conditions=[
        dirichlet("box", "u", lambda x: wave(x) + (x[2] - 0.5) * x[0]),
        robin("hole", "u", a=lambda x: 1 + x[2], b=-0.5, g=lambda x: 7 * x[2] + x[0]),
        initial("u", wave)], hints=Hints(ramp="root"))


def heat_mixed():
    return heat(Box((0, 0), (1, 1), sides=SIDES), time=(0.5, 2.0), conditions=[
        dirichlet("left", "u", 1.0), robin("right", "u", a=1.0, b=1.0, g=lambda x: x[2]),
        neumann("bottom", "u", 2.0), dirichlet("top", "u", lambda x: 1.0 + x[0] * (x[2] - 0.5)),
        initial("u", 1.0)])


def flow_slip():
    """Without the gradient of u as a field, slip is one row."""
    domain = Box((0, 0), (3, 2), sides=SIDES) - Ball((1.2, 1.1), 0.3, name="hole")
    return flow(domain, [dirichlet("left", "u", (1.0, 0.0)), dirichlet("right", "p"), slip("hole", "u")],
                free=["bottom", "top"])


def flow_slip_traction():
    domain = Box((0, 0), (3, 2), sides=SIDES) - Ball((0.9, 1.1), 0.3, name="hole") - Ball((2.1, 0.9), 0.4, name="soft")
    return flow(domain, [
        dirichlet("left", "u", lambda x: (x[1] * (2 - x[1]), 0.0)), slip("hole", "u"),
        traction("soft", "u", lambda x: x[:2], pressure="p", viscosity=lambda x: 1 + x[0], bulk=0.3)],
        gradients={"grad_u": "u"}, free=["right", "bottom", "top"])


def several_on_one():
    domain = Ball((0, 0), 1.0, name="rim")
    return Problem(domain=domain, fields=["u", "v"], gradients={"grad_u": "u", "grad_v": "v"},
                   residual=lambda x, q, dq: (div(dq.grad_u) - q.v, div(dq.grad_v) + q.u), conditions=[
        robin("rim", "u", a=1.0, b=1.0, g=wave),
        Condition("rim", lambda q, x, n: q.grad_v @ n + x[0] * q.u - 2 * q.v, lambda x: x[1], "pair")])


def ball4_neumann():
    return poisson(Ball((0, 0, 0, 0), 1.5, name="rim"), [neumann("rim", "u", wave)])


def merged_holes():
    domain = Box((-2, -2), (2, 2), name="box") - (Ball((-0.4, 0), 0.6, name="one") | Ball((0.4, 0), 0.6, name="two"))
    return poisson(domain, [dirichlet("box", "u", 1.0), robin("one", "u", a=1.0, b=1.0, g=wave),
                            neumann("two", "u", 2.0)])


def lens_hole():
    """A hole with two sharp ends: its sides are close, and their normals opposite."""
    x = np.array([-1.0, 0.0, 1.0])
    points = [*zip(x, 0.15 * (1 - x**2)), (0.0, -0.15)]
    domain = Ball((0, 0), 2.0, name="rim") - Spline(points, name="lens", corners=(0, 2))
    return poisson(domain, [neumann("lens", "u", wave)], free=["rim"])


def elastic(conditions, sides=None):
    def balance(x, q, dq):
        dd = dq.grad_u.space
        return jnp.einsum("ijj->i", dd) + jnp.einsum("jij->i", dd)

    return Problem(domain=Box((0, 0), (2, 1), sides=sides or SIDES), fields={"u": 2}, gradients={"grad_u": "u"},
                   residual=balance, conditions=conditions)


def square_traction():
    """Tractions on two sides of a corner share the shear stress."""
    def pull(n):
        return lambda x: jnp.array([[jnp.sin(x[0]), x[0] * x[1]], [x[0] * x[1], x[1] ** 2]]) @ jnp.array(n, float)

    return elastic([traction(side, "u", pull(n), bulk=1.0) for side, n in
                    {"left": (-1, 0), "right": (1, 0), "bottom": (0, -1), "top": (0, 1)}.items()])


def square_slip():
    return elastic([slip(side, "u") for side in SIDES])


def channel():
    """Velocity on three sides, and on the fourth pressure with one of the velocities: v is stated twice at corners."""
    def flow(x, q, dq):
        return [*dq.p.space, dq.u.space[0, 0] + dq.u.space[1, 1]]

    outlet = Condition("right", lambda q, x, n: (q.p, q.u[1]), (1.0, 0.0), "outlet")
    return Problem(domain=Box((0, 0), (2, 1), sides=SIDES), fields={"u": 2, "p": ()}, residual=flow,
                   conditions=[*[dirichlet(side, "u", (1.0, 0.0)) for side in ("left", "top", "bottom")], outlet])


PROBLEMS = [box_dirichlet, box_mixed, box3_minus_balls, box3_mixed, triangle_dirichlet, obtuse_robin, l_shape_robin,
            l_shape_boxes, spline_neumann, interval, heat_layers, heat_mixed, flow_slip, flow_slip_traction,
            several_on_one, ball4_neumann, merged_holes, lens_hole, square_traction, square_slip, channel]


pytestmark = pytest.mark.usefixtures("quick_compilation")


@cache
def solved_by_exact(make):
    problem = make()
    return problem, exact(problem, width=8, depth=2, engine=Engine(64))


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
def test_conditions_hold_for_any_weights(make):
    _, formulation = solved_by_exact(make)
    rows = certify(formulation, random_models(formulation, 2), points=1000)
    assert violation(rows) < 1e-12, rows


def test_conditions_hold_along_the_edges_of_a_box():
    """Close to a vertex an edge lies in three collars: two pieces share, the third must stay out."""
    problem, formulation = solved_by_exact(box3_mixed)
    model = random_models(formulation, 1)[0]
    along = np.array([0.0, 0.01, 0.1, 0.3, 0.45])
    ends = [(a, b) for a in (0, 1) for b in (0, 1)]
    x = np.array([np.roll((t, *end), k) for k in range(3) for t in (*along, *1 - along) for end in ends])
    q = formulation.predict(model, x)
    for piece, which in zip(problem.layout.pieces, problem.layout.conditions):
        n = jnp.asarray(piece.params[6:])
        on = x @ np.asarray(n) == (np.asarray(n) > 0).sum()
        a, g = jax.vmap(lambda x, c=problem.conditions[which[0]], n=n: c.matrix(problem.schema, x, n))(x[on])
        assert on.sum() >= 40
        assert np.abs(np.einsum("krm,km->kr", a, q[on]) - g).max() < 1e-12, piece


def test_sides_of_a_thin_hole_do_not_reach_through_it():
    problem = lens_hole()
    ansatz = Exact(problem, lambda x: x)
    x = jnp.array([[0.1, 0.3], [0.1, -0.3], [-0.5, 0.2]])
    matrices = jax.vmap(lambda x: ansatz.corrections(x, jnp.array([0, 1]))[1])(x)
    felt = np.abs(matrices).max(axis=(2, 3, 4)) > 0  # (points, sides)
    assert felt.sum(axis=1).tolist() == [1, 1, 1]
    assert (felt[0] != felt[1]).all()
    assert (felt[0] == felt[2]).all()


def test_a_cut_boundary_must_not_run_through_the_domain():
    domain = Box((0, 0), (1, 1), name="box") | Ball((1, 0.5), 0.3, name="ball")
    with pytest.raises(ValueError, match="is cut by another, and the rest of it runs through the inside"):
        poisson(domain, [neumann("box", "u"), neumann("ball", "u")])


# ---------------------------------------------------------------- a solution is left alone


def target(x):
    """A state, not even a gradient field."""
    return jnp.stack([wave(x), jnp.exp(x[0] - x[1]), x[0] * x[1] ** 2])


def fitted(on, a, b, normal):
    """a u + b n·p with the data of the target."""
    def g(x):
        n = jnp.asarray(normal(x) if callable(normal) else normal, float)
        return a * target(x)[0] + b * target(x)[1:] @ n

    return robin(on, "u", a=a, b=b, g=g)


def fitted_box():
    domain = Box((0, 0), (2, 1), sides=SIDES) - Ball((1, 0.5), 0.2, name="hole")
    return poisson(domain, [
        fitted("left", 1.0, 0.0, (-1, 0)), fitted("right", 0.0, 1.0, (1, 0)), fitted("bottom", 1.0, 0.0, (0, -1)),
        fitted("top", 1.0, 2.0, (0, 1)), fitted("hole", 1.0, 1.0, lambda x: (jnp.array([1, 0.5]) - x) / 0.2)])


def fitted_l_shape():
    corner = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    normals = [(0, -1), (1, 0), (0, 1), (1, 0), (0, 1), (-1, 0)]
    names = [f"edge{k}" for k in range(6)]
    return poisson(Polygon(corner, names=names), [
        fitted(name, 1.0, 0.0 if k < 3 else 1.0, n) for k, (name, n) in enumerate(zip(names, normals))])


@pytest.mark.parametrize("make", [fitted_box, fitted_l_shape], ids=lambda make: make.__name__)
def test_a_state_that_satisfies_the_conditions_is_left_alone(make):
    problem = make()
    ansatz = Exact(problem, lambda x: x)

    @jax.jit
    @jax.vmap
    def through(x):
        ids, active = ansatz.active(x, 3)
        c, matrices, feet = ansatz.coefficients(x, ids)
        return c + jnp.einsum("kij,kj->i", matrices, jax.vmap(target)(feet)), active

    x = problem.domain.sample(jax.random.key(0), 2000)
    q, active = through(x)
    assert active.min() == 0 and 2 <= active.max() <= 3
    assert np.abs(q - jax.vmap(target)(x)).max() < 1e-11


# ---------------------------------------------------------------- jets, batches


@pytest.mark.parametrize("make", [box_mixed, heat_layers], ids=lambda make: make.__name__)
def test_jets_are_the_derivatives_of_the_prediction(make):
    problem, formulation = solved_by_exact(make)
    model = random_models(formulation, 1)[0]
    batch = formulation.draw(jax.random.key(3), None)
    jet = np.asarray(formulation.state(model, batch))
    x = np.asarray(batch.x)
    assert np.abs(formulation.predict(model, x).T - jet[:, 0]).max() < 1e-11
    h = 1e-5
    late = x[:, -1] > 0.6 if problem.time else np.full(len(x), True)  # √t varies too fast before
    steps = np.concatenate([x + h * e for e in (*np.eye(x.shape[1]), *-np.eye(x.shape[1]))])
    plus, minus = np.split(formulation.predict(model, steps).reshape(-1, len(x), jet.shape[0]), 2)
    slopes = (plus - minus) / (2 * h)
    error = np.abs(slopes - np.moveaxis(jet[:, 1:], (0, 1, 2), (2, 0, 1)))
    assert (error / (1 + np.abs(slopes)))[:, late].max() < 1e-6


@cache
def cut_in_four():
    """A formulation whose batches are cut, one of its models and a batch."""
    formulation = exact(solved_by_exact(box_mixed)[0], width=4, depth=1, engine=Engine(64, chunk=16))
    return formulation, random_models(formulation, 1)[0], formulation.draw(jax.random.key(4), None)


def test_a_batch_can_be_cut_into_parts():
    formulation, model, batch = cut_in_four()
    whole = replace(formulation, chunks=1)
    assert formulation.chunks == 4
    parts = split_batch(batch, 4)
    assert parts.x.shape == (4, len(batch.x) // 4, 2)
    loss, gradient = whole.value_and_grad(model, batch)
    cut_loss, cut_gradient = formulation.value_and_grad(model, batch)
    assert np.allclose([cut_loss, formulation.loss(model, batch)], loss, rtol=1e-12, atol=0)
    assert loss == pytest.approx(float((whole.residual_vector(model, batch) ** 2).sum()), rel=1e-12)
    for one, two in zip(jax.tree.leaves(gradient), jax.tree.leaves(cut_gradient)):
        assert np.abs(one - two).max() < 1e-12 * np.abs(one).max()


def test_a_batch_that_was_cut_before_is_the_same():
    """For all that takes batches, with weights of its terms or without."""
    formulation, model, drawn = cut_in_four()
    for weights in (None, 2 * jnp.asarray(formulation.weights)):
        batch = drawn._replace(weights=weights)
        before = formulation.in_parts(batch)._replace(weights=weights)
        assert before.x.shape == (4, len(batch.x) // 4, 2)
        for function in (formulation.loss, formulation.value_and_grad, formulation.residual_vector,
                         formulation.jacobian):
            found, expected = jax.jit(lambda one, two, f=function: (f(model, one), f(model, two)))(before, batch)
            for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                assert np.abs(one - two).max() <= 1e-13 * np.abs(two).max()


@pytest.mark.parametrize("second, slots", [(0, 1), (0, 4), (2, 5), (3, 5)])
def test_the_gradient_of_small_matrices_is_written_out(second, slots):
    """As JAX finds it, for a stack of matrices and outputs."""
    random = np.random.default_rng(0)
    matrix, out, probe = (jnp.asarray(random.normal(size=(5, *shape, slots, 6))) for shape in ((3, 2), (2,), (3,)))
    one, two = (jax.grad(lambda out, f=f: (probe * f(matrix, out, second)).sum())(out)
                for f in (act, act_on_cpu))
    assert np.abs(one - two).max() < 1e-13 * np.abs(one).max()


# ---------------------------------------------------------------- the paper's ansatz


def ring():
    domain = Ball((0, 0), 2.0, name="rim") - Ball((0.3, 0), 0.5, name="hole")
    return poisson(domain, [robin("rim", "u", a=1.0, b=1.0, g=wave), robin("hole", "u", a=2.0, b=-1.0, g=3.0)])


def hot_disc():
    return heat(Ball((0, 0), 1.0, name="rim"), time=(0.5, 2.0), conditions=[
        robin("rim", "u", a=2.0, b=0.5, g=lambda x: wave(x) + x[2]), initial("u", wave)])


def test_the_papers_conditions_hold_better_the_harder_its_weights():
    problem = ring()
    violations = []
    for beta in (3.0, 15.0):
        formulation = hc(problem, main=(8,), sub=(8,), beta_s=beta, softmin_beta=10 * beta,
                         engine=Engine(16, "float32"))
        violations.append(violation(certify(formulation, random_models(formulation, 1), points=200)))
    assert violations[0] > 3 * violations[1] > 0


def test_the_papers_time_blend_breaks_the_boundary_by_what_it_should():
    """With one boundary only the blend is inexact: a u + b n·p − g = a (f − u†) e^{−β_t t}."""
    beta = 3.0
    formulation = hc(hot_disc(), main=(8,), sub=(8,), engine=Engine(16, "float32"), beta_t=beta)
    problem, model = formulation.problem, random_models(formulation, 1)[0]
    space, normals = boundary_points(problem, "rim", 50)
    since = np.linspace(0.1, 1.5, 50)
    x = np.concatenate([space, 0.5 + since[:, None]], axis=1)
    q = formulation.predict(model, x)
    a, g = jax.vmap(partial(problem.conditions[0].matrix, problem.schema))(jnp.asarray(x), jnp.asarray(normals))
    miss = np.einsum("krm,km->kr", a, q)[:, 0] - g[:, 0]
    fade, start = np.exp(-beta * since), np.asarray(jax.vmap(wave)(x))
    before = (q[:, 0] - start * fade) / (1 - fade)
    assert np.abs(miss - 2.0 * (start - before) * fade).max() < 1e-12
    rows = {row["boundary"]: row["violation"] for row in certify(formulation, [model], points=100)}
    assert rows["initial"] < 1e-12 < rows["rim"]


@pytest.mark.parametrize("basis", ["projection", "low-dimensional"])
@pytest.mark.parametrize("make", [interval, hot_disc, flow_slip], ids=lambda make: make.__name__)
def test_the_papers_bases_span_what_a_condition_leaves_free(make, basis):
    problem = solved_by_exact(make)[0] if make in PROBLEMS else make()
    ansatz = Paper(problem, 5.0, 10.0, 4.0, basis)
    for block in ansatz.blocks:
        for group in block.boundaries:
            dim = problem.schema.dim
            normal = jnp.linspace(1.0, 0.3, dim) / jnp.linalg.norm(jnp.linspace(1.0, 0.3, dim))
            x = jnp.full(problem.schema.coordinates, 0.7)
            known, span = ansatz.general_solution(group, block, x, normal)
            a, g = (jnp.concatenate(parts) for parts in zip(*[
                problem.conditions[k].matrix(problem.schema, x, normal) for k in group.conditions]))
            a = a[:, jnp.asarray(block.components)]
            assert np.abs(a @ known - g).max() < 1e-13
            assert np.abs(a @ span).max() < 1e-13
            assert np.linalg.matrix_rank(span, tol=1e-8) == len(block.components) - group.rows


def test_the_paper_refuses_boundaries_that_touch():
    with pytest.raises(ValueError, match=r"boundaries that do not touch.*use --method exact"):
        hc(solved_by_exact(box_mixed)[0])


@pytest.mark.parametrize("options, message", [
    ({"beta_s": 0.0}, "beta_s = 0, beta_t = 10 and softmin_beta = 4 must be positive"),
    ({"basis": "svd"}, "basis is 'svd'.*'projection' or 'low-dimensional'"),
])
def test_the_paper_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        hc(solved_by_exact(interval)[0], **options)


@pytest.mark.parametrize("options, message", [
    ({"width": 0}, "width is 0.*at least 1"), ({"points": 0}, "points is 0"), ({"chunk": 0}, "chunk is 0"),
    ({"sampling": "grid"}, "sampling is 'grid'.*'graded' or 'uniform'"),
])
def test_the_exact_method_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        make(exact, solved_by_exact(interval)[0], options)


def test_the_jacobian_point_by_point_is_the_jacobian():
    problem = Problem(
        domain=Box((0, 0), (1, 1), name="wall"), fields="u", gradients={"p": "u"},
        residual=lambda x, q, dq: dq.p.space[0, 0] + dq.p.space[1, 1] + q.u**2,
        conditions=[robin("wall", "u", a=1, b=2, g=1)])
    formulation = exact(problem, width=5, depth=1, engine=Engine(48))
    model, batch = formulation.init(jax.random.key(0)), formulation.draw(jax.random.key(1), None)
    whole = jax.jit(jax.jacrev(lambda m: formulation.residual_vector(m, batch)))(model)
    for a, b in zip(jax.tree.leaves(jax.jit(formulation.jacobian)(model, batch)), jax.tree.leaves(whole)):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_states_do_not_depend_on_the_unit_of_time():
    """The same weights make the same state at the same share of any time span, also of one that does not start at 0."""
    line = Interval(0, 1, left="l", right="r")

    def stated(time):
        return heat(line, [dirichlet("l", "u"), neumann("r", "u", 0.0),
                           initial("u", lambda x: jnp.sin(jnp.pi * x[0] / 2))], time)

    short, long = (exact(stated(time), width=8, depth=1) for time in ((0.0, 1.0), (2.0, 62.0)))
    model = random_models(short, seed=3)[0]
    places, share = np.linspace(0.05, 0.95, 7), np.linspace(0.0, 1.0, 7)
    one = short.predict(model, np.stack([places, share], axis=1))
    other = long.predict(model, np.stack([places, 2 + 60 * share], axis=1))
    np.testing.assert_allclose(one[:, 0], other[:, 0], atol=1e-12)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_coefficients_and_boxes_of_any_size_leave_rounding_alone(size):
    """Robin's condition with a and b of very different size, and a box of such a size."""
    mixed = poisson(Box((0, 0), (1, 1), name="wall", sides={"left": "in"}),
                    [robin("wall", "u", size, 1.0, 0.0), neumann("in", "u", 0.0)])
    box = poisson(Box((0, 0), (size, size), name="wall", sides={"left": "in"}),
                  [dirichlet("wall", "u"), robin("in", "u", 1.0, size, 0.0)])
    for problem in (mixed, box):
        formulation = exact(problem, width=8, depth=1)
        assert violation(certify(formulation, random_models(formulation), points=100)) <= 1e-12
