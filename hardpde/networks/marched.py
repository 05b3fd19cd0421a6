"""Features of space under a last layer that depends on time: N(y, t) = W(t)ᵀ φ(y).

W(t) is known with its slope at instants, the knots, and cubic between them (Hermite); or it is the polynomial through
the knots of a step, the first one and those of its stages.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.networks.features import Layer, Source, Units, outputs, outputs_of, with_slopes_apart
from hardpde.networks.jets import Jet
from hardpde.support.compiling import traced
from hardpde.support.hardware import on_cpu, one_thread_in_libraries
from hardpde.support.threads import in_threads

IN_A_BLOCK = 256  # points that are evaluated at once by NumPy
AT_ONCE = 64  # points at different times that are evaluated at once


class Marched(eqx.Module):
    """W(t)ᵀ φ(y); t is the last of the inputs, and no unit sees it. With `sources` outputs share columns; inputs are
    followed by their derivatives by each coordinate of space.

    times (k,), values and slopes (k, h, c): the last layer at the knots; NaN after the last one, where a march has
    ended early. time_slot: where jets have their derivatives by time. stages: knots after the first one in a step; 1:
    cubic pieces.
    """

    arrays: tuple[tuple[Any, ...], ...]
    times: Any
    values: Any
    slopes: Any
    kinds: tuple[str, ...] = eqx.field(static=True)
    sources: tuple[Source, ...] = eqx.field(static=True)
    time_slot: int = eqx.field(static=True)
    stages: int = eqx.field(static=True, default=1)

    @property
    def units(self) -> Units:
        return tuple(Layer(kind, *arrays) for kind, arrays in zip(self.kinds, self.arrays))

    @property
    def by_numpy(self) -> bool:
        """As for `RandomFeatures`."""
        return on_cpu()

    def jet(self, inputs: Jet, second: int = 0) -> Jet:
        """As `MLP.jet`: (f, slots, n) → (o, slots, n)."""
        if self.by_numpy and not traced(inputs):
            return self._step_by_step(inputs, None, second)
        count = self.arrays[0][0].shape[0]
        if any(source.axis for source in self.sources):
            y, steep = with_slopes_apart(inputs, count)
            return self._evaluated(y, steep, lambda last, y, steep: outputs_of(
                self.sources, self.units, last, y, steep, second))
        return self._evaluated(inputs, inputs[:0], lambda last, y, steep: outputs(self.units, last, y, None, second))

    def dual_jet(self, inputs: Jet, dual: Jet, second: int = 0) -> Jet:
        """As `MLP.dual_jet`: (2 o, slots, n)."""
        if self.by_numpy and not traced(inputs):
            return self._step_by_step(inputs, dual, second)
        return self._evaluated(inputs, dual, lambda last, y, dual: outputs(self.units, last, y, dual, second))

    def _evaluated(self, y: Array, more: Array, function: Any) -> Array:
        """A function of the last layer and of the jets of the inputs, with what time adds to its derivatives; `more`
        has its points last as well."""
        t = y[-1, 0]

        def whole(last: Array, slope: Array, y: Array, more: Array) -> Array:
            out = function(last, y, more)
            if out.shape[1] == 1:
                return out
            steep = function(slope, y[:, :1], more[..., :1, :])
            return out.at[:, self.time_slot].add(steep[:, 0])

        def together(y: Array, more: Array) -> Array:
            return whole(*self.at(t[0]), y, more)

        def one_by_one(y: Array, more: Array) -> Array:
            def one(point: tuple[Array, Array]) -> Array:
                y, more = point
                return whole(*self.at(y[-1, 0]), y[..., None], more[..., None])[..., 0]

            points = jnp.moveaxis(y, -1, 0), jnp.moveaxis(more, -1, 0)
            return jnp.moveaxis(jax.lax.map(one, points, batch_size=AT_ONCE), 0, -1)

        return jax.lax.cond((t == t[0]).all(), together, one_by_one, y, more)

    def _step_by_step(self, inputs: Jet, dual: Jet | None, second: int) -> Jet:
        """Jets by NumPy, the points of one step after those of another, each core its own points."""
        shared = any(source.axis for source in self.sources)
        y, steep = np.asarray(inputs), None if dual is None else np.asarray(dual)
        if shared:
            y, steep = with_slopes_apart(y, self.arrays[0][0].shape[0])
        times, (values, slopes) = np.asarray(self.times), map(np.asarray, (self.values, self.slopes))
        units = tuple(Layer(kind, *map(np.asarray, arrays)) for kind, arrays in zip(self.kinds, self.arrays))
        out = np.zeros((len(self.sources) * (1 if shared or dual is None else 2), *y.shape[1:]))
        t = y[-1, 0]
        numbers = polynomial_starts(times, t, self.stages)
        columns = values.shape[2]
        blocks = []
        for k in np.unique(numbers):
            which = np.flatnonzero(numbers == k)
            ends = polynomial_parts(values, slopes, k, self.stages)
            blocks += [(which[i : i + IN_A_BLOCK], k, ends) for i in range(0, len(which), IN_A_BLOCK)]

        def block(number: int) -> None:
            which, k, ends = blocks[number]
            weights, rates = polynomial_weights(times[k : k + self.stages + 1], t[which])
            if (t[which] == t[which[0]]).all():  # one layer for all of them, and its slope
                pairs = [sum(w[0] * end for w, end in zip(own, ends)) for own in (weights, rates)]
                one, zero = np.ones(len(which)), np.zeros(len(which))
                ends, weights, rates = tuple(pairs), (one, zero), (zero, one)
            own, along = y[..., which], None if steep is None else steep[..., which]
            last = np.concatenate(ends, axis=1)
            if shared:
                several = tuple(Source(source.column + i * columns, source.axis)
                                for i in range(len(ends)) for source in self.sources)
                found = outputs_of(several, units, last, own, along, second)
                found = found.reshape(len(ends), -1, *found.shape[1:])
            else:
                found = outputs(units, last, own, along, second)
                found = found.reshape(1 if dual is None else 2, len(ends), columns, *found.shape[1:])
                found = np.moveaxis(found, 1, 0).reshape(len(ends), -1, *found.shape[3:])
            jet = sum(w * part for w, part in zip(weights, found))
            if jet.shape[1] > 1:
                jet[:, self.time_slot] += sum(rate * part[:, 0] for rate, part in zip(rates, found))
            out[..., which] = np.where(t[which] > times[-1], np.nan, jet)

        with one_thread_in_libraries():
            in_threads(block, range(len(blocks)))
        return jnp.asarray(out)

    def at(self, t: Array) -> tuple[Array, Array]:
        """The last layer and its slope (h, c) at a time."""
        k = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        k = k // self.stages * self.stages
        value, slope = polynomial_weights([self.times[k + i] for i in range(self.stages + 1)], t)
        parts = polynomial_parts(self.values, self.slopes, k, self.stages)
        value, slope = (tuple(jnp.where(t > self.times[-1], jnp.nan, w) for w in own) for own in (value, slope))
        return (sum(weight * part for weight, part in zip(value, parts)),
                sum(weight * part for weight, part in zip(slope, parts)))  # type: ignore[return-value]


def polynomial_starts(times: np.ndarray, t: Any, stages: int) -> np.ndarray:
    """The number of the first knot of the polynomial at each time."""
    return np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2) // stages * stages


def polynomial_parts(values: Any, slopes: Any, k: Any, stages: int) -> tuple[Any, ...]:
    """What the polynomial that begins at knot k is made of."""
    if stages == 1:
        return values[k], slopes[k], values[k + 1], slopes[k + 1]
    return tuple(values[k + i] for i in range(stages + 1))


def polynomial_weights(knots: Any, t: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What each of these weighs at times t, given the times of the knots of a polynomial; and by how much that changes.
    """
    if len(knots) == 2:
        step = knots[1] - knots[0]
        return hermite((t - knots[0]) / step, step)
    weights, rates = [], []
    for j, own in enumerate(knots):
        factors = [((t - other) / (own - other), 1 / (own - other)) for m, other in enumerate(knots) if m != j]
        weights.append(math.prod((one for one, _ in factors), start=t * 0 + 1))
        rates.append(sum(rate * math.prod((one for one, _ in factors[:m] + factors[m + 1 :]), start=t * 0 + 1)
                         for m, (_, rate) in enumerate(factors)))
    return tuple(weights), tuple(rates)


def hermite(s: Any, step: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What the value and the slope at both ends of a step weigh at a part s of it, for the value and for the slope."""
    back = 1 - s
    value = back * back * (1 + 2 * s), s * back * back * step, s * s * (3 - 2 * s), -s * s * back * step
    slope = -6 * s * back / step, back * (1 - 3 * s), 6 * s * back / step, s * (3 * s - 2)
    return value, slope


def marched(units: Units, times: np.ndarray, values: np.ndarray, slopes: np.ndarray, sources: tuple[Source, ...],
            time_slot: int, stages: int = 1) -> Marched:
    """Units with the last layer at knots as a network."""
    arrays = tuple(tuple(jnp.asarray(array) for array in layer[1:] if array is not None) for layer in units)
    return Marched(arrays, jnp.asarray(times), jnp.asarray(values), jnp.asarray(slopes),
                   tuple(layer.kind for layer in units), sources, time_slot, stages)


def blank_marched(stated: dict[str, Any], inputs: int) -> Marched:
    """The shapes of a network that a march has made; stated: what its settings say of it."""
    sources = tuple(Source(*source) for source in stated["sources"])
    inputs //= 1 + max(source.axis for source in sources)
    columns, knots, units = 1 + max(source.column for source in sources), stated["knots"], sum(stated["sizes"])

    def blank(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float64)

    arrays = tuple((blank(inputs, size), blank(size)) for size in stated["sizes"])
    layers = blank(knots, units, columns)
    return Marched(arrays, blank(knots), layers, layers, tuple(stated["kinds"]), sources, stated["time_slot"],
                   stated.get("stages", 1))
