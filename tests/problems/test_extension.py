"""Functions on a curve made functions of the plane, and the paper's ansatz with stated distances and normals."""

from copy import copy
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
    Polygon,
    Problem,
    Spline,
    Surrogate,
    dirichlet,
    div,
    extend,
    grad,
    learned_distance,
    robin,
)
from hardpde.ansatz.paper import Paper, softmin
from hardpde.formulation.engine import Engine
from hardpde.methods import hc
from hardpde.networks.mlp import count
from hardpde.problem.conditions import initial
from hardpde.problem.fields import dt
from hardpde.problems.airfoil_printed import PRESETS
from hardpde.problems.presets import preset

SHORT = {"width": 12, "depth": 2, "points": 600, "steps": 1500, "learning_rate": 5e-3}
OUTER = Box((-3, -3), (3, 3), name="outer")
DISC = Ball((0.2, 0.1), 1.0, name="disc")


pytestmark = pytest.mark.usefixtures("quick_compilation")


def ellipse(name="ellipse"):
    t = np.linspace(0, 2 * np.pi, 25)[:-1]
    return Spline([(1.2 * np.cos(s), 0.5 * np.sin(s)) for s in t], name=name)


@cache
def learned_disc():
    return learned_distance(DISC, OUTER - DISC, **SHORT)


# ---------------------------------------------------------------- learned distances


@pytest.mark.parametrize("solid", [DISC, ellipse()], ids=["circle", "ellipse"])
def test_a_learned_distance_is_close_to_the_distance(solid):
    learned = learned_disc() if solid is DISC else learned_distance(solid, ((-3.0, -3.0), (3.0, 3.0)), **SHORT)
    x = np.asarray((OUTER - solid).sample(jax.random.key(9), 300))
    miss = np.abs(np.asarray(jax.jit(jax.vmap(learned))(x)) - np.asarray(jax.jit(jax.vmap(solid.sdf))(x)))
    assert learned.error.mean < 0.03 and learned.error.curve < 0.1
    assert learned.error.mean < learned.error.max < 0.5
    assert miss.mean() < 0.08


def test_a_learned_distance_has_derivatives_everywhere_and_no_weights():
    learned = learned_disc()
    at = jnp.concatenate([jnp.asarray(learned.network.references), jnp.array([[1.2, 0.1], [50.0, -40.0]])])
    for function in (jax.grad(learned), jax.hessian(learned)):
        assert np.isfinite(np.asarray(jax.vmap(function)(at))).all()
    assert [leaf for leaf in jax.tree.leaves(learned) if isinstance(leaf, jax.Array | np.ndarray)] == []


def test_a_learned_distance_is_saved_and_loaded(tmp_path):
    learned = learned_disc()
    learned.save(tmp_path / "disc.npz")
    again = Surrogate.load(tmp_path / "disc.npz")
    x = jnp.array([1.3, -0.7])
    assert again(x) == learned(x) and again.error == learned.error and again.about == learned.about
    (tmp_path / "other.npz").write_text("nothing")
    with pytest.raises(ValueError, match=r"other.npz' is not a learned distance.*learned_distance"):
        Surrogate.load(tmp_path / "other.npz")


@pytest.mark.parametrize("arguments, options, message", [
    ((DISC, OUTER), {"references": [1.0, 2.0]}, "references are points of the plane"),
    ((DISC, OUTER), {"width": 0}, "width is 0; it must be at least 1"),
    ((Ball((0, 0, 0), 1.0), OUTER), {}, "only plane curves"),
    (("disc", OUTER), {}, "'disc' is not a curve; give a boundary"),
    ((Ball((40, 40), 1.0), OUTER), {}, "hardly any point around the curve lies in the domain"),
])
def test_learned_distance_refuses(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        learned_distance(*arguments, **{**SHORT, "steps": 1, **options})


# ---------------------------------------------------------------- extension


def wave(x):
    return jnp.stack([jnp.sin(3 * x[0]) + x[1], jnp.cos(x[0] * x[1])])


@pytest.mark.parametrize("references", [None, [(-0.5, 0.0), (0.6, 0.1)]], ids=["found", "two"])
@pytest.mark.parametrize("values", [wave, lambda x: x[0] * x[1]], ids=["vector", "number"])
def test_extend_reproduces_the_data_on_the_curve(values, references):
    boundary = (OUTER - ellipse()).boundaries["ellipse"]
    extended = extend(boundary, values, references=references)
    x = boundary.sample(jax.random.key(1), 200)
    assert np.abs(np.asarray(jax.vmap(extended)(x)) - np.asarray(jax.vmap(values)(x))).max() < 1e-4
    assert np.asarray(extended(jnp.array([2.0, 2.5]))).shape == np.asarray(values(x[0])).shape


def test_extend_is_continuously_differentiable():
    extended = extend(ellipse(), wave, points=300)
    t = np.linspace(0, 2 * np.pi, 40_001)
    ring = jnp.asarray(np.stack([2 * np.cos(t), 2 * np.sin(t)], axis=1))  # once round, over every knot and the seam
    value, slope = (np.asarray(jax.jit(jax.vmap(f))(ring)) for f in (extended, jax.jacfwd(extended)))
    step = np.asarray(ring[1:] - ring[:-1])
    along = np.einsum("kij,kj->ki", (slope[1:] + slope[:-1]) / 2, step)
    assert np.abs(np.diff(value, axis=0) - along).max() < 1e-6
    assert np.abs(np.diff(slope, axis=0)).max() < 0.05
    assert np.isfinite(np.asarray(jax.jacfwd(extended)(jnp.zeros(2)))).all()


@pytest.mark.parametrize("method", ["interpolation", "network"])
def test_extended_normals_have_length_one(method):
    boundary = (OUTER - DISC).boundaries["disc"]
    normals = extend(boundary, boundary.normal, unit=True, method=method, steps=600, points=400)
    x = jax.random.uniform(jax.random.key(3), (200, 2), minval=-3.0, maxval=3.0)
    n = np.asarray(jax.vmap(normals)(x))
    assert np.abs(np.sqrt((n**2).sum(1)) - 1).max() < 1e-12
    inward = np.asarray(jnp.array([0.2, 0.1]) - x) / np.linalg.norm(x - np.array([0.2, 0.1]), axis=1)[:, None]
    assert np.abs(n - inward).mean() < (1e-4 if method == "interpolation" else 0.2)


def test_extend_finds_the_reference_from_which_all_is_seen():
    corner = Polygon([(0, 0), (4, 0), (4, 1), (1, 1), (1, 4), (0, 4)], name="edge")  # not from its middle
    extended = extend(corner, lambda x: x[0] - x[1])
    x = (Box((-9, -9), (9, 9), name="far") - corner).boundaries["edge"].sample(jax.random.key(1), 100)
    assert np.abs(np.asarray(jax.vmap(extended)(x)) - np.asarray(x[:, 0] - x[:, 1])).max() < 0.02
    with pytest.raises(ValueError, match=r"not star-shaped about \(3, 0.5\).*choose another reference.*network"):
        extend(corner, lambda x: x[0], references=[(3.0, 0.5)])


@pytest.mark.parametrize("options, message", [
    ({"method": "spline"}, "method is 'spline'; it is 'interpolation' or 'network'"),
    ({"points": 3}, "points is 3; a curve needs at least 16"),
    ({"unit": True}, "unit=True scales vectors to length one"),
    ({"values": lambda x: jnp.sqrt(x[0] - 9)}, "must be finite numbers or vectors"),
])
def test_extend_refuses(options, message):
    values = options.pop("values", lambda x: x[0])
    with pytest.raises(ValueError, match=message):
        extend(DISC, values, **options)


def test_a_curve_seen_whole_from_nowhere_is_named():
    u = Polygon([(0, 0), (3, 0), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)], name="u")
    with pytest.raises(ValueError, match=r"the curve is not star-shaped: .*use method='network'"):
        extend(u, lambda x: x[0])


# ---------------------------------------------------------------- the paper's ansatz with what is stated


def true_distance(x):
    return jnp.sqrt(((x[:2] - jnp.array([0.2, 0.1])) ** 2).sum()) - 1.0


def true_normal(x):
    return (jnp.array([0.2, 0.1]) - x[:2]) / jnp.sqrt(((x[:2] - jnp.array([0.2, 0.1])) ** 2).sum())


def flow(**hints):
    sides = {"left": "left", "right": "out", "bottom": "low", "top": "high"}
    return Problem(
        domain=Box((-3, -3), (3, 3), sides=sides) - DISC, fields={"u": 2, "p": ()},
        residual=lambda x, q, dq: (q.u + grad(dq.p), div(dq.u)), hints=Hints(**hints),
        conditions=[*[dirichlet(side, "u", (1.0, 0.0)) for side in ("left", "low", "high")], dirichlet("out", "p", 1.0),
                    Condition("disc", lambda q, x, n: q.u @ n, 0.0, "no flow through")])


def paper(beta_s=5.0, softmin_beta=4.0, **hints):
    """The ansatz of the same flow with other hints; the problem is worked out once."""
    problem = copy(plain_problem())
    object.__setattr__(problem, "hints", Hints(**hints))
    return Paper(problem, beta_s, 10.0, softmin_beta, "low-dimensional")


plain_problem, plain = cache(flow), cache(paper)


def test_what_is_stated_replaces_the_geometry():
    stated = paper(distances={"disc": true_distance}, normals={"disc": true_normal})
    x = jnp.array([1.7, -0.9])
    one, two = (jax.tree.leaves(jax.jit(ansatz.coefficients)(x)) for ansatz in (stated, plain()))
    assert all(map(partial(np.allclose, atol=1e-12), one, two))
    twice = paper(distances={"disc": lambda x: 2 * true_distance(x)})
    index = [family.name for family in twice.blocks[0].boundaries].index("disc")
    assert np.allclose(twice.gaps[0][index], 2 * plain().gaps[0][index])


def test_sides_that_say_the_same_are_one_boundary_with_the_printed_distance():
    velocity, pressure = plain().blocks
    assert velocity.components == (0, 1) and pressure.components == (2,)
    assert [len(family.kinds) for family in velocity.boundaries] == [3, 1]
    assert plain().subnetworks == [(1, [(0, 1)], 1)]
    x = jnp.array([-2.0, 1.5])
    l, _ = plain().distances(velocity.boundaries[0], x)
    assert np.allclose(l, softmin(jnp.array([x[0] + 3, x[1] + 3, 3 - x[1]]), 4.0))
    least = min(float(true_distance(jnp.array([a, b]))) for a, b in [(0.2, 3.0), (-3.0, 0.1)])
    assert np.allclose(plain().gaps[0][1], least, rtol=1e-3)  # equation (12)
    c, main, (sub,) = jax.jit(plain().coefficients)(x)
    assert plain().gaps[1][0] == np.inf and np.allclose([c[2], main[2, 2]], [1.0, 3 - x[0]])
    assert np.allclose(sub[0, :2, 0] @ true_normal(x), 0) and np.allclose(sub[0, 2:], 0)


def test_stated_normals_hold_the_condition_up_to_the_other_boundaries():
    """n·u on the disc is what the other terms leak: l NN_main and exp(−α l) u of the far sides."""
    ansatz = paper(30.0, 100.0, distances={"disc": true_distance}, normals={"disc": true_normal})
    x = plain_problem().boundaries["disc"].sample(jax.random.key(2), 50)
    c, main, (sub,) = jax.jit(jax.vmap(ansatz.coefficients))(x)
    through = jax.vmap(lambda c, main, sub, n: n @ (c + main @ jnp.ones(3) + sub[0, :, 0])[:2])(
        c, main, sub, jax.vmap(true_normal)(x))
    assert np.abs(through).max() < 1e-9


def test_conditions_that_differ_later_are_not_the_same():
    sides = {"left": "one", "right": "two", "bottom": "free", "top": "free"}
    problem = Problem(
        domain=Box((0, 0), (1, 1), sides=sides), fields="u", gradients={"p": "u"}, time=(0.0, 1.0), free=["free"],
        residual=lambda x, q, dq: dt(dq.u) - div(dq.p),
        conditions=[initial("u", 0.0), dirichlet("one", "u", 0.0), dirichlet("two", "u", lambda x: x[2])])
    families = Paper(problem, 5.0, 10.0, 4.0, "low-dimensional").blocks[0].boundaries
    assert [family.conditions for family in families] == [(1,), (2,)]


@pytest.mark.parametrize("hints, message", [
    ({"distances": {"wing": true_distance}}, "hint distances names 'wing', and there is no such boundary"),
    ({"normals": {"wing": true_normal}}, "hint normals names 'wing', and there is no such boundary"),
    ({"distances": true_distance}, "hint distances is a dictionary of functions"),
])
def test_a_problem_refuses_hints_about_no_boundary(hints, message):
    with pytest.raises(ValueError, match=message):
        flow(**hints)


@pytest.mark.parametrize("hints, message", [
    ({"distances": {"disc": lambda x: x}}, r"the stated distance of 'disc' has shape \(2,\).*one number"),
    ({"distances": {"disc": lambda x: x[7:8] @ x}}, "the stated distance of 'disc' cannot be evaluated"),
    ({"distances": {"disc": lambda x: true_distance(x) + 1}}, "of 'disc' is 1 on 'disc' itself; it must vanish"),
    ({"distances": {"disc": lambda x: -true_distance(x)}}, "it must be positive away from 'disc'"),
    ({"normals": {"disc": true_distance}}, r"the stated normal of 'disc' has shape \(\).*a vector of 2 numbers"),
    ({"normals": {"disc": lambda x: 3 * true_normal(x)}}, "normals of 'disc' have length 3 on it; scale them"),
    ({"normals": {"disc": lambda x: -true_normal(x)}}, "normals of 'disc' point into the domain"),
    ({"normals": {"disc": lambda x: jnp.log(-1.0) * x}}, "the stated normal of 'disc' is not finite"),
])
def test_the_paper_refuses_bad_distances_and_normals(hints, message):
    with pytest.raises(ValueError, match=message):
        paper(**hints)


def test_several_bodies_of_one_name_are_one_boundary_where_its_distance_is_stated():
    pair = (Ball((-1, 0), 0.5, name="hole"), Ball((1, 0), 0.5, name="hole"))

    def nearest(x):
        return jnp.minimum(*[ball.sdf(x) for ball in pair])

    problem = Problem(
        domain=OUTER - pair[0] - pair[1], fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: div(dq.p),
        conditions=[dirichlet("outer", "u"), robin("hole", "u", a=1.0, b=1.0, g=2.0)],
        hints=Hints(distances={"hole": nearest}))
    ansatz = Paper(problem, 5.0, 10.0, 4.0, "low-dimensional")
    hole = ansatz.blocks[0].boundaries[1]
    assert hole.name == "hole" and hole.sign.shape == (1, 2)
    l, n = ansatz.distances(hole, jnp.array([1.0, 1.0]))
    assert np.allclose(l, 0.5) and np.allclose(n, [[0.0, -1.0]])


# ---------------------------------------------------------------- the airfoil as printed


def test_the_preset_of_the_printed_airfoil_is_the_papers():
    settings = preset("hc", "paper", suited=PRESETS)
    assert settings["method"] == {"main": [50] * 6, "sub": [40] * 4, "points": 10_000}
    adam, lbfgs = settings["stages"]
    assert (adam["steps"], adam["options"]["learning_rate"], lbfgs["optimiser"]) == (5000, 1e-3, "lbfgs")


def test_the_printed_airfoil_has_the_papers_networks_and_equations_and_a_close_distance():
    from hardpde.problems import PROBLEMS

    problem = PROBLEMS["airfoil-printed"]()
    formulation = hc(problem, main=[50] * 6, sub=[40] * 4, engine=Engine(64, "float32"))
    shapes = jax.eval_shape(formulation.init, jax.random.key(0))
    assert [w.shape[-1] for w in shapes[0].weights] == [50] * 6 + [7]
    assert [w.shape[-1] for w in shapes[1].weights] == [40] * 4 + [1] and len(shapes) == 2
    assert count(shapes) == (150 + 5 * 2550 + 357) + (120 + 3 * 1640 + 41)
    learned = problem.hints.distances["airfoil"]
    assert learned.error.mean < 5e-3 and learned.error.max < 0.1 and "make_distance" in learned.about["made by"]
    x = jnp.array([[2.0, 1.0], [-1.0, 0.3], [0.5, -0.4]])
    true = np.asarray(jax.vmap(problem.domain.boundaries["airfoil"].distance)(x))
    assert np.abs(np.asarray(jax.vmap(learned)(x)) - true).max() < 0.03
    q, dq = problem.schema.state(jnp.arange(7.0)), problem.schema.derivatives(jnp.arange(14.0).reshape(2, 7))
    # u = (0, 1), G = [[3, 4], [5, 6]]: u_j G_ij = (4, 6); ∂_j G_ij = (3 + 11, 5 + 13); ∇p = (2, 9); ∇·u = 0 + 8
    momentum, continuity = problem.residual(None, q, dq)
    assert np.allclose(momentum, [4 - 14 / 50 + 2, 6 - 18 / 50 + 9]) and np.allclose(continuity, 8)
