"""The Runge–Kutta method has the order it states, the ladder of steps meets the end, cubic pieces fit cubics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.direct.runge_kutta import DAMPING, FINEST, KEEPING, Ladder
from hardpde.networks.features import Layer, Source, each_its_own
from hardpde.networks.marched import marched


def conditions(a, b, order):
    """What the weights b miss of the conditions of an order, one for each tree."""
    c = a.sum(1)
    sums = {1: [b.sum() - 1], 2: [b @ c - 1 / 2], 3: [b @ c**2 - 1 / 3, b @ a @ c - 1 / 6],
            4: [b @ c**3 - 1 / 4, (b * c) @ a @ c - 1 / 8, b @ a @ c**2 - 1 / 12, b @ a @ a @ c - 1 / 24]}
    return np.array([miss for k in range(1, order + 1) for miss in sums[k]])


def test_conditions_of_order():
    assert np.abs(conditions(DAMPING.a, DAMPING.b, DAMPING.order)).max() < 1e-14
    assert np.abs(conditions(DAMPING.a, DAMPING.other, DAMPING.lower)).max() < 1e-14
    assert np.abs(conditions(DAMPING.a, DAMPING.other, DAMPING.order)).max() > 1e-3
    assert not np.triu(DAMPING.a, 1).any() and not DAMPING.together and KEEPING.together


def test_collocation_integrates_polynomials():
    a, b, c, s = KEEPING.a, KEEPING.b, KEEPING.c, KEEPING.stages
    for k in range(1, KEEPING.order + 1):
        assert abs(b @ c ** (k - 1) - 1 / k) < 1e-14
    for k in range(1, s + 1):
        np.testing.assert_allclose(a @ c ** (k - 1), c**k / k, atol=1e-14)
    misses = [KEEPING.other @ c ** (k - 1) - 1 / k for k in range(1, s + 1)]
    assert np.abs(misses[:-1]).max() < 1e-14 and abs(misses[-1]) > 1e-5


def test_what_a_step_resolves_keeps_its_energy_and_what_it_does_not_is_damped():
    energy = np.array([abs(KEEPING.stability(1j * y)) for y in np.logspace(-2, 9, 400)])
    assert energy.max() <= 1 + 1e-12 and energy[-1] < 1e-6 and abs(KEEPING.stability(-1e12)) < 1e-6
    assert 0 < 1 - abs(KEEPING.stability(0.8j)) < 1e-9 < 1e-6 < 1 - abs(DAMPING.stability(0.8j))
    orders = np.log2((1 - abs(KEEPING.stability(2j))) / (1 - abs(KEEPING.stability(1j))))
    assert 9.5 < orders < 10.5


def test_what_is_fast_is_damped():
    left = -np.logspace(-2, 8, 40)[:, None] + 1j * np.logspace(-2, 8, 40)
    assert max(abs(DAMPING.stability(z)) for z in left.ravel()) < 1
    assert max(abs(DAMPING.stability(1j * y)) for y in np.logspace(-2, 4, 200)) <= 1 + 1e-12
    assert abs(DAMPING.stability(-1e9)) < 1e-7
    np.testing.assert_array_equal(DAMPING.a[-1], DAMPING.b)


@pytest.mark.parametrize("method, few", [(DAMPING, 10), (KEEPING, 4)])
def test_the_error_of_a_nonlinear_equation_falls_with_the_order(method, few):
    """u' = −u² + cos t and a rotation, by fixed-point iterations in each stage."""
    def slope(t, u):
        return np.array([-u[0] ** 2 + np.cos(t), u[2], -u[1] + 0.1 * u[0] * u[1]])

    def end(steps):
        u, h = np.array([1.0, 0.3, -0.2]), 2.0 / steps
        for n in range(steps):
            k = np.zeros((method.stages, 3))
            for _ in range(80):
                for i in range(method.stages):
                    k[i] = slope((n + method.c[i]) * h, u + h * method.a[i] @ k)
            u = u + h * method.b @ k
        return u

    fine = end(16 * few)
    errors = [np.abs(end(steps) - fine).max() for steps in (few, 2 * few)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (orders > method.order - 0.5).all() and (orders < method.order + 1.2).all()


def test_the_ladder_meets_the_end_whatever_the_errors_are():
    random = np.random.default_rng(0)
    ladder, times = Ladder(3), [0.0]
    while not ladder.ended:
        if random.random() < 0.2:
            ladder.rejected(random.uniform(1, 100), 3)
            continue
        assert ladder.at % ladder.length == 0
        ladder.accepted(10 ** random.uniform(-8, 0), 3)
        times.append(ladder.passed)
    assert ladder.at == 1 << FINEST and times[-1] == 1.0
    assert (np.diff(times) > 0).all()


def test_errors_that_are_not_finite_shorten_the_step():
    ladder = Ladder(2)
    ladder.rejected(float("nan"), 3)
    assert ladder.rung > 2


@pytest.mark.parametrize("shared, stages", [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_a_layer_that_depends_on_time_is_exact_for_cubics(shared, stages):
    """Values and derivatives by space and time; by NumPy, and compiled, at one time and at many."""
    random = np.random.default_rng(1)
    weights, biases = np.vstack([random.standard_normal((2, 5)), np.zeros(5)]), random.standard_normal(5)
    a = random.standard_normal((4, 5, 1 if shared else 2))
    times = np.array([0.0, 0.3, 0.6, 0.75, 0.8, 1.0, 1.2])
    values = np.stack([np.polyval(a, t) for t in times])
    slopes = np.stack([np.polyval([3 * a[0], 2 * a[1], a[2]], t) for t in times])
    sources = (Source(0), Source(0, 1), Source(0, 2)) if shared else each_its_own(2)
    model = marched((Layer("tanh", weights, biases),), times, values, slopes, sources, 3, stages)

    def inputs(x):
        y = jnp.concatenate([x[:2], x[2:]])
        return jnp.concatenate([y, jnp.eye(3)[:2].ravel()]) if shared else y

    def value(x):
        def plain(space):
            layer = sum(part * x[2] ** (3 - k) for k, part in enumerate(a))
            return layer.T @ jnp.tanh(weights[:2].T @ space + biases)

        return jnp.concatenate([plain(x[:2]), jax.jacfwd(plain)(x[:2])[0]]) if shared else plain(x[:2])

    for t in (np.full(40, 0.7), random.uniform(0, 1.2, 40)):
        x = jnp.asarray(np.column_stack([random.uniform(-1, 1, (40, 2)), t]))
        jets = jnp.stack([jnp.moveaxis(jax.vmap(inputs)(x), 0, -1),
                          *jnp.moveaxis(jax.vmap(jax.jacfwd(inputs))(x), (0, 2), (2, 0))], axis=1)
        wished = np.stack([jax.vmap(value)(x).T, *jnp.moveaxis(jax.vmap(jax.jacfwd(value))(x), (0, 2), (2, 0))], axis=1)
        for found in (model.jet(jets), jax.jit(lambda model, jets: model.jet(jets))(model, jets)):
            np.testing.assert_allclose(found, wished, atol=1e-12)
