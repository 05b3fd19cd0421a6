"""A.6: the error that the paper's time blend leaves."""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.integrate import solve_ivp

from hardpde.evaluation.figures.base import COLOURS, GREY
from hardpde.geometry import Interval
from hardpde.problem.conditions import initial, robin
from hardpde.problem.fields import div, dt
from hardpde.problem.problem import Problem
from hardpde.problems.battery_pack import CELLS
from hardpde.solving.solve import solve
from hardpde.studies.reproduction.published import PUBLISHED as TABLES
from hardpde.studies.reproduction.theory.base import Claim, Finding, Found
from hardpde.support.tables import markdown_table

# Table 4 of the paper: MAE of T on its battery pack, by β_s, at β_t = 1, 2, 5, 10.
PAPER_BETA_T = (1.0, 2.0, 5.0, 10.0)
PAPER_MAE = {s: [float(mae) for mae in TABLES["table4"][f"β_s={s}"][::2]] for s in (5, 10)}


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
    """Heat round one cell stated for networks, on the interval of r."""
    return Problem(
        name="one-cell", domain=Interval(1.0, OUTER, left="cell", right="outer"), fields="T", gradients={"grad_T": "T"},
        time=(0.0, 1.0), residual=lambda x, q, dq: dt(dq.T) - div(dq.grad_T) - q.grad_T[0] / x[0],
        conditions=[robin("cell", "T", a=1.0, b=1.0, g=CELL), robin("outer", "T", a=1.0, b=1.0, g=AIR),
                    initial("T", START)])


def trained_on_one_cell(beta_t: float, steps: int) -> dict[str, float]:
    """The paper's ansatz on that problem, trained until its loss is tiny; β_s = 10 leaves 5e-5 of the other wall."""
    options = {"main": [16, 16], "sub": [12, 12], "points": 1024, "beta_s": 10.0, "beta_t": beta_t, "dtype": "float64",
               "chunk": 1024}
    solution = solve(one_cell_problem(), "hc", options=options, stages=[
        {"optimiser": "ssbroyden", "steps": steps, "redraw": 300, "block": min(steps, 100)}])
    true, limit = one_cell(), one_cell(beta_t)
    values = np.stack([solution.anywhere(true.r[:, None], t)["T"] for t in TIMES])
    return {"beta_t": beta_t, "steps": steps, "loss": float(solution.training.history[-1]["loss"]),
            "mae": mean_error(values, true), "from_limit": mean_error(values, limit)}


def time_blend(quick: bool = False) -> dict[str, Any]:
    """A.6: the error that the time blend leaves, over β_t, when the loss is driven to zero; and trained networks."""
    betas = [1.0, 2.0, 5.0, 10.0, 20.0, 40.0]
    true = one_cell()
    limit = {beta: mean_error(one_cell(beta).values, true) for beta in betas}
    coarse = one_cell(cells=200)
    trainings = [(5.0, 300)] if quick else [(5.0, 3000), (10.0, 3000)]
    changes = [abs(mean_error(one_cell(beta, 200).values, coarse) - mae) for beta, mae in limit.items()]
    return {
        "outer": OUTER, "beta_t": betas, "mae": list(limit.values()), "grid": max(changes),
        "exponents": [float(np.log(limit[b] / limit[a]) / np.log(b / a)) for a, b in pairwise(betas)],
        "paper": {"beta_t": list(PAPER_BETA_T), "mae": {str(k): list(v) for k, v in PAPER_MAE.items()},
                  "over_limit": {str(k): [mae / limit[beta] for beta, mae in zip(PAPER_BETA_T, v)]
                                 for k, v in PAPER_MAE.items()}},
        "trained": [trained_on_one_cell(beta, steps) for beta, steps in trainings]}


def _findings(found: Found) -> list[Finding]:
    (first, *_, last), betas = found["mae"], found["beta_t"]
    return [Finding("A.4 carries over to time-dependent problems (A.6)",
                    f"with the loss at zero an MAE of {first:.3f} (β_t = {betas[0]:g}) to {last:.4f} "
                    f"(β_t = {betas[-1]:g}) remains; it falls as β_t^{found['exponents'][-1]:.1f}",
                    [max(found["mae"]) < 1e-3])]


def _words(found: Found) -> str:
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
            + markdown_table(["β_t", "MAE, one cell, loss zero", "MAE, one cell, trained",
                     *[f"paper: MAE of its pack, β_s = {s}" for s in paper["mae"]],
                     *[f"paper / loss zero, β_s = {s}" for s in paper["mae"]]], rows))


def _draw_time_blend(axis: Axes, found: Found) -> None:
    axis.loglog(found["beta_t"], found["mae"], color=COLOURS[0], lw=1.8, marker="o", ms=4,
                label="one cell, loss zero")
    networks = found["trained"]
    axis.loglog([row["beta_t"] for row in networks], [row["mae"] for row in networks], ls="", marker="x", ms=9, mew=2,
                color=COLOURS[1], label="one cell, trained networks")
    for (beta_s, values), mark in zip(found["paper"]["mae"].items(), "sD"):
        axis.loglog(found["paper"]["beta_t"], values, ls="", marker=mark, ms=5, mfc="none", color=GREY,
                    label=rf"paper's pack, $\beta_s$ = {beta_s}")
    axis.set_xticks(found["beta_t"], [f"{beta:g}" for beta in found["beta_t"]])
    axis.minorticks_off()
    axis.set_xlabel(r"$\beta_t$")
    axis.set_ylabel("MAE")


TIME_BLEND = Claim("time", time_blend, _findings, {"A.6: error left by the time blend": _draw_time_blend}, _words)
