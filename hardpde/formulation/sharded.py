"""Several devices: each has an equal share of the points, all of them have the weights.

The cores of a CPU are such devices too. Within one device XLA shares out the work of every small operation, which on
two cores takes longer than on one; with half of the points each, they take half the time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hardpde.formulation.batch import Batch, Shard, join_batch, split_batch, uncut
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model
from hardpde.support.hardware import check_devices

AXIS = "points"
EACH, ALL = PartitionSpec(AXIS), PartitionSpec()


@dataclass(frozen=True, eq=False)
class Sharded:
    """A formulation whose points lie on the devices of a mesh; to train, it is used like the formulation itself.

    Every array of a batch has the devices along its first axis. The points are those that one device would draw:
    all devices choose all of them, and each prepares its own. Each finds the mean over its points; one message
    between all devices makes it the mean over all points.
    """

    one: Formulation  # what a device computes with its own points
    mesh: Mesh

    @property
    def init(self) -> Callable[[Array], Model]:
        return self.one.init

    @property
    def weights(self) -> np.ndarray:
        return self.one.weights

    @property
    def balance(self) -> Any:
        return self.one.balance

    def draw(self, key: Array, model: Model | None = None) -> Batch:
        """The points that the formulation draws, on their devices."""
        draw = self._handed_out(self.one.draw) if self._by_cores(key) else self._draw
        return draw(key, model)

    def draw_held_out(self, key: Array, model: Model | None = None) -> Batch:
        """Points that do not follow the model, on their devices."""
        draw = self._handed_out(self.one.draw_held_out) if self._by_cores(key) else self._draw_held_out
        return draw(key, model)

    def _by_cores(self, key: Array) -> bool:
        """Whether one core draws the points of all: then what draws them need not be compiled for several."""
        return (jax.process_count() == 1 and self.one.separable and not isinstance(key, jax.core.Tracer)
                and self.mesh.devices.flat[0].platform == "cpu")

    def _handed_out(self, draw: Callable[..., Batch]) -> Callable[..., Batch]:
        def handed_out(key: Array, model: Model | None) -> Batch:
            there = None if model is None else jax.device_put(model, self.mesh.devices.flat[0])
            return jax.device_put(self._shares(draw(key, there)), NamedSharding(self.mesh, EACH))

        return handed_out

    @cached_property
    def _shares(self) -> Callable[[Batch], Batch]:
        return jax.jit(lambda batch: split_batch(batch, self.mesh.size))

    @cached_property
    def _draw(self) -> Callable[..., Batch]:
        return self._drawing(self.one.draw)

    @cached_property
    def _draw_held_out(self) -> Callable[..., Batch]:
        return self._drawing(self.one.draw_held_out)

    def _drawing(self, draw: Callable[..., Batch]) -> Callable[..., Batch]:
        def own(key: Array, model: Model | None) -> Batch:
            own_shard = Shard(jax.lax.axis_index(AXIS), self.mesh.size)
            return jax.tree.map(lambda a: a[None], draw(key, model, own_shard))

        return jax.jit(jax.shard_map(own, mesh=self.mesh, in_specs=ALL, out_specs=EACH, check_vma=False))

    def in_parts(self, batch: Batch) -> Batch:
        """The points of each device cut into its chunks."""
        return batch if self.one.chunks == 1 else self._in_parts(batch)

    @cached_property
    def _in_parts(self) -> Callable[[Batch], Batch]:
        def own(batch: Batch) -> Batch:
            return jax.tree.map(lambda a: a[None], self.one.in_parts(jax.tree.map(lambda a: a[0], batch)))

        return jax.jit(jax.shard_map(own, mesh=self.mesh, in_specs=EACH, out_specs=EACH, check_vma=False))

    def loss(self, model: Model, batch: Batch) -> Array:
        """The mean of the losses of all devices."""
        return self._mean(self.one.loss, model, batch)

    def value_and_grad(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The loss and its gradient."""
        return self._mean(self.one.value_and_grad, model, batch)

    def term_gradients(self, model: Model, batch: Batch) -> tuple[Array, Model]:
        """The terms of the loss without their weights, and their gradients."""
        return self._mean(self.one.term_gradients, model, batch)

    def rebalance(self, model: Model, batch: Batch) -> tuple[Array, Array, Model]:
        """New weights of the terms, then the loss with them and its gradient."""
        losses, gradients = self.term_gradients(model, batch)
        everything = join_batch(jax.vmap(uncut)(batch._replace(weights=None)))
        return self.one.reweighed(losses, gradients, model, everything._replace(weights=batch.weights))

    def residual_vector(self, model: Model, batch: Batch) -> Array:
        """The rows of all devices, one after the other."""
        return self._rows(self.one.residual_vector, model, batch)

    def jacobian(self, model: Model, batch: Batch) -> Model:
        """Derivative of `residual_vector` by every weight."""
        return self._rows(self.one.jacobian, model, batch)

    def _mean(self, function: Callable[[Model, Batch], Any], model: Model, batch: Batch) -> Any:
        def mean(found: Any) -> Any:
            flat, shaped = ravel_pytree(found)  # one message, not one for each array
            return shaped(jax.lax.pmean(flat, AXIS))

        return self._on_each(function, mean, ALL, model, batch)

    def _rows(self, function: Callable[[Model, Batch], Any], model: Model, batch: Batch) -> Any:
        def scaled(found: Any) -> Any:
            return jax.tree.map(lambda a: a / np.sqrt(self.mesh.size), found)

        return self._on_each(function, scaled, EACH, model, batch)

    def _on_each(self, function: Callable[[Model, Batch], Any], after: Callable[[Any], Any], out: PartitionSpec,
                    model: Model, batch: Batch) -> Any:
        """A function of the model and the batch on every device, with its own points, and what is done then."""

        def own(model: Model, weights: Array | None, batch: Batch) -> Any:
            part = jax.tree.map(lambda a: a[0], batch)
            return after(function(model, part._replace(weights=weights)))

        each = jax.shard_map(own, mesh=self.mesh, in_specs=(ALL, ALL, EACH), out_specs=out, check_vma=False)
        return each(model, batch.weights, batch._replace(weights=None))


def shard(formulation: Formulation) -> Formulation | Sharded:
    """A formulation on as many devices as it was made for."""
    if formulation.devices == 1:
        return formulation
    own = replace(formulation, chunks=max(1, formulation.chunks // formulation.devices))
    return Sharded(own, make_mesh(formulation.devices))


def make_mesh(number: int) -> Mesh:
    """The first devices there are, in a row; of several processes, all devices of all of them."""
    check_devices(number)
    return Mesh(np.array(jax.devices()[:number]), (AXIS,))
