"""Networks on the blocks of a grid, blended by windows, and the products of jets that they need."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.ansatz.base import jets
from hardpde.networks.grid import Grid
from hardpde.networks.jets import multiply
from hardpde.networks.mlp import MLP, count, mlp, randomise
from hardpde.networks.windowed import Windowed, windowed

pytestmark = pytest.mark.usefixtures("quick_compilation")

LINE = {"sizes": [1, 6, 2], "lower": (-1.0,), "upper": (2.0,), "counts": (3,), "sigma": 0.15}
PLANE = {"sizes": [4, 6, 5, 2], "lower": (-1.0, 0.5), "upper": (2.0, 1.5), "counts": (3, 2), "sigma": 0.1}


def line(x):
    return 1.5 * x - 0.2


def plane(x):
    """Of two coordinates of space, and time: two that the grid divides, and two more."""
    return jnp.stack([0.7 * x[0] + 0.1, x[1] + 1, x[2], x[2] * jnp.sin(x[0])])


def network(lower, upper, counts, sigma, sizes):
    return randomise(windowed(jax.random.key(0), sizes, Grid(lower, upper, counts), sigma), jax.random.key(1))


def formula(model, lower, upper, counts, sigma, y):
    """The sum as it is written, block by block, at the inputs of one point."""
    total = 0.0
    for k, index in enumerate(product(*map(range, counts))):
        window, local = 1.0, []
        for j, i in enumerate(index):
            h = (upper[j] - lower[j]) / counts[j]
            lo, hi = lower[j] + i * h, lower[j] + (i + 1) * h
            window = window / (1 + jnp.exp(-(y[j] - lo) / sigma)) if i > 0 else window
            window = window / (1 + jnp.exp(-(hi - y[j]) / sigma)) if i < counts[j] - 1 else window
            local.append((y[j] - (lo + hi) / 2) / h)
        z = jnp.concatenate([jnp.stack(local), y[len(counts) :]])
        weights, biases = model.networks.weights, model.networks.biases
        for w, b in zip(weights[:-1], biases[:-1]):
            z = jnp.tanh(z @ w[k] + b[k])
        total = total + window * (z @ weights[-1][k] + biases[-1][k])
    return total


@pytest.mark.parametrize("setting, inputs, coordinates, second", [
    (LINE, line, 1, 0), (LINE, line, 1, 1), (PLANE, plane, 3, 0), (PLANE, plane, 3, 2)])
def test_jets_are_derivatives_of_windows_times_networks(setting, inputs, coordinates, second):
    model = network(**setting)
    grid = {name: setting[name] for name in ("lower", "upper", "counts", "sigma")}
    x = jax.random.uniform(jax.random.key(2), (9, coordinates), minval=-0.8, maxval=1.4)

    @jax.jit
    def computed(model, x):
        jet, only_values = (jax.vmap(lambda x, d=d: jets(inputs, x, d, second), out_axes=-1)(x) for d in (True, False))
        return model.jet(jet, second), model.jet(only_values)

    def value(x):
        return formula(model, **grid, y=inputs(x))

    values, slopes, hessians = jax.jit(jax.vmap(lambda x: (value(x), jax.jacfwd(value)(x), jax.hessian(value)(x))))(x)
    out, only_values = map(np.asarray, computed(model, x))
    assert out.shape == (2, 1 + coordinates + bool(second), 9)
    assert np.abs(out[:, 0].T - values).max() < 1e-10
    assert np.abs(np.moveaxis(out[:, 1 : 1 + coordinates], -1, 0) - slopes).max() < 1e-10
    if second:
        laplacians = np.trace(np.asarray(hessians)[:, :, :second, :second], axis1=2, axis2=3)
        assert np.abs(out[:, -1].T - laplacians).max() < 1e-10
    assert only_values.shape == (2, 1, 9) and np.abs(only_values[:, 0].T - values).max() < 1e-10


def test_products_of_jets_are_jets_of_products():
    def one(x):
        return jnp.stack([x[0] * x[1] ** 2, jnp.sin(x[2] + x[0])])

    def two(x):
        return jnp.stack([jnp.exp(x[1]) + x[2]])

    @jax.jit
    def errors(x):
        a, b, ab = (jax.vmap(lambda x, f=f: jets(f, x, True, 2), out_axes=-1)(x)
                    for f in (one, two, lambda x: one(x) * two(x)))
        return multiply(a, b, 2) - ab, multiply(a[:, :-1], b[:, :-1]) - ab[:, :-1]

    assert max(np.abs(error).max() for error in errors(jax.random.normal(jax.random.key(0), (5, 3)))) < 1e-12


@pytest.mark.parametrize("setting", [LINE, PLANE], ids=["1-D", "2-D"])
def test_windows_sum_to_one(setting):
    """Everywhere, on the outer edges and beyond them too."""
    model = network(**setting)
    d = len(setting["counts"])
    lower, upper = np.array(setting["lower"]), np.array(setting["upper"])
    width = (upper - lower) / setting["counts"]
    x = np.linspace(lower - width, upper + width, 50)
    windows = np.asarray(jax.jit(lambda x: model.windows(x))(jnp.asarray(x.T)[:, None]))
    assert windows.shape == (np.prod(setting["counts"]), 1, 50) and windows.max(0).min() > 0.2
    assert np.abs(windows.sum(0) - 1).max() < 4 * d * np.exp(-width.min() / setting["sigma"])


def test_one_block_is_one_network():
    model = network((-3.0, -2.0), (5.0, 2.0), (1, 1), 0.7, [3, 6, 1])
    alone = MLP([w[0] for w in model.networks.weights], [b[0] for b in model.networks.biases])
    x = jax.random.normal(jax.random.key(3), (6, 3))

    def local(x):
        return jnp.stack([(x[0] - 1) / 8, x[1] / 4, x[2]])

    @jax.jit
    def difference(x):
        plain, scaled = (jax.vmap(lambda x, f=f: jets(f, x, True, 2), out_axes=-1)(x) for f in (lambda x: x, local))
        return model.jet(plain, 2) - alone.jet(scaled, 2)

    assert np.abs(difference(x)).max() < 1e-12


def test_only_the_networks_are_weights():
    model = windowed(jax.random.key(0), [3, 7, 1], Grid((0.0, 0.0), (1.0, 2.0), (2, 3)), 0.1, jnp.float32)
    assert count(model) == 6 * count(mlp(jax.random.key(0), [3, 7, 1]))
    assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype("float32")}
    fresh = randomise({"a": model, "b": mlp(jax.random.key(1), [2, 3, 1])}, jax.random.key(2))
    assert isinstance(fresh["a"], Windowed)
    assert jax.tree.structure(fresh["a"]) == jax.tree.structure(model)
    assert all(np.std(bias) > 0 for bias in fresh["a"].networks.biases)
    jet = jnp.zeros((3, 4, 5), jnp.float32)
    assert jax.eval_shape(lambda m: m.jet(jet), model).dtype == jnp.float32
    slope = jax.eval_shape(jax.grad(lambda m: (m.jet(jet) ** 2).sum()), fresh["a"])
    assert jax.tree.structure(slope) == jax.tree.structure(model)


@pytest.mark.parametrize("change, message", [
    ({"sizes": [1, 6, 2]}, "divide 2 inputs"), ({"sigma": 0.0}, "must be positive")])
def test_faults_are_sentences(change, message):
    with pytest.raises(ValueError, match=message):
        network(**{**PLANE, **change})
