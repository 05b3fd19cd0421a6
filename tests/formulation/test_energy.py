"""Energies: stationary at known solutions, equal to those worked out by hand, and refused with a sentence elsewhere."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import (
    Ball,
    Box,
    Condition,
    Inlay,
    Interval,
    Measurement,
    Problem,
    dirichlet,
    div,
    initial,
    interface,
    laplacian,
    neumann,
    periodic,
    robin,
)
from hardpde.formulation.energy import find_energy
from hardpde.problem.unfilled import without_gradients
from hardpde.problems import airfoil_printed, heat_ball, poisson, schroedinger
from hardpde.problems.battery_pack import CELLS
from helpers import built_in, heat

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROD = Interval(0, 1, left="l", right="r")
SQUARE = Box((0, 0), (1, 1), sides={"left": "left", "right": "right", "bottom": "bottom", "top": "top"})
DISC = Ball((0, 0), 1.0, name="rim")
GRADIENTS = {"grad_u": "u"}
PAIR = {"grad_u": "u", "grad_v": "v"}


# Quadrature on the three domains: (points, weights) inside, and for each boundary.

def gauss(n=24):
    x, w = np.polynomial.legendre.leggauss(n)
    return 0.5 + 0.5 * x, 0.5 * w


def quadrature(domain):
    x, w = gauss()
    if domain is ROD:
        return (x[:, None], w), {"l": (np.zeros((1, 1)), np.ones(1)), "r": (np.ones((1, 1)), np.ones(1))}
    if domain is SQUARE:
        inside = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), np.outer(w, w).ravel()
        ends = {"left": (0, 0.0), "right": (0, 1.0), "bottom": (1, 0.0), "top": (1, 1.0)}
        return inside, {name: (np.insert(x[:, None], axis, at, axis=1), w) for name, (axis, at) in ends.items()}
    angle = 2 * np.pi * np.arange(32) / 32
    rim = np.stack([np.cos(angle), np.sin(angle)], -1)
    inside = (x[:, None, None] * rim).reshape(-1, 2), np.outer(x * w, np.full(32, 2 * np.pi / 32)).ravel()
    return inside, {"rim": (rim, np.full(32, 2 * np.pi / 32))}


def variations(problem, energy, u, tests):
    """Derivatives of the energy along each of the functions in `tests`: at the state u, and beside it."""
    (x, w), edges = quadrature(problem.domain)

    def total(steps):
        def state(x):
            return u(x) + sum(step * v(x) for step, v in zip(steps, tests))

        value = w @ jax.vmap(lambda x: energy.density(x, state(x), jax.jacfwd(state)(x).T))(x)
        for condition, edge in zip(energy.natural, energy.edge):
            points, weights = edges[condition.on]
            normals = jax.vmap(problem.domain.boundaries[condition.on].normal)(points)
            value += weights @ jax.vmap(lambda x, n, edge=edge: edge(x, n, state(x)))(points, normals)
        return value

    steps = jnp.zeros((2, len(tests))).at[1, 0].set(0.1)
    return np.abs(np.asarray(jax.jit(jax.vmap(jax.grad(total)))(steps))).max(axis=1)


def check_stationary(problem, u, tests):
    """The energy is stationary at u, and not beside it; returns it."""
    energy = find_energy(without_gradients(problem))
    at, beside = variations(problem, energy, u, tests)
    assert at < 1e-10 and beside > 1e-3
    return energy


def flux(k, u):
    """∇·(K ∇u) of a state, from K and u alone; k(x) is a number or a matrix."""
    def at(x):
        def flow(x):
            return jnp.atleast_2d(k(x)) @ jax.jacfwd(u)(x)

        return jnp.trace(jax.jacfwd(flow)(x), axis1=1, axis2=2)

    return at


def slope(u, n):
    """n·∇u as data of a condition, one entry for each component; n(x) is the normal."""
    return lambda x: jax.jacfwd(u)(x) @ jnp.asarray(n(x), float)


# Solutions that are known, since the data were made from them.

def test_a_rod_of_varying_conductivity_with_a_reaction():
    """−(k u′)′ + u³ + u = f: Dirichlet on the left, Robin on the right, in either sign."""
    def k(x):
        return 1 + x[0] ** 2

    def u(x):
        return jnp.sin(2 * x) + 1

    def f(x):
        return (u(x) ** 3 + u(x) - flux(k, u)(x))[0]

    def make(sign):
        def residual(x, q, dq):
            conduction = k(x) * div(dq.grad_u) + jax.grad(k)(x) @ q.grad_u
            return sign * (q.u**3 + q.u - f(x) - conduction)

        return Problem(domain=ROD, fields="u", gradients=GRADIENTS, residual=residual, conditions=[
            dirichlet("l", "u", 1.0),
            robin("r", "u", a=3.0, b=-0.5, g=lambda x: (3 * u(x) - 0.5 * slope(u, lambda x: [1])(x))[0])])

    tests = [lambda x: x, lambda x: jnp.sin(3 * x), lambda x: x**2 * jnp.exp(-x)]
    problem = make(1)
    energy = check_stationary(problem, u, tests)
    assert variations(problem, energy, u, [lambda x: 1 - x])[0] > 1e-3  # one that does not vanish on the left
    energy = check_stationary(make(-1), u, tests)
    assert [c.name for c in energy.essential] == ["dirichlet u"] and [c.on for c in energy.natural] == ["r"]
    x, q, dq = jnp.array([0.3]), jnp.array([0.7]), jnp.array([[1.1], [5.0]])
    by_hand = 0.5 * 1.09 * 1.1**2 + 0.7**4 / 4 + 0.7**2 / 2 - 0.7 * f(x)
    assert abs(energy.density(x, q, dq) - by_hand) < 1e-14
    assert abs(energy.density(x, q, dq[:1]) - by_hand) < 1e-14  # the Laplacian is not needed
    single = energy.density(*(part.astype("float32") for part in (x, q, dq)))
    assert single.dtype == "float32" and abs(single - by_hand) < 1e-6
    assert energy.edge[0](x.astype("float32"), jnp.ones(1), q.astype("float32")).dtype == "float32"


def test_a_square_with_every_kind_of_condition():
    """Dirichlet, Robin with data that vary, Neumann, and a free side where n·∇u happens to be 0."""
    def k(x):
        return jnp.exp(0.5 * x[0] - x[1] ** 2)

    def u(x):
        return jnp.exp(x[:1]) * jnp.cos(2 * x[1:])

    def residual(x, q, dq):
        return flux(k, u)(x)[0] - k(x) * div(dq.grad_u) - jax.grad(k)(x) @ q.grad_u

    def g(x):
        return ((1 + x[1]) * u(x) + (2 - x[1]) * slope(u, lambda x: [1, 0])(x))[0]

    problem = Problem(
        domain=SQUARE, fields="u", gradients=GRADIENTS, residual=residual, free=["bottom"],
        conditions=[dirichlet("left", "u", lambda x: u(x)[0]),
                    robin("right", "u", a=lambda x: 1 + x[1], b=lambda x: 2 - x[1], g=g),
                    neumann("top", "u", lambda x: slope(u, lambda x: [0, 1])(x)[0])])
    check_stationary(problem, u, [lambda x: x[:1], lambda x: x[:1] * jnp.cos(x[1:]),
                                  lambda x: jnp.sin(2 * x[:1]) * jnp.exp(x[1:])])


K = np.array([[2.0, 0.7], [0.7, 1.0]])  # conduction of two components that are coupled
C = np.array([[1.0, -0.4], [-0.4, 0.3]])  # their reaction


def pair(x):
    return jnp.stack([jnp.sin(x[0]) * jnp.exp(x[-1]), jnp.cos(x[0] + 2 * x[-1])])


def test_two_components_that_are_coupled_inside_and_on_the_rim():
    """a q + b n·∇q = g with K b⁻¹ a symmetric, neither of them diagonal; two equations in one field."""
    b = np.array([[1.0, 0.5], [-0.3, 2.0]])
    a = b @ np.linalg.inv(K) @ np.array([[1.5, 0.2], [0.2, 0.8]])

    def residual(x, q, dq):
        return C @ q.u - K @ div(dq.grad_u) - C @ pair(x) + flux(lambda x: K, pair)(x)

    problem = Problem(
        domain=DISC, fields={"u": 2}, gradients=GRADIENTS, residual=residual,
        conditions=[Condition("rim", lambda q, x, n: a @ q.u + b @ q.gradient("u") @ n,
                              lambda x: a @ pair(x) + b @ slope(pair, lambda x: x)(x), "exchange")])
    check_stationary(problem, pair, [lambda x: x, lambda x: jnp.exp(-x), lambda x: pair(x) * x[0]])


def test_each_component_has_its_own_conditions():
    """Two Robin conditions on one end; on the other, the value of one component and the flux of the whole."""
    def both(x, q, dq):
        state = jnp.stack([q.u, q.v])
        bend = jnp.stack([div(dq.grad_u), div(dq.grad_v)])
        r = C @ (state - pair(x)) - K @ (bend - jax.jacfwd(jax.jacfwd(pair))(x)[:, 0, 0])
        return r[0], -r[1]  # equations of opposite signs

    def flow(q, x, n):  # the second component's flux, and the fixed component too
        return K[1, 0] * q.gradient("u") @ n + K[1, 1] * q.gradient("v") @ n + 2 * q.v + 3 * q.u

    # Here K b⁻¹ a is symmetric although each row has its own b.
    b, a = np.diag([1.0, -2.0]), np.diag([1.0, -2.0]) @ np.linalg.inv(K) @ np.diag([4.0, 5.0])
    right = slope(pair, lambda x: [1])

    def robins(i):
        def lhs(q, x, n):
            return a[i, 0] * q.u + a[i, 1] * q.v + b[i, i] * q.gradient("uv"[i]) @ n

        return Condition("r", lhs, lambda x: a[i] @ pair(x) + b[i] @ right(x), f"robin {i}")

    problem = Problem(
        domain=ROD, fields=["u", "v"], gradients=PAIR, residual=both,
        conditions=[dirichlet("l", "u", lambda x: pair(x)[0]),
                    Condition("l", flow, lambda x: -K[1] @ right(x) + pair(x) @ jnp.array([3.0, 2.0]), "flow"),
                    robins(0), robins(1)])
    zero = jnp.zeros(1)
    tests = [lambda x: jnp.concatenate([x, zero]), lambda x: jnp.concatenate([zero, jnp.cos(x)]),
             lambda x: jnp.concatenate([jnp.sin(2 * x), 1 - x])]
    check_stationary(problem, pair, tests)


# Energies worked out by hand.

def random_states(plain, x):
    q, *dq = jax.random.normal(jax.random.key(5), (plain.derivatives + 1, len(x), plain.schema.size))
    return q, jnp.stack(dq, axis=1)


def test_the_battery_pack_by_hand():
    """½ |∇T|² + T_t T inside, ½ h T² − h T_b T on each boundary."""
    plain = without_gradients(built_in("battery-pack"))
    energy = find_energy(plain)
    x = jax.random.uniform(jax.random.key(0), (20, 3))
    q, dq = random_states(plain, x)
    density = jax.jit(jax.vmap(energy.density))(x, q, dq)
    by_hand = 0.5 * (dq[:, 0] ** 2 + dq[:, 1] ** 2) + dq[:, 2] * q
    assert np.abs(density - by_hand[:, 0]).max() < 1e-12

    assert [c.name for c in energy.essential] == ["initial T"]
    assert [c.on for c in energy.natural] == ["outer", "cell", "pipe"]
    normal = jnp.array([0.6, 0.8])
    x = jnp.array([*CELLS[0], 0.0]) + jnp.array([*normal, 0.3])
    for edge, outside in zip(energy.edge, (0.1, 5.0, 1.0)):
        found = jax.jit(jax.vmap(lambda q, edge=edge: edge(x, -normal, q)))(q)
        assert np.abs(found - (0.5 * q**2 - outside * q)[:, 0]).max() < 1e-12


def test_the_heat_ball_by_hand():
    """½ k |∇u|² + u_t u + k |x|² g u inside, −k g u on the sphere, with g the solution."""
    plain = without_gradients(heat_ball(3))
    energy = find_energy(plain)
    x = jax.random.uniform(jax.random.key(0), (20, 4))
    q, dq = random_states(plain, x)
    square = (x[:, :3] ** 2).sum(1)
    g, u = np.exp(0.5 * square + x[:, 3]), q[:, 0]
    by_hand = (dq[:, :3, 0] ** 2).sum(1) / 6 + dq[:, 3, 0] * u + square * g * u / 3
    assert np.abs(jax.jit(jax.vmap(energy.density))(x, q, dq) - by_hand).max() < 1e-12
    found = jax.jit(jax.vmap(energy.edge[0]))(x, x[:, :3] / jnp.sqrt(square)[:, None], q)
    assert np.abs(found + g * u / 3).max() < 1e-12
    assert [c.name for c in energy.natural] == ["neumann u"]


@pytest.mark.parametrize("extra", [True, False])
def test_poisson_with_and_without_the_extra_field(extra):
    energy = find_energy(without_gradients(poisson(extra=extra)))
    assert len(energy.essential) == 2 and energy.natural == energy.edge == ()
    x, q, dq = jnp.array([1.0]), jnp.array([0.3]), jnp.array([[2.0], [7.0]])
    assert abs(energy.density(x, q, dq) - (0.5 * 2.0**2 - 4 * np.sin(2.0) * 0.3)) < 1e-14


# Refusals.

def scalar(residual, conditions=(), free=("l", "r"), **more):
    return Problem(domain=ROD, fields="u", residual=residual, conditions=conditions, free=free, **more)


def double(residual, **more):
    return Problem(domain=ROD, fields=["u", "v"], residual=lambda x, q, dq: residual(q, dq, laplacian(dq.u),
                                                                                     laplacian(dq.v)),
                   conditions=[], free=["l", "r"], **more)


def laplace(x, q, dq):
    return laplacian(dq.u)


def heated(condition):
    return heat(ROD, [initial("u"), condition], free=["l", "r"])


def side(condition):
    """A condition on one side of a square."""
    return Problem(domain=SQUARE, fields="u", gradients=GRADIENTS, conditions=[condition],
                   residual=lambda x, q, dq: div(dq.grad_u), free=["right", "bottom", "top"])


def own(lhs):
    return Condition("l", lhs, 0.0, "own")


def end(*conditions, **more):
    """Conditions on one end of a rod, for two fields."""
    return Problem(domain=ROD, fields=["u", "v"], gradients=PAIR, conditions=conditions, free=["r"],
                   residual=lambda x, q, dq: (div(dq.grad_u), div(dq.grad_v)), **more)


def regions():
    inner = Interval(0.3, 0.6, left="rim", right="rim")
    return Problem(domain=Inlay(ROD, inner), fields=["a", "b"], gradients={"grad_a": "a", "grad_b": "b"},
                   residual=lambda x, q, dq: {"a": div(dq.grad_a), "b": div(dq.grad_b)}, free=["l", "r"],
                   regions={"a": inner, "b": lambda x: -inner.sdf(x)}, conditions=[interface("rim", ("a", "b"))])


REFUSALS = {
    "Navier–Stokes":
        (airfoil_printed, "there is no energy whose minimum solves 'airfoil-printed': the equations contain first "
                          "derivatives of the solution that are not a divergence (e.g. convection or a pressure); "
                          "use pinn, hc or exact"),
    "periodic": (schroedinger, "no energy is worked out for 'schroedinger', which has periodic conditions; "
                               "use pinn, hc or exact"),
    "softly periodic": (lambda: scalar(laplace, [periodic("l", "r", soft=1.0)], free=()), "has periodic conditions"),
    "regions": (regions, "materials meet at an interface; use exact"),
    "first order": (lambda: scalar(lambda x, q, dq: dq.u.space[0] - q.u), "contain no second derivatives"),
    "too many equations":
        (lambda: double(lambda q, dq, u, v: (u, v, q.u), equations=3), "equations are 3 and the components of the "),
    "convection": (lambda: scalar(lambda x, q, dq: laplacian(dq.u) + dq.u.space[0]), "first derivatives"),
    "eikonal term": (lambda: scalar(lambda x, q, dq: laplacian(dq.u) + dq.u.space[0] ** 2), "first derivatives"),
    "no divergence":
        (lambda: scalar(lambda x, q, dq: (1 + x[0]) * laplacian(dq.u) - dq.u.space[0]), "first derivatives"),
    "nonlinear conduction": (lambda: scalar(lambda x, q, dq: (1 + q.u**2) * laplacian(dq.u)), "depend on the solution"),
    "nonlinear second derivative": (lambda: scalar(lambda x, q, dq: laplacian(dq.u) ** 3), "depend on the solution"),
    "algebraic equation": (lambda: double(lambda q, dq, u, v: (u - q.v, q.v - q.u)), "has no second derivatives"),
    "the same twice": (lambda: double(lambda q, dq, u, v: (u + v, u + v + q.u)), "several have the same"),
    "not symmetric": (lambda: double(lambda q, dq, u, v: (u + v, v)), "second derivatives are not a symmetric"),
    "indefinite": (lambda: double(lambda q, dq, u, v: (u + 2 * v, 2 * u + v)), "not a definite matrix"),
    "changes sign": (lambda: scalar(lambda x, q, dq: (x[0] - 0.5) * laplacian(dq.u) + dq.u.space[0]), "not a definite"),
    "no potential": (lambda: double(lambda q, dq, u, v: (u - q.v, v + q.u)), "by the solution are not a symmetric"),
    "singular at zero": (lambda: scalar(lambda x, q, dq: 1 / q.u - laplacian(dq.u)), "integrated from zero"),
    "initial slope":
        (lambda: heated(Condition("initial", lambda q, x, n: q.gradient("u"), 0.0, "still")),
         "'still' on 'initial' is not on values alone"),
    "initial gradient":
        (lambda: heated(initial("grad_u")), "'initial grad_u' on 'initial' cannot be read without gradient fields"),
    "partly natural":
        (lambda: side(robin("left", "u", a=1.0, b=lambda x: jnp.maximum(x[1] - 0.5, 0))),
         "'robin u' on 'left' vanish on a part of it; split the boundary"),
    "mixed rows":
        (lambda: end(own(lambda q, x, n: (q.u, q.grad_v @ n))),
         "'own' on 'l' has rows on values and rows on derivatives; state two conditions"),
    "along the boundary":
        (lambda: side(Condition("left", lambda q, x, n: q.grad_u[1], 0.0, "own")), "asks for derivatives along"),
    "value and slope":  # such as a problem may only have where something is measured
        (lambda: end(dirichlet("l", "u"), dirichlet("l", "v"), neumann("l", "u"),
                     measurements=[Measurement("u", [[0.5]], [0.1])]),
         "on 'l' are more than one for each component"),
    "a flux is missing": (lambda: end(neumann("l", "u")), "on 'l' do not give the flux"),
    "another's flux":
        (lambda: end(dirichlet("l", "u"), own(lambda q, x, n: (q.grad_v + q.grad_u) @ n)),
         "on 'l' do not give the flux"),
    "exchange one way":
        (lambda: end(own(lambda q, x, n: (q.grad_u @ n - q.v, q.grad_v @ n + q.u))), "matrix that is not symmetric"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_has_no_energy_is_refused_with_a_sentence(name):
    make, sentence = REFUSALS[name]
    plain = without_gradients(make())
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        find_energy(plain)
    assert "\n" not in str(error.value) and plain.name in str(error.value)


def test_gradient_fields_are_to_be_filled_first():
    with pytest.raises(ValueError, match="apply without_gradients first"):
        find_energy(poisson())
