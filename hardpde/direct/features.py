"""Features φ_j(y) = σ(w_j·y + b_j) of the network inputs: hidden units that stay as they were drawn.

The state is affine in the outputs of the network, so a linear layer on such features makes every linear problem a
linear least-squares problem. Their jets are closed forms, so nothing has to be compiled for them.
"""

from typing import Any, NamedTuple

import numpy as np


class Features(NamedTuple):
    """weights (f, h) and biases (h,) of the hidden units."""

    weights: np.ndarray
    biases: np.ndarray

    @property
    def number(self) -> int:
        return len(self.biases)


class Slopes(NamedTuple):
    """tanh and its first three derivatives at z; the last two only where they are needed."""

    value: Any
    first: Any
    second: Any
    third: Any


def slopes(z: np.ndarray, most: int) -> Slopes:
    """The derivatives of tanh up to order `most`."""
    h = np.tanh(z)
    s = 1 - h * h
    second = -2 * h * s if most > 1 else None
    third = s * (6 * h * h - 2) if most > 2 else None
    return Slopes(h, s, second, third)


def draw(rng: np.random.Generator, inputs: np.ndarray, number: int, scale: np.ndarray) -> Features:
    """`number` features whose planes pass through random points of the domain; inputs (f, n) there.

    scale (f,): weights are uniform in ± scale over half the range of each input.
    """
    half = np.maximum(np.ptp(inputs, axis=1) / 2, 1e-9)
    weights = rng.uniform(-1, 1, (len(inputs), number)) * (scale / half)[:, None]
    through = inputs[:, rng.integers(0, inputs.shape[1], number)]
    return Features(weights, -(weights * through).sum(0))
