"""The airfoils: their equations, their conditions, and that a symmetry leaves the conditions alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.engine import Engine
from hardpde.methods import exact
from hardpde.problems.airfoil import VISCOSITY, airfoil
from hardpde.problems.airfoil_printed import airfoil_printed

pytestmark = pytest.mark.usefixtures("quick_compilation")
RATE = 1 / (2 * VISCOSITY) - np.sqrt(1 / (4 * VISCOSITY**2) + 4 * np.pi**2)


def kovasznay(x):
    """An exact solution of the Navier–Stokes equations (Kovasznay 1948): velocity and pressure."""
    grows = jnp.exp(RATE * x[0])
    u = jnp.stack([1 - grows * jnp.cos(2 * jnp.pi * x[1]), RATE / (2 * jnp.pi) * grows * jnp.sin(2 * jnp.pi * x[1])])
    return u, -0.5 * grows**2


def vorticity_form(x):
    (u, p), g = kovasznay(x), jax.jacfwd(lambda x: kovasznay(x)[0])(x)
    return jnp.stack([*u, g[1, 0] - g[0, 1], p])


def gradient_form(x):
    (u, p), g = kovasznay(x), jax.jacfwd(lambda x: kovasznay(x)[0])(x)
    return jnp.concatenate([u, p[None], g.ravel()])


@pytest.fixture(scope="module")
def symmetric():
    return airfoil(symmetric=True)


@pytest.fixture(scope="module")
def problems(symmetric):
    return {"airfoil": (symmetric, vorticity_form), "airfoil-printed": (airfoil_printed(), gradient_form)}


@pytest.mark.parametrize("name", ["airfoil", "airfoil-printed"])
def test_a_known_flow_has_no_residual(problems, name):
    problem, state = problems[name]
    x = jax.random.uniform(jax.random.key(0), (20, 2))
    residuals = jax.vmap(lambda x: problem.residuals(x, state(x), jax.jacfwd(state)(x).T))(x)
    assert np.abs(residuals).max() < 1e-12


def test_the_airfoil_s_conditions_hold_for_any_weights(symmetric):
    """Wall, trailing edge with its two corners, and the box, whose corners state v twice."""
    formulation = exact(symmetric, width=6, depth=2, engine=Engine(128))
    rows = certify(formulation, random_models(formulation, 1), points=500)
    assert {row["boundary"] for row in rows} == {"inlet", "top", "bottom", "outlet", "airfoil"}
    assert violation(rows) < 1e-12, rows
    model = random_models(formulation, 1)[0]
    x = np.asarray(symmetric.domain.sample(jax.random.key(1), 50))
    upper, lower = formulation.predict(model, x), formulation.predict(model, x * [1, -1])
    assert np.abs(upper - lower * [1, -1, -1, 1]).max() < 1e-9 * np.abs(upper).max()
