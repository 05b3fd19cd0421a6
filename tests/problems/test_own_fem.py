"""Finite elements for any problem that is stated: made-up solutions, orders of convergence, what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp

pytest.importorskip("ngsolve")

from hardpde.problems.fem.refined import at_level, finite_elements
from hardpde.problems.fem.sides import weak_form

SQUARE = hp.Box((0, 0), (1, 1), name="wall", sides={"right": "out"})
CENTRE, RADIUS = np.array([0.45, 0.5]), 0.2
X = np.random.default_rng(0).uniform(0.02, 0.98, (200, 2))
EAST = np.array([1.0, 0.0])


def k(x):
    return 1 + 0.5 * x[0] * x[1]


def known(x):
    """A smooth field."""
    return jnp.sin(2 * x[0] - x[1]) + x[0] * x[1]


def flow(x):
    """A field without divergence."""
    return jnp.array([jnp.sin(x[0]) * jnp.cos(x[1]), -jnp.cos(x[0]) * jnp.sin(x[1])])


def pressure(x):
    return x[0] * x[1] + x[1] ** 2 - 7 / 12  # its mean is 0


def divergence(flux, x):
    return jnp.trace(jax.jacfwd(flux)(x)[..., :2], axis1=-2, axis2=-1)


def errors(found, exact, x=X):
    """The largest error of each field at points, in units of the largest value."""
    values = found.at(x)
    true = {name: np.asarray(jax.vmap(part)(x)) for name, part in exact.items()}
    return {name: np.abs(values[name] - true[name]).max() / np.abs(true[name]).max() for name in true}


def source(x):
    """What −∇·(k∇u) + (1, 2)·∇u + u³ is of the known field."""
    slope = jax.grad(known)
    return -divergence(lambda x: k(x) * slope(x), x) + slope(x) @ jnp.array([1.0, 2.0]) + known(x) ** 3


def scalar(fields, gradients, residual):
    def on_hole(x):
        normal = -(x - CENTRE) / RADIUS
        return 2 * known(x) + normal @ jax.grad(known)(x)

    return hp.Problem(
        domain=SQUARE - hp.Ball(CENTRE, RADIUS, name="hole"), fields=fields, gradients=gradients, residual=residual,
        conditions=[hp.dirichlet("wall", "u", known), hp.dirichlet("out", "u", known),
                    hp.robin("hole", "u", a=2, b=1, g=on_hole)])


def with_slopes(x, q, dq):
    return -k(x) * hp.div(dq.p) - jax.grad(k)(x) @ q.p + q.p @ jnp.array([1.0, 2.0]) + q.u**3 - source(x)


def with_a_flux(x, q, dq):
    low_order = hp.grad(dq.u) @ jnp.array([1.0, 2.0]) + q.u**3 - source(x)
    return low_order - hp.div(dq.s), q.s - k(x) * hp.grad(dq.u)


def test_a_semilinear_equation_converges_at_its_order_about_a_round_hole():
    weak, sides = weak_form(scalar("u", {"p": "u"}, with_slopes))
    x = X[np.linalg.norm(X - CENTRE, axis=1) > RADIUS + 0.01]
    off = [errors(at_level(weak, sides, level, order=2), {"u": known}, x)["u"] for level in (1, 2)]
    assert np.log2(off[0] / off[1]) > 2.7 and off[1] < 2e-5
    assert errors(at_level(weak, sides, 1, order=5), {"u": known}, x)["u"] < 1e-7


def test_a_flux_that_an_equation_defines_may_be_a_field():
    problem = hp.Problem(domain=SQUARE, fields={"u": (), "s": 2}, residual=with_a_flux, conditions=[
        hp.dirichlet("wall", "u", known),
        hp.Condition("out", lambda q, x, n: q.s @ n, lambda x: k(x) * jax.grad(known)(x)[0], "flux")])
    weak, sides = weak_form(problem)
    assert weak.roles.defined == (1, 2)
    assert errors(at_level(weak, sides, 0), {"u": known})["u"] < 1e-5


def traction(x):
    slope = jax.jacfwd(flow)(x)
    return (slope + slope.T) @ EAST * 0.1 - pressure(x) * EAST


def test_a_flow_is_found_with_any_traction_and_without_gradient_fields():
    """The equations have ν Δv, whose own flux is ν ∇v n: that of ν (∇v + ∇vᵀ) n differs by what has no divergence."""
    def force(x):
        return jax.jacfwd(flow)(x) @ flow(x) + jax.grad(pressure)(x) - 0.1 * divergence(jax.jacfwd(flow), x)

    def residual(x, q, dq):
        return hp.grad(dq.v) @ q.v + hp.grad(dq.p) - 0.1 * hp.laplacian(dq.v) - force(x), hp.div(dq.v)

    def stated(**more):
        return hp.Problem(domain=SQUARE, fields={"v": 2, "p": ()}, **more)

    open_end = hp.traction("out", "v", traction, pressure="p", viscosity=0.1)
    held = [hp.dirichlet("wall", "v", flow), hp.dirichlet("out", "v", flow), hp.mean("p", 0.0)]
    slopes = {"gradients": {"g": "v"}, "residual": lambda x, q, dq: (
        q.g @ q.v + hp.grad(dq.p) - 0.1 * hp.div(dq.g) - force(x), hp.div(dq.v))}
    for problem in (stated(**slopes, conditions=[held[0], open_end]), stated(residual=residual, conditions=held)):
        off = errors(at_level(*weak_form(problem), 0), {"v": flow, "p": pressure})
        assert off["v"] < 1e-5 and off["p"] < 1e-4


def test_a_wall_that_bends_lets_a_flow_slip():
    """Rigid rotation in a square about a disc: p = |x|²/2 up to a constant, no friction anywhere."""
    def turning(x):
        return jnp.array([-x[1], x[0]])

    problem = hp.Problem(
        domain=hp.Box((-1, -1), (1, 1), name="wall") - hp.Ball((0, 0), 0.4, name="disc"),
        fields={"v": 2, "p": ()}, gradients={"g": "v"},
        residual=lambda x, q, dq: (q.g @ q.v + hp.grad(dq.p) - 0.1 * hp.div(dq.g), hp.div(dq.v)),
        conditions=[hp.dirichlet("wall", "v", turning), hp.slip("disc", "v"), hp.pin("p", (0.5, 0.0), 0.125)])
    x = 2 * X - 1
    x = x[np.linalg.norm(x, axis=1) > 0.45]
    off = errors(at_level(*weak_form(problem), 0), {"v": turning, "p": lambda x: x @ x / 2}, x)
    assert off["v"] < 1e-3 and off["p"] < 1e-2


def test_elasticity_is_found_however_its_second_derivatives_are_grouped():
    def stress(slope):
        return 0.7 * (slope + slope.T) + 1.3 * jnp.trace(slope) * jnp.eye(2)

    def load(x):
        return divergence(lambda x: stress(jax.jacfwd(flow)(x)), x)

    def residual(x, q, dq):
        second = dq.g.space
        return 0.7 * jnp.einsum("ijj->i", second) + 2.0 * jnp.einsum("jji->i", second) - load(x)

    pull = hp.traction("out", "v", lambda x: stress(jax.jacfwd(flow)(x)) @ EAST, viscosity=0.7, bulk=1.3)
    problem = hp.Problem(domain=SQUARE, fields={"v": 2}, gradients={"g": "v"}, residual=residual,
                         conditions=[hp.dirichlet("wall", "v", flow), pull])
    assert errors(at_level(*weak_form(problem), 0), {"v": flow})["v"] < 1e-5


def test_heat_and_waves_in_time():
    def warm(x):
        return known(x) * jnp.cos(3 * x[2])

    def heat(x, q, dq):
        rest = jax.grad(warm)(x)[2] - jnp.trace(jax.hessian(warm)(x)[:2, :2]) + warm(x) ** 2
        return hp.dt(dq.u) - hp.laplacian(dq.u) + q.u**2 - rest

    def wave(x):
        return jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1]) * jnp.cos(jnp.pi * 2**0.5 * x[2])

    everywhere = [partial(hp.dirichlet, name, "u") for name in ("wall", "out")]
    cases = ({"fields": "u", "residual": heat}, warm), ({"fields": ("u", "v"), "residual": lambda x, q, dq: (
        hp.dt(dq.u) - q.v, hp.dt(dq.v) - hp.laplacian(dq.u))}, wave)
    for stated, exact in cases:
        begin = [hp.initial("u", exact)] + ([hp.initial("v", 0)] if "v" in stated["fields"] else [])
        problem = hp.Problem(domain=SQUARE, **stated, time=(0.0, 1.0),
                             conditions=[*(fix(exact) for fix in everywhere), *begin])
        found = at_level(*weak_form(problem), 0).at(X)["u"]
        late = np.concatenate([X, np.ones((len(X), 1))], axis=1)
        assert found.shape == (11, len(X))
        assert np.abs(found[-1] - np.asarray(jax.vmap(exact)(late))).max() < 1e-3


def test_it_is_refined_until_two_levels_agree_and_says_so():
    told = []
    problem = hp.Problem(domain=hp.Ball((0, 0, 0), 1, name="rim"), fields="u",
                         residual=lambda x, q, dq: hp.laplacian(dq.u) + 6, conditions=[hp.dirichlet("rim", "u", 0)])
    found = finite_elements(problem, 2, told.append)
    assert found.about["agreed"] and found.about["reached"] <= 1e-2 and told
    assert found.cells.shape[1] == 4 and found.x.shape[1] == 3
    assert np.abs(found.values["u"] - (1 - (found.x**2).sum(1))).max() < 1e-2


LAPLACE = {"fields": "u", "residual": lambda x, q, dq: hp.laplacian(dq.u) + 1}
FIRST = {"fields": "u", "gradients": {"p": "u"}, "residual": lambda x, q, dq: hp.div(dq.p) + 1}
REFUSED = {
    "a line": ({**LAPLACE, "domain": hp.Interval(0, 1, left="wall", right="out")}, "in 1-D"),
    "free": ({**LAPLACE, "domain": SQUARE, "conditions": [hp.dirichlet("wall", "u", 0)], "free": "out"},
             "do not tell the flux"),
    "a quasilinear law": ({**FIRST, "domain": SQUARE, "residual": lambda x, q, dq: (1 + q.p @ q.p) * hp.div(dq.p) + 1},
                          "depend on derivatives"),
    "no balance": ({**FIRST, "domain": SQUARE, "conditions": [
        *(hp.neumann(name, "u", 0) for name in ("wall", "out")), hp.mean("u", 0)]}, "no solution"),
    "no start": ({**LAPLACE, "domain": SQUARE, "time": (0, 1), "residual": lambda x, q, dq: hp.dt(dq.u)
                  - hp.laplacian(dq.u)}, "no initial condition"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_offered_is_said(case):
    stated, says = REFUSED[case]
    given = {"conditions": [hp.dirichlet(name, "u", 0) for name in ("wall", "out")], **stated}
    with pytest.raises(ValueError, match=says):
        finite_elements(hp.Problem(**given))
