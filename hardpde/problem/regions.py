"""Regions: where fields live, for materials that meet at an Inlay."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Shape
from hardpde.problem.fields import Schema


@dataclass(frozen=True, eq=False)
class FieldRegions:
    """Where each field lives: a Shape or a function that is negative there; a field without one lives everywhere.

    size: of the domain, against which rounding is told.
    """

    stated: Mapping[str, Shape | Callable[[Array], Any]]
    schema: Schema
    size: float

    def of(self, name: str) -> Callable[[Array], Any] | None:
        """A function that is negative where a field lives; None: everywhere."""
        gradients = dict(self.schema.gradients)
        while name in gradients:
            name = gradients[name]
        region = self.stated.get(name)
        return region.sdf if isinstance(region, Shape) else region

    def only_there(self, name: str, x: Array, equations: Array) -> Array:
        """The equations of a field at one point, 0 where it does not live."""
        region = self.of(name)
        return equations if region is None else jnp.where(region(x[: self.schema.dim]) <= 0, equations, 0.0)

    def lives(self, name: str, x: np.ndarray) -> np.ndarray:
        """Whether a field lives at points (n, d), edges of its region included, (n,)."""
        region = self.of(name)
        if region is None:
            return np.full(len(x), True)
        return np.asarray(jax.jit(jax.vmap(region))(jnp.asarray(x))) <= 1e-9 * self.size

    def masked(self, values: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
        """Values of fields at points x (n, d), (n, *shape) or (k, n, *shape), NaN where a field does not live."""
        found = {}
        for name, part in values.items():
            shape = self.schema.shapes.get(name, ())
            keep = self.lives(name, x).reshape(-1, *[1] * len(shape))
            found[name] = np.asarray(part) if keep.all() else np.where(keep, part, np.nan)
        return found
