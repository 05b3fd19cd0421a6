"""From a problem to its solution in one call; with one seed, with several at once, or from a checkpoint on."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jax

from hardpde.formulation.formulation import Formulation
from hardpde.formulation.sharded import shard
from hardpde.problem.problem import Problem
from hardpde.problems.presets import make_stages
from hardpde.solving.direct import check_solver, direct_settings, run_directly
from hardpde.solving.settings import check_problem, make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.support.files import as_path
from hardpde.support.tensorboard import check_tensorboard, event_writer
from hardpde.training import CHECKPOINT_SECONDS, Stage, fit, fit_all, history_so_far


def solve(problem: Problem, method: str = "exact", preset: str = "quick", seed: int = 0, *,
          options: dict[str, Any] | None = None, stages: list[dict[str, Any] | Stage] | None = None,
          steps: list[int] | None = None, schedule: str = "fair", devices: int | None = None,
          report: Callable[[dict], None] = lambda record: None, tensorboard: str | Path | None = None,
          solver: str = "train", tolerance: float = 1e-4) -> Solution:
    """Solve a problem as a preset says.

    `options` overrides settings of the method, e.g. {"width": 64}; `stages` replaces the preset's, e.g.
    [{"optimiser": "adam", "steps": 500}, {"optimiser": "levenberg_marquardt", "steps": 200, "redraw": 50}], or
    [Stage("lion", optax.lion(1e-3), 500, redraw=50), …] with an optimiser of optax's that has no line search;
    `steps` changes the number of steps of each stage; `schedule` "as-published" keeps Adam's rate constant for the
    paper's baselines, as in the code behind its tables; so many `devices` share the points evenly (unless stated, one
    GPU or the cores of a CPU); `tensorboard` is a folder for event files with the curves of the training, which
    TensorBoard reads. `solver` "direct" trains nothing: features stay as they were drawn and the last layer is found
    by least squares, with more features until the residual on held-out points, in units of the data's, is below the
    `tolerance`.
    """
    if tensorboard is not None:
        tensorboard = as_path(tensorboard, "tensorboard")
        check_tensorboard()
    check_problem(problem)
    settings = make_settings(problem, method, preset, seed, options, steps, stages, schedule, devices)
    check_solver(solver, tolerance, settings, stages=stages, steps=steps, devices=devices, tensorboard=tensorboard)
    if solver == "direct":
        return run_directly(problem, direct_settings(settings, options or {}, tolerance), report)
    made = make_stages(stages) if stages is not None and any(isinstance(stage, Stage) for stage in stages) else None
    if made and steps is not None:
        raise ValueError("steps are given beside stages with optimisers of your own; state them in the stages")
    return run(problem, settings, report=report, tensorboard=tensorboard, stages=made)


def run(problem: Problem, settings: dict[str, Any], *, checkpoint: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
        formulation: Formulation | None = None, tensorboard: str | Path | None = None,
        stages: list[Stage] | None = None) -> Solution:
    """Train as the settings say; with a checkpoint, a killed run can be resumed, and its curves for TensorBoard too.

    stages: those of the settings, where they cannot be made from them.
    """
    stages = stages or make_stages(settings["stages"])
    formulation = formulation or make_formulation(problem, settings)
    with ExitStack() as stack:
        told = [report]
        if tensorboard is not None:
            before = history_so_far(checkpoint) if resume and checkpoint is not None else []
            told.insert(0, stack.enter_context(event_writer(tensorboard, before)))

        def tell(record: dict) -> None:
            for each in told:
                each(record)

        training = fit(shard(formulation), stages, jax.random.key(settings["seed"]), path=checkpoint, resume=resume,
                       report=tell, every=every)
    return Solution(problem, formulation, settings, training)


def run_seeds(problem: Problem, settings: dict[str, Any], seeds: list[int], *, formulation: Formulation | None = None,
              report: Callable[[dict], None] = lambda record: None) -> list[Solution]:
    """Train as the settings say with every seed, all at once; each takes the steps it would take alone."""
    formulation = formulation or make_formulation(problem, settings)
    keys = jax.numpy.stack([jax.random.key(seed) for seed in seeds])
    trainings = fit_all(shard(formulation), make_stages(settings["stages"]), keys, report=report)
    return [Solution(problem, formulation, {**settings, "seed": seed}, training)
            for seed, training in zip(seeds, trainings)]
