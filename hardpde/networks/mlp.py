"""Networks, and their jets: the value and its tangents carried through together.

A jet has shape (width, 1 + c, n): the value at n points and its derivatives along c coordinates. A jet of second
order, (width, 2 + c, n), ends with the Laplacian, the sum of the second derivatives along the first `second`
coordinates; a layer carries it along (forward Laplacian), so that no Hessian is ever formed. On a CPU the
points stay last, along memory, which halves the time of a step; on a GPU the products run with points first.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from hardpde.networks.cpu import dual_points_last, points_last
from hardpde.networks.gpu import points_first
from hardpde.networks.jets import Biases, Jet, Weights
from hardpde.support.hardware import on_cpu

Model = TypeVar("Model")


class MLP(eqx.Module):
    """tanh layers. A leading axis on every weight makes a stack of networks that run as one batched product."""

    weights: list[Weights]
    biases: list[Biases]

    def jet(self, inputs: Jet, second: int = 0) -> Jet:
        """(in, 1 + c, n) → (out, 1 + c, n); a stack of k networks: (k, out, 1 + c, n), with the same inputs for all
        or inputs (k, in, 1 + c, n) of its own for each.

        second: how many coordinates the Laplacian in the last slot sums over; 0: there is none.
        """
        layers = list(zip(self.weights, self.biases))
        if on_cpu():
            return points_last(layers, inputs, second)
        return jnp.moveaxis(points_first(layers, jnp.moveaxis(inputs, -3, -1), second), -1, -3)

    def dual_jet(self, inputs: Jet, dual: Jet, second: int = 0) -> Jet:
        """The jet of the outputs and that of their derivative along a direction, one after the other: (2 out, …).

        `dual` is the jet of the derivative of the inputs along that direction.
        """
        layers = list(zip(self.weights, self.biases))
        if on_cpu():
            return dual_points_last(layers, inputs, dual, second)
        both = jnp.concatenate([jnp.moveaxis(jet, -3, -1) for jet in (inputs, dual)], axis=-3)
        out = jnp.moveaxis(points_first(layers, both, second, dual=True), -1, -3)
        return jnp.concatenate(jnp.split(out, 2, axis=-2), axis=-3)


def mlp(key: Array, sizes: Sequence[int], dtype: DTypeLike = float, stack: int | None = None) -> MLP:
    """Glorot-normal weights and zero biases; `stack` networks at once if given."""
    lead = () if stack is None else (stack,)
    weights, biases = [], []
    for k, (i, o) in zip(jax.random.split(key, len(sizes) - 1), pairwise(sizes)):
        deviation = (2 / (i + o)) ** 0.5
        weights.append(deviation * jax.random.normal(k, (*lead, i, o), dtype))
        biases.append(jnp.zeros((*lead, o), dtype))
    return MLP(weights, biases)


def randomise(model: Model, key: Array) -> Model:
    """Networks of the same sizes with random weights and biases that keep signals of unit size, for certificates."""
    networks, tree = jax.tree.flatten(model, is_leaf=lambda node: isinstance(node, MLP))
    fresh = []
    for network, k in zip(networks, jax.random.split(key, len(networks))):
        keys = iter(jax.random.split(k, 2 * len(network.weights)))
        weights = [jax.random.normal(next(keys), w.shape, w.dtype) / w.shape[-2] ** 0.5 for w in network.weights]
        biases = [jax.random.normal(next(keys), b.shape, b.dtype) for b in network.biases]
        fresh.append(MLP(weights, biases))
    return jax.tree.unflatten(tree, fresh)


def count(model: Any) -> int:
    """How many weights a model has."""
    return sum(leaf.size for leaf in jax.tree.leaves(model))
