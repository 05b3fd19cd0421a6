"""The state of a model at any points, in blocks of few sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch

FEWEST, MOST = 64, 8192  # points that are evaluated at once
WASTE = 16  # times as many as needed may be, rather than compile again


@dataclass(frozen=True, eq=False)
class Evaluation:
    """state(model, batch) at the batches of at(x, derivatives), in double precision."""

    state: Callable[[Any, Batch], Array]
    at: Callable[..., Batch]

    def jet(self, model: Any, x: np.ndarray) -> np.ndarray:
        """The state and its derivatives (n, m, slots) at points (n, c)."""
        return self._in_blocks(self._jet, model, x, derivatives=True)

    def value(self, model: Any, x: np.ndarray) -> np.ndarray:
        """The state (n, m) at points (n, c)."""
        return self._in_blocks(self._value, model, x, derivatives=False)

    @cached_property
    def _jet(self) -> Callable[[Any, Batch], Array]:
        return jax.jit(lambda model, batch: jnp.moveaxis(self.state(model, batch), -1, 0))

    @cached_property
    def _value(self) -> Callable[[Any, Batch], Array]:
        return jax.jit(lambda model, batch: self.state(model, batch)[:, 0].T)

    @cached_property
    def _sizes(self) -> dict[bool, set[int]]:
        return {False: set(), True: set()}

    def _in_blocks(self, function: Callable[[Any, Batch], Array], model: Any, x: np.ndarray,
                   derivatives: bool) -> np.ndarray:
        """Points are taken in blocks of a few sizes, so that few compilations serve any number of points.

        A size that was compiled before and is not much too large serves again: compiling takes seconds.
        """
        model = jax.tree.map(lambda a: a.astype(jnp.float64), model)
        x = np.asarray(x, float)
        least = min(max(1 << (max(len(x), 1) - 1).bit_length(), FEWEST), MOST)
        known = self._sizes[derivatives]
        block = min((size for size in known if least <= size <= WASTE * least), default=least)
        known.add(block)
        parts = []
        for start in range(0, max(len(x), 1), block):
            part = x[start : start + block]
            filling = part[-1:] if len(part) else np.zeros((1, x.shape[1]))
            padded = np.concatenate([part, np.repeat(filling, block - len(part), 0)])
            parts.append(np.asarray(function(model, self.at(padded, derivatives)))[: len(part)])
        return np.concatenate(parts)
