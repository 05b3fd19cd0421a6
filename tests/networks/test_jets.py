"""Jets through networks: derivatives, however points are laid out, and products in full precision."""

from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from hardpde.networks import gpu
from hardpde.networks.cpu import dual_points_last, points_last
from hardpde.networks.gpu import full_precision, points_first, tanh_jet
from hardpde.networks.jets import multiply
from hardpde.networks.mlp import mlp, randomise
from hardpde.support.compiling import compiled_quickly
from helpers import close

pytestmark = pytest.mark.usefixtures("quick_compilation")

@pytest.mark.parametrize("stack", [None, 3])
def test_jets_of_networks_are_derivatives(stack):
    network = randomise(mlp(jax.random.key(0), [4, 6, 5, 2], stack=stack), jax.random.key(1))
    inputs = jax.random.normal(jax.random.key(2), (4, 3, 7))  # 4 inputs, 2 tangents, 7 points

    def plain(layers, x):
        for k, (w, b) in enumerate(layers):
            x = x @ w + b
            x = jnp.tanh(x) if k < len(layers) - 1 else x
        return x

    def jet(layers):
        value, tangents = inputs[:, 0].T, jnp.moveaxis(inputs[:, 1:], (0, 1, 2), (2, 0, 1))
        out = [jax.jvp(partial(plain, layers), (value,), (tangent,)) for tangent in tangents]
        return jnp.moveaxis(jnp.stack([out[0][0], *[t for _, t in out]]), (0, 1, 2), (1, 2, 0))

    layers = list(zip(network.weights, network.biases))
    expected = jet(layers) if stack is None else jnp.stack([jet([(w[k], b[k]) for w, b in layers]) for k in range(3)])
    first = jnp.moveaxis(points_first(layers, jnp.moveaxis(inputs, 0, -1)), -1, -3)
    for computed in (network.jet(inputs), points_last(layers, inputs), first):
        assert computed.shape == expected.shape
        assert np.abs(computed - expected).max() < 1e-13


WIDTHS = [3, 6, 2, 5, 2], [5, 7, 6], [6, 8, 12, 2]  # narrow ends and a narrow middle; none; widths that need no more
KINDS = {"one": (None, False), "a stack": (3, False), "a stack with inputs of its own": (3, True)}


@pytest.mark.parametrize("second, slots, few", [(0, 1, 1024), (0, 4, 1024), (2, 5, 1024), (6, 8, 1024), (0, 4, 3)])
def test_the_order_of_points_changes_nothing(second, slots, few, monkeypatch):
    """Of value and gradients, by weights and by inputs, whether a stack fills up its widths or not, and in how many
    parts it sums over rows."""
    monkeypatch.setattr(gpu, "FEW", few)
    random = np.random.default_rng(0)
    cases = []
    for widths in WIDTHS:
        for stack, own in KINDS.values():
            lead = [stack] * (stack is not None)
            layers = [(random.normal(size=(*lead, i, o)), random.normal(size=(*lead, o))) for i, o in pairwise(widths)]
            inputs = random.normal(size=(*[stack] * own, widths[0], slots, 6))
            cases.append((layers, inputs, random.normal(size=(*lead, widths[-1], slots, 6))))

    def last(layers, inputs):
        return points_last(layers, inputs, second)

    def first(layers, inputs):
        return jnp.moveaxis(points_first(layers, jnp.moveaxis(inputs, -3, -1), second), -1, -3)

    def through(f, layers, inputs, probe):
        return f(layers, inputs), jax.grad(lambda *z: (probe * f(*z)).sum(), (0, 1))(layers, inputs)

    one, two = jax.jit(lambda cases: [[through(f, *case) for case in cases] for f in (first, last)])(cases)
    assert [out.shape for out, _ in one] == [probe.shape for *_, probe in cases]
    assert all(close(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


@pytest.mark.parametrize("second, slots", [(0, 1), (0, 4), (2, 5), (6, 9)])
def test_the_order_of_points_changes_nothing_for_derivatives_along_a_direction(second, slots):
    random = np.random.default_rng(0)
    for widths in WIDTHS:
        layers = [(random.normal(size=(i, o)), random.normal(size=o)) for i, o in pairwise(widths)]
        inputs = random.normal(size=(2, widths[0], slots, 6))
        probe = random.normal(size=(2 * widths[-1], slots, 6))

        def first(layers, inputs):
            both = jnp.concatenate([jnp.moveaxis(jet, 0, -1) for jet in inputs])
            out = points_first(layers, both, second, dual=True)
            return jnp.concatenate([jnp.moveaxis(half, -1, 0) for half in jnp.split(out, 2)])

        def last(layers, inputs):
            return dual_points_last(layers, *inputs, second)

        def through(f, *z):
            return f(*z), jax.grad(lambda *z: (probe * f(*z)).sum(), (0, 1))(*z)  # noqa: B023

        one, two = jax.jit(lambda *z: [through(f, *z) for f in (first, last)])(layers, inputs)
        assert one[0].shape == probe.shape
        assert all(close(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


@pytest.mark.parametrize("dtype, capability, six", [
    ("float32", "9.0", True), ("float32", "8.0", True), ("float32", "7.5", False), ("float32", "gfx90a", False),
    ("float64", "9.0", False), ("float32", None, False)])
def test_products_are_in_full_precision_wherever_they_run(dtype, capability, six, monkeypatch):
    """In six of bfloat16 where there is such a thing, and in no less than single precision elsewhere."""
    known = {} if capability is None else {"compute_capability": capability}
    device = SimpleNamespace(**known)
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: jax.devices(backend) if backend else [device])
    array = jnp.zeros(1, dtype)
    wished = jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X6 if six else "highest"
    assert full_precision(array) == wished
    with compiled_quickly():  # on the CPU
        assert full_precision(array) == "highest"


@pytest.mark.parametrize("second, slots", [(0, 1), (0, 4), (1, 5), (2, 5), (0, 9), (6, 9), (7, 9)])
def test_the_gradient_of_tanh_is_written_out(second, slots):
    """h, (1 − h²) z_k, and (1 − h²) z_Δ − 2 h (1 − h²) Σ z_k² for the Laplacian; one slot, a few and many."""
    z, probe = np.random.default_rng(0).normal(size=(2, 3, slots, 6, 7))

    def written(z):
        h = jnp.tanh(z[:, 0])
        out = [h, *[(1 - h**2) * z[:, k] for k in range(1, z.shape[1])]]
        if second:
            out[-1] = out[-1] - 2 * h * (1 - h**2) * sum(z[:, k] ** 2 for k in range(1, 1 + second))
        return jnp.stack(out, axis=1)

    def through(f, z):
        return f(z), jax.grad(lambda z: (probe * f(z)).sum())(z)

    one, two = jax.jit(lambda z: (through(lambda z: tanh_jet(z, second), z), through(written, z)))(z)
    assert close(one[0], two[0]) and close(one[1], two[1])


@pytest.mark.parametrize("slots, points", [(4, 5), (3, 6)])
def test_jets_of_other_slots_or_points_do_not_multiply(slots, points):
    one, other = jnp.zeros((2, 3, 5)), jnp.zeros((2, slots, points))
    with pytest.raises(jaxtyping.TypeCheckError):
        multiply(one, other)
