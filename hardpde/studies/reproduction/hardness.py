"""Table 4: the paper's method on the battery pack with every pair of β_s and β_t, trained side by side."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.ansatz.paper import Paper
from hardpde.evaluation.errors import checked_reference, errors_of
from hardpde.formulation.batch import ALL_POINTS, Batch, cast
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.penalties import stated_penalties
from hardpde.methods import hc, known_options
from hardpde.methods.hc import ON_CPU, Hard, paper_state
from hardpde.networks.mlp import MLP
from hardpde.problem.problem import Problem
from hardpde.problems.presets import make_stages
from hardpde.solving.settings import make_settings
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.comparisons import QUICK_STEPS, STEPS, small, stated
from hardpde.studies.reproduction.figures.curves import errors_over_hardness
from hardpde.studies.reproduction.published import PUBLISHED
from hardpde.support.tables import markdown_table
from hardpde.training import Training, fit_all

BETAS = (1.0, 2.0, 5.0, 10.0)
CELLS = list(product(BETAS, BETAS))  # β_s, β_t


class Cell(NamedTuple):
    """A model with a hardness of its own: β_s and β_t, which training leaves as they are."""

    networks: list[MLP]
    betas: Array


def table4(work: Work) -> Outcome:
    """Table 4: MAE and MAPE for sixteen pairs of β_s and β_t."""
    problem = stated("battery-pack", work.quick)
    settings = make_settings(problem, "hc", "paper", 0, small(["hc"]) if work.quick else {},
                             QUICK_STEPS if work.quick else STEPS)
    formulation, trainings = train_cells(problem, settings, CELLS)
    reference = checked_reference(problem)
    assert reference is not None and reference.times is not None
    predict = predictor(formulation, reference.x, reference.times)
    cells: list[dict[str, Any]] = []
    for (beta_s, beta_t), training in zip(CELLS, trainings):
        found = errors_of(problem, {"T": predict(training.model)}, reference)["T"]
        cells.append({"beta_s": beta_s, "beta_t": beta_t, "mae": found["mae"], "mape": found["mape"],
                      "loss": training.history[-1]["loss"], "held_out": training.history[-1]["held_out"],
                      "endings": training.endings})
    printed = {(s, t): PUBLISHED["table4"][f"β_s={s:g}"][2 * k : 2 * k + 2] for s in BETAS for k, t in enumerate(BETAS)}
    rows = []
    for s in BETAS:
        row = [cell for cell in cells if cell["beta_s"] == s]
        rows.append([f"β_s = {s:g}", *(f"{cell['mae']:.4f} / {100 * cell['mape']:.2f}% ({' / '.join(printed[s, t])})"
                                       for t, cell in zip(BETAS, row))])
    seconds = max(training.seconds for training in trainings)
    text = ["Ours, and the paper's values in brackets; one run each, seed 0, all sixteen trained at once in "
            f"{seconds:.0f} s.", markdown_table(["", *(f"β_t = {t:g}" for t in BETAS)], rows)]
    paper = {pair: float(values[0]) for pair, values in printed.items()}
    data = {"settings": settings, "cells": cells, "paper": PUBLISHED["table4"], "training_seconds": seconds}
    return Outcome("Table 4: MAE / MAPE of T for the hardness β_s and β_t", "\n\n".join(text), data,
                   {"": errors_over_hardness(cells, paper)})


def train_cells(problem: Problem, settings: dict[str, Any],
                cells: Sequence[tuple[float, float]]) -> tuple[Formulation, list[Training]]:
    """The paper's method with every pair of β_s and β_t, all from the same random start."""
    formulation = side_by_side(problem, settings["method"])
    betas = jnp.array(cells, formulation.dtype)
    keys = jnp.stack([jax.random.key(settings["seed"])] * len(cells))
    return formulation, fit_all(formulation, make_stages(settings["stages"]), keys,
                                start=lambda model: Cell(model.networks, betas))


def side_by_side(problem: Problem, options: dict[str, Any]) -> Formulation:
    """The paper's method where every model has a hardness of its own; all sub-networks are used at all points."""
    known = {**known_options(hc), **options}
    engine = Engine(known["points"], known["dtype"], known["chunk"])
    ansatz = Hard(problem, Paper(problem, known["beta_s"], known["beta_t"], known["softmin_beta"], known["basis"]))
    chunks = engine.chunks(ON_CPU)
    points = engine.rounded(chunks)
    penalties = stated_penalties(problem, points, chunks, default=1.0)

    def init(key: Array) -> Cell:
        networks = ansatz.networks(known["main"], known["sub"], engine.dtype, key)
        return Cell(networks, jnp.array([known["beta_s"], known["beta_t"]], engine.dtype))

    @jax.jit
    def sample(key: Array, betas: Array) -> Batch:
        return cast(ansatz.sample(points, penalties, key, ALL_POINTS, betas), engine.dtype)

    def draw(key: Array, model: Cell) -> Batch:
        return sample(key, model.betas.astype(float))

    def state(model: Cell, batch: Batch) -> Array:
        return paper_state(problem.schema, model.networks, batch)

    return Formulation(problem, init, draw, draw, state, ansatz.at, points, jnp.dtype(engine.dtype), chunks, penalties)


def predictor(formulation: Formulation, x: np.ndarray, times: np.ndarray) -> Callable[[Cell], np.ndarray]:
    """A function of a model with its hardness: the first field (k, n) at nodes (n, d) and times (k,)."""
    at: Any = formulation.at

    @jax.jit
    def field(model: Cell, points: Array) -> Array:
        return formulation.state(model, at(points, False, model.betas))[0, 0]

    def predict(model: Cell) -> np.ndarray:
        double = jax.tree.map(lambda a: a.astype(jnp.float64), model)
        return np.stack([np.asarray(field(double, np.column_stack([x, np.full(len(x), t)]))) for t in times])

    return predict
