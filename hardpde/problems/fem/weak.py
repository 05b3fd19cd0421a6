"""The weak form of a stated problem, point by point: S·v − F : ∇v inside, and what the conditions say of n·F outside.

The unknowns of the elements are the fields that stand for no gradient, u (k,). Where the equations take second
derivatives of them, or derivatives of a flux that other equations define, these are ∇·F with a flux F(x, u, ∇u), and
are integrated by parts; so are gradients of a pressure. All of it is read off from residual(x, q, dq) by
differentiation.
A point's jet is z = (u, ∇u, ∂u/∂t), (k (1 + d) + k timed,).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.problem.conditions import INITIAL
from hardpde.problem.problem import Problem
from hardpde.problems.fem.roles import Roles, roles_of
from hardpde.support.compiling import jit_simply

BLOCK = 4096  # points at a time, so that all meshes share what is compiled


class Extras(NamedTuple):
    """What is added to a flux so that the conditions tell n·F, without divergence: τ (k, d, k, d), antisymmetric in its
    second and last index, of ∇u; (k, d, p) of equations."""

    turned: np.ndarray
    kept: np.ndarray


@dataclass(frozen=True, eq=False)
class Weak:
    """A problem's weak form."""

    problem: Problem
    extras: Extras | None = None

    @property
    def dim(self) -> int:
        return self.problem.schema.dim

    @property
    def timed(self) -> bool:
        return self.problem.schema.timed

    @cached_property
    def roles(self) -> Roles:
        return roles_of(self.problem)

    @property
    def count(self) -> int:
        """How many unknowns a point has."""
        return len(self.roles.unknowns)

    @property
    def slots(self) -> int:
        return self.count * (1 + self.dim + self.timed)

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        """u (k,), ∇u (k, d) and ∂u/∂t (k,) of a jet."""
        k, d = self.count, self.dim
        rate = z[k + k * d :] if self.timed else jnp.zeros(k)
        return z[:k], z[k : k + k * d].reshape(k, d), rate

    # -- the state and the equations at a point ------------------------------------------------------

    def state(self, x: Array, z: Array) -> Array:
        """q (m,), with the fields that stand for gradients and those that equations define."""
        roles, u, slope, _ = self.roles, *self.split(z)
        q = jnp.zeros(self.problem.schema.size).at[np.array(roles.unknowns)].set(u)
        for where, base in self._gradients:
            q = q.at[where].set(slope[base])
        if not roles.defined:
            return q
        at, rows = np.array(roles.defined), np.array(roles.defining)

        def missing(s: Array) -> Array:
            return self._equations(x, q.at[at].set(s), self._derivatives(z))[rows]

        zero = jnp.zeros(len(at))
        return q.at[at].set(-jnp.linalg.solve(jax.jacfwd(missing)(zero), missing(zero)))

    @cached_property
    def _gradients(self) -> list[tuple[np.ndarray, int]]:
        """Numbers (d,) of the components that stand for the gradient of an unknown, and which unknown that is."""
        schema, found = self.problem.schema, []
        for gradient, base in schema.gradients:
            first, own = schema.slices[gradient].start, schema.slices[base]
            for k, component in enumerate(range(own.start, own.stop)):
                where = first + schema.dim * k + np.arange(schema.dim)
                if component in self.roles.unknowns:
                    found.append((where, self.roles.unknowns.index(component)))
        return found

    def _derivatives(self, z: Array) -> Array:
        """dq (D, m) with the derivatives of the unknowns; those that are integrated by parts are 0."""
        _, slope, rate = self.split(z)
        at = np.array(self.roles.unknowns)
        dq = jnp.zeros((self.problem.derivatives, self.problem.schema.size)).at[: self.dim, at].set(slope.T)
        return dq.at[self.dim, at].set(rate) if self.timed else dq

    @cached_property
    def _equations(self) -> Callable[..., Array]:
        """The stated equations (e,) of x, q and dq; compiled as one, so that it is traced once."""
        schema = self.problem.schema

        def stated(x: Array, q: Array, dq: Array) -> Array:
            return self.problem.stated_equations(x, schema.state(q), schema.derivatives(dq))

        return jax.jit(stated)

    def _tested(self, x: Array, q: Array, dq: Array) -> Array:
        """The equations (k,), each beside the unknown whose test functions it gets."""
        return self._equations(x, q, dq)[np.array(self.roles.partners)]

    @cached_property
    def _pressed(self) -> np.ndarray:
        """Which (equation, unknown) is a gradient of a pressure that is integrated by parts."""
        pressure = np.isin(self.roles.unknowns, self.roles.pressures)
        return (~pressure[:, None] & pressure[None]).astype(float)

    @cached_property
    def _coefficients(self) -> Callable[..., tuple[Array, Array, Array]]:
        """Of a point, values of the unknowns and a jet: coefficients C (k, d, m) of the derivatives of all but the
        unknowns, L (k, unknowns) of Laplacians, and (k, d, k) of the gradients of pressures."""
        at = np.array(self.roles.unknowns)

        def look(x: Array, u: Array, z: Array) -> tuple[Array, Array, Array]:
            z = z.at[: self.count].set(u)
            q, dq = self.state(x, z), self._derivatives(z)
            c = jax.jacfwd(lambda dq: self._tested(x, q, dq))(dq)
            space, laplacian = c[:, : self.dim], jnp.zeros((self.count, self.count))
            if self.problem.order == 2:
                laplacian = c[:, -1, at]
            return space.at[:, :, at].set(0.0), laplacian, space[:, :, at] * jnp.asarray(self._pressed)[:, None]

        return jax.jit(look)

    def flux(self, x: Array, z: Array) -> Array:
        """F (k, d)."""
        return self.read_flux(x, z) + self._added(x, z)

    @cached_property
    def flux_slopes(self) -> Callable[..., tuple[Array, Array]]:
        """Derivatives by the jet of n·F (n, k, slots) as it is read off, and of the equations beside the pressures."""
        def look(x: Array, n: Array, z: Array) -> tuple[Array, Array]:
            return jax.jacfwd(lambda z: (self.read_flux(x, z) @ n, self.kept_at_zero(x, z)))(z)

        return jit_simply(jax.vmap(look))

    def read_flux(self, x: Array, z: Array) -> Array:
        """F (k, d) as it is read off from the equations."""
        return self._contracted(self._coefficients(x, z[: self.count], z), self.state(x, z), z)

    def _added(self, x: Array, z: Array) -> Array:
        """∇·(τ∇u) = 0 for τ that is antisymmetric, and what an equation says is 0 is so everywhere."""
        if self.extras is None:
            return jnp.zeros((self.count, self.dim))
        turned, kept = self.extras
        zero = self.kept_at_zero(x, z)
        return jnp.einsum("eikj,kj->ei", turned, self.split(z)[1]) + jnp.einsum("eip,p->ei", kept, zero)

    def kept_at_zero(self, x: Array, z: Array) -> Array:
        """The equations beside the pressures, (pressures,)."""
        found = self._tested(x, self.state(x, z), self._derivatives(z))
        return found[np.flatnonzero(np.isin(self.roles.unknowns, self.roles.pressures))]

    def _contracted(self, coefficients: tuple[Array, Array, Array], q: Array, z: Array) -> Array:
        c, laplacian, press = coefficients
        u, slope, _ = self.split(z)
        return jnp.einsum("edm,m->ed", c, q) + laplacian @ slope + jnp.einsum("edk,k->ed", press, u)

    def inside(self, x: Array, z: Array) -> Array:
        """(S, F) at a point, (k (1 + d),)."""
        u, slope, _ = self.split(z)
        q = self.state(x, z)
        coefficients = self._coefficients(x, u, z)
        source = self._tested(x, q, self._derivatives(z))
        source -= jnp.einsum("edk,kd->e", coefficients[2], slope)

        def change(along: Array, slope: Array) -> Array:
            moved = jax.jvp(lambda x, u: self._coefficients(x, u, z), (x, u), (along, slope))[1]
            return self._contracted(moved, q, z)

        # ∇·F has the derivatives of the coefficients too, which are no equation's.
        changes = jax.vmap(change)(jnp.eye(self.dim, len(x)), slope.T)
        source -= jnp.einsum("iei->e", changes)
        return jnp.concatenate([source, (self._contracted(coefficients, q, z) + self._added(x, z)).ravel()])

    @cached_property
    def _inside(self) -> Callable[..., tuple[Array, Array]]:
        def both(x: Array, z: Array) -> tuple[Array, Array]:
            def value(z: Array) -> tuple[Array, Array]:
                y = self.inside(x, z)
                return y, y

            slope, y = jax.jacfwd(value, has_aux=True)(z)
            return y, slope

        return jit_simply(jax.vmap(both))

    def evaluate(self, x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(S, F) (n, k (1 + d)) at points (n, c) and jets (n, slots), and its derivatives by the jets."""
        return in_blocks_of(self._inside, x, z)

    # -- conditions ----------------------------------------------------------------------------------

    def rows(self, name: str, x: Array, n: Array, z: Array) -> Array:
        """A q − g (r,) of all conditions on a boundary, at a point with that jet."""
        schema, q, found = self.problem.schema, self.state(x, z), []
        slope = jnp.zeros((schema.size, self.dim)).at[np.array(self.roles.unknowns)].set(self.split(z)[1])
        for condition in self.problem.pointwise:
            if condition.on == name:
                a, g = condition.matrix(schema, x, n, gradients=True)
                found.append(a @ jnp.concatenate([q, slope.ravel()]) - g)
        return jnp.concatenate(found) if found else jnp.zeros(0)

    @cached_property
    def start(self) -> Callable[..., tuple[Array, Array]]:
        """Rows (n, r, k) of the initial conditions and their data (n, r) at points (n, c)."""
        none = jnp.zeros(self.dim)

        def rows(x: Array) -> tuple[Array, Array]:
            z = jnp.zeros(self.slots)
            a = jax.jacfwd(lambda z: self.rows(INITIAL, x, none, z))(z)
            return a[:, : self.count], -self.rows(INITIAL, x, none, z)

        return jit_simply(jax.vmap(rows))


def in_blocks_of(function: Callable[..., Any], *arrays: np.ndarray | None) -> Any:
    """A compiled function of many points, a block at a time; None stays None."""
    assert arrays[0] is not None
    n, parts = len(arrays[0]), []
    for start in range(0, max(n, 1), BLOCK):
        pad = BLOCK - len(arrays[0][start : start + BLOCK])
        full = [None if array is None else _padded(array[start : start + BLOCK], pad) for array in arrays]
        found = function(*full)
        parts.append(jax.tree.map(lambda a, pad=pad: np.asarray(a)[: BLOCK - pad], found))
    return jax.tree.map(lambda *a: np.concatenate(a), *parts)


def _padded(array: np.ndarray, pad: int) -> np.ndarray:
    """With so many more rows, like its last one."""
    last = array[-1:] if len(array) else 0.0
    return np.concatenate([array, np.broadcast_to(last, (pad, *array.shape[1:]))])
