"""A.4: by how much the paper's ansatz violates boundary conditions, over its hardness β_s."""

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.axes import Axes

from hardpde.ansatz.paper import Paper
from hardpde.evaluation.certificate import boundary_points, random_models
from hardpde.evaluation.figures.base import COLOURS, GREY
from hardpde.formulation.engine import Engine
from hardpde.geometry import Ball, Shape, at_times
from hardpde.methods.exact import exact
from hardpde.networks.mlp import MLP
from hardpde.problem.conditions import robin
from hardpde.problem.fields import div
from hardpde.problem.problem import Problem
from hardpde.problems.battery_pack import battery_pack
from hardpde.studies.reproduction.theory.base import ROUNDING, Claim, Finding, Found
from hardpde.support.tables import markdown_table

NO_BLEND = 1e9  # β_t so hard that the time blend is over at the first instant
SOFTMIN = 4.0  # the paper's β of l^∂Ω (A.8.1)
PUBLISHED = (5.0, 10.0)  # its β_s and β_t
MAIN, SUB = (50, 50, 50, 50), (20, 20, 20)  # its networks

MeanAndLargest = tuple[float, float]


def three_holes() -> Problem:
    """Poisson's equation with Robin conditions on a disc with three round holes: boundaries that do not touch."""
    domain: Shape = Ball((0.0, 0.0), 2.0, name="outer")
    for centre, radius in (((-0.8, 0.3), 0.4), ((0.8, 0.5), 0.3), ((0.2, -1.0), 0.35)):
        domain = domain - Ball(centre, radius, name="hole")
    return Problem(
        name="three-holes", domain=domain, fields="u", gradients={"grad_u": "u"},
        residual=lambda x, q, dq: div(dq.grad_u) + 1.0,
        conditions=[robin("outer", "u", a=1.0, b=1.0, g=0.0), robin("hole", "u", a=1.0, b=1.0, g=1.0)])


class Places(NamedTuple):
    """Points of all boundaries, corners included: the boundary of each, x, ñ (n, m) and g̃ (n,)."""

    owners: np.ndarray
    x: np.ndarray
    n: np.ndarray
    g: np.ndarray


def violations_of(problem: Problem, models: int, places: Places) -> Callable[..., dict[str, MeanAndLargest]]:
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
    def miss(beta_s: float, beta_t: float, softmin_beta: float, main: float) -> Array:
        hard = copy(ansatz)
        hard.softmin_beta = softmin_beta
        known, matrix, groups = jax.vmap(lambda x: hard.coefficients(x, (beta_s, beta_t)))(x)

        def one(model: list[MLP]) -> Array:
            first, *subs = [network.jet(x.T[:, None]) for network in model]
            q = known + main * jnp.einsum("nmo,on->nm", matrix, first[:, 0])
            q = q + sum(jnp.einsum("nkmo,kon->nm", group, sub[:, :, 0]) for group, sub in zip(groups, subs))
            return jnp.abs((n * q).sum(1) - g)

        return jnp.stack([one(model) for model in networks])

    def measure(beta_s: float, beta_t: float = NO_BLEND, softmin_beta: float = SOFTMIN,
                main: bool = True) -> dict[str, MeanAndLargest]:
        values = np.asarray(miss(beta_s, beta_t, softmin_beta, float(main)))
        names = ["all", *dict.fromkeys(owners.tolist())]
        found = [values if name == "all" else values[:, owners == name] for name in names]
        return {name: (float(part.mean()), float(part.max())) for name, part in zip(names, found)}

    return measure


def unit_network(rng: np.random.Generator, sizes: tuple[int, ...], stack: tuple[int, ...] = ()) -> MLP:
    """A network, or a stack of them, with random weights that keep signals of unit size."""
    return MLP([jnp.asarray(rng.normal(size=(*stack, i, o)) / math.sqrt(i)) for i, o in pairwise(sizes)],
               [jnp.asarray(rng.normal(size=(*stack, o))) for o in sizes[1:]])


def boundary_places(problem: Problem, points: int) -> Places:
    """About so many points of each boundary, at random times."""
    parts = []
    for condition in problem.pointwise:
        if condition.on in problem.domain.boundaries:
            x, n = boundary_points(problem, condition.on, points)
            if problem.time is not None:
                x = at_times(x, np.random.default_rng(1).uniform(*problem.time, (len(x), 1)))
            a, g = map(np.asarray, jax.jit(jax.vmap(partial(condition.matrix, problem.schema)))(x, n))
            size = np.linalg.norm(a[:, 0], axis=1)
            parts.append((np.full(len(x), condition.on), x, a[:, 0] / size[:, None], g[:, 0] / size))
    return Places(*[np.concatenate(each) for each in zip(*parts)])


def violations(quick: bool = False) -> dict[str, Any]:
    """The theorem of A.4: the violation of boundary conditions over β_s, as printed and where l^∂Ω is 0 on ∂Ω."""
    betas = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0] if quick else [float(b) for b in (*range(1, 11), *range(12, 42, 2))]
    softmins = [4.0, 16.0, 64.0] if quick else [4.0, 8.0, 16.0, 32.0, 64.0]
    models, points = (2, 100) if quick else (5, 400)
    found: dict[str, Any] = {"beta_s": betas, "softmin_beta": softmins, "models": models, "points": points}
    for problem in (three_holes(),) if quick else (three_holes(), battery_pack()):
        places = boundary_places(problem, points)
        measure = violations_of(problem, models, places)
        printed, vanishing = ([measure(b, main=main) for b in betas] for main in (True, False))
        names = list(printed[0])
        # Boundaries whose own distance is zero on them: l of a rectangle is a SoftMin too.
        sharp = [name for name in names if name != "all" and (problem.time is None or name != "outer")]
        worst = np.array([max(row[name][1] for name in sharp) for row in vanishing])
        kept = (np.asarray(betas) >= 5) & (worst > ROUNDING)
        formulation = exact(problem, width=16, depth=2, engine=Engine(256))
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


def _findings(found: Found) -> list[Finding]:
    findings = []
    for name, title in (("three-holes", "disc with three holes"), ("battery-pack", "battery pack")):
        if name not in found:
            continue
        row = found[name]
        first, last = row["printed"]["all"][0][1], row["printed"]["all"][-1][1]
        findings += [
            Finding(f"A.4, {title}: if l^∂Ω = 0 on ∂Ω, the violation falls with β_s (as e^−β_s)"
                    + ("" if "outer" in row["sharp"] else ", cells and pipes"),
                    f"as e^({row['rate']:.3f} β_s)", [abs(row["rate"] + 1) < 0.05]),
            Finding(f"A.4, {title}: below any ε for β_s large enough, with the paper's SoftMin",
                    f"largest violation {last:.2g} at β_s = {found['beta_s'][-1]:g} "
                    f"({first:.2g} at β_s = {found['beta_s'][0]:g}); our exact ansatz: {row['exact']:.0e}",
                    [last < 1e-6])]
    return findings


def _words(found: Found) -> str:
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
            + markdown_table(["boundary of the pack", "mean, space alone", "largest",
                              f"mean, with β_t = {PUBLISHED[1]:g}", "largest"], rows))


def _draw_violations(axis: Axes, found: Found) -> None:
    betas = np.array(found["beta_s"])
    disc, pack = found["three-holes"], found.get("battery-pack")
    axis.semilogy(betas, [pair[1] for pair in disc["printed"]["all"]], color=COLOURS[0], lw=1.6,
                  label="disc with holes, as printed")
    axis.semilogy(betas, disc["worst"], color=COLOURS[0], lw=1.6, ls=(0, (4, 3)),
                  label="disc with holes, l = 0 on the boundary")
    if pack is not None:
        axis.semilogy(betas, [pair[1] for pair in pack["printed"]["outer"]], color=COLOURS[1], lw=1.6,
                      label="pack, rectangle, as printed")
        axis.semilogy(betas, [max(pack["printed"][name][k][1] for name in pack["sharp"]) for k in range(len(betas))],
                      color=COLOURS[4], lw=1.6, label="pack, cells and pipes, as printed")
    axis.semilogy(betas, np.exp(-betas), color=GREY, lw=1.0, ls=":", label=r"$e^{-\beta_s}$")
    axis.axhline(max(row["exact"] for row in (disc, pack) if row), color=COLOURS[2], lw=1.6, label="exact ansatz")
    axis.set_ylim(1e-18, 1e12)
    axis.set_yticks([1e-15, 1e-10, 1e-5, 1e0])
    axis.set_xlabel(r"$\beta_s$")
    axis.set_ylabel("largest |ñ·(u, p) − g̃|")


VIOLATIONS = Claim("hardness", violations, _findings, {
    r"A.4: boundary conditions over $\beta_s$": _draw_violations}, _words)
