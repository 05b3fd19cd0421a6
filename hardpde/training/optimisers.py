"""Optimisers as optax transformations, so that one training loop serves all of them.

Every function here returns an `optax.GradientTransformationExtraArgs` and is used in the same way:

    value, grad = jax.value_and_grad(loss)(params, batch)
    updates, state = optimiser.update(
        grad, state, params, value=value, value_fn=lambda p: loss(p, batch),
        value_and_grad_fn=lambda p: jax.value_and_grad(loss)(p, batch),
        residual_fn=lambda p: residual_vector(p, batch), jacobian_fn=lambda p: jacobian(p, batch), fresh=fresh,
    )
    params = optax.apply_updates(params, updates)

`fresh` (a traced bool) is True on the first step after the points were redrawn: a difference of two
gradients across it says nothing about curvature. `status(state)` tells whether progress is possible.
`ahead(state)` are the loss and its gradient at the new params where a line search has found them, so that the next
step on the same points need not; `looking_ahead(state, known)` states them, at the start and for new points.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

RUNNING, CONVERGED, STALLED = 0, 1, 2

_SENTENCES = {
    RUNNING: "the optimiser is still making progress",
    CONVERGED: "the gradient is below the tolerance",
    STALLED: "the line search found no lower loss along the steepest descent",
}

_FAILURES_BEFORE_STALL = 3  # the first failure restarts from steepest descent, the others are that descent
_REMEMBERED = 0.8  # how much of the mean length of steps is from before the last one
_STEEPEST_SHRINK = 1e-2  # each further restart looks this much closer to the current point


def status(state: Any) -> jax.Array:
    """The status code (int32) found anywhere in an optimiser state: 0 running, 1 converged, 2 stalled.

    States without such a field, e.g. Adam's, report 0.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    codes = [leaf for path, leaf in leaves if path and getattr(path[-1], "name", None) == "status"]
    code = jnp.asarray(RUNNING, jnp.int32)
    for other in codes:
        code = jnp.maximum(code, other)
    return code


class Ahead(NamedTuple):
    """The loss and its gradient at the end of a step."""

    value: jax.Array
    gradient: Any


def ahead(state: Any) -> Ahead | None:
    """What the line search of the last step has found at its end; None for an optimiser without one."""
    found = [leaf for leaf in jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Ahead))
             if isinstance(leaf, Ahead)]
    return found[0] if found else None


def looking_ahead(state: Any, known: tuple[jax.Array, Any]) -> Any:
    """The state that knows this loss and gradient."""
    def put(node: Any) -> Any:
        if not isinstance(node, Ahead):
            return node
        return jax.tree.map(lambda new, old: new.astype(old.dtype), Ahead(*known), node)

    return jax.tree.map(put, state, is_leaf=lambda node: isinstance(node, Ahead))


def describe_status(code: int | jax.Array) -> str:
    """The meaning of a status code in one sentence."""
    try:
        return _SENTENCES[int(code)]
    except KeyError:
        raise ValueError(f"code must be one of {sorted(_SENTENCES)}, got {int(code)}") from None


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")


def _progress(
    gradient: jax.Array, moved: jax.Array, failures: jax.Array, tolerance: float
) -> tuple[jax.Array, jax.Array]:
    """The new number of failures in a row and the status code."""
    converged = jnp.max(jnp.abs(gradient)) <= tolerance
    failures = jnp.where(moved | converged, 0, failures + 1).astype(jnp.int32)
    stalled = jnp.where(failures >= _FAILURES_BEFORE_STALL, STALLED, RUNNING)
    return failures, jnp.where(converged, CONVERGED, stalled).astype(jnp.int32)


def _tree_where(condition: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _finite(value: jax.Array) -> jax.Array:
    """Infinity in place of NaN, so that a minimum never picks it."""
    return jnp.where(jnp.isnan(value), jnp.inf, value)


# ------------------------------------------------------------------------------------------------- Adam


class PlateauState(NamedTuple):
    """State of `reduce_on_plateau`; `learning_rate` is the one the next step uses."""

    learning_rate: jax.Array
    best: jax.Array
    bad: jax.Array
    cooldown: jax.Array
    seen: jax.Array


def reduce_on_plateau(
    learning_rate: float,
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    cooldown: int = 0,
    min_lr: float = 0.0,
    eps: float = 1e-8,
    every: int = 1,
) -> optax.GradientTransformationExtraArgs:
    """Scale by minus a learning rate that follows PyTorch's `ReduceLROnPlateau` (mode min, relative).

    The rule sees `value` at every `every`-th step, after that step; a reduction acts from the next one.
    """
    if not 0 < factor < 1:
        raise ValueError(f"factor must lie between 0 and 1, got {factor}")
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")

    def init(params: Any) -> PlateauState:
        del params
        # Separate arrays: a donated state must not hold one buffer twice.
        zeros = [jnp.zeros((), jnp.int32) for _ in range(3)]
        return PlateauState(jnp.asarray(learning_rate, float), jnp.asarray(jnp.inf, float), *zeros)

    def observe(state: PlateauState, value: jax.Array) -> PlateauState:
        better = value < state.best * (1.0 - threshold)
        best = jnp.where(better, value, state.best)
        cooling = state.cooldown > 0
        bad = jnp.where(better | cooling, 0, state.bad + 1)
        waiting = jnp.where(cooling, state.cooldown - 1, state.cooldown)
        reduce = bad > patience
        lower = jnp.maximum(state.learning_rate * factor, min_lr)
        take = reduce & (state.learning_rate - lower > eps)
        return PlateauState(
            learning_rate=jnp.where(take, lower, state.learning_rate),
            best=best,
            bad=jnp.where(reduce, 0, bad),
            cooldown=jnp.where(reduce, cooldown, waiting).astype(jnp.int32),
            seen=state.seen,
        )

    def update(updates: Any, state: PlateauState, params: Any = None, *, value: Any, **extra: Any):
        del params, extra
        scaled = jax.tree.map(lambda u: (-state.learning_rate * u).astype(u.dtype), updates)
        observed = observe(state, jnp.asarray(value, float))
        new = _tree_where((state.seen + 1) % every == 0, observed, state)
        return scaled, new._replace(seen=state.seen + 1)

    return optax.GradientTransformationExtraArgs(init, update)


def adam(
    learning_rate: float | Callable[[jax.Array], jax.Array] = 1e-2,
    plateau: bool = True,
    factor: float = 0.1,
    patience: int = 10,
    threshold: float = 1e-4,
    cooldown: int = 0,
    min_lr: float = 0.0,
    eps: float = 1e-8,
    every: int = 1,
) -> optax.GradientTransformationExtraArgs:
    """Adam, by default followed by PyTorch's `ReduceLROnPlateau` rule, step for step.

    `eps` is the smallest reduction the rule makes, `every` the number of steps between two looks at the
    loss (PyTorch users step the scheduler once per epoch). With `plateau=False` the learning rate is
    constant or a schedule (a function of the step).
    """
    if not plateau:
        rate = optax.scale_by_learning_rate(learning_rate)
    elif callable(learning_rate):
        raise ValueError("learning_rate is a schedule: pass plateau=False, or a number with plateau=True")
    else:
        rate = reduce_on_plateau(learning_rate, factor, patience, threshold, cooldown, min_lr, eps, every)
    return optax.with_extra_args_support(optax.chain(optax.scale_by_adam(), rate))


# ----------------------------------------------------------------------------------------------- L-BFGS


class LBFGSState(NamedTuple):
    """The last steps S and changes of the gradient Y (memory, n), oldest first, SYᵀ above its diagonal and YYᵀ; then
    the last gradient and the step from it, and what is known of its end."""

    S: jax.Array
    Y: jax.Array
    SY: jax.Array
    YY: jax.Array
    gradient: jax.Array
    step: jax.Array
    ahead: Ahead
    failures: jax.Array
    status: jax.Array


def _remembered(state: LBFGSState, s: jax.Array, y: jax.Array) -> LBFGSState:
    """The memory with a new pair in place of the oldest."""
    S, Y = jnp.concatenate([state.S[1:], s[None]]), jnp.concatenate([state.Y[1:], y[None]])
    by_s, by_y = jnp.matmul(S, y, precision="highest"), jnp.matmul(Y, y, precision="highest")
    older = lambda gram: jnp.pad(gram[1:, 1:], ((0, 1), (0, 1)))  # noqa: E731
    YY = older(state.YY).at[-1].set(by_y).at[:, -1].set(by_y)
    return state._replace(S=S, Y=Y, SY=older(state.SY).at[:, -1].set(by_s), YY=YY)


def _inverse_hessian(state: LBFGSState, g: jax.Array) -> jax.Array:
    """H g in the compact form of Byrd, Nocedal & Schnabel (1994), theorem 2.2: a few products with S and Y.

    Places of the memory that are still empty are zero and change nothing.
    """
    product = lambda a, b: jnp.matmul(a, b, precision="highest")  # noqa: E731
    curvatures = jnp.diag(state.SY)
    empty = jnp.diag((curvatures == 0).astype(g.dtype))
    scale = jnp.where(curvatures[-1] > 0, curvatures[-1] / jnp.where(curvatures[-1] > 0, state.YY[-1, -1], 1), 1)
    R = state.SY + empty
    u = jax.scipy.linalg.solve_triangular(R, product(state.S, g))
    right = curvatures * u + scale * (product(state.YY, u) - product(state.Y, g))
    w = jax.scipy.linalg.solve_triangular(R, right, trans="T")
    return scale * (g - product(u, state.Y)) + product(w, state.S)


def lbfgs(memory: int = 50, tolerance: float = 1e-12) -> optax.GradientTransformationExtraArgs:
    """L-BFGS with a backtracking line search. A redraw or a failed search drops the memory.

    The pair (s, y) of a step enters the memory at the next call, when the new gradient is known. As the two loops of
    the usual recursion are written as products, an iteration costs little more than the loss and its gradient.
    """
    def init(params: Any) -> LBFGSState:
        x, _ = ravel_pytree(params)
        zero = lambda *shape: jnp.zeros(shape, x.dtype)  # noqa: E731
        return LBFGSState(zero(memory, x.size), zero(memory, x.size), zero(memory, memory), zero(memory, memory),
                          zero(x.size), zero(x.size), Ahead(zero(), jax.tree.map(jnp.zeros_like, params)),
                          jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def update(
        updates: Any,
        state: LBFGSState,
        params: Any,
        *,
        value: Any,
        value_and_grad_fn: Callable[[Any], tuple[jax.Array, Any]],
        fresh: Any = False,
        **extra: Any,
    ):
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        fresh = jnp.asarray(fresh)
        y = g - state.gradient
        lengths = jnp.linalg.norm(state.step) * jnp.linalg.norm(y)
        valid = state.step @ y > jnp.finfo(x.dtype).eps * lengths
        state = _tree_where(valid & ~fresh, _remembered(state, state.step, y), state)
        failures = jnp.where(fresh, 0, state.failures)
        direction = _inverse_hessian(state, g)
        steepest = fresh | (state.SY[-1, -1] == 0) | ~(g @ direction > 0)
        # The first step has length one at most; after a failure it looks closer.
        short = _STEEPEST_SHRINK**failures / jnp.maximum(1, jnp.abs(g).sum())
        direction = jnp.where(steepest, short.astype(x.dtype) * g, direction)

        here = Ahead(jnp.asarray(value, x.dtype), unravel(g))
        length, there, _ = _backtrack(
            lambda length: value_and_grad_fn(unravel(x - length * direction)), here, -(g @ direction))
        failures, code = _progress(g, length > 0, failures, tolerance)
        length = jnp.where(code == CONVERGED, 0, length)
        step = jnp.where(length > 0, -length * direction, 0)
        forget = steepest | (length == 0)
        S, Y, SY, YY = (jnp.where(forget, 0, a) for a in state[:4])
        there = _tree_where(code == CONVERGED, here, there)
        return unravel(step), LBFGSState(S, Y, SY, YY, g, step, there, failures, code)

    return optax.GradientTransformationExtraArgs(init, update)


# ---------------------------------------------------------------------------------- self-scaled Broyden


class Change(NamedTuple):
    """Z₊ = scale (Z + c v uᵀ) + t aᵀ, where v = Z u."""

    scale: jax.Array
    c: jax.Array
    v: jax.Array
    u: jax.Array
    t: jax.Array
    a: jax.Array
    Za: jax.Array

    def factor(self, Z: jax.Array) -> jax.Array:
        """Z₊, one elementwise expression that XLA fuses into a single read and write of Z."""
        outer = lambda p, q: p[:, None] * q[None, :]  # noqa: E731
        return self.scale * (Z + self.c * outer(self.v, self.u)) + outer(self.t, self.a)

    def products(self, w: jax.Array, Zw: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Z₊ᵀg and Z₊Z₊ᵀg from w = Zᵀg and Zw, without touching Z."""
        along, across = self.scale * self.c * (self.v @ g), self.t @ g
        new = self.scale * w + along * self.u + across * self.a
        Znew = self.scale * Zw + along * self.v + across * self.Za
        return new, self.scale * (Znew + self.c * (self.u @ new) * self.v) + (self.a @ new) * self.t


def _scaling(h: jax.Array, b: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
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
    e: jax.Array,
    s: jax.Array,
    y: jax.Array,
    a: jax.Array,
    Za: jax.Array,
    allowed: jax.Array | bool = True,
    theta: jax.Array | float | None = None,
    tau: jax.Array | float | None = None,
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
    Z: jax.Array,
    e: jax.Array,
    y: jax.Array,
    theta: jax.Array | float | None = None,
    tau: jax.Array | float | None = None,
) -> jax.Array:
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


def _backtrack(
    along: Callable[[jax.Array], tuple[jax.Array, Any]],
    here: Ahead,
    slope: jax.Array,
    first: jax.Array | float = 1.0,
    decrease: float = 1e-4,
    evaluations: int = 12,
) -> tuple[jax.Array, Ahead, jax.Array]:
    """The length of a step along a ray, what is found at its end, and the length at which the parabola through it is
    lowest; from the loss and its slope at 0 and the first length to try.

    Armijo with quadratic interpolation bounded to [0.1, 0.5] (Nocedal & Wright, section 3.5). Where no trial
    satisfies Armijo's condition (rounding, near a minimum) the lowest one is taken; where none is lower, the length
    is 0. As the first trial is mostly taken, every trial finds the gradient too, which is the next step's.
    """

    def unfinished(carry):
        count, done, *_ = carry
        return ~done & (count < evaluations)

    def trial(carry):
        count, _, length, best_length, best, best_lowest = carry
        value, gradient = along(length)
        new = Ahead(_finite(value).astype(slope.dtype), gradient)
        done = new.value <= here.value + decrease * length * slope
        lower = (new.value < here.value) & (done | (new.value < best.value))
        curvature = 2 * (new.value - here.value - length * slope)
        bends = (curvature > 0) & (curvature < jnp.inf)
        lowest = jnp.where(bends, -slope * length**2 / jnp.where(bends, curvature, 1), 2 * length)
        shorter = jnp.clip(lowest, 0.1 * length, 0.5 * length)
        return (count + 1, done, shorter, *_tree_where(lower, (length, new, lowest), (best_length, best, best_lowest)))

    number = partial(jnp.asarray, dtype=slope.dtype)
    start = jnp.zeros((), jnp.int32), jnp.asarray(False), number(first), number(0), here, number(1)
    _, _, _, length, best, lowest = jax.lax.while_loop(unfinished, trial, start)
    return length, best, lowest


class SSBroydenState(NamedTuple):
    """The factor Z of the inverse Hessian H = ZZᵀ, the last gradient g, Zᵀg, H g, the length of the last step
    s = −step · H g, what is known of its end, and the length that the next one tries first."""

    Z: jax.Array
    gradient: jax.Array
    inner: jax.Array
    product: jax.Array
    step: jax.Array
    ahead: Ahead
    reach: jax.Array
    failures: jax.Array
    status: jax.Array


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
    _check_positive(initial_scale=initial_scale, reset_scale=reset_scale)

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
        value_and_grad_fn: Callable[[Any], tuple[jax.Array, Any]],
        fresh: Any = False,
        whole: Callable[[jax.Array], jax.Array] = lambda vector: vector,
        **extra: Any,
    ):
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        Z, fresh = state.Z, jnp.asarray(fresh)

        inner = jnp.matmul(g, Z, precision="highest")
        product = whole(jnp.matmul(Z, inner, precision="highest"))  # devices may share the rows of Z
        change = _change(-state.step * state.inner, -state.step * state.product, g - state.gradient,
                         inner - state.inner, product - state.product, ~fresh)
        inner, product = change.products(inner, product, g)

        failures = jnp.where(fresh, 0, state.failures)
        restart_scale = (reset_scale * _STEEPEST_SHRINK**failures).astype(x.dtype)
        lost = ~(jnp.isfinite(product @ product) & (g @ product > 0))
        inner = jnp.where(lost, jnp.sqrt(restart_scale) * g, inner)
        product = jnp.where(lost, restart_scale * g, product)

        here = Ahead(jnp.asarray(value, x.dtype), unravel(g))
        reach = jnp.where(fresh | lost, 1, state.reach)
        step, there, lowest = _backtrack(
            lambda length: value_and_grad_fn(unravel(x - length * product)), here, -(g @ product), reach)
        failures, code = _progress(g, step > 0, failures, tolerance)
        step = jnp.where(code == CONVERGED, 0, step)
        there = _tree_where(code == CONVERGED, here, there)

        restart = lost | ((step == 0) & (code != CONVERGED))
        Z = jnp.where(restart, jnp.sqrt(restart_scale) * jnp.eye(x.size, dtype=x.dtype), change.factor(Z))
        move = jnp.where(step > 0, -step * product, 0)
        reach = jnp.where(restart, 1, reach**_REMEMBERED * jnp.clip(lowest, 0.05, 1) ** (1 - _REMEMBERED))
        return unravel(move), SSBroydenState(Z, g, inner, product, step, there, reach, failures, code)

    return optax.GradientTransformationExtraArgs(init, update)


# ----------------------------------------------------------------------------------- Levenberg-Marquardt


def _uses_woodbury(mode: str, rows: int, columns: int) -> bool:
    if mode not in ("dense", "woodbury", "auto"):
        raise ValueError(f'mode must be "dense", "woodbury" or "auto", got {mode!r}')
    return mode == "woodbury" or (mode == "auto" and rows < columns)


def damped_solver(J: jax.Array, r: jax.Array, mode: str = "auto") -> Callable[[jax.Array], jax.Array]:
    """The Levenberg–Marquardt step d(μ) solving (JᵀJ + μI) d = −Jᵀr, by Cholesky.

    "woodbury" uses the equal form d = −Jᵀ(JJᵀ + μI)⁻¹ r, the smaller system when J has few rows.
    """
    woodbury = _uses_woodbury(mode, *J.shape)
    product = lambda a, b: jnp.matmul(a, b, precision="highest")  # noqa: E731
    gram = product(J, J.T) if woodbury else product(J.T, J)
    right = r if woodbury else product(J.T, r)
    diagonal = jnp.arange(gram.shape[0])

    def step(mu: jax.Array) -> jax.Array:
        factor = jnp.linalg.cholesky(gram.at[diagonal, diagonal].add(mu), symmetrize_input=False)
        solution = jax.scipy.linalg.cho_solve((factor, True), right)
        return -(product(J.T, solution) if woodbury else solution)

    return step


class LevenbergMarquardtState(NamedTuple):
    """The damping μ, the failures in a row, and the status."""

    damping: jax.Array
    failures: jax.Array
    status: jax.Array


def levenberg_marquardt(
    damping: float = 1e-3,
    mode: str = "auto",
    up: float = 10.0,
    down: float = 0.1,
    tolerance: float = 1e-12,
) -> optax.GradientTransformationExtraArgs:
    """Levenberg–Marquardt for a loss that is a sum of squares, loss = r·r with r = `residual_fn(params)`.

    Each step tries the dampings μ·(down, 1, up) and keeps the one with the lowest loss; where none lowers
    it the step is zero and μ rises beyond all three. `update` is given `jacobian_fn(params)`, a pytree like
    `jax.jacrev(residual_fn)(params)`: residuals that belong to single points are differentiated point by
    point far faster than through the whole vector.
    """
    _uses_woodbury(mode, 1, 1)
    _check_positive(damping=damping)
    if not 0 < down < 1 < up:
        raise ValueError(f"down and up must satisfy 0 < down < 1 < up, got down={down}, up={up}")

    def init(params: Any) -> LevenbergMarquardtState:
        x, _ = ravel_pytree(params)
        zeros = [jnp.zeros((), jnp.int32) for _ in range(2)]
        return LevenbergMarquardtState(jnp.asarray(damping, x.dtype), *zeros)

    def update(
        updates: Any,
        state: LevenbergMarquardtState,
        params: Any,
        *,
        value: Any,
        value_fn: Callable[[Any], jax.Array],
        residual_fn: Callable[[Any], jax.Array],
        jacobian_fn: Callable[[Any], Any],
        fresh: Any = False,
        **extra: Any,
    ):
        del extra
        x, unravel = ravel_pytree(params)
        g = ravel_pytree(updates)[0].astype(x.dtype)
        r = residual_fn(params).reshape(-1)
        J = jnp.concatenate([leaf.reshape(r.size, -1) for leaf in jax.tree.leaves(jacobian_fn(params))], axis=1)
        solve = damped_solver(J, r, mode)

        # A stall on the old points raised the damping; new points start again from the given one.
        mu = jnp.where(fresh, jnp.minimum(state.damping, damping), state.damping).astype(x.dtype)

        def trial(candidate: jax.Array) -> tuple[jax.Array, jax.Array]:
            d = solve(candidate)
            return d, _finite(value_fn(unravel(x + d)))

        candidates = mu * jnp.asarray([down, 1.0, up], x.dtype)
        directions, values = jax.lax.map(trial, candidates)
        best = jnp.argmin(values)
        moved = values[best] < value
        failures, code = _progress(g, moved, jnp.where(fresh, 0, state.failures), tolerance)
        moved &= code != CONVERGED

        raised = jnp.where(code == CONVERGED, mu, mu * up**2 / down)
        limits = jnp.finfo(x.dtype)
        mu = jnp.clip(jnp.where(moved, candidates[best], raised), limits.tiny / limits.eps, 1e20)
        step = jnp.where(moved, directions[best], 0)
        return unravel(step), LevenbergMarquardtState(mu.astype(x.dtype), failures, code)

    return optax.GradientTransformationExtraArgs(init, update)
