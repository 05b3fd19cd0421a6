"""SSBroyden: a self-scaled quasi-Newton method with a dense inverse Hessian."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from hardpde.support.checking import check_positive
from hardpde.training.ahead import Ahead
from hardpde.training.line_search import REMEMBERED, STEEPEST_SHRINK, search
from hardpde.training.status import CONVERGED


class Change(NamedTuple):
    """Z₊ = scale (Z + c v uᵀ) + t aᵀ, where v = Z u."""

    scale: Array
    c: Array
    v: Array
    u: Array
    t: Array
    a: Array
    Za: Array

    def factor(self, Z: Array) -> Array:
        """Z₊, one elementwise expression that XLA fuses into a single read and write of Z."""
        outer = lambda p, q: p[:, None] * q[None, :]  # noqa: E731
        return self.scale * (Z + self.c * outer(self.v, self.u)) + outer(self.t, self.a)

    def products(self, w: Array, Zw: Array, g: Array) -> tuple[Array, Array]:
        """Z₊ᵀg and Z₊Z₊ᵀg from w = Zᵀg and Zw, without touching Z."""
        along, across = self.scale * self.c * (self.v @ g), self.t @ g
        new = self.scale * w + along * self.u + across * self.a
        Znew = self.scale * Zw + along * self.v + across * self.Za
        return new, self.scale * (Znew + self.c * (self.u @ new) * self.v) + (self.a @ new) * self.t


def _scaling(h: Array, b: Array, n: int) -> tuple[Array, Array]:
    """θ and τ of SSBroyden, Urbán, Stefanou & Pons (arXiv 2405.04230), eqs. (13)-(23).

    h = yᵀHy / yᵀs and b = sᵀH⁻¹s / yᵀs; a = hb − 1 ≥ 0 by the Cauchy–Schwarz inequality.
    """
    a = jnp.maximum(h * b - 1, 1e-14)
    c = jnp.sqrt(a / (1 + a))
    r = jnp.minimum(1.0, h / ((1 + a) * (1 + c)))  # h (1 − c) without cancellation
    theta = jnp.maximum((r - 1) / a, jnp.minimum(1 / r, (1 - b) / b))
    sigma = 1 + a * theta
    bound = jnp.minimum(1.0, 1 / b)
    root = sigma ** (-1.0 / max(n - 1, 1))
    positive = jnp.maximum(theta, jnp.finfo(theta.dtype).tiny)
    tau = jnp.where(theta <= 0, jnp.minimum(bound * root, sigma), bound * jnp.minimum(root, 1 / positive))
    return theta, tau


def _change(
    e: Array,
    s: Array,
    y: Array,
    a: Array,
    Za: Array,
    allowed: Array | bool = True,
    theta: Array | float | None = None,
    tau: Array | float | None = None,
) -> Change:
    """The update, from s = Z e and a = Zᵀy, as numbers and vectors; none where yᵀs ≤ 0, not finite or not `allowed`."""
    ys, yHy, sBs = y @ s, a @ a, e @ e
    floor = jnp.finfo(s.dtype).eps * jnp.linalg.norm(y) * jnp.linalg.norm(s)
    valid = jnp.asarray(allowed) & (ys > floor) & (yHy > 0) & (sBs > 0)
    ys, yHy, sBs = (jnp.where(valid, q, 1) for q in (ys, yHy, sBs))
    h, b = yHy / ys, sBs / ys
    excess = jnp.maximum(h * b - 1, 1e-14)
    own_theta, own_tau = _scaling(h, b, s.size)
    theta = own_theta if theta is None else jnp.asarray(theta, s.dtype)
    tau = own_tau if tau is None else jnp.asarray(tau, s.dtype)
    phi, gamma = (1 - theta) / (1 + excess * theta), (1 + excess) / (1 + excess * theta)
    scale, c = tau**-0.5, phi * yHy / (1 + jnp.sqrt(gamma))
    # XLA may recompute these at each entry of Z when it fuses `factor`: no division by vector entry here.
    v, u = (p * (1 / ys) - q * (1 / yHy) for p, q in ((s, Za), (e, a)))
    t = s * (1 / jnp.sqrt(ys * yHy)) - Za * (scale / yHy)
    for number in (scale, c, v @ v, u @ u, t @ t):
        valid &= jnp.isfinite(number)
    scale, c = jnp.where(valid, scale, 1), jnp.where(valid, c, 0)
    v, u, t, a, Za = (jnp.where(valid, vector, 0) for vector in (v, u, t, a, Za))
    return Change(scale, c, v, u, t, a, Za)


def ssbroyden_update(
    Z: Array,
    e: Array,
    y: Array,
    theta: Array | float | None = None,
    tau: Array | float | None = None,
) -> Array:
    """The self-scaled Broyden update of an inverse Hessian H = ZZᵀ by its factor Z (n, n): H₊ y = s for a step s = Z e.

    `y` (n,) is the change of the gradient. `theta` and `tau` default to the choice of Urbán, Stefanou & Pons
    (arXiv 2405.04230); theta = 0, tau = 1 is BFGS and theta = 1, tau = 1 is DFP:

        H₊ = [H − Hy yᵀH/(yᵀHy) + φ (yᵀHy) v vᵀ]/τ + s sᵀ/(yᵀs),
        v = s/(yᵀs) − Hy/(yᵀHy),   φ = (1 − θ)/(1 + kθ),   k = (yᵀHy)(sᵀH⁻¹s)/(yᵀs)² − 1.

    With a = Zᵀy, u = e/(yᵀs) − a/(yᵀHy), which is normal to a, and γ = 1 + φk this is H₊ = Z₊Z₊ᵀ for

        Z₊ = [Z + φ (yᵀHy)/(1 + √γ) v uᵀ]/√τ + [s/√(yᵀs yᵀHy) − Hy/(yᵀHy √τ)] aᵀ.

    The eigenvalues of H come to span more digits than a number has, those of Z half as many; and H is
    positive whatever rounding does. Returns Z itself where yᵀs ≤ 0 or the formula is not finite.
    """
    a = jnp.matmul(y, Z, precision="highest")
    s, Za = jnp.matmul(Z, e, precision="highest"), jnp.matmul(Z, a, precision="highest")
    return _change(e, s, y, a, Za, theta=theta, tau=tau).factor(Z)


class SSBroydenState(NamedTuple):
    """The factor Z of the inverse Hessian H = ZZᵀ, the last gradient g, Zᵀg, H g, the length of the last step
    s = −step · H g, what is known of its end, and the length that the next one tries first."""

    Z: Array
    gradient: Array
    inner: Array
    product: Array
    step: Array
    ahead: Ahead
    reach: Array
    failures: Array
    status: Array


def ssbroyden(
    initial_scale: float = 1.0,
    reset_scale: float = 1e-3,
    tolerance: float = 1e-12,
) -> optax.GradientTransformationExtraArgs:
    """Self-scaled Broyden with a dense inverse Hessian H = ZZᵀ (`ssbroyden_update`), for up to ~10⁴ weights.

    The pair (s, y) of a step enters H at the next call, when the new gradient is known; it is skipped
    where `fresh`. The line search backtracks, from the length that the last ones should have had (their mean, at
    most 1): a step of length 1 is too long in every second iteration. Where it finds no lower loss, or H is not
    finite, H restarts from `reset_scale` times the identity.

    One iteration costs, mostly, one loss with its gradient, the products Zᵀg and Z (Zᵀg), and one fused read and
    write of Z.
    """
    check_positive(initial_scale=initial_scale, reset_scale=reset_scale)

    def init(params: Any) -> SSBroydenState:
        x, _ = ravel_pytree(params)
        zero = jnp.zeros((), jnp.int32)
        return SSBroydenState(
            Z=initial_scale**0.5 * jnp.eye(x.size, dtype=x.dtype),
            gradient=jnp.zeros_like(x),
            inner=jnp.zeros_like(x),
            product=jnp.zeros_like(x),
            step=jnp.zeros((), x.dtype),
            ahead=Ahead(jnp.zeros((), x.dtype), jax.tree.map(jnp.zeros_like, params)),
            reach=jnp.ones((), x.dtype),
            failures=zero,
            status=jnp.zeros((), jnp.int32),
        )

    def update(
        updates: Any,
        state: SSBroydenState,
        params: Any,
        *,
        value: Any,
        value_and_grad_fn: Callable[[Any], tuple[Array, Any]],
        fresh: Any = False,
        gather: Callable[[Array], Array] = lambda vector: vector,
        **extra: Any,
    ) -> tuple[Any, SSBroydenState]:
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        Z, fresh = state.Z, jnp.asarray(fresh)

        inner = jnp.matmul(g, Z, precision="highest")
        product = gather(jnp.matmul(Z, inner, precision="highest"))  # devices may share the rows of Z
        change = _change(-state.step * state.inner, -state.step * state.product, g - state.gradient,
                         inner - state.inner, product - state.product, ~fresh)
        inner, product = change.products(inner, product, g)

        failures = jnp.where(fresh, 0, state.failures)
        restart_scale = (reset_scale * STEEPEST_SHRINK**failures).astype(x.dtype)
        lost = ~(jnp.isfinite(product @ product) & (g @ product > 0))
        inner = jnp.where(lost, jnp.sqrt(restart_scale) * g, inner)
        product = jnp.where(lost, restart_scale * g, product)

        reach = jnp.where(fresh | lost, 1, state.reach)
        step, there, lowest, failures, code = search(
            value_and_grad_fn, unravel, x, value, g, product, reach, failures, tolerance)

        restart = lost | ((step == 0) & (code != CONVERGED))
        Z = jnp.where(restart, jnp.sqrt(restart_scale) * jnp.eye(x.size, dtype=x.dtype), change.factor(Z))
        move = jnp.where(step > 0, -step * product, 0)
        reach = jnp.where(restart, 1, reach**REMEMBERED * jnp.clip(lowest, 0.05, 1) ** (1 - REMEMBERED))
        return unravel(move), SSBroydenState(Z, g, inner, product, step, there, reach, failures, code)

    return optax.GradientTransformationExtraArgs(init, update)
