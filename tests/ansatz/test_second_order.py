"""Laplacians without gradient fields: carried through networks and ansätze, and found out by the problem itself."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import Ball, Box, Interval, Problem, dirichlet, div, dt, initial, laplacian
from hardpde.ansatz.base import jets
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.engine import Engine
from hardpde.methods import exact, hc
from hardpde.networks.cpu import points_last
from hardpde.networks.gpu import points_first
from hardpde.networks.mlp import MLP, mlp, randomise
from hardpde.problem.fields import Derivative
from hardpde.problems.poisson import poisson

pytestmark = pytest.mark.usefixtures("quick_compilation")


def saddle(x):
    """Harmonic."""
    return jnp.exp(x[0]) * jnp.sin(x[1])


def disc():
    return Problem(domain=Ball((0.2, 0), 1.5, name="rim"), fields="u", residual=lambda x, q, dq: laplacian(dq.u),
                   conditions=[dirichlet("rim", "u", saddle)], exact=lambda x: {"u": saddle(x)})


def rod():
    """Time is not in the Laplacian; the field is a vector."""
    return Problem(domain=Interval(-1, 2, left="l", right="r"), fields={"u": 2}, time=(0.0, 1.0),
                   residual=lambda x, q, dq: dt(dq.u) - laplacian(dq.u),
                   conditions=[dirichlet("l", "u", (0.0, 1.0)), dirichlet("r", "u", lambda x: (x[1], 4.0)),
                               initial("u", lambda x: (0.0, x[0] + 2))])


@cache
def solved(make, method):
    options = {"main": (8, 8), "sub": (6,)} if method is hc else {"width": 8, "depth": 2}
    return method(make(), engine=Engine(64), **options)


@pytest.mark.parametrize("stack", [None, 3])
def test_laplacians_of_networks_are_traces_of_their_hessians(stack):
    network = randomise(mlp(jax.random.key(0), [3, 6, 5, 2], stack=stack), jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (7, 3))

    def inputs(x):  # of two coordinates of space, and time
        return jnp.stack([x[0] * x[1], jnp.sin(x[1]) + x[2], x[2] * x[0] ** 2])

    def plain(layers, x):
        for k, (w, b) in enumerate(layers):
            x = x @ w + b
            x = jnp.tanh(x) if k < len(layers) - 1 else x
        return x

    layers = list(zip(network.weights, network.biases))

    @jax.jit
    def computed(layers, x):
        jet = jax.vmap(lambda x: jets(inputs, x, True, 2), out_axes=-1)(x)
        first = jnp.moveaxis(points_first(layers, jnp.moveaxis(jet, 0, -1), 2), -1, -3)
        return MLP(*map(list, zip(*layers))).jet(jet, 2), points_last(layers, jet, 2), first

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0))
    def expected(layers, x):
        return jax.jacfwd(lambda x: plain(layers, inputs(x)))(x), jax.hessian(lambda x: plain(layers, inputs(x)))(x)

    outputs = [np.asarray(out) for out in computed(layers, x)]
    for k in range(stack or 1):
        slopes, hessian = map(np.asarray, expected(
            layers if stack is None else [(w[k], b[k]) for w, b in layers], x))
        for out in (out if stack is None else out[k] for out in outputs):
            assert out.shape == (2, 5, 7)
            assert np.abs(out[:, -1].T - hessian[:, :, 0, 0] - hessian[:, :, 1, 1]).max() < 1e-12
            assert np.abs(np.moveaxis(out[:, 1:-1], -1, 0) - slopes).max() < 1e-12


@pytest.mark.parametrize("make, method", [(disc, exact), (rod, exact), (rod, hc)], ids=["disc", "rod", "rod-hc"])
def test_the_jet_of_a_state_ends_with_its_laplacian(make, method):
    """Against derivatives of the value alone, taken through the whole ansatz."""
    formulation = solved(make, method)
    problem = formulation.problem
    model = random_models(formulation, 1)[0]
    batch = formulation.draw(jax.random.key(3), None)
    schema = problem.schema
    x = np.asarray(batch.x)
    jet = np.asarray(jax.jit(formulation.state)(model, batch))
    assert jet.shape == (schema.size, schema.coordinates + 2, len(x))
    assert np.abs(formulation.jet(model, x) - np.moveaxis(jet, -1, 0)).max() < 1e-11
    assert np.abs(formulation.predict(model, x).T - jet[:, 0]).max() < 1e-12

    def value(x):
        return formulation.state(model, _values(formulation, x))[:, 0, 0]

    first, hessian = jax.jit(lambda x: jax.lax.map(
        lambda x: (jax.jacfwd(value)(x), jax.jacfwd(jax.jacfwd(value))(x)), x))(batch.x)
    bend = np.trace(np.asarray(hessian)[:, :, : schema.dim, : schema.dim], axis1=2, axis2=3)
    assert np.abs(np.moveaxis(jet[:, 1:-1], -1, 0) - first).max() < 1e-10 * np.abs(first).max()
    assert np.abs(jet[:, -1].T - bend).max() < 1e-10 * np.abs(bend).max()


def _values(formulation, x):
    """`at` for one traced point: `exact` counts collars with concrete numbers, so ask for every piece."""
    problem = formulation.problem
    if formulation.at.__module__.endswith("uniform"):
        return formulation.at(x[None], False)
    from hardpde.ansatz.exact import Exact
    from hardpde.ansatz.inputs import standard_inputs
    from hardpde.formulation.built_in import assemble

    ansatz, most = Exact(problem, standard_inputs(problem)), len(problem.layout.pieces)
    ids, _ = ansatz.active(jax.lax.stop_gradient(x), most)
    return assemble(ansatz, lambda x: jnp.ones(1), x[None], ids[None], (*[0] * most, 1), False)


@pytest.mark.parametrize("make, method", [(rod, exact), (rod, hc)], ids=["exact", "hc"])
def test_the_jacobian_and_the_conditions_of_second_order(make, method):
    formulation = solved(make, method)
    model = random_models(formulation, 1)[0]
    batch = formulation.draw(jax.random.key(5), None)
    rows, expected = jax.jit(lambda m, batch: (
        formulation.jacobian(m, batch), jax.jacfwd(lambda m: formulation.residual_vector(m, batch))(m)))(model, batch)
    for one, two in zip(jax.tree.leaves(rows), jax.tree.leaves(expected)):
        assert np.abs(one - two).max() < 1e-12 * max(1.0, np.abs(two).max())
    if method is exact:
        assert violation(certify(formulation, [model], points=200)) < 1e-12


@pytest.mark.parametrize("make", [disc, lambda: poisson(extra=False)], ids=["disc", "poisson"])
def test_a_known_solution_has_no_residual(make):
    problem = make()

    def at(x):
        def u(x):
            return jnp.atleast_1d(problem.exact(x)["u"])

        bend = jnp.trace(jax.hessian(lambda x: u(x)[0])(x))
        return problem.residuals(x, u(x), jnp.concatenate([jax.jacfwd(u)(x).T, bend[None, None]]))

    assert np.abs(jax.jit(jax.vmap(at))(problem.domain.sample(jax.random.key(0), 32))).max() < 1e-12


def test_a_problem_finds_out_its_order():
    first = poisson(extra=True)
    assert (first.order, first.derivatives) == (1, 1)
    assert (poisson(extra=False).order, poisson(extra=False).derivatives) == (2, 2)
    jet = exact(first, width=4, depth=1, engine=Engine(16)).draw(jax.random.key(0), None).offset
    assert jet.shape == (2, 2, 16)
    member = Problem(domain=Interval(0, 1, left="l", right="r"), fields="u", conditions=[], free=["l", "r"],
                     residual=lambda x, q, dq: dq.u.laplacian)
    assert member.order == 2


def test_the_laplacian_is_refused_where_it_is_not_computed():
    with pytest.raises(ValueError, match="Laplacian was not computed"):
        laplacian(Derivative(jnp.zeros(2), None))
    with pytest.raises(ValueError, match="Laplacian was not computed"):
        disc().residuals(jnp.zeros(2), jnp.zeros(1), jnp.zeros((2, 1)))


def test_gradient_fields_and_laplacians_mix():
    problem = Problem(domain=Box((0, 0), (1, 1), name="box"), fields=["u", "v"], gradients={"grad_u": "u"},
                      residual=lambda x, q, dq: (div(dq.grad_u) - q.v, laplacian(dq.v) + q.u),
                      conditions=[dirichlet("box", "u"), dirichlet("box", "v")])
    formulation = exact(problem, width=6, depth=1, engine=Engine(32))
    batch = formulation.draw(jax.random.key(0), None)
    model = random_models(formulation, 1)[0]
    assert jax.eval_shape(formulation.residuals, model, batch).shape == (4, len(batch.x))


def test_corners_of_independent_rows_have_laplacians():
    problem = Problem(domain=Box((0, 0), (1, 1), "box", {"left": "left", "bottom": "bottom"}), fields=["u", "v"],
                      residual=lambda x, q, dq: (laplacian(dq.u), laplacian(dq.v)), free=["box"],
                      conditions=[dirichlet("left", "u"), dirichlet("bottom", "v")])
    formulation = exact(problem, width=6, depth=1, engine=Engine(64))
    batch = formulation.draw(jax.random.key(0), None)
    assert np.isfinite(jax.jit(formulation.state)(random_models(formulation, 1)[0], batch)).all()
