"""What the paper proves and assumes, measured: Theorem 4.1 and appendices A.1–A.4, A.6, A.7 of Liu et al. (2022)."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from scipy.integrate import solve_ivp

from hardpde.ansatz.paper import Paper
from hardpde.evaluation.certificate import boundary_points, random_models
from hardpde.geometry import Ball, Interval, Shape
from hardpde.methods.exact import exact
from hardpde.networks.mlp import MLP
from hardpde.problem.conditions import initial, robin
from hardpde.problem.fields import div, dt
from hardpde.problem.problem import Problem
from hardpde.problems.battery_pack import CELLS, battery_pack
from hardpde.solving.solve import solve
from hardpde.studies.reproduction.base import Outcome, Work, table
from hardpde.studies.reproduction.published import PUBLISHED as TABLES

FORMS = ("before", "after")  # the reformulation with extra fields
BLOCKS = {"before": ("c", "w", "b"), "after": ("c", "w", "b", "c_p")}
LEAST, MOST = 1e-3, 1e2  # the scales of the weights
FINE, COARSE = 1000, 60  # panels of the quadrature: steps of tanh of width 1/MOST, or of unit width
A = 2.0  # of −a² sin(ax), where one value stands for all
ROUNDING = 1e-11  # below it numbers of order one are only rounding
NO_BLEND = 1e9  # β_t so hard that the time blend is over at the first instant
SOFTMIN = 4.0  # the paper's β of l^∂Ω (A.8.1)
PUBLISHED = (5.0, 10.0)  # its β_s and β_t
MAIN, SUB = (50, 50, 50, 50), (20, 20, 20)  # its networks

# Table 4 of the paper: MAE of T on its battery pack, by β_s, at β_t = 1, 2, 5, 10.
PAPER_BETA_T = (1.0, 2.0, 5.0, 10.0)
PAPER_MAE = {s: [float(mae) for mae in TABLES["table4"][f"β_s={s}"][::2]] for s in (5, 10)}

# The constants in the proof of Theorem 4.1 (A.7.2) by form and block.
CONSTANTS = {"before": (8.0, 16 * math.pi, 8.0), "after": (2.0, 40 * math.pi, 12.0, 4.0)}
# Those of the last lines of A.7.3: each block is at most 1, 2, 1 (before) or 1, 1, 1, 1 (after) times what they print.
LAST = {"before": 8.0 + 2 * 16 * math.pi + 8.0, "after": 2.0 + 40 * math.pi + 12.0 + 4.0}


def theory(work: Work) -> Outcome:
    """Every statement of the paper that a computation can check, beside what came out."""
    from hardpde.studies.reproduction.theory_plots import theory_figure  # draws: not needed to import the package

    data: dict[str, Any] = {}
    for name, measure in (("gradients", gradient_bounds), ("condition", condition_numbers), ("rank", ranks),
                          ("hardness", hardness), ("time", time_blend)):
        work.say(f"theory: {name}")
        data[name] = measure(work.quick)
    return Outcome("The paper's theory, measured", text(data), data, {"": theory_figure(data)})


# ---------------------------------------------------------------- Theorem 4.1


class Weights(NamedTuple):
    """A layer of K tanh units with outputs û = c·g and p̂ = c_p·g, g = tanh(w x + b); each (K,)."""

    c: Array
    w: Array
    b: Array
    c_p: Array


@cache
def quadrature(panels: int, order: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre points of (0, 2π) in panels, with weights that sum to one."""
    x, weights = np.polynomial.legendre.leggauss(order)
    starts = np.arange(panels)[:, None]
    return (2 * np.pi * (starts + (x + 1) / 2) / panels).ravel(), np.tile(weights / (2 * panels), panels)


def pde_loss(form: str, theta: Weights, a: Array | float, panels: int = FINE) -> Array:
    """L_F before the reformulation, L̃_F after it (A.7.1), of −u″ = a² sin(ax) on (0, 2π)."""
    x, weights = map(jnp.asarray, quadrature(panels))
    g = jnp.tanh(x[:, None] * theta.w + theta.b)
    slope, source = (1 - g**2) * theta.w, a**2 * jnp.sin(a * x)
    if form == "before":
        return weights @ (-2 * (g * slope * theta.w) @ theta.c + source) ** 2
    return weights @ ((slope @ theta.c_p + source) ** 2 + (g @ theta.c_p - slope @ theta.c) ** 2)


def bounds(form: str, theta: Weights, a: Array | float) -> dict[str, Array]:
    """The explicit bounds of |∇L| by block in the proof of Theorem 4.1, with the paper's constants; each (K,)."""
    c, w, _, c_p = map(jnp.abs, theta)
    most, one = jnp.maximum(c, c_p), jnp.maximum(w, 1.0)
    if form == "before":
        size = c @ w**2 + a**2
        parts = [size * w**2, size * c * w * (w + 1), size * c * w**2]
    else:
        size = c_p.sum() + most @ w + a**2
        parts = [(c_p.sum() + c @ w) * w, size * most * one, size * most * one, size * one]
    return {block: k * part for block, k, part in zip(BLOCKS[form], CONSTANTS[form], parts)}


def gradient(form: str, theta: Weights, a: Array | float, panels: int = FINE) -> dict[str, Array]:
    """∇L by block."""
    found = jax.grad(pde_loss, argnums=1)(form, theta, a, panels)
    return {block: getattr(found, block) for block in BLOCKS[form]}


def random_weights(key: Array, width: int) -> Weights:
    return Weights(*jax.random.normal(key, (4, width)))


def scaled(theta: Weights, scale: Array | float) -> Weights:
    return Weights(*[scale * part for part in theta])


@partial(jax.jit, static_argnums=(0, 3))
def _compare(form: str, theta: Weights, a: Array, panels: int = FINE) -> dict[str, dict[str, Array]]:
    """For a set of weights (n, K) and a (n,): norms of gradient and bound, and the largest ratio, by block."""

    def one(case):
        theta, a = case
        found, limits = gradient(form, theta, a, panels), bounds(form, theta, a)
        rows = {block: _row(found[block], limits[block]) for block in found}
        return rows | {"all": _row(*[jnp.concatenate(list(each.values())) for each in (found, limits)])}

    return jax.lax.map(one, (theta, a), batch_size=4)


def _row(found: Array, limit: Array) -> dict[str, Array]:
    return {"gradient": jnp.linalg.norm(found), "bound": jnp.linalg.norm(limit),
            "ratio": (jnp.abs(found) / limit).max()}


def gradient_bounds(quick: bool = False) -> dict[str, Any]:
    """Theorem 4.1: gradients against the bounds over scales of the weights, and how both grow with the scale.

    One sweep scales all weights alike; another scales each block by a number of its own, drawn over the same decades.
    """
    widths, frequencies = ((20,), (0.5, A)) if quick else ((5, 20, 60), (0.5, A, 10.0))
    seeds, drawn = (2, 40) if quick else (5, 150)
    scales = np.geomspace(LEAST, MOST, 6 if quick else 16)
    found: dict[str, Any] = {
        "widths": list(widths), "a": list(frequencies), "seeds": seeds, "scales": scales.tolist(), "drawn": drawn,
        "forms": {form: {"largest": {}, "curves": []} for form in FORMS}}
    for width in widths:
        theta, cases = _sweep(width, frequencies, scales, seeds, drawn)
        number = len(cases) - drawn
        for form in FORMS:
            result = found["forms"][form]
            rows = jax.tree.map(np.asarray, _compare(form, theta, jnp.asarray([case["a"] for case in cases])))
            _keep_largest(result["largest"], rows, cases)
            result["curves"] += _curves(width, frequencies, scales, jax.tree.map(lambda v, n=number: v[:n], rows))
    for form in FORMS:
        result = found["forms"][form]
        result["exceeds"] = {block: row["ratio"] > 1 for block, row in result["largest"].items()}
        result["exponents"] = {
            block: {end: {what: [_slope(curve["scale"], curve[block][what], low, high) for curve in result["curves"]]
                          for what in ("gradient", "bound")}
                    for end, low, high in (("small", LEAST, 10 * LEAST), ("large", MOST / 10, MOST))}
            for block in (*BLOCKS[form], "all")}
    found["quadrature"] = _quadrature_error()
    return found


def _sweep(width: int, frequencies: tuple[float, ...], scales: np.ndarray, seeds: int, drawn: int
           ) -> tuple[Weights, list[dict]]:
    """Weights (n, width), first all alike scaled (by a, scale, seed), then `drawn` with scales of their own; and what
    each of them is."""
    keys = jax.random.split(jax.random.key(width), seeds + drawn)
    plain = jax.vmap(partial(random_weights, width=width))(keys)
    rng = np.random.default_rng(width)
    cases = [{"width": width, "a": a, "scale": [float(s)] * 4, "seed": k}
             for a in frequencies for s in scales for k in range(seeds)]
    cases += [{"width": width, "a": float(rng.choice(frequencies)), "seed": seeds + k,
               "scale": (10.0 ** rng.uniform(np.log10(LEAST), np.log10(MOST), 4)).tolist()} for k in range(drawn)]
    which, factors = np.array([case["seed"] for case in cases]), np.array([case["scale"] for case in cases])
    return Weights(*[part[which] * factor[:, None] for part, factor in zip(plain, factors.T)]), cases


def _keep_largest(largest: dict[str, Any], rows: Mapping[str, Mapping[str, np.ndarray]], cases: list[dict]) -> None:
    """The largest ratio of each block so far, and where it was found."""
    for block, row in rows.items():
        k = int(row["ratio"].argmax())
        if block != "all" and row["ratio"][k] > largest.get(block, {"ratio": -1.0})["ratio"]:
            largest[block] = {"ratio": float(row["ratio"][k]), "at": cases[k]}


def _curves(width: int, frequencies: tuple[float, ...], scales: np.ndarray, rows: Mapping) -> list[dict]:
    """Norms by block over the scale, geometric means over the seeds, for each a."""
    shape = (len(frequencies), len(scales), -1)
    means = {block: {what: np.exp(np.log(rows[block][what]).reshape(shape).mean(-1)) for what in ("gradient", "bound")}
             for block in rows}
    return [{"width": width, "a": a, "scale": scales.tolist(),
             **{block: {what: values[i].tolist() for what, values in row.items()} for block, row in means.items()}}
            for i, a in enumerate(frequencies)]


def _slope(x: Any, y: Any, low: float, high: float) -> float:
    """The exponent of a power law, fitted where low ≤ x ≤ high."""
    x, y = np.asarray(x), np.asarray(y)
    kept = (x >= low * (1 - 1e-9)) & (x <= high * (1 + 1e-9))
    return float(np.polyfit(np.log(x[kept]), np.log(y[kept]), 1)[0])


def _quadrature_error() -> float:
    """By how much gradients at the largest scale change with twice the panels, relative; before the reformulation,
    where the integrand is steepest."""
    theta, _ = _sweep(20, (A,), np.array([MOST]), 4, 0)
    coarse, fine = (np.asarray(_compare("before", theta, jnp.full(4, A), panels)["all"]["gradient"])
                    for panels in (FINE, 2 * FINE))
    return float(np.abs(coarse / fine - 1).max())


# ---------------------------------------------------------------- condition numbers


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


def size_of(weights: Weights) -> Array:
    return jnp.linalg.norm(jnp.concatenate(weights))


def condition(form: str, theta: Weights, step: Weights, a: float, panels: int = FINE) -> Array:
    """|ΔL| / ‖Δθ‖₂ of a step."""
    moved = Weights(*[part + change for part, change in zip(theta, step)])
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
    theta = scaled(random_weights(theta_key, width), scale)
    length = 1e-4 * size_of(theta)
    steepest = jax.grad(pde_loss, argnums=1)(form, theta, A)

    def along(direction: Weights) -> Array:
        direction = _masked(form, direction)
        size = length / size_of(direction)
        return condition(form, theta, Weights(*[size * part for part in direction]), A)

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

    def one(carry, _):
        theta, state = carry
        step, state = rule.update(jax.grad(loss)(theta), state, theta)
        step = _masked(form, step)
        sharp, last = condition_bounds(form, theta, A)
        row = {"condition": condition(form, theta, step, A, COARSE), "bound": sharp, "last": last,
               "loss": pde_loss(form, theta, A, COARSE)}
        return (Weights(*[part + change for part, change in zip(theta, step)]), state), row

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


# ---------------------------------------------------------------- the rank of the bases


def projection(n: np.ndarray) -> np.ndarray:
    """B = I − nnᵀ for unit vectors n (…, k)."""
    return np.eye(n.shape[-1]) - n[..., :, None] * n[..., None, :]


def low_dimensional(n: np.ndarray) -> np.ndarray:
    """The bases of A.2 for ñ of two or three components."""
    if len(n) == 2:
        return np.array([[n[1]], [-n[0]]])
    return np.array([[0.0, -n[2], n[1]], [n[2], 0.0, -n[0]], [-n[1], n[0], 0.0]])


def counter_example(n: np.ndarray) -> np.ndarray:
    """The basis of A.1 that fails where n₁ = 0."""
    return np.array([[n[1], n[2]], [-n[0], 0.0], [0.0, -n[0]]])


def ranks(quick: bool = False) -> dict[str, Any]:
    """Ranks of the bases of A.1–A.3: of B = I − ññᵀ in 2 to 11 dimensions, of those of A.2, of the counter-example."""
    count, rng = (50 if quick else 1000), np.random.default_rng(0)
    rows = []
    for size in range(2, 12):
        n = _unit(rng.normal(size=(count, size)))
        b = projection(n)
        singular = np.linalg.svd(b, compute_uv=False)
        rows.append({
            "d": size - 1, "ranks": sorted({int(r) for r in np.linalg.matrix_rank(b, tol=ROUNDING)}),
            "least": float(singular[:, -2].min()), "zero": float(singular[:, -1].max()),
            "eigenvalues_apart": float((singular[:, 0] - singular[:, -2]).max()),
            "residual": float(np.abs(np.einsum("ni,nij->nj", n, b)).max())})
    low = []
    for size in (2, 3):
        n = _unit(rng.normal(size=(count, size)))
        bases = np.stack([low_dimensional(v) for v in n])
        low.append({"d": size - 1, "ranks": sorted({int(r) for r in np.linalg.matrix_rank(bases, tol=ROUNDING)}),
                    "residual": float(np.abs(np.einsum("ni,nij->nj", n, bases)).max())})
    first = np.concatenate([[0.0], np.geomspace(1e-8, 0.999, 25)])
    normals = [np.array([f, *np.full(2, math.sqrt((1 - f * f) / 2))]) for f in first]
    return {"vectors": count, "projection": rows, "low_dimensional": low, "counter_example": {
        "n1": first.tolist(),
        "basis": [float(np.linalg.svd(counter_example(n), compute_uv=False)[1]) for n in normals],
        "projection": [float(np.linalg.svd(projection(n), compute_uv=False)[1]) for n in normals]}}


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


# ---------------------------------------------------------------- how hard β_s is


def three_holes() -> Problem:
    """Poisson's equation with Robin conditions on a disc with three round holes: boundaries that do not touch."""
    domain: Shape = Ball((0.0, 0.0), 2.0, name="outer")
    for centre, radius in (((-0.8, 0.3), 0.4), ((0.8, 0.5), 0.3), ((0.2, -1.0), 0.35)):
        domain = domain - Ball(centre, radius, name="hole")
    return Problem(
        name="three-holes", domain=domain, fields="u", gradients={"grad_u": "u"},
        residual=lambda x, q, dq: div(dq.grad_u) + 1.0,
        conditions=[robin("outer", "u", a=1.0, b=1.0, g=0.0), robin("hole", "u", a=1.0, b=1.0, g=1.0)])


Spread = tuple[float, float]  # the mean and the largest


class Places(NamedTuple):
    """Points of all boundaries, corners included: the boundary of each, x, ñ (n, m) and g̃ (n,)."""

    owners: np.ndarray
    x: np.ndarray
    n: np.ndarray
    g: np.ndarray


def violations_of(problem: Problem, models: int, places: Places) -> Callable[..., dict[str, Spread]]:
    """A function of β_s, β_t, SoftMin's β and whether the main network takes part: the mean and the largest
    |ñ·(u, p) − g̃| by boundary, with random networks of unit size in the paper's ansatz."""
    ansatz, schema = Paper(problem, 1.0, 1.0, SOFTMIN, "projection"), problem.schema
    rng, inputs = np.random.default_rng(0), schema.coordinates
    networks = [[unit_network(rng, (inputs, *MAIN, schema.size)),
                 *[unit_network(rng, (inputs, *SUB, out), (number,)) for out, _, number in ansatz.subnetworks]]
                for _ in range(models)]
    owners = places.owners
    x, n, g = map(jnp.asarray, places[1:])

    @jax.jit
    def miss(beta_s, beta_t, softmin_beta, main):
        hard = copy(ansatz)
        hard.softmin_beta = softmin_beta
        known, matrix, groups = jax.vmap(lambda x: hard.coefficients(x, (beta_s, beta_t)))(x)

        def one(model):
            first, *subs = [network.jet(x.T[:, None]) for network in model]
            q = known + main * jnp.einsum("nmo,on->nm", matrix, first[:, 0])
            q = q + sum(jnp.einsum("nkmo,kon->nm", group, sub[:, :, 0]) for group, sub in zip(groups, subs))
            return jnp.abs((n * q).sum(1) - g)

        return jnp.stack([one(model) for model in networks])

    def measure(beta_s: float, beta_t: float = NO_BLEND, softmin_beta: float = SOFTMIN,
                main: bool = True) -> dict[str, Spread]:
        values = np.asarray(miss(beta_s, beta_t, softmin_beta, float(main)))
        names = ["all", *dict.fromkeys(owners.tolist())]
        found = [values if name == "all" else values[:, owners == name] for name in names]
        return {name: (float(part.mean()), float(part.max())) for name, part in zip(names, found)}

    return measure


def unit_network(rng: np.random.Generator, sizes: tuple[int, ...], stack: tuple[int, ...] = ()) -> MLP:
    """A network, or a stack of them, with random weights that keep signals of unit size."""
    return MLP([jnp.asarray(rng.normal(size=(*stack, i, o)) / math.sqrt(i)) for i, o in pairwise(sizes)],
               [jnp.asarray(rng.normal(size=(*stack, o))) for o in sizes[1:]])


def places_of(problem: Problem, points: int) -> Places:
    """About so many points of each boundary, at random times."""
    parts = []
    for condition in problem.pointwise:
        if condition.on in problem.domain.boundaries:
            x, n = boundary_points(problem, condition.on, points)
            if problem.time is not None:
                x = np.concatenate([x, np.random.default_rng(1).uniform(*problem.time, (len(x), 1))], axis=1)
            a, g = map(np.asarray, jax.jit(jax.vmap(partial(condition.matrix, problem.schema)))(x, n))
            size = np.linalg.norm(a[:, 0], axis=1)
            parts.append((np.full(len(x), condition.on), x, a[:, 0] / size[:, None], g[:, 0] / size))
    return Places(*[np.concatenate(each) for each in zip(*parts)])


def hardness(quick: bool = False) -> dict[str, Any]:
    """The theorem of A.4: the violation of boundary conditions over β_s, as printed and where l^∂Ω is 0 on ∂Ω."""
    betas = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0] if quick else [float(b) for b in (*range(1, 11), *range(12, 42, 2))]
    softmins = [4.0, 16.0, 64.0] if quick else [4.0, 8.0, 16.0, 32.0, 64.0]
    models, points = (2, 100) if quick else (5, 400)
    found: dict[str, Any] = {"beta_s": betas, "softmin_beta": softmins, "models": models, "points": points}
    for problem in (three_holes(),) if quick else (three_holes(), battery_pack()):
        places = places_of(problem, points)
        measure = violations_of(problem, models, places)
        printed, vanishing = ([measure(b, main=main) for b in betas] for main in (True, False))
        names = list(printed[0])
        # Boundaries whose own distance is zero on them: l of a rectangle is a SoftMin too.
        sharp = [name for name in names if name != "all" and (problem.time is None or name != "outer")]
        worst = np.array([max(row[name][1] for name in sharp) for row in vanishing])
        kept = (np.asarray(betas) >= 5) & (worst > ROUNDING)
        formulation = exact(problem, width=16, depth=2, points=256)
        states = [formulation.predict(model, places.x) for model in random_models(formulation, models)]
        found[problem.name] = {
            "printed": {name: [row[name] for row in printed] for name in names},
            "vanishing": {name: [row[name] for row in vanishing] for name in names},
            "sharp": sharp, "worst": worst.tolist(),
            "rate": float(np.polyfit(np.asarray(betas)[kept], np.log(worst[kept]), 1)[0]),
            "softmin": [measure(betas[-1], softmin_beta=b) for b in softmins],
            "as_published": measure(*PUBLISHED), "published_space": measure(PUBLISHED[0]),
            "exact": max(float(np.abs((places.n * q).sum(1) - places.g).max()) for q in states)}
    return found


# ---------------------------------------------------------------- what the time blend leaves


class Radial(NamedTuple):
    """Means over cells between circles, (times, cells), with the middles (cells,) and areas (cells,) of these."""

    r: np.ndarray
    area: np.ndarray
    values: np.ndarray


START, CELL, AIR = 0.1, 5.0, 0.1  # temperatures of the paper's pack; k = h = 1
OUTER = math.sqrt(16 * 24 / (len(CELLS) * math.pi))  # the circle of the area that the pack has for each cell
TIMES = np.linspace(0.0, 1.0, 11)


def one_cell(beta_t: float | None = None, cells: int = 400) -> Radial:
    """Heat round one cell of the pack, 1 < r < OUTER, by finite volumes in r: the true solution, or with β_t what is
    left of it when the loss of the paper's ansatz is zero.

    Its projection holds for u† and p, a u† + b n·p = g, before u = u†(1 − e) + f e with e = e^{−β_t t} (A.6). So the
    limit solves the heat equation with n·∇u = g − u − (u − f) e/(1 − e), in which e/(1 − e) falls from ∞ to 0.
    """
    edges = np.linspace(1.0, OUTER, cells + 1)
    width = edges[1] - edges[0]
    area, half = np.diff(edges**2) / 2, 2 / width
    flux = np.zeros(cells + 1)

    def rate(t: float, u: np.ndarray) -> np.ndarray:
        extra = 0.0 if beta_t is None else math.exp(-beta_t * t) / max(-math.expm1(-beta_t * t), 1e-12)
        left, right = ((g + extra * START + half * value) / (half + 1 + extra)  # on the walls
                       for g, value in ((CELL, u[0]), (AIR, u[-1])))
        flux[1:-1] = edges[1:-1] * np.diff(u) / width
        flux[0], flux[-1] = edges[0] * half * (u[0] - left), edges[-1] * half * (right - u[-1])
        return np.diff(flux) / area

    found = solve_ivp(rate, (TIMES[0], TIMES[-1]), np.full(cells, START), "LSODA", t_eval=TIMES, rtol=1e-8, atol=1e-10,
                      lband=1, uband=1)
    if not found.success:
        raise RuntimeError(f"the radial solution with beta_t = {beta_t} was not found: {found.message}")
    return Radial((edges[1:] + edges[:-1]) / 2, area, found.y.T)


def mean_error(one: np.ndarray, two: Radial) -> float:
    """The mean over area and times of the absolute difference, as the paper's MAE."""
    return float((np.abs(one - two.values) @ two.area).mean() / two.area.sum())


def one_cell_problem() -> Problem:
    """The same for networks: a problem on the interval of r."""
    return Problem(
        name="one-cell", domain=Interval(1.0, OUTER, left="cell", right="outer"), fields="T", gradients={"grad_T": "T"},
        time=(0.0, 1.0), residual=lambda x, q, dq: dt(dq.T) - div(dq.grad_T) - q.grad_T[0] / x[0],
        conditions=[robin("cell", "T", a=1.0, b=1.0, g=CELL), robin("outer", "T", a=1.0, b=1.0, g=AIR),
                    initial("T", START)])


def trained(beta_t: float, steps: int) -> dict[str, float]:
    """The paper's ansatz on that problem, trained until its loss is tiny; β_s = 10 leaves 5e-5 of the other wall."""
    options = {"main": [16, 16], "sub": [12, 12], "points": 1024, "beta_s": 10.0, "beta_t": beta_t, "dtype": "float64",
               "chunk": 1024}
    solution = solve(one_cell_problem(), "hc", options=options, stages=[
        {"optimiser": "ssbroyden", "steps": steps, "redraw": 300, "block": min(steps, 100)}])
    true, limit = one_cell(), one_cell(beta_t)
    values = np.stack([solution(true.r[:, None], t)["T"] for t in TIMES])
    return {"beta_t": beta_t, "steps": steps, "loss": float(solution.training.history[-1]["loss"]),
            "mae": mean_error(values, true), "from_limit": mean_error(values, limit)}


def time_blend(quick: bool = False) -> dict[str, Any]:
    """A.6: the error that the time blend leaves, over β_t, when the loss is driven to zero; and trained networks."""
    betas = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0]
    true = one_cell()
    limit = {beta: mean_error(one_cell(beta).values, true) for beta in betas}
    coarse = one_cell(cells=200)
    changes = [abs(mean_error(one_cell(beta, 200).values, coarse) - mae) for beta, mae in limit.items()]
    return {
        "outer": OUTER, "beta_t": betas, "mae": list(limit.values()), "grid": max(changes),
        "exponents": [float(np.log(limit[b] / limit[a]) / np.log(b / a)) for a, b in pairwise(betas)],
        "paper": {"beta_t": list(PAPER_BETA_T), "mae": {str(k): list(v) for k, v in PAPER_MAE.items()},
                  "over_limit": {str(k): [mae / limit[beta] for beta, mae in zip(PAPER_BETA_T, v)]
                                 for k, v in PAPER_MAE.items()}},
        "trained": [trained(5.0, 300)] if quick else [trained(beta, 3000) for beta in (5.0, 10.0)]}


# ---------------------------------------------------------------- in words


def text(data: Mapping[str, Any]) -> str:
    """What the paper states, what was measured, whether it holds."""
    rows = [*_gradient_rows(data["gradients"]), *_condition_rows(data["condition"]), *_rank_rows(data["rank"]),
            *_hardness_rows(data["hardness"]), *_time_rows(data["time"])]
    parts = ["All numbers are computed here, in double precision; only the columns named \"paper\" are quoted.",
             table(["the paper's statement", "measured", "holds?"], rows),
             _gradient_text(data["gradients"]), _hardness_text(data["hardness"]), _time_text(data["time"])]
    return "\n\n".join(parts) + "\n"


def _yes(*holds: bool) -> str:
    """Whether something holds in all cases, in some, in none."""
    return "yes" if all(holds) else "in part" if any(holds) else "**no**"


def _gradient_rows(found: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for form in FORMS:
        result = found["forms"][form]
        ratios = ", ".join(f"{block} {result['largest'][block]['ratio']:.3f}" for block in BLOCKS[form])
        broken = [f"{block} at {result['largest'][block]['at']}" for block in BLOCKS[form] if result["exceeds"][block]]
        rows.append([f"Theorem 4.1, {form} the reformulation: the bounds of A.7.2 with their constants",
                     f"largest gradient / bound: {ratios}" + "".join(f"; above it: {case}" for case in broken),
                     _yes(not broken)])
    before, after = (_exponent_range(found, form, "all") for form in FORMS)
    lower = {end: [two < one - 0.5 for one, two in zip(*[found["forms"][form]["exponents"]["all"][end]["gradient"]
                                                         for form in FORMS])] for end in ("small", "large")}
    least = min(min(curve["all"]["gradient"]) for curve in found["forms"]["after"]["curves"])
    rows.append(["after Theorem 4.1: gradients explode less for large weights after the reformulation",
                 f"they grow as s^{before['large']} before, s^{after['large']} after", _yes(*lower["large"])])
    rows.append(["and vanish less for small ones, as \"some terms are controlled by 1\"",
                 f"they fall as s^{before['small']} before, s^{after['small']} after, to {least:.0e} at s = {LEAST:g}: "
                 f"the bound stays up, the gradient does not", _yes(*lower["small"])])
    return rows


def _exponent_range(found: Mapping[str, Any], form: str, block: str, what: str = "gradient") -> dict[str, str]:
    rows = found["forms"][form]["exponents"][block]
    ends = {end: (min(rows[end][what]), max(rows[end][what])) for end in ("small", "large")}
    return {end: f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f}…{high:.1f}".replace("-0.0", "0.0")
            for end, (low, high) in ends.items()}


def _gradient_text(found: Mapping[str, Any]) -> str:
    rows = []
    for form in FORMS:
        for block in (*BLOCKS[form], "all"):
            measured, bound = (_exponent_range(found, form, block, what) for what in ("gradient", "bound"))
            rows.append([f"{form}, {block}", bound["small"], measured["small"], bound["large"], measured["large"]])
    return (f"Exponents of the scale s of all weights (s from {found['scales'][0]:g} to {found['scales'][-1]:g}, "
            f"fitted on the first and on the last decade; widths {', '.join(map(str, found['widths']))}, a = "
            f"{', '.join(f'{a:g}' for a in found['a'])}, {found['seeds']} seeds; a range is over widths and a). "
            f"The quadrature is good to {found['quadrature']:.0e}. For whole a the source is orthogonal to constants, "
            f"so gradients at small weights fall faster than for a = 0.5.\n\n"
            + table(["block", "bound, small s", "measured, small s", "bound, large s", "measured, large s"], rows))


def _condition_rows(found: Mapping[str, Any]) -> list[list[str]]:
    forms = found["forms"]
    ratios = {form: max(result["ratio"], *[row["ratio"] for row in result["training"].values()])
              for form, result in forms.items()}
    rows = [["A.7.3: the condition number, the size of ΔL over that of Δθ, is below its bound",
             f"small steps and training: at most {ratios['before']:.1e} of it before, {ratios['after']:.1e} after",
             _yes(max(ratios.values()) <= 1)],
            [f"over the scale of the weights, {found['scales'][0]:g} to {found['scales'][-1]:g}, it varies less after",
             f"by a factor of {forms['before']['range']:.1e} before, {forms['after']['range']:.1e} after",
             _yes(forms["after"]["range"] < forms["before"]["range"])]]
    for optimiser in forms["before"]["training"]:
        spread = {form: forms[form]["training"][optimiser]["spread"] for form in FORMS}
        name = "Adam" if optimiser == "adam" else "gradient steps"
        rows.append([f"in training ({name}, {found['steps']} steps, {found['seeds']} seeds) it is more stable after",
                     f"95 % over 5 % quantile: {spread['before']:.1f} before, {spread['after']:.1f} after",
                     _yes(spread["after"] < spread["before"])])
    return rows


def _rank_rows(found: Mapping[str, Any]) -> list[list[str]]:
    rows, counter = found["projection"], found["counter_example"]
    low = found["low_dimensional"]
    apart = max(row["eigenvalues_apart"] for row in rows)
    return [
        ["A.3: B = I − ññᵀ has rank d and ñᵀB = 0, for d = 1 to 10",
         f"smallest nonzero singular value {min(row['least'] for row in rows):.6f}, "
         f"ñᵀB at most {max(row['residual'] for row in rows):.0e}",
         _yes(all(row["ranks"] == [row["d"]] for row in rows))],
        ["A.2: the bases for d = 1 and d = 2 have rank d",
         f"ranks {' and '.join(', '.join(map(str, row['ranks'])) for row in low)}, "
         f"ñᵀB at most {max(row['residual'] for row in low):.0e}",
         _yes(all(row["ranks"] == [row["d"]] for row in low))],
        ["A.1: the other basis loses rank where n₁ = 0",
         f"its second singular value is n₁ to {max(abs(a - b) for a, b in zip(counter['n1'], counter['basis'])):.0e}, "
         f"that of B at least {min(counter['projection']):.6f}",
         _yes(counter["basis"][0] == 0.0)],
        ["A.4 assumes that the d nonzero eigenvalues of B are all different",
         f"they are equal (apart by at most {apart:.0e}), as those of a projection; the proof does not need more",
         _yes(apart > ROUNDING)]]


def _hardness_rows(found: Mapping[str, Any]) -> list[list[str]]:
    names = {"three-holes": "disc with three holes", "battery-pack": "battery pack"}
    rows = []
    for name, title in names.items():
        if name not in found:
            continue
        row = found[name]
        last = row["printed"]["all"][-1][1]
        rows += [
            [f"A.4, {title}: if l^∂Ω = 0 on ∂Ω, the violation falls with β_s (as e^−β_s)"
             + ("" if "outer" in row["sharp"] else ", cells and pipes"),
             f"as e^({row['rate']:.3f} β_s)", _yes(abs(row["rate"] + 1) < 0.05)],
            [f"A.4, {title}: below any ε for β_s large enough, with the paper's SoftMin",
             f"largest violation {last:.2g} at β_s = {found['beta_s'][-1]:g} "
             f"({row['printed']['all'][0][1]:.2g} at β_s = {found['beta_s'][0]:g}); "
             f"our exact ansatz: {row['exact']:.0e}", _yes(last < 1e-6)]]
    return rows


def _hardness_text(found: Mapping[str, Any]) -> str:
    row = found["three-holes"]
    words = ("A.4 takes l^∂Ω = 0 on the boundary, but a SoftMin is −log(1 + Σ e^{−βl})/β there and lets the main "
             "network in. On the disc with three holes and random networks of unit size the largest violation at β_s = "
             f"{found['beta_s'][-1]:g} is " + ", ".join(
                 f"{each['all'][1]:.1e} with β = {b:g}" for b, each in zip(found["softmin_beta"], row["softmin"]))
             + f" (the paper: β = {SOFTMIN:g}).")
    if "battery-pack" not in found:
        return words
    pack = found["battery-pack"]
    outer = [pair[1] for pair in pack["vanishing"]["outer"]]
    space, both = pack["published_space"], pack["as_published"]
    rows = [[name, *[f"{value:.3f}" for each in (space, both) for value in each[name]]] for name in space]
    return (words + f" On the pack the distance to the outer rectangle is itself a SoftMin, negative at its corners: "
            f"there e^(−αl) exceeds one, and the violation grows with β_s, from {min(outer):.2g} to {outer[-1]:.2g} at "
            f"β_s = {found['beta_s'][-1]:g}, even without the main network. Random networks of unit size with the "
            f"paper's β_s = {PUBLISHED[0]:g}:\n\n"
            + table(["boundary of the pack", "mean, space alone", "largest", f"mean, with β_t = {PUBLISHED[1]:g}",
                     "largest"], rows))


def _time_rows(found: Mapping[str, Any]) -> list[list[str]]:
    return [["A.4 carries over to time-dependent problems (A.6)",
             f"with the loss at zero an MAE of {found['mae'][0]:.3f} (β_t = {found['beta_t'][0]:g}) to "
             f"{found['mae'][-1]:.4f} (β_t = {found['beta_t'][-1]:g}) remains; "
             f"it falls as β_t^{found['exponents'][-1]:.1f}",
             _yes(max(found["mae"]) < 1e-3)]]


def _time_text(found: Mapping[str, Any]) -> str:
    trained = {row["beta_t"]: row for row in found["trained"]}
    paper = found["paper"]

    def quoted(beta: float, key: str, beta_s: str, form: str) -> str:
        return format(paper[key][beta_s][paper["beta_t"].index(beta)], form) if beta in paper["beta_t"] else "–"

    rows = [[f"{beta:g}", f"{mae:.4f}", f"{trained[beta]['mae']:.4f}" if beta in trained else "–",
             *[quoted(beta, "mae", s, ".4f") for s in paper["mae"]],
             *[quoted(beta, "over_limit", s, ".2f") for s in paper["mae"]]]
            for beta, mae in zip(found["beta_t"], found["mae"])]
    losses = ", ".join(f"{row['loss']:.0e} after {row['steps']} steps at β_t = {beta:g} (mean distance from the limit "
                       f"{row['from_limit']:.1e})" for beta, row in trained.items())
    return ("The time blend comes after the projection, so a u + b n·p − g = a (f − u†) e^{−β_t t}. With the loss at "
            f"zero the ansatz solves the heat equation with that condition: computed here round one cell of the pack "
            f"(1 < r < {found['outer']:.2f}, the pack's area for each cell; error of the computation "
            f"{found['grid']:.0e}), and compared with the true solution. Networks trained with the paper's ansatz on "
            f"the same problem end near it: loss {losses}.\n\n"
            + table(["β_t", "MAE, one cell, loss zero", "MAE, one cell, trained",
                     *[f"paper: MAE of its pack, β_s = {s}" for s in paper["mae"]],
                     *[f"paper / loss zero, β_s = {s}" for s in paper["mae"]]], rows))
