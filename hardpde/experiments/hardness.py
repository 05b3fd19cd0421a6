"""Table 4: the paper's method on the battery pack with every pair of β_s and β_t, trained side by side."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp

from hardpde.compare import residual
from hardpde.evaluation.evaluate import make_reference, measure
from hardpde.evaluation.reproduction import hardness
from hardpde.experiments.base import Outcome, Work, table
from hardpde.experiments.comparisons import QUICK_STEPS, STEPS, small, stated
from hardpde.experiments.published import PUBLISHED
from hardpde.methods.hc import Hard, hc, hc_each
from hardpde.presets import make_stages
from hardpde.problem import Problem
from hardpde.solve import Solution, make_settings
from hardpde.training import Training, fit_all

BETAS = (1.0, 2.0, 5.0, 10.0)
CELLS = list(product(BETAS, BETAS))  # β_s, β_t


def table4(work: Work) -> Outcome:
    """Table 4: MAE and MAPE for sixteen pairs of β_s and β_t."""
    problem = stated("battery-pack")
    settings = make_settings(problem, "hc", "paper", 0, small(["hc"]) if work.quick else {},
                             QUICK_STEPS if work.quick else STEPS)
    trained = train_cells(problem, settings, CELLS)
    reference = make_reference(problem)
    cells: list[dict[str, Any]] = []
    for solution in trained:
        found, options = measure(solution, reference)["T"], solution.settings["method"]
        cells.append({"beta_s": options["beta_s"], "beta_t": options["beta_t"], "mae": found["mae"],
                      "mape": found["mape"], "residual": residual(solution), "endings": solution.training.endings})
        if not work.quick:
            jax.clear_caches()
    printed = {(s, t): PUBLISHED["table4"][f"β_s={s:g}"][2 * k : 2 * k + 2] for s in BETAS for k, t in enumerate(BETAS)}
    rows = []
    for s in BETAS:
        row = [cell for cell in cells if cell["beta_s"] == s]
        rows.append([f"β_s = {s:g}", *(f"{cell['mae']:.4f} / {100 * cell['mape']:.2f}% ({' / '.join(printed[s, t])})"
                                       for t, cell in zip(BETAS, row))])
    title = "Table 4: MAE / MAPE of T for the hardness β_s and β_t"
    seconds = max(solution.training.seconds for solution in trained)
    text = ["Ours, and the paper's values in brackets; one run each, seed 0, all sixteen trained at once in "
            f"{seconds:.0f} s.", table(["", *(f"β_t = {t:g}" for t in BETAS)], rows)]
    paper = {pair: float(values[0]) for pair, values in printed.items()}
    return Outcome(title, "\n\n".join(text), {"settings": settings, "cells": cells, "paper": PUBLISHED["table4"],
                                              "seconds": seconds}, {"": hardness(cells, paper)})


def train_cells(problem: Problem, settings: dict[str, Any], cells: list[tuple[float, float]]) -> list[Solution]:
    """Solutions by the paper's method, one for each pair of β_s and β_t, all from the same random start."""
    formulation = hc_each(problem, **settings["method"])
    betas = jnp.array(cells, formulation.dtype)
    keys = jnp.stack([jax.random.key(settings["seed"])] * len(cells))
    trainings = fit_all(formulation, make_stages(settings["stages"]), keys,
                        start=lambda model: Hard(model.networks, betas))
    solutions = []
    for (beta_s, beta_t), training in zip(cells, trainings):
        options = {**settings["method"], "beta_s": beta_s, "beta_t": beta_t}
        alone = Training(training.model.networks, training.history, training.endings, training.seconds)
        solutions.append(Solution(problem, hc(problem, **options), {**settings, "method": options}, alone))
    return solutions
