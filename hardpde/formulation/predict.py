"""The state of a model at any points, in blocks of few sizes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch, up_to

FEWEST, MOST = 64, 8192  # points that are evaluated at once
WASTE = 16  # times as many as needed may be, rather than compile again
PARTS = 8  # or as many parts
TOGETHER = 2048  # points at which a model computed by NumPy is evaluated at once
SELDOM = 32  # blocks of points for which what is compiled for derivatives serves for values


@dataclass(frozen=True, eq=False)
class Evaluation:
    """state(model, batch) at the batches of at(x, order), in double precision. coordinates: of space and time."""

    state: Callable[[Any, Batch], Array]
    at: Callable[..., Batch]
    coordinates: int

    def jet(self, model: Any, x: np.ndarray, order: int) -> np.ndarray:
        """The state and its derivatives (n, m, slots) at points (n, c)."""
        return self._in_blocks(self._jet, model, x, order)

    def value(self, model: Any, x: np.ndarray) -> np.ndarray:
        """The state (n, m) at points (n, c)."""
        return self._in_blocks(self._value, model, x, 0)

    @cached_property
    def _jet(self) -> Any:
        return jax.jit(lambda model, batch: jnp.moveaxis(self.state(model, batch), -1, 0))

    @cached_property
    def _value(self) -> Any:
        return jax.jit(lambda model, batch: self.state(model, batch)[:, 0].T)

    @cached_property
    def _sizes(self) -> dict[int, set[int]]:
        return {0: set(), 1: set(), 2: set()}

    @cached_property
    def _lent(self) -> list[int]:
        """How many blocks were looked at with what was compiled for derivatives, whenever it was."""
        return []

    def batches(self, x: np.ndarray, order: int, least: int | None = None) -> Iterator[tuple[Batch, int]]:
        """The batches of points (n, c) in blocks, of at least so many, and how many of the points of each count.

        Points are taken in blocks of a few sizes, so that few compilations serve any number of points. A size that was
        compiled before and is not much too large or too small serves again: compiling takes seconds.
        """
        x = np.asarray(x, float)
        block = _fitting(self._sizes[order], _size(len(x)) if least is None else least)
        self._sizes[order].add(block)
        for start in range(0, max(len(x), 1), block):
            part = x[start : start + block]
            filling = part[-1:] if len(part) else np.zeros((1, x.shape[1]))
            yield self.at(np.concatenate([part, np.repeat(filling, block - len(part), 0)]), order), len(part)

    def _in_blocks(self, function: Any, model: Any, x: np.ndarray, order: int) -> np.ndarray:
        """Of a model that is computed by NumPy only the coefficients are compiled, now and then with more derivatives
        than are asked for, as those are needed anyway."""
        model = jax.tree.map(lambda a: a.astype(jnp.float64), model)
        at, least = order, None
        if getattr(model, "by_numpy", False):
            function = function.__wrapped__
            at = self._order(order, len(x))
            least = TOGETHER if at == 2 else None
        return np.concatenate([
            np.asarray(function(model, batch if at == order else up_to(batch, 1 + order * self.coordinates)))[:n]
            for batch, n in self.batches(x, at, least)])

    def _order(self, order: int, points: int) -> int:
        """The order of derivatives that is compiled for a model computed by NumPy."""
        if order == 2 or points > MOST or sum(self._lent) >= SELDOM:
            return order
        self._lent.append(-(-points // TOGETHER))
        return 2


def _size(points: int) -> int:
    """A power of two that is enough for so many points, or the largest one."""
    return min(max(1 << (max(points, 1) - 1).bit_length(), FEWEST), MOST)


def _fitting(known: set[int], least: int) -> int:
    """A size of blocks, of those known the least that is enough, or else the largest that is not much too small."""
    enough = [size for size in known if least <= size <= WASTE * least]
    small = [size for size in known if size < least <= PARTS * size]
    return min(enough, default=max(small, default=least))
