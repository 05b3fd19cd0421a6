"""A mapping of the domain: where its points really are, and what derivatives and conditions are there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.problem.conditions import Condition
from hardpde.problem.fields import State
from hardpde.support.matrices import solve_small


@dataclass(frozen=True, eq=False)
class Placement:
    """mapping(x): the real place (d,) of a point x (c,) of the domain, whose time and parameters stay."""

    mapping: Callable[[Array], Array]
    dim: int

    def place(self, x: Array) -> Array:
        """The real place of a point (c,), its time and parameters kept."""
        return jnp.concatenate([self.mapping(x), x[self.dim :]])

    def slope(self, x: Array) -> Array:
        """∂(real place)/∂(place in the domain), (d, d)."""
        d = self.dim
        return jax.jacfwd(lambda y: self.place(x.at[:d].set(y))[:d])(x[:d])

    def derivatives(self, x: Array, dq: Array) -> Array:
        """Derivatives (c, m) by the coordinates of the domain as those by the coordinates of the real place."""
        d = self.dim
        return jnp.concatenate([solve_small(self.slope(x).T, dq[:d]), dq[d:]])

    def condition(self, stated: Condition) -> Condition:
        """A condition stated at the real place, as one at points of the domain with normals of the domain."""

        def lhs(q: State, x: Array, n: Array) -> Any:
            normal = solve_small(self.slope(x).T, n)
            length = jnp.sqrt((normal**2).sum())
            return stated.lhs(q, self.place(x), normal / jnp.where(length > 0, length, 1.0))

        rhs = stated.rhs
        return replace(stated, lhs=lhs, rhs=(lambda x: rhs(self.place(x))) if callable(rhs) else rhs)

    def back(self, x: Array) -> tuple[Array, Array]:
        """The points of the domain that really are at x (n, c), and by how much each misses, (n,)."""
        return self.back_from(x, x)

    @cached_property
    def back_from(self) -> Callable[[Array, Array], tuple[Array, Array]]:
        """The same by Newton's method from points (n, c) of the domain."""
        d = self.dim

        def one(first: Array, x: Array) -> tuple[Array, Array]:
            def newton(_: Any, y: Array) -> Array:
                return y.at[:d].add(solve_small(self.slope(y), x[:d] - self.place(y)[:d]))

            y = jax.lax.fori_loop(0, 30, newton, first)
            return y, jnp.abs(self.place(y) - x).max()

        return jax.jit(jax.vmap(one))
