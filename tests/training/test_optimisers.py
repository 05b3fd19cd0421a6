"""Properties of the optimisers: secant equation, exactness on simple problems, redraws, status, dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import hardpde  # noqa: F401  (float64)
from hardpde.training.adam import adam
from hardpde.training.ahead import Ahead, ahead
from hardpde.training.lbfgs import _inverse_hessian, lbfgs
from hardpde.training.levenberg_marquardt import damped_solver, levenberg_marquardt
from hardpde.training.line_search import backtrack
from hardpde.training.ssbroyden import ssbroyden, ssbroyden_update
from hardpde.training.status import CONVERGED, RUNNING, STALLED, describe_status, status

SECOND_ORDER = {
    "ssbroyden": lambda: ssbroyden(),
    "lbfgs": lambda: lbfgs(20),
    "lm-dense": lambda: levenberg_marquardt(mode="dense"),
    "lm-woodbury": lambda: levenberg_marquardt(mode="woodbury"),
}
EVERY = {
    "adam": lambda: adam(),
    "adam-cosine": lambda: adam(optax.cosine_decay_schedule(1e-2, 100), plateau=False),
    **SECOND_ORDER,
}

NAN = float("nan")


@jax.jit
def update(H, s, y, theta=None, tau=None):
    """The new inverse Hessian by way of its factor."""
    Z = jnp.linalg.cholesky(H)
    new = ssbroyden_update(Z, jax.scipy.linalg.solve_triangular(Z, s, lower=True), y, theta, tau)
    return new @ new.T


def run(optimiser, residual, params, steps, fresh=lambda i: False):
    """Minimise residual·residual in one scan; returns the parameters, the state and the losses."""
    loss = squared(residual)

    def body(carry, i):
        params, state = carry
        value, grad = jax.value_and_grad(loss)(params)
        updates, state = optimiser.update(
            grad, state, params, value=value, **offered(loss), **squares(residual), fresh=fresh(i)
        )
        return (optax.apply_updates(params, updates), state), value

    start = params, optimiser.init(params)
    (params, state), losses = jax.jit(lambda c: jax.lax.scan(body, c, jnp.arange(steps)))(start)
    return params, state, losses


def offered(loss):
    """What an optimiser may use of a loss."""
    return dict(value_fn=loss, value_and_grad_fn=jax.value_and_grad(loss))


def squares(residual):
    """What an optimiser may use of a loss that is a sum of squares."""
    return dict(residual_fn=residual, jacobian_fn=jax.jacfwd(residual))


def squared(residual):
    return lambda p: jnp.sum(residual(p) ** 2)


def rosenbrock(x):
    """Residuals whose squares sum to the extended Rosenbrock function: n/2 valleys, one minimum, 0 at 1."""
    return jnp.concatenate([10 * (x[1::2] - x[::2] ** 2), 1 - x[::2]])


def network(p):
    return jnp.tanh(p["w"] @ jnp.linspace(-1, 1, 3).astype(p["w"].dtype) + p["b"]) - 0.3


def describe(tree):
    return jax.tree.map(lambda a: (a.shape, a.dtype), tree)


def spd(rng, n, condition=10.0):
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    A = q @ np.diag(np.geomspace(1, condition, n)) @ q.T
    return jnp.asarray((A + A.T) / 2)


# ------------------------------------------------------------------------------------------ convergence


@pytest.mark.parametrize("name", SECOND_ORDER)
@pytest.mark.parametrize("n, steps", [(2, 80), (20, 250)])
def test_second_order_methods_descend_to_the_minimum_of_rosenbrock(name, n, steps):
    start = jnp.where(jnp.arange(n) % 2 == 0, -1.2, 1.0)
    x, state, losses = run(SECOND_ORDER[name](), rosenbrock, start, steps)
    assert jnp.sum(rosenbrock(x) ** 2) < 1e-10
    assert jnp.all(jnp.diff(losses) <= 0)
    assert int(status(state)) in (RUNNING, CONVERGED, STALLED)


@pytest.mark.parametrize("seed", range(3))
def test_ssbroyden_ends_on_a_quadratic_in_n_exact_steps(seed):
    rng, n = np.random.default_rng(seed), 8
    A, x, H = spd(rng, n, 50.0), jnp.asarray(rng.normal(size=n)), jnp.eye(n)
    for _ in range(n):
        g = A @ x
        d = -H @ g
        alpha = -(g @ d) / (d @ A @ d)
        s = alpha * d
        x = x + s
        H = update(H, s, A @ s)
    assert jnp.linalg.norm(A @ x) < 1e-9


@pytest.mark.parametrize("mode, rows", [("dense", 12), ("dense", 5), ("woodbury", 5), ("auto", 12)])
def test_undamped_levenberg_marquardt_solves_linear_least_squares_at_once(mode, rows):
    rng = np.random.default_rng(0)
    A, b = jnp.asarray(rng.normal(size=(rows, 5))), jnp.asarray(rng.normal(size=rows))
    optimiser = levenberg_marquardt(damping=1e-13, mode=mode)
    x, _, _ = run(optimiser, lambda x: A @ x - b, jnp.zeros(5), 1)
    assert jnp.allclose(x, jnp.linalg.lstsq(A, b)[0], atol=1e-7)


# ------------------------------------------------------------------------------------- SSBroyden's update


@pytest.mark.parametrize("n", [1, 2, 12])
def test_update_is_secant_and_positive(n):
    rng = np.random.default_rng(n)
    for _ in range(30):
        H, s = spd(rng, n, 100.0), jnp.asarray(rng.normal(size=n))
        y = spd(rng, n, 30.0) @ s * 10.0 ** rng.uniform(-2, 2)
        new = update(H, s, y)
        assert not jnp.allclose(new, H)
        assert jnp.allclose(new @ y, s, rtol=1e-7, atol=1e-7)
        assert jnp.linalg.eigvalsh(new)[0] > 0


def test_update_contains_bfgs_and_dfp():
    rng = np.random.default_rng(3)
    H, s = spd(rng, 6), jnp.asarray(rng.normal(size=6))
    y = spd(rng, 6) @ s
    left = jnp.eye(6) - jnp.outer(s, y) / (y @ s)
    bfgs = left @ H @ left.T + jnp.outer(s, s) / (y @ s)
    dfp = H - jnp.outer(H @ y, H @ y) / (y @ H @ y) + jnp.outer(s, s) / (y @ s)
    assert jnp.allclose(update(H, s, y, theta=0.0, tau=1.0), bfgs, atol=1e-12)
    assert jnp.allclose(update(H, s, y, theta=1.0, tau=1.0), dfp, atol=1e-12)


@pytest.mark.parametrize("theta, tau", [(-0.2, 0.7), (0.0, 1.0), (0.4, 0.3), (1.0, 0.9), (1.5, 1.0)])
def test_update_is_that_of_the_whole_matrix(theta, tau):
    """[H − Hy yᵀH/(yᵀHy) + φ (yᵀHy) v vᵀ]/τ + s sᵀ/(yᵀs), v = s/(yᵀs) − Hy/(yᵀHy), φ = (1 − θ)/(1 + kθ)."""
    rng = np.random.default_rng(5)
    H, s = spd(rng, 6), jnp.asarray(rng.normal(size=6))
    y = spd(rng, 6) @ s
    ys, Hy = y @ s, H @ y
    yHy = y @ Hy
    v = s / ys - Hy / yHy
    phi = (1 - theta) / (1 + (yHy * (s @ jnp.linalg.solve(H, s)) / ys**2 - 1) * theta)
    whole = (H - jnp.outer(Hy, Hy) / yHy + phi * yHy * jnp.outer(v, v)) / tau + jnp.outer(s, s) / ys
    assert jnp.linalg.eigvalsh(whole)[0] > 0  # or it has no factor
    assert jnp.allclose(update(H, s, y, theta, tau), whole, rtol=1e-10, atol=1e-10)


def test_update_is_skipped_without_positive_curvature_or_when_not_finite():
    rng = np.random.default_rng(4)
    Z, e = jnp.linalg.cholesky(spd(rng, 5)), jnp.asarray(rng.normal(size=5))
    s = Z @ e
    for y in (-s, 0 * s, s * jnp.nan):
        assert jnp.array_equal(ssbroyden_update(Z, e, y), Z)


def test_state_of_ssbroyden_is_consistent():
    """After any number of steps the stored products are Zᵀg and ZZᵀg; the lazy update equals the pure function."""
    optimiser, loss = ssbroyden(), squared(rosenbrock)
    step = jax.jit(lambda g, state, x: optimiser.update(g, state, x, value=loss(x), **offered(loss)))
    gradient = jax.jit(jax.grad(loss))
    x = jnp.linspace(-1.0, 1.5, 6)
    state = optimiser.init(x)
    for _ in range(20):
        before, (updates, state) = state, step(gradient(x), state, x)
        expected = ssbroyden_update(before.Z, -before.step * before.inner, gradient(x) - before.gradient)
        assert jnp.allclose(state.Z, expected, rtol=1e-6, atol=1e-9)
        assert jnp.allclose(state.gradient @ state.Z, state.inner, rtol=1e-8, atol=1e-12)
        assert jnp.allclose(state.Z @ state.inner, state.product, rtol=1e-8, atol=1e-12)
        x = x + updates


def one_step(loss, start, sign=1, **known):
    """The update and the state of SSBroyden after a step from a state of which some things are known."""
    optimiser = ssbroyden()
    state = optimiser.init(start)._replace(**known)
    value, grad = jax.value_and_grad(loss)(start)
    step = jax.jit(lambda state: optimiser.update(sign * grad, state, start, value=value, **offered(loss)))
    return step(state)


def test_curvatures_may_span_more_digits_than_a_number_has():
    """Squares of residuals that grow by 1 to 1e-10 have curvatures from 1 to 1e-20; every one of them is learned."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    A = jnp.asarray(np.logspace(0, -10, 20)[:, None] * turn)
    x, *_ = run(ssbroyden(tolerance=0.0), lambda x: A @ (x - 1), jnp.zeros(20), 500)
    assert jnp.abs(x - 1).max() < 1e-4  # of the flattest direction too


def test_a_matrix_that_is_not_finite_restarts_from_steepest_descent():
    loss, start = squared(rosenbrock), jnp.asarray([-1.2, 1.0])
    updates, state = one_step(loss, start, Z=jnp.full((2, 2), jnp.nan))
    assert loss(start + updates) < loss(start)
    assert jnp.allclose(state.Z @ state.Z.T, 1e-3 * jnp.eye(2))
    assert int(status(state)) == RUNNING


def test_a_failed_search_restarts_from_steepest_descent():
    """Along a direction that climbs, though the gradient says otherwise, there is nothing lower."""
    updates, state = one_step(squared(rosenbrock), jnp.asarray([-1.2, 1.0]), sign=-1)
    assert not updates.any() and int(state.failures) == 1
    assert jnp.allclose(state.Z @ state.Z.T, 1e-3 * jnp.eye(2))


# -------------------------------------------------------------------------------- Levenberg-Marquardt


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (6, 6)])
def test_dense_and_woodbury_give_the_same_step(shape):
    rng = np.random.default_rng(1)
    J, r = jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(size=shape[0]))
    for mu in (1e-4, 1e-1, 10.0):
        dense, woodbury = (damped_solver(J, r, mode)(mu) for mode in ("dense", "woodbury"))
        assert jnp.allclose(dense, woodbury, rtol=1e-8, atol=1e-8)
        assert jnp.allclose(J.T @ (J @ dense) + mu * dense, -J.T @ r, atol=1e-8)


# -------------------------------------------------------------------------------------------- redraws


def convex(x, shift=0.0):
    return jnp.linspace(1.0, 2.0, x.size) * x + 0.1 * x**3 + shift


def after_a_redraw(optimiser):
    """The state after five steps, and a step on another loss as a function of (state, fresh)."""
    x, state, _ = run(optimiser, convex, jnp.linspace(-1.0, 1.5, 6), 5)
    loss = squared(lambda x: convex(x, -0.5))
    value, grad = jax.value_and_grad(loss)(x)
    common = dict(value=value, **offered(loss))
    step = jax.jit(lambda state, fresh: optimiser.update(grad, state, x, **common, fresh=fresh))
    return x, grad, state, step


def test_fresh_leaves_the_inverse_hessian_unchanged():
    _, grad, state, step = after_a_redraw(ssbroyden())
    updates, after = step(state, True)
    assert jnp.array_equal(after.Z, state.Z)
    assert after.step > 0 and jnp.allclose(updates, -after.step * state.Z @ (state.Z.T @ grad))
    assert not jnp.array_equal(step(state, False)[1].Z, state.Z)


def test_fresh_drops_the_memory_of_lbfgs():
    optimiser = lbfgs(5)
    x, _, state, step = after_a_redraw(optimiser)
    after, new = step(state, True), step(optimiser.init(x), False)
    assert all(jnp.array_equal(a, b) for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(new)))
    assert not jnp.any(after[1].S) and jnp.any(state.S)


@pytest.mark.parametrize("steps", [3, 12])  # fewer and more than the memory holds
def test_lbfgs_is_bfgs_from_a_multiple_of_the_identity_over_the_pairs_it_remembers(steps):
    optimiser, x = lbfgs(5), jnp.linspace(-1.0, 1.5, 6)
    loss = lambda p: jnp.sum(rosenbrock(p) ** 2)  # noqa: E731
    state, pairs = optimiser.init(x), []
    step = jax.jit(lambda x, state: optimiser.update(jax.grad(loss)(x), state, x, value=loss(x), **offered(loss)))
    for _ in range(steps):
        move, state = step(x, state)
        pairs.append((move, jax.grad(loss)(x + move) - jax.grad(loss)(x)))
        x = x + move
    pairs = [(s, y) for s, y in pairs[:-1] if s @ y > 0][-5:]  # the last pair enters at the next call
    s, y = pairs[-1]
    H = s @ y / (y @ y) * jnp.eye(x.size)
    for s, y in pairs:
        H = update(H, s, y, theta=0.0, tau=1.0)
    g = jnp.linspace(-1.0, 2.0, 6)
    assert jnp.allclose(_inverse_hessian(state, g), H @ g, rtol=1e-9, atol=1e-12 * jnp.abs(H @ g).max())


@pytest.mark.parametrize("name", ["ssbroyden", "lbfgs"])
@pytest.mark.parametrize("steps", [1, 7, 40, 400])  # far from the minimum, and after it is reached
def test_a_line_search_knows_the_loss_and_gradient_at_the_end_of_its_step(name, steps):
    residual = lambda p: rosenbrock(jnp.concatenate([p["a"], p["b"]]))  # noqa: E731
    start = {"a": jnp.array([-1.2, 1.0]), "b": jnp.ones(2) / 3}
    x, state, _ = run(SECOND_ORDER[name](), residual, start, steps)
    value, gradient = jax.value_and_grad(squared(residual))(x)
    known = ahead(state)
    assert jnp.allclose(known.value, value, rtol=1e-12, atol=1e-30)
    assert all(jnp.allclose(known.gradient[k], gradient[k], rtol=1e-9, atol=1e-12) for k in "ab")


@pytest.mark.parametrize(("first", "length"), [(1.0, 0.3), (0.5, 0.5), (0.2, 0.2)])  # too long by far; long; short
def test_a_search_finds_where_a_parabola_is_lowest_whatever_it_tries_first(first, length):
    along = lambda s: ((s - 0.3) ** 2 + 1.0, s)  # noqa: E731
    found, there, lowest = backtrack(along, Ahead(jnp.asarray(1.09), jnp.asarray(0.0)), jnp.asarray(-0.6), first)
    assert jnp.allclose(jnp.stack([found, there.gradient, lowest]), jnp.array([length, length, 0.3]), rtol=1e-12)


def test_the_first_length_of_ssbroyden_follows_the_lowest_ones_and_new_points_start_again():
    _, _, state, step = after_a_redraw(ssbroyden())
    short = state._replace(reach=jnp.asarray(0.25))
    assert step(short, False)[1].step <= 0.25 < step(short, True)[1].step
    for fresh, reach in ((False, 0.25), (True, 1.0)):
        assert reach**0.8 * 0.05**0.2 * 0.999 <= step(short, fresh)[1].reach <= reach**0.8


def test_optimisers_without_a_line_search_know_nothing_ahead():
    assert ahead(adam().init(jnp.ones(2))) is None
    assert ahead(levenberg_marquardt().init(jnp.ones(2))) is None


@pytest.mark.parametrize("name", ["ssbroyden", "lbfgs", "lm-dense"])
def test_descends_through_redraws(name):
    start = jnp.linspace(-1.0, 1.5, 6)
    x, _, _ = run(SECOND_ORDER[name](), rosenbrock, start, 150, fresh=lambda i: i % 25 == 0)
    assert jnp.sum(rosenbrock(x) ** 2) < 1e-8


# --------------------------------------------------------------------------------------------- status


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_status_codes_are_reached(name):
    """A loss |x − 1| that no step from x = 1 lowers, whatever gradient is claimed."""
    optimiser, x = SECOND_ORDER[name](), jnp.ones(3)

    @jax.jit
    def step(state, slope, fresh, factor):
        def loss(p):
            return factor * jnp.sum(jnp.abs(p - 1))

        gradient = jnp.full(3, slope)
        return optimiser.update(
            gradient, state, x, value=loss(x), **offered(loss), **squares(lambda p: p * factor), fresh=fresh
        )

    def codes(steps, slope, factor=1.0):
        state, found = optimiser.init(x), []
        for _ in range(steps):
            updates, state = step(state, slope, False, factor)
            assert not jnp.any(updates)
            found.append(int(status(state)))
        return found, state

    found, state = codes(4, 1.0)
    assert found == [RUNNING, RUNNING, STALLED, STALLED]
    assert int(status(step(state, 1.0, True, 1.0)[1])) == RUNNING
    assert codes(4, NAN, NAN)[0] == found
    assert codes(1, 0.0)[0] == [CONVERGED]


def test_status_is_found_in_a_chain_and_described():
    chain = optax.chain(optax.identity(), ssbroyden())
    state = chain.init(jnp.ones(2))
    assert status(state).dtype == jnp.int32 and int(status(state)) == RUNNING
    assert int(status((state[0], state[1]._replace(status=jnp.asarray(2, jnp.int32))))) == STALLED
    assert int(status(adam().init(jnp.ones(2)))) == RUNNING
    assert "steepest descent" in describe_status(STALLED)
    assert len({describe_status(code) for code in range(3)}) == 3
    with pytest.raises(ValueError, match="code must be one of"):
        describe_status(7)


# ------------------------------------------------------------------------------------- dtypes and trees


@pytest.mark.parametrize("name", EVERY)
def test_float32_tree_and_state_structure_are_kept(name):
    dtype = jnp.float32
    params = {"w": jnp.linspace(-1, 1, 12, dtype=dtype).reshape(4, 3), "b": jnp.zeros(4, dtype)}
    new, state, losses = run(EVERY[name](), network, params, 30, fresh=lambda i: i == 20)
    assert describe(new) == describe(params)
    assert describe(state) == describe(EVERY[name]().init(params))
    assert losses.dtype == dtype and losses[-1] < losses[0]


@pytest.mark.parametrize("name", EVERY)
def test_state_can_be_donated(name):
    """No buffer occurs twice in an initial state."""
    params = {"w": jnp.ones((4, 3)), "b": jnp.linspace(0, 1, 4)}
    buffers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(EVERY[name]().init(params))]
    assert len(set(buffers)) == len(buffers)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: levenberg_marquardt(mode="qr"), "mode must be"),
        (lambda: levenberg_marquardt(up=0.5), "down and up"),
        (lambda: adam(lambda i: 1e-3), "plateau=False"),
        (lambda: adam(factor=1.0), "factor"),
        (lambda: adam(every=0), "every"),
        (lambda: ssbroyden(initial_scale=-1.0), "initial_scale must be positive"),
        (lambda: ssbroyden(reset_scale=0.0), "reset_scale must be positive"),
        (lambda: levenberg_marquardt(damping=0.0), "damping must be positive"),
    ],
)
def test_errors_name_the_argument(build, message):
    with pytest.raises(ValueError, match=message):
        build()


# -------------------------------------------------------------------------------------- Adam and plateau

LOSSES = [5, 4, 4, 4, 3.9999, 3.9997, 3.9, 3.9, 3.9, 3.9, 3.9, 3.9, 3.9, 3.95, 3, 3, 3, NAN, 3, 3, 3, 3]
LOSSES += [2.9] * 10
# name: scheduler arguments, [(learning rate, number of steps it is used for)], weight after the last step
TORCH = {
    "patience": (
        dict(patience=2),
        [(1e-2, 5), (1e-3, 5), (1e-4, 3), (1e-5, 5), (1e-6, 3), (1e-7, 5), (1e-8, 6)],
        1.002762069684588,
    ),
    "cooldown": (
        dict(patience=1, cooldown=2, factor=0.5, min_lr=1e-3),
        [(1e-2, 4), (5e-3, 5), (2.5e-3, 4), (1.25e-3, 4), (1e-3, 15)],
        0.992067813629267,
    ),
    "threshold": (
        dict(patience=0, cooldown=1, threshold=0.2),
        [(1e-2, 2), (1e-3, 2), (1e-4, 2), (1e-5, 2), (1e-6, 2), (1e-7, 2), (1e-8, 20)],
        1.0133652789389749,
    ),
}


def adam_on_script(optimiser, losses):
    """Learning rates used and weights reached for the scripted losses and gradients, by one scan."""
    steps = jnp.arange(len(losses))

    def body(carry, scripted):
        w, state = carry
        loss, i = scripted
        rate = optax.tree_utils.tree_get(state, "learning_rate")
        updates, state = optimiser.update(((7 * i) % 5 - 1.5)[None], state, w, value=loss, fresh=False)
        w = optax.apply_updates(w, updates)
        return (w, state), (rate, w[0])

    start = jnp.ones(1), optimiser.init(jnp.ones(1))
    _, (rates, weights) = jax.lax.scan(body, start, (jnp.asarray(losses, float), steps))
    return np.asarray(rates), np.asarray(weights)


def plateau_rule(losses, lr=1e-2, factor=0.1, patience=10, threshold=1e-4, cooldown=0, min_lr=0, eps=1e-8):
    """Plain transcription of the rule documented for torch.optim.lr_scheduler.ReduceLROnPlateau."""
    best, bad, cool, rates = float("inf"), 0, 0, []
    for loss in losses:
        rates.append(lr)
        if loss < best * (1 - threshold):
            best, bad = loss, 0
        else:
            bad += 1
        if cool > 0:
            cool, bad = cool - 1, 0
        if bad > patience:
            new = max(lr * factor, min_lr)
            lr = new if lr - new > eps else lr
            cool, bad = cooldown, 0
    return rates


@pytest.mark.parametrize("case", TORCH)
def test_adam_with_plateau_matches_pytorch(case):
    """The numbers in TORCH were printed by torch 2.13.0 from::

    w = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([w], lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, **arguments)
    for i, loss in enumerate(LOSSES):
        print(optimiser.param_groups[0]["lr"], w.item())
        w.grad = torch.tensor([7 * i % 5 - 1.5], dtype=torch.float64)
        optimiser.step()
        scheduler.step(loss)
    """
    arguments, runs, last = TORCH[case]
    rates, weights = adam_on_script(adam(1e-2, **arguments), LOSSES)
    np.testing.assert_allclose(rates, np.repeat(*zip(*runs)), rtol=1e-14)
    np.testing.assert_array_equal(rates, plateau_rule(LOSSES, **arguments))
    assert abs(weights[-1] - last) < 1e-14


def test_plateau_looks_at_the_loss_once_per_epoch():
    arguments = dict(patience=1, factor=0.5)
    rates, _ = adam_on_script(adam(1e-2, every=3, **arguments), LOSSES)
    expected = np.repeat(plateau_rule([*LOSSES[2::3], 1.0], **arguments), 3)
    np.testing.assert_array_equal(rates, expected[: len(LOSSES)])


@pytest.mark.parametrize("rate", [1e-3, optax.cosine_decay_schedule(1e-2, 10)])
def test_adam_without_plateau_is_optax_adam(rate):
    params = {"w": jnp.ones((4, 3)), "b": jnp.zeros(4)}
    ours, _, _ = run(adam(rate, plateau=False), network, params, 10)
    theirs, _, _ = run(optax.with_extra_args_support(optax.adam(rate)), network, params, 10)
    assert all(jnp.allclose(a, b, atol=1e-15) for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)))
