"""A.7.3: condition numbers of the PDE loss against their bounds, over the weights and in training."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatterSciNotation

from hardpde.studies.reproduction.theory.base import FORMS, LEAST, MOST, SHADES, Claim, Finding, Found
from hardpde.studies.reproduction.theory.reformulation import FINE, A, Weights, bounds, pde_loss, random_weights

COARSE = 60  # panels of the quadrature: steps of tanh of unit width

# Those of the last lines of A.7.3: each block is at most 1, 2, 1 (before) or 1, 1, 1, 1 (after) times what they print.
LAST = {"before": 8.0 + 2 * 16 * math.pi + 8.0, "after": 2.0 + 40 * math.pi + 12.0 + 4.0}


def condition_bounds(form: str, theta: Weights, a: Array | float) -> tuple[Array, Array]:
    """Bounds of A.7.3: the 2-norm of Theorem 4.1's bounds, and the last line's 1-norm with all constants in it."""
    sharp = jnp.linalg.norm(jnp.concatenate(list(bounds(form, theta, a).values())))
    c, w, _, c_p = map(jnp.abs, theta)
    one = jnp.maximum(w, 1.0)
    if form == "before":
        last = (c @ w**2 + a**2) * (jnp.maximum(c, 1.0) * w * one).sum()
    else:
        most = jnp.maximum(c, c_p)
        last = (c_p.sum() + most @ w + a**2) * (jnp.maximum(most, 1.0) * one).sum()
    return sharp, LAST[form] * last


def scaled(scale: Array | float, weights: Weights) -> Weights:
    return jax.tree.map(lambda part: scale * part, weights)


def size_of(weights: Weights) -> Array:
    return jnp.linalg.norm(jnp.concatenate(weights))


def condition(form: str, theta: Weights, step: Weights, a: float, panels: int = FINE) -> Array:
    """|ΔL| / ‖Δθ‖₂ of a step."""
    moved = jax.tree.map(jnp.add, theta, step)
    return jnp.abs(pde_loss(form, moved, a, panels) - pde_loss(form, theta, a, panels)) / size_of(step)


def _masked(form: str, step: Weights) -> Weights:
    """Only the weights that a form has move."""
    return step if form == "after" else step._replace(c_p=jnp.zeros_like(step.c_p))


@partial(jax.jit, static_argnums=(0, 3))
def _conditions_at(form: str, keys: Array, scales: Array, width: int) -> dict[str, Array]:
    """Of small steps at random weights, for all scales and keys: (scales, keys)."""
    return jax.lax.map(lambda s: jax.lax.map(lambda key: _conditions_of_steps(form, key, s, width), keys), scales)


def _conditions_of_steps(form: str, key: Array, scale: Array, width: int) -> dict[str, Array]:
    """Along the gradient and along random directions, at random weights of one scale."""
    theta_key, direction_key = jax.random.split(key)
    theta = scaled(scale, random_weights(theta_key, width))
    length = 1e-4 * size_of(theta)
    steepest = jax.grad(pde_loss, argnums=1)(form, theta, A)

    def along(direction: Weights) -> Array:
        direction = _masked(form, direction)
        return condition(form, theta, scaled(length / size_of(direction), direction), A)

    drawn = jax.lax.map(lambda k: along(random_weights(k, width)), jax.random.split(direction_key, 8))
    sharp, last = condition_bounds(form, theta, A)
    return {"gradient": along(steepest), "random": drawn.mean(), "largest": drawn.max(), "bound": sharp, "last": last}


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def _conditions_of_training(form: str, optimiser: str, keys: Array, width: int, steps: int) -> dict[str, Array]:
    """Each step's condition number and bounds while L_F + L_B is minimised, as in A.7.1: (keys, steps)."""
    rule: optax.GradientTransformation = {
        "adam": optax.adam(1e-3),  # and gradient steps of a fixed length
        "gradient": optax.chain(optax.normalize_by_update_norm(), optax.scale(-1e-3))}[optimiser]

    def loss(theta: Weights) -> Array:
        ends = jnp.tanh(jnp.array([0.0, 2 * math.pi])[:, None] * theta.w + theta.b) @ theta.c
        return pde_loss(form, theta, A, COARSE) + (ends**2).sum()

    def one(carry: tuple[Weights, Any], _: None) -> tuple[tuple[Weights, Any], dict[str, Array]]:
        theta, state = carry
        step, state = rule.update(jax.grad(loss)(theta), state, theta)
        step = _masked(form, step)
        sharp, last = condition_bounds(form, theta, A)
        row = {"condition": condition(form, theta, step, A, COARSE), "bound": sharp, "last": last,
               "loss": pde_loss(form, theta, A, COARSE)}
        return (jax.tree.map(jnp.add, theta, step), state), row

    def train(key: Array) -> dict[str, Array]:
        start = random_weights(key, width)
        start = start._replace(c=start.c / math.sqrt(width), c_p=start.c_p / math.sqrt(width))
        return jax.lax.scan(one, (start, rule.init(start)), length=steps)[1]

    return jax.vmap(train)(keys)


def condition_numbers(quick: bool = False) -> dict[str, Any]:
    """A.7.3: condition numbers over the scale of the weights and while training, against their bounds."""
    width, steps, seeds = (20, 200, 2) if quick else (20, 1000, 5)
    scales = np.geomspace(LEAST, MOST, 6 if quick else 11)
    found: dict[str, Any] = {"width": width, "steps": steps, "seeds": seeds, "scales": scales.tolist(), "forms": {}}
    keys = jax.random.split(jax.random.key(5), seeds)
    for form in FORMS:
        rows = jax.tree.map(np.asarray, _conditions_at(form, keys, jnp.asarray(scales), width))
        sweep = {name: np.exp(np.log(values).mean(axis=1)).tolist() for name, values in rows.items()}
        ratio = float((np.maximum(rows["gradient"], rows["largest"]) / rows["bound"]).max())
        training = {}
        for optimiser in ("adam",) if quick else ("adam", "gradient"):
            history = jax.tree.map(np.asarray, _conditions_of_training(form, optimiser, keys, width, steps))
            low, high = np.quantile(history["condition"], [0.05, 0.95], axis=1)
            training[optimiser] = {
                "condition": history["condition"][0].tolist(), "loss": history["loss"][0].tolist(),
                "largest": float(history["condition"].max()),
                "spread": float(np.exp(np.log(high / low).mean())),
                "ratio": float((history["condition"] / history["bound"]).max()),
                "ratio_last": float((history["condition"] / history["last"]).max())}
        found["forms"][form] = {
            "sweep": sweep, "ratio": ratio, "training": training,
            "range": sweep["gradient"][-1] / sweep["gradient"][0],
            "range_of_bound": sweep["bound"][-1] / sweep["bound"][0]}
    return found


def _findings(found: Found) -> list[Finding]:
    before, after = (found["forms"][form] for form in FORMS)
    ratios = [max(form["ratio"], *[row["ratio"] for row in form["training"].values()]) for form in (before, after)]
    findings = [
        Finding("A.7.3: the condition number, the size of ΔL over that of Δθ, is below its bound",
                f"small steps and training: at most {ratios[0]:.1e} of it before, {ratios[1]:.1e} after",
                [max(ratios) <= 1]),
        Finding("over the scale of the weights, "
                f"{found['scales'][0]:g} to {found['scales'][-1]:g}, it varies less after",
                f"by a factor of {before['range']:.1e} before, {after['range']:.1e} after",
                [after["range"] < before["range"]])]
    for optimiser in before["training"]:
        one, two = (form["training"][optimiser]["spread"] for form in (before, after))
        name = "Adam" if optimiser == "adam" else "gradient steps"
        findings.append(Finding(
            f"in training ({name}, {found['steps']} steps, {found['seeds']} seeds) it is more stable after",
            f"95 % over 5 % quantile: {one:.1f} before, {two:.1f} after", [two < one]))
    return findings


EPSILON = 1e-17  # stands for zero on a logarithmic axis


def _draw_conditions(axis: Axes, found: Found) -> None:
    for form, shade in SHADES.items():
        values = np.maximum(found["forms"][form]["training"]["adam"]["condition"], EPSILON)
        axis.semilogy(np.arange(1, len(values) + 1), values, color=shade, lw=1.2, label=form)
    axis.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.5)))
    axis.set_xlabel("step")
    axis.set_ylabel("|ΔL| / ‖Δθ‖₂")


CONDITION_NUMBERS = Claim("condition", condition_numbers, _findings, {
    "A.7.3: condition number in training (Adam)": _draw_conditions})
