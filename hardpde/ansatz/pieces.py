"""Pieces of the boundary by number: closest points and the rows of their conditions."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Nearby, stack
from hardpde.geometry.algorithms.stacking import Group
from hardpde.geometry.base import Bounds
from hardpde.problem.conditions import Condition
from hardpde.problem.fields import Schema
from hardpde.problem.layout import Layout, stacked_rows

TINY = 1e-60


class Pieces:
    """Closest points and condition rows of piece number i, for a traced i."""

    def __init__(self, layout: Layout, schema: Schema, conditions: Sequence[Condition], bounds: Bounds):
        self.layout, self.schema = layout, schema
        self.nearby = Nearby(layout.pieces, layout.collar, bounds)
        self.groups = stack(layout.pieces)
        self.rows = layout.mask.shape[1]
        n = len(layout.pieces)
        self._group, self._member = np.zeros(n, int), np.zeros(n, int)
        for g, group in enumerate(self.groups):
            self._group[group.index], self._member[group.index] = g, np.arange(len(group.index))
        self._sign = np.array([-1.0 if piece.flip else 1.0 for piece in layout.pieces])
        self._sets = sorted(set(layout.conditions))
        self._set = np.array([self._sets.index(c) for c in layout.conditions], int)
        self._conditions = conditions

    def ratios(self, x: Array) -> tuple[Array, Array]:
        """Numbers (k,) of the pieces near a point, −1 for none, and their squared distances over squared collars."""
        numbers, points = self.nearby.feet(x)
        found = self.squared(points, x) / (self.layout.widths(numbers, points) ** 2 + TINY)
        return numbers, jnp.where(numbers < 0, jnp.inf, found)

    def squared(self, foot: Array, x: Array) -> Array:
        """Squared distances |foot − x|², 0 where only rounding keeps them apart."""
        squared = ((foot - x[: self.schema.dim]) ** 2).sum(-1)
        return jnp.where(squared < (1e-13 * self.layout.size) ** 2, 0.0, squared)

    def foot(self, i: Array, x: Array) -> tuple[Array, Array]:
        """The closest point of piece i (time kept) and the outward normal there."""
        space = x[: self.schema.dim]

        def branch(group: Group) -> Callable[[Array], tuple[Array, Array]]:
            def evaluate(member: Array) -> tuple[Array, Array]:
                p = jnp.asarray(group.params)[member]
                foot = group.kind.closest(p, space)
                return foot, group.kind.normal(p, foot)

            return evaluate

        foot, normal = _switch(jnp.asarray(self._group)[i], [branch(g) for g in self.groups],
                               jnp.asarray(self._member)[i])
        return jnp.concatenate([foot, x[self.schema.dim :]]), jnp.asarray(self._sign)[i] * normal

    def equations(self, i: Array, x: Array, n: Array) -> tuple[Array, Array]:
        """A (r, m), g (r,) of piece i at a point, padded with zero rows."""

        def branch(which: tuple[int, ...]) -> Callable[[Array], tuple[Array, Array]]:
            def evaluate(x: Array) -> tuple[Array, Array]:
                a, g = stacked_rows([self._conditions[c] for c in which], self.schema, x, n)
                pad = self.rows - a.shape[0]
                return jnp.pad(a, ((0, pad), (0, 0))), jnp.pad(g, (0, pad))

            return evaluate

        return _switch(jnp.asarray(self._set)[i], [branch(s) for s in self._sets], x)


def _switch(index: Array, branches: list[Callable[[Array], tuple[Array, Array]]],
            operand: Array) -> tuple[Array, Array]:
    return branches[0](operand) if len(branches) == 1 else jax.lax.switch(index, branches, operand)
