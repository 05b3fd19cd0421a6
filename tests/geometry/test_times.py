"""Points in time: times as the last coordinate, one for all or one for each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.geometry import at_times

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("t", [0.5, np.array([0.5, 1.5, 2.5]), np.array([[0.5], [1.5], [2.5]])])
def test_times_are_one_for_all_or_one_for_each(t):
    found = at_times(X, t)
    assert isinstance(found, np.ndarray) and np.array_equal(found[:, :2], X)
    assert np.array_equal(found[:, 2], np.broadcast_to(np.ravel(t), 3))
    for traced in (at_times(jnp.asarray(X), t), jax.jit(at_times)(X, t)):
        assert isinstance(traced, jax.Array) and np.array_equal(traced, found)
