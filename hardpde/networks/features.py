"""Random features: hidden units φ(w·y + b) that stay as they were drawn, under a last layer.

Their jets are closed forms, written once for NumPy and for JAX: a direct solve assembles its rows with the first, where
nothing has to be compiled, and evaluates its solution with the second.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hardpde.networks.jets import Jet
from hardpde.networks.mlp import MLP
from hardpde.networks.windows import Window, held_by, jet_times, window_jets
from hardpde.support.compiling import traced
from hardpde.support.hardware import on_cpu
from hardpde.support.threads import in_threads

BLOCK = 128  # points at which NumPy computes at once: what that takes stays in the cache


class Layer(NamedTuple):
    """Units of one kind: "tanh" or "sine" of w·y + b, or "power": e^(v·y) sin(w·y + b), with weights w (f, h), biases b
    (h,) and growth v (f, h). With y the logarithm and the direction of a place, the last is r^a sin(bθ + c)."""

    kind: str
    weights: Any
    biases: Any
    growth: Any = None

    @property
    def number(self) -> int:
        return len(self.biases)


class Local(NamedTuple):
    """Units tanh(w·y + b) in windows: weights w (k, f, h), biases b (k, h), and centres and halves (k, f) of windows.
    """

    kind: str
    weights: Any
    biases: Any
    centres: Any
    halves: Any

    @property
    def number(self) -> int:
        return self.biases.size

    def one(self, k: Any) -> tuple[Window, Layer]:
        """A window, and the units that are multiplied with it."""
        return Window(self.centres[k], self.halves[k]), Layer("tanh", self.weights[k], self.biases[k])


LOCAL = "local"  # the kind of units in windows
Units = tuple[Layer | Local, ...]  # the columns of their values one after the other


def of_kind(kind: str, *arrays: Any) -> Layer | Local:
    """Units of a kind with their arrays."""
    return Local(kind, *arrays) if kind == LOCAL else Layer(kind, *arrays)


class Source(NamedTuple):
    """What an output of the network is: column `column` of the last layer times the units, or, with axis k > 0, times
    their derivatives by coordinate k: outputs that share a column are a function and its slopes."""

    column: int
    axis: int = 0


def each_its_own(count: int) -> tuple[Source, ...]:
    """Outputs that share nothing."""
    return tuple(Source(o) for o in range(count))


def number(units: Units) -> int:
    """How many units there are."""
    return sum(layer.number for layer in units)


def parts(units: Units) -> Iterator[tuple[slice, Any]]:
    """Each layer and where its units stand among all."""
    start = 0
    for layer in units:
        yield slice(start, start + layer.number), layer
        start += layer.number


def in_turn(units: Units, last: Any, points: int) -> Iterator[tuple[Units, Any, int]]:
    """Units with their rows of a last layer (h, c), and at how many points NumPy computes them at once: those in
    windows at all, as a window holds few."""
    for where, layer in parts(units):
        yield (layer,), last[where], max(1, points) if isinstance(layer, Local) else BLOCK


def namespace(array: Any) -> ModuleType:
    """The library that computes with an array."""
    return jnp if isinstance(array, jax.Array) else np


class Waves(NamedTuple):
    """Units at points, (h, n): φ and its first three derivatives by w·y + b, and what turns inputs into that.

    Those of powers are complex, and what they stand for is the imaginary part.
    """

    value: Any
    first: Any
    second: Any
    third: Any
    along: Any  # (h, f)


def waves(layer: Layer, y: Any, most: int) -> Waves:
    """The units of a layer at inputs y (f, n), with the derivatives up to order `most`."""
    xp, w = namespace(y), layer.weights.T
    if layer.kind == "power":
        w = layer.growth.T + 1j * w
        value = xp.exp(w @ y + 1j * layer.biases[:, None])
        return Waves(value, value, value, value, w)
    z = w @ y + layer.biases[:, None]
    if layer.kind == "sine":
        sine, cosine = xp.sin(z), xp.cos(z)
        return Waves(sine, cosine, -sine if most > 1 else None, -cosine if most > 2 else None, w)
    h = xp.tanh(z)
    s = 1 - h * h
    return Waves(h, s, -2 * h * s if most > 1 else None, s * (6 * h * h - 2) if most > 2 else None, w)


def used(layer: Layer) -> tuple[Layer, Any]:
    """A layer without the inputs that none of its units sees, and the numbers of the others."""
    seen = np.abs(layer.weights).max(1) > 0
    if layer.growth is not None:
        seen |= np.abs(layer.growth).max(1) > 0
    which = np.flatnonzero(seen)
    growth = None if layer.growth is None else layer.growth[which]
    return Layer(layer.kind, layer.weights[which], layer.biases, growth), which


def real(layer: Layer, values: Any) -> Any:
    """What the numbers of a layer stand for."""
    return values.imag if layer.kind == "power" else values


def outputs(units: Units, last: Any, y: Any, dual: Any, second: int) -> Any:
    """The jet (o, slots, n) of N = Wᵀ φ for inputs y (f, slots, n), W = `last` (h, o); with `dual`, the jet of the
    derivative of the inputs along a direction, that of N along it too, (2 o, slots, n).

    second: how many coordinates the Laplacian in the last slot sums over; 0: there is none.
    """
    plain, *steep = _summed(units, last.T, y, () if dual is None else (dual,), second)
    return plain if dual is None else namespace(y).concatenate([plain, *steep])


def outputs_of(sources: tuple[Source, ...], units: Units, last: Any, y: Any, slopes: Any, second: int) -> Any:
    """As `outputs`, for outputs of which some are slopes of others; slopes (d, f, slots, n): jets of the derivatives of
    the inputs by each coordinate."""
    found = _summed(units, last.T, y, tuple(slopes), second)
    return namespace(y).stack([found[source.axis][source.column] for source in sources])


def _summed(units: Units, last: Any, y: Any, directions: tuple[Any, ...], second: int) -> list[Any]:
    """The jets of W φ, W (o, h), and of its derivatives along directions, each (o, slots, n)."""
    jets = [_jets(layer, last[:, where], y, directions, second) for where, layer in parts(units)]
    return [sum(own) for own in zip(*jets)]


def _jets(layer: Layer | Local, last: Any, y: Any, directions: tuple[Any, ...], second: int) -> list[Any]:
    xp = namespace(y)
    if isinstance(layer, Local):
        return (_local_jets if xp is np else _all_local_jets)(layer, last, y, directions, second)
    if xp is np:
        layer, which = used(layer)
        y, directions = y[which], tuple(direction[which] for direction in directions)
    phi = waves(layer, y[:, 0], 1 + bool(second) + bool(directions))
    along = [phi.along @ y[:, k] for k in range(1, y.shape[1])]
    spread = sum(z * z for z in along[:second])
    jet = [phi.value, *(phi.first * z for z in along)]
    if second:
        jet[-1] = jet[-1] + phi.second * spread
    jets = [jet]
    for direction in directions:
        steep = [phi.along @ direction[:, k] for k in range(direction.shape[1])]
        slope = [phi.first * steep[0],
                 *(phi.second * steep[0] * z + phi.first * t for z, t in zip(along, steep[1:]))]
        if second:
            mixed = sum(z * t for z, t in zip(along[:second], steep[1:]))
            slope[-1] = slope[-1] + phi.third * spread * steep[0] + 2 * phi.second * mixed
        jets.append(slope)
    return [xp.stack([last @ real(layer, one) for one in jet], axis=1) for jet in jets]


def _local_jets(local: Local, last: np.ndarray, y: np.ndarray, directions: tuple[np.ndarray, ...], second: int
                ) -> list[np.ndarray]:
    """As `_jets`, each window at the points that it holds."""
    own = last.reshape(len(last), *local.biases.shape)
    found = [np.zeros((len(last), *y.shape[1:])) for _ in range(1 + len(directions))]
    for k, which in held_by(local.centres, local.halves, y[:, 0]):
        steep = tuple(direction[..., which] for direction in directions)
        for whole, part in zip(found, _in_window(*local.one(k), own[:, k], y[..., which], steep, second)):
            whole[..., which] += part
    return found


def _all_local_jets(local: Local, last: Any, y: Any, directions: tuple[Any, ...], second: int) -> list[Any]:
    """As `_jets`, one window after the other at all points, where all is compiled."""
    own = jnp.moveaxis(last.reshape(len(last), *local.biases.shape), 1, 0)

    def add(found: list[Any], one: tuple[Any, ...]) -> tuple[list[Any], None]:
        w, b, centre, half, weights = one
        more = _in_window(Window(centre, half), Layer("tanh", w, b), weights, y, directions, second)
        return [whole + part for whole, part in zip(found, more)], None

    zero = [jnp.zeros((len(last), *y.shape[1:]), y.dtype) for _ in range(1 + len(directions))]
    return jax.lax.scan(add, zero, (local.weights, local.biases, local.centres, local.halves, own))[0]


def _in_window(window: Window, layer: Layer, last: Any, y: Any, directions: tuple[Any, ...], second: int) -> list[Any]:
    """The jets of a window times W φ, W (o, h), and of their derivatives along directions."""
    bump, *falls = window_jets(window, y, directions, second)
    plain, *steep = _jets(layer, last, y, directions, second)
    return [jet_times(bump, plain, second),
            *(jet_times(fall, plain, second) + jet_times(bump, slope, second) for fall, slope in zip(falls, steep))]


class RandomFeatures(eqx.Module):
    """N(y) = Wᵀ φ(y): units that stay and W = `last` (h, columns). With a trained network `base`, N is added to its
    outputs, and its last hidden layer is more inputs of the units. With `sources` outputs share columns, and the inputs
    of the units are followed by their derivatives by each coordinate."""

    arrays: tuple[tuple[Any, ...], ...]  # of each layer: weights, biases, growth if it has some
    last: Any
    base: MLP | None = None
    kinds: tuple[str, ...] = eqx.field(static=True, default=())
    sources: tuple[Source, ...] = eqx.field(static=True, default=())

    @property
    def by_numpy(self) -> bool:
        """Whether jets are computed by NumPy where nothing is traced: then no caller need compile this."""
        return self.base is None and on_cpu()

    def jet(self, inputs: Jet, second: int = 0) -> Jet:
        """As `MLP.jet`: (f, slots, n) → (o, slots, n)."""
        if self.by_numpy and not any(map(traced, jax.tree.leaves((self, inputs)))):
            return self._in_blocks(inputs, None, second)
        if self.sources:
            y, slopes = with_slopes_apart(inputs, self.arrays[0][0].shape[-2])
            return outputs_of(self.sources, self.units, self.last, y, slopes, second)
        found = outputs(self.units, self.last, seen(self.base, inputs, second), None, second)
        return found if self.base is None else found + self.base.jet(inputs, second)

    def dual_jet(self, inputs: Jet, dual: Jet, second: int = 0) -> Jet:
        """As `MLP.dual_jet`: (2 o, slots, n)."""
        if self.by_numpy and not any(map(traced, jax.tree.leaves((self, inputs)))):
            return self._in_blocks(inputs, dual, second)
        found = outputs(self.units, self.last, *seen_along(self.base, inputs, dual, second), second)
        return found if self.base is None else found + self.base.dual_jet(inputs, dual, second)

    def _in_blocks(self, inputs: Jet, dual: Jet | None, second: int) -> Jet:
        """Jets by NumPy, each core its own points."""
        y, last, along = np.asarray(inputs), np.asarray(self.last), None if dual is None else np.asarray(dual)
        units = tuple(of_kind(kind, *map(np.asarray, arrays)) for kind, arrays in zip(self.kinds, self.arrays))
        number = len(self.sources) or last.shape[1] * (1 if dual is None else 2)
        found = np.zeros((number, *y.shape[1:]))
        for some, weights, size in in_turn(units, last, y.shape[-1]):

            def block(start: int, some: Units = some, weights: Any = weights, size: int = size) -> None:
                part = slice(start, start + size)
                if self.sources:
                    own = with_slopes_apart(y[..., part], self.arrays[0][0].shape[-2])
                    found[..., part] += outputs_of(self.sources, some, weights, *own, second)
                else:
                    found[..., part] += outputs(some, weights, y[..., part],
                                                None if along is None else along[..., part], second)

            in_threads(block, range(0, y.shape[-1], size))
        return jnp.asarray(found)

    @property
    def units(self) -> Units:
        return tuple(of_kind(kind, *arrays) for kind, arrays in zip(self.kinds, self.arrays))


def with_slopes_apart(inputs: Any, count: int) -> tuple[Any, Any]:
    """Inputs (count, slots, n) and their derivatives by the coordinates (d, count, slots, n), of both in a row."""
    return inputs[:count], inputs[count:].reshape(-1, count, *inputs.shape[1:])


def random_features(units: Units, last: np.ndarray, base: MLP | None = None,
                    sources: tuple[Source, ...] = ()) -> RandomFeatures:
    """Units with a last layer as a network."""
    arrays = tuple(tuple(jnp.asarray(array) for array in layer[1:] if array is not None) for layer in units)
    return RandomFeatures(arrays, jnp.asarray(last), base, tuple(layer.kind for layer in units), sources)


def seen(base: MLP | None, inputs: Jet, second: int) -> Jet:
    """What features are given: the inputs, then the last hidden layer of a trained network."""
    return inputs if base is None else jnp.concatenate([inputs, _hidden(base).jet(inputs, second)])


def seen_along(base: MLP | None, inputs: Jet, dual: Jet, second: int) -> tuple[Jet, Jet]:
    """The same with the jets of derivatives along a direction."""
    if base is None:
        return inputs, dual
    hidden, slope = jnp.split(_hidden(base).dual_jet(inputs, dual, second), 2)
    return jnp.concatenate([inputs, hidden]), jnp.concatenate([dual, slope])


def _hidden(base: MLP) -> MLP:
    """The network whose outputs are the last hidden layer of another one."""
    width = base.biases[-2].size
    return MLP([*base.weights[:-1], jnp.eye(width)], [*base.biases[:-1], jnp.zeros(width)])
