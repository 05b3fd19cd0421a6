"""From a problem to its solution in one call; with one seed, with several at once, or from a checkpoint on."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from hardpde.direct.kept import KEPT
from hardpde.evaluation.base import DECISION, UNTRAINED, decision_of
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.sharded import shard
from hardpde.problem.jumps import check_jumps
from hardpde.problem.problem import Problem
from hardpde.problems.presets import make_stages
from hardpde.solving.direct import check_solver, chosen_solver, direct_settings, run_directly, with_devices
from hardpde.solving.marching import better, march_if_suited, run_march
from hardpde.solving.settings import check_problem, make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.support.files import as_path
from hardpde.support.tensorboard import check_tensorboard, event_writer
from hardpde.training import CHECKPOINT_SECONDS, Stage, Training, fit, fit_all, history_so_far

PILOT = 800  # unknowns of a small direct solve in space and time
SMOOTH = 1e-3  # held-out residual of it: more unknowns will do
TRAINED = 1e-4  # held-out residual of a direct solve that a training of a preset seldom comes below
SHORTEST = 5.0  # seconds that are worth a training


def solve(problem: Problem, method: str = "exact", preset: str | None = None, seed: int = 0, *,
          options: dict[str, Any] | None = None, stages: list[dict[str, Any] | Stage] | None = None,
          steps: list[int] | None = None, schedule: str | None = None, devices: int | None = None,
          report: Callable[[dict], None] = lambda record: None, tensorboard: str | Path | None = None,
          solver: str = "auto", tolerance: float = 1e-4, seconds: float | None = None) -> Solution:
    """Solve a problem. Unless told otherwise hardpde decides how, and says why (`solution.decision`).

    `solver` "direct" trains nothing: features stay as they were drawn and the last layer is found by least squares,
    with more features until the residual on held-out points, in units of the equations' terms, and the change of the
    fields from half as many features are below the `tolerance`. "train" trains as a preset says. "auto", the default,
    solves directly, trains where that does not reach the tolerance, and then adds features to what was trained; where
    a preset or anything else is stated that only a training takes, it trains.
    `seconds`: nothing is begun that would take longer, and training ends then.

    `preset` "quick" (the default of a training), "best" or "paper". `options` overrides settings of the method, e.g.
    {"width": 64}; `stages` replaces the preset's, e.g.
    [{"optimiser": "adam", "steps": 500}, {"optimiser": "levenberg_marquardt", "steps": 200, "redraw": 50}], or
    [Stage("lion", optax.lion(1e-3), 500, redraw=50), …] with an optimiser of optax's that has no line search;
    `steps` changes the number of steps of each stage; `schedule` "as-published" keeps Adam's rate constant for the
    paper's baselines, as in the code behind its tables ("fair" otherwise); so many `devices` share the points of a
    training, or the rows of a direct solve, evenly (unless stated, one GPU or the cores of a CPU); `tensorboard` is a
    folder for event files with the curves of the training, which TensorBoard reads.
    """
    if tensorboard is not None:
        tensorboard = as_path(tensorboard, "tensorboard")
        check_tensorboard()
    check_problem(problem)
    if not callable(report):
        raise ValueError(f"report is {report!r}; it is a function of one record, like print")
    check_jumps(problem)
    check_solver(solver, tolerance, seconds)
    solver = chosen_solver(solver, method, preset=preset, options=options, stages=stages, steps=steps,
                           schedule=schedule, devices=devices, tensorboard=tensorboard)
    untrained = solver in UNTRAINED
    settings = make_settings(problem, method, preset or "quick", seed, None if untrained else options, steps, stages,
                             schedule or "fair", devices)
    settings = with_devices(settings, None if solver == "train" else devices)
    if solver == "march":
        return run_march(problem, direct_settings(settings, options or {}, tolerance, seconds, solver), report)[0]
    if solver == "direct":
        return run_directly(problem, direct_settings(settings, options or {}, tolerance, seconds), report)[0]
    if solver == "auto":
        return decide(problem, auto_settings(settings, tolerance, seconds), report=report)
    made = make_stages(stages) if stages is not None and any(isinstance(stage, Stage) for stage in stages) else None
    if made and steps is not None:
        raise ValueError("steps are given beside stages with optimisers of your own; state them in the stages")
    return run(problem, settings, report=report, tensorboard=tensorboard, stages=made, seconds=seconds)


def auto_settings(settings: dict[str, Any], tolerance: float, seconds: float | None) -> dict[str, Any]:
    """The settings of a training, as one that `decide` may come to."""
    return {**settings, "solver": "auto", "tolerance": tolerance, "seconds": seconds}


def decide(problem: Problem, settings: dict[str, Any], *, checkpoint: Path | None = None, resume: bool = False,
           report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS) -> Solution:
    """March, where there is time, unless a small direct solve shows that the solution is smooth in space and time
    together; else, and where that does not reach the tolerance, solve directly; then train as the settings say and add
    features to what was trained. What has the least residual on held-out points is kept, and what was decided is said.
    """
    if problem.time is None:
        return _without_march(problem, settings, checkpoint, resume, report, every)
    began, tolerance, limit = time.perf_counter(), settings["tolerance"], settings["seconds"]
    directed = direct_settings(settings, {}, tolerance, limit)
    for most in (PILOT, None):  # a small solve in space and time shows whether the solution is smooth there
        solution, found = run_directly(problem, directed, report, most=most)
        if found.best.error <= tolerance:
            return solution
        if not found.best.held_out <= SMOOTH:
            break
    left = None if limit is None else max(limit - (time.perf_counter() - began), 1e-3)
    keep = None if checkpoint is None else checkpoint.with_name(KEPT)
    first, reached, why = march_if_suited(problem, {**settings, "seconds": left}, report, keep, resume)
    if first is not None and reached:
        return first
    left = None if limit is None else max(limit - (time.perf_counter() - began), 1e-3)
    if first is not None and left is not None and left < SHORTEST:
        return _ended(first, f"{why}; no time is left for anything else")
    other = _without_march(problem, {**settings, "seconds": left}, checkpoint, resume, report, every)
    kept, told = (other, "") if first is None else better(first, other)
    told = f"{why}; {decision_of(other.training.endings)}{told}"
    training = replace(kept.training, seconds=time.perf_counter() - began)
    return _ended(replace(kept, training=training), told)


def _without_march(problem: Problem, settings: dict[str, Any], checkpoint: Path | None, resume: bool,
                   report: Callable[[dict], None], every: float) -> Solution:
    """As `decide`, for a problem as one of space and time."""
    began, tolerance, limit = time.perf_counter(), settings["tolerance"], settings["seconds"]

    def left() -> float | None:
        return None if limit is None else max(limit - (time.perf_counter() - began), 1e-3)

    directed = direct_settings(settings, {}, tolerance, limit)
    first, found = run_directly(problem, directed, report)
    why = first.training.endings[0]["why"]
    if found.best.error <= tolerance:
        return first
    if found.best.held_out <= TRAINED:
        return _ended(first, f"{why}; a training seldom comes below {TRAINED:g}, so none was begun")
    remaining = left()
    if remaining is not None and remaining < SHORTEST:
        return _ended(first, f"{why}; no time is left to train")
    trained = run(problem, settings, checkpoint=checkpoint, resume=resume, report=report, every=every, seconds=left())
    refined, added = run_directly(problem, {**directed, "seconds": left()}, report, base=trained)
    held_out = {"direct": found.best.held_out, "train": added.without, "train+direct": added.best.held_out}
    solver = min(held_out, key=lambda name: held_out[name])
    kept = {"direct": first, "train": trained, "train+direct": refined}[solver]
    told = (f"held-out residuals: {held_out['direct']:.1e} of {found.best.unknowns} features' weights, "
            f"{held_out['train']:.1e} trained, {held_out['train+direct']:.1e} with {added.best.unknowns} weights of "
            f"features added to that; kept: {solver}")
    if not (error := held_out[solver] if solver != "train+direct" else added.best.error) <= tolerance:
        told += f"; the tolerance {tolerance:g} was not reached ({error:.1e})"
    whole = Training(kept.training.model, first.training.history + trained.training.history + refined.training.history,
                     [*first.training.endings, *trained.training.endings, *refined.training.endings],
                     time.perf_counter() - began, first.training.first_step)
    figures = {**kept.settings.get("found", {}), "held_out": held_out[solver]}
    return _ended(Solution(problem, kept.formulation, {**kept.settings, "solver": solver, "found": figures}, whole),
                  told)


def _ended(solution: Solution, decision: str) -> Solution:
    """The solution with what was decided as the last word on how it came about."""
    training = solution.training
    ending = {"stage": DECISION, "steps": training.history[-1]["step"], "why": decision}
    return replace(solution, training=replace(training, endings=[*training.endings, ending]))


def run(problem: Problem, settings: dict[str, Any], *, checkpoint: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS,
        formulation: Formulation | None = None, tensorboard: str | Path | None = None,
        stages: list[Stage] | None = None, seconds: float | None = None) -> Solution:
    """Train as the settings say; with a checkpoint, a killed run can be resumed, and its curves for TensorBoard too.

    stages: those of the settings, where they cannot be made from them. seconds: training ends then.
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
                       report=tell, every=every, seconds=seconds)
    return Solution(problem, formulation, settings, training)


def run_seeds(problem: Problem, settings: dict[str, Any], seeds: list[int], *, formulation: Formulation | None = None,
              report: Callable[[dict], None] = lambda record: None) -> list[Solution]:
    """Train as the settings say with every seed, all at once; each takes the steps it would take alone."""
    formulation = formulation or make_formulation(problem, settings)
    keys = jax.numpy.stack([jax.random.key(seed) for seed in seeds])
    trainings = fit_all(shard(formulation), make_stages(settings["stages"]), keys, report=report)
    return [Solution(problem, formulation, {**settings, "seed": seed}, training)
            for seed, training in zip(seeds, trainings)]
