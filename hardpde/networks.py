"""Networks, and their jets: the value and its tangents carried through together.

A jet has shape (1 + c, n, width): the value at n points and its derivative along c coordinates, so that
one matrix product per layer serves all of them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array


class MLP(eqx.Module):
    """tanh layers. A leading axis on every weight makes a stack of networks that run as one batched product."""

    weights: list[Array]
    biases: list[Array]

    def jet(self, inputs: Array) -> Array:
        """(1 + c, n, in) → (1 + c, n, out); a stack of k networks: (k, 1 + c, n, out), same inputs for all."""
        if self.weights[0].ndim == 3:
            return jax.vmap(lambda ws, bs: _jet(ws, bs, inputs))(self.weights, self.biases)
        return _jet(self.weights, self.biases, inputs)


def _jet(weights: list[Array], biases: list[Array], jet: Array) -> Array:
    for w, b in zip(weights[:-1], biases[:-1]):
        z = _product(jet, w)
        value = jnp.tanh(z[0] + b)
        slope = 1 - value * value
        jet = jnp.concatenate([value[None], z[1:] * slope])
    z = _product(jet, weights[-1])
    return jnp.concatenate([z[:1] + biases[-1], z[1:]])


def _product(jet: Array, w: Array) -> Array:
    """One two-dimensional product for the value and all tangents."""
    c, n, width = jet.shape
    flat = jnp.dot(jet.reshape(c * n, width), w, precision="highest")
    return flat.reshape(c, n, w.shape[-1])


def mlp(key: Array, sizes: list[int], dtype=float, stack: int | None = None) -> MLP:
    """Glorot-normal weights and zero biases; `stack` networks at once if given."""
    lead = () if stack is None else (stack,)
    weights, biases = [], []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), zip(sizes[:-1], sizes[1:])):
        deviation = (2 / (i + o)) ** 0.5
        weights.append(deviation * jax.random.normal(k, (*lead, i, o), dtype))
        biases.append(jnp.zeros((*lead, o), dtype))
    return MLP(weights, biases)


def randomise(model, key: Array):
    """The same network with random weights and biases of unit size, for certificates."""
    leaves, tree = jax.tree.flatten(model)
    keys = jax.random.split(key, len(leaves))
    fresh = []
    for k, leaf in zip(keys, leaves):
        fan = leaf.shape[-2] if leaf.ndim > 1 else 1
        fresh.append(jax.random.normal(k, leaf.shape, leaf.dtype) / fan**0.5)
    return jax.tree.unflatten(tree, fresh)


def count(model) -> int:
    """How many weights a model has."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
