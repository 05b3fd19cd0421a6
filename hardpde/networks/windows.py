"""Windows: smooth bumps of some inputs that are zero outside a box, and their jets in closed form."""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Window(NamedTuple):
    """The product over the inputs of (1 − s²)³ with s = (y − centre)/half where |s| < 1; infinite halves count not."""

    centre: Any  # (f,)
    half: Any  # (f,)


def jet_times(window: Any, jet: Any, second: int) -> Any:
    """The jet (…, slots, n) of a product with a scalar function, whose jet is (slots, n)."""
    xp = jnp if isinstance(jet, jax.Array) else np
    found = [window[0] * jet[..., 0, :]]
    found += [window[0] * jet[..., k, :] + window[k] * jet[..., 0, :] for k in range(1, jet.shape[-2])]
    for k in range(1, 1 + second):
        found[-1] = found[-1] + 2 * window[k] * jet[..., k, :]
    return xp.stack(found, axis=-2)


def window_jets(window: Window, y: Any, directions: tuple[Any, ...], second: int) -> list[Any]:
    """The jet (slots, n) of a window at inputs y (f, slots, n), and those of its derivatives along directions, which
    are jets of the inputs' derivatives, (f, slots, n) each."""
    xp = jnp if isinstance(y, jax.Array) else np
    if xp is np:  # inputs that do not count are left out
        own = np.flatnonzero(np.isfinite(window.half))
        window, y = Window(window.centre[own], window.half[own]), y[own]
        directions = tuple(direction[own] for direction in directions)
    s = (y[:, 0] - window.centre[:, None]) / window.half[:, None]
    finite = xp.isfinite(window.half)[:, None]
    within, s2 = (abs(s) < 1) & finite, s * s
    rest = 1 - s2
    value = xp.where(within, rest**3, xp.where(finite, 0.0, 1.0))
    by = 1 / window.half[:, None]
    first = xp.where(within, -6 * s * rest**2, 0.0) * by
    bend = xp.where(within, -6 + 36 * s2 - 30 * s2 * s2, 0.0) * by**2
    third = xp.where(within, 72 * s - 120 * s * s2, 0.0) * by**3
    factors = [_chain(value[i], first[i], bend[i], y[i], second) for i in range(len(y))]
    slopes = [_chain(first[i], bend[i], third[i], y[i], second) for i in range(len(y))] if directions else []
    whole = _product(factors, second)
    along = []
    for direction in directions:
        parts = [_product([jet_times(slopes[i], direction[i], second), *factors[:i], *factors[i + 1:]], second)
                 for i in range(len(y))]
        along.append(sum(parts[1:], parts[0]))
    return [whole, *along]


def _chain(value: Any, first: Any, bend: Any, y: Any, second: int) -> Any:
    """The jet (slots, n) of a function of y (slots, n), from its value and derivatives."""
    xp = jnp if isinstance(y, jax.Array) else np
    found = [value, *(first * y[k] for k in range(1, len(y)))]
    if second:
        found[-1] = found[-1] + bend * sum(y[k] ** 2 for k in range(1, 1 + second))
    return xp.stack(found)


def _product(factors: list[Any], second: int) -> Any:
    found = factors[0]
    for factor in factors[1:]:
        found = jet_times(factor, found, second)
    return found


def held_by(centres: np.ndarray, halves: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each window k (centres, halves: (k, f)) that holds some of the inputs y (f, n), with their numbers, ascending."""
    own = np.flatnonzero(np.isfinite(halves[0]))
    first, *others = own
    order = np.argsort(y[first], kind="stable")
    along = y[first][order]
    starts = np.searchsorted(along, centres[:, first] - halves[:, first], side="right")
    ends = np.searchsorted(along, centres[:, first] + halves[:, first], side="left")
    for k, (start, end) in enumerate(zip(starts, ends)):
        inside = order[start:end]
        for i in others:
            inside = inside[np.abs(y[i][inside] - centres[k, i]) < halves[k, i]]
        if len(inside):
            yield k, np.sort(inside)


def equal_cells(low: np.ndarray, high: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (k, a) and halves of the equal cells, `number` along each axis, of a box."""
    size = (high - low) / number
    places = np.array(list(product(range(number), repeat=len(low))), float).reshape(-1, len(low))
    return low + (places + 0.5) * size, np.broadcast_to(size / 2, places.shape).copy()
