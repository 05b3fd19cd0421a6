"""The initial condition, built into the state."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.problem.conditions import Condition
from hardpde.problem.fields import Schema
from hardpde.problem.layout import Layout, stacked_rows
from hardpde.support.matrices import right_inverse, times


class Start:
    """The initial condition A₀ q = g₀ as a base state q₀ = c + L N that satisfies it for any N."""

    def __init__(self, schema: Schema, conditions: Sequence[Condition], layout: Layout,
                 time: tuple[float, float] | None):
        self.schema, self.time = schema, time
        self.conditions = [conditions[i] for i in layout.initial]

    def rows(self, x: Array) -> tuple[Array, Array]:
        """A₀, g₀ at the point's place, at the start of time."""
        assert self.time is not None
        at = x.at[self.schema.dim].set(self.time[0])
        a, g = stacked_rows(self.conditions, self.schema, at, jnp.zeros(self.schema.dim))
        return a[:, : self.schema.size], g

    def projector(self, x: Array) -> Array:
        """Onto the states that the initial condition leaves alone."""
        identity = jnp.eye(self.schema.size)
        if not self.conditions:
            return identity
        a, _ = self.rows(x)
        return identity - times(right_inverse(a, identity, jnp.ones(len(a))), a)

    def blend(self, x: Array, ramp: Array) -> tuple[Array, Array]:
        """c, L of q₀ = N + (1 − ramp) D₀ (−A₀ N) + D₀ g₀: equal to the data where the ramp is 0."""
        identity = jnp.eye(self.schema.size)
        if not self.conditions:
            return jnp.zeros(self.schema.size), identity
        a, g = self.rows(x)
        d = right_inverse(a, identity, jnp.ones(len(a)))
        return times(d, g), identity - (1 - ramp) * times(d, a)

    def kept(self, x: Array) -> Array:
        """The state at the start, (m,): what the initial condition fixes, the gradients of that, zero for the rest."""

        def fixed(space: Array) -> Array:
            at = jnp.concatenate([space, x[self.schema.dim :]])
            return self.blend(at, jnp.array(1.0))[0]

        c = fixed(x[: self.schema.dim])
        if not self.conditions or not self.schema.gradients:
            return c
        slopes, more = jax.jacfwd(fixed)(x[: self.schema.dim]), jnp.zeros_like(c)
        for gradient, base in self.schema.gradients:
            more = more.at[self.schema.slices[gradient]].set(slopes[self.schema.slices[base]].ravel())
        return c + times(self.projector(x), more)

    def fraction(self, x: Array) -> Array:
        """How much of the time has passed, in [0, 1]."""
        assert self.time is not None
        return (x[self.schema.dim] - self.time[0]) / (self.time[1] - self.time[0])
