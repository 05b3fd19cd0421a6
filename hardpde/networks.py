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
        jet = inputs
        if self.weights[0].ndim == 3:
            jet = jnp.broadcast_to(inputs, (self.weights[0].shape[0], *inputs.shape))
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            z = _product(jet, w)
            value = jnp.tanh(z[..., :1, :, :] + b[..., None, None, :])
            jet = jnp.concatenate([value, z[..., 1:, :, :] * (1 - value * value)], axis=-3)
        z = _product(jet, self.weights[-1])
        return jnp.concatenate([z[..., :1, :, :] + self.biases[-1][..., None, None, :], z[..., 1:, :, :]], axis=-3)


def _product(jet: Array, w: Array) -> Array:
    """One product for the value and all tangents: (…, 1 + c, n, i) × (…, i, o)."""
    *lead, c, n, width = jet.shape
    flat = jnp.matmul(jet.reshape(*lead, c * n, width), w, precision="highest")
    return flat.reshape(*lead, c, n, w.shape[-1])


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
    """The same networks with random weights and biases that keep signals of unit size, for certificates."""
    networks, tree = jax.tree.flatten(model, is_leaf=lambda node: isinstance(node, MLP))
    fresh = []
    for network, k in zip(networks, jax.random.split(key, len(networks))):
        keys = iter(jax.random.split(k, 2 * len(network.weights)))
        weights = [jax.random.normal(next(keys), w.shape, w.dtype) / w.shape[-2] ** 0.5 for w in network.weights]
        biases = [jax.random.normal(next(keys), b.shape, b.dtype) for b in network.biases]
        fresh.append(MLP(weights, biases))
    return jax.tree.unflatten(tree, fresh)


def count(model) -> int:
    """How many weights a model has."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
