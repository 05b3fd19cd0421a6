"""Figures 4 and 6: how the gradients of a PINN oscillate in training, without and with extra fields (A.8.4).

L_F is the loss of the equations without the conditions; with extra fields p it holds p − ∇u too. Recorded at every
step of Adam is the mean of |∇L_F| over all weights. The points stay as they are through a training: the authors'
code of this experiment never draws them again, unlike that of their others.
"""

import hashlib
import json
import time
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.lib.stride_tricks import sliding_window_view

from hardpde.formulation.formulation import Formulation
from hardpde.methods import make
from hardpde.methods.pinn import pinn
from hardpde.networks.mlp import count
from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS
from hardpde.problems.poisson import PRESETS as POISSON
from hardpde.problems.presets import make_stages, preset
from hardpde.problems.schroedinger import PRESETS as SCHROEDINGER
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.figures.oscillations import paired_bars, ratio_history
from hardpde.support.files import replacing
from hardpde.support.hardware import current_device
from hardpde.support.tables import markdown_table
from hardpde.training import Stage, fit_all

TITLES = {"poisson": "Poisson", "schroedinger": "Schrödinger"}
SUITED = {"poisson": POISSON, "schroedinger": SCHROEDINGER}
NETWORKS = ((3, 50), (3, 100), (5, 50), (5, 100))  # hidden layers × width
WINDOW = 500  # of the moving variance, and of the moving average after it
SEEDS = 5

QUICK_NETWORKS = ((3, 50), (5, 50))
QUICK_STEPS, QUICK_WINDOW = 60, 10
QUICK_POINTS = {"points": 64, "initial": 32}

NOTES = ("The paper shows these results as plots only and prints no numbers to compare with. The authors' code of this "
         "experiment draws its points once and keeps them. For Schrödinger's equation with extra fields the periodic "
         "condition compares h and the field p at both ends, where the paper compares h and ∂h/∂x.")


class Series(NamedTuple):
    """What a training left, each (seeds, steps): mean |∇L_F|, L_F, the whole loss, and the length of the step."""

    gradient: Any
    equations: Any
    loss: Any
    moved: Any


class Case(NamedTuple):
    """One problem and network; without and with extra fields: the settings, the series, seconds and device."""

    problem: str
    network: tuple[int, int]
    settings: list[dict[str, Any]]
    series: list[Series]
    made: list[dict[str, Any]]

    @property
    def about(self) -> dict[str, Any]:
        """What it is, as plain data."""
        return {"problem": self.problem, "network": list(self.network), "settings": self.settings, "made": self.made}

    @property
    def name(self) -> str:
        return "{} × {}".format(*self.network)


# --- The two figures -------------------------------------------------------------------------------------------


def figure4(work: Work) -> Outcome:
    """MovVar of mean |∇L_F| without extra fields over that with them, through the training."""
    window = QUICK_WINDOW if work.quick else WINDOW
    cases = all_cases(work)
    ratios = {(case.problem, case.name): ratio(case.series[0].gradient, case.series[1].gradient, window)
              for case in cases}
    rows: list[list[str]] = []
    data: list[dict[str, Any]] = []
    for case in cases:
        each = ratios[case.problem, case.name]
        middles = np.median(each, axis=1)
        without, with_fields = (series.gradient.mean(1) for series in case.series)
        level = np.median((without / with_fields) ** 2)
        found = {**case.about, "median_ratio": _number(np.median(middles)), "median_ratio_of_seeds": _numbers(middles),
                 "share_above_one": _number((each > 1).mean()), "squared_ratio_of_means": _number(level),
                 "curve": {"step": _curve_steps(each.shape[1], window), "ratio": _thin(np.median(each, axis=0))}}
        data.append(found)
        rows.append([TITLES[case.problem], case.name, _text(found["median_ratio"]), _range(middles),
                     f"{100 * (each > 1).mean():.0f} %", _text(found["squared_ratio_of_means"])])
    columns = ["equation", "network", "median ratio", "smallest to largest of the seeds", "iterations with ratio > 1",
               "(mean without / mean with)²"]
    above = sum(row["median_ratio"] is not None and row["median_ratio"] > 1 for row in data)
    text = "\n\n".join([
        "The paper: with extra fields the oscillations of the gradient are smaller, so that the ratio is above 1.",
        f"Here the median of the ratio over the training is above 1 in {above} of {len(cases)} cases.",
        markdown_table(columns, rows),
        f"The ratio is that of the moving variances over {window} steps, each smoothed by a moving average over "
        f"{window}; only whole windows count. The median is over the training, then over the seeds. A variance grows "
        "with the square of what varies: the last column is the ratio that two series would have that oscillate alike "
        "in proportion to their size.",
        NOTES, _settings_text(cases, work.quick)])
    panels = {title: [(case.name, ratios[case.problem, case.name]) for case in cases if case.problem == problem]
              for problem, title in TITLES.items()}
    return Outcome("Figure 4: moving variance of the gradient, without over with extra fields", text,
                   {"window": window, "cases": data, "full": not work.quick}, {"": ratio_history(panels, window)})


def figure6(work: Work) -> Outcome:
    """The coefficient of variation of all values of mean |∇L_F|, and condition numbers (A.7.3), medians of both."""
    cases = all_cases(work)
    rows: list[list[str]] = []
    data: list[dict[str, Any]] = []
    bars: dict[str, list[tuple[str, np.ndarray, np.ndarray]]] = {}
    for case in cases:
        both = [coefficient_of_variation(each.gradient) for each in case.series]
        conditions = [np.median(step_conditions(each), axis=1) for each in case.series]
        smaller = int((both[1] < both[0]).sum())
        found = {**case.about,
                 **{f"variation_{name}": {"median": _number(np.median(values)), "of_seeds": _numbers(values)}
                    for name, values in zip(("without", "with"), both)},
                 **{f"condition_{name}": {"median": _number(np.median(values)), "of_seeds": _numbers(values)}
                    for name, values in zip(("without", "with"), conditions)},
                 "seeds_with_less_variation": smaller}
        data.append(found)
        bars.setdefault(TITLES[case.problem], []).append((case.name, both[0], both[1]))
        rows.append([TITLES[case.problem], case.name, *(_text(np.median(values)) for values in both),
                     f"{smaller} of {len(both[0])}", *(_text(np.median(values)) for values in conditions)])
    columns = ["equation", "network", "CV without", "CV with", "seeds with a smaller CV with extra fields",
               "condition number without", "with"]
    less, better = (sum(_less(row[f"{what}_with"], row[f"{what}_without"]) for row in data)
                    for what in ("variation", "condition"))
    text = "\n\n".join([
        "The paper: by the coefficient of variation (CV) too, extra fields reduce the oscillations of the gradient, "
        "most for the nonlinear equation.",
        f"Here the CV is smaller with extra fields in {less} of {len(cases)} cases, and the condition number "
        f"|ΔL_F|/‖Δθ‖ in {better} of {len(cases)}.",
        markdown_table(columns, rows),
        "CV: standard deviation over mean of all values of mean |∇L_F| of a training; a scale-free measure, unlike the "
        "moving variance. Condition number: median over the steps of the change of L_F on the same points over the "
        "length of the step (A.7.3). All numbers are medians over the seeds.",
        NOTES, _settings_text(cases, work.quick)])
    return Outcome("Figure 6: coefficient of variation of the gradient, without and with extra fields", text,
                   {"cases": data, "full": not work.quick},
                   {"": paired_bars(bars, r"coefficient of variation of mean $|\nabla L_F|$")})


# --- Statistics of a series ------------------------------------------------------------------------------------


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Means over whole windows along the last axis: (…, n) → (…, n − window + 1)."""
    return sliding_window_view(np.asarray(values, float), window, axis=-1).mean(-1)


def moving_variance(values: np.ndarray, window: int) -> np.ndarray:
    """Variances (of window − 1 degrees of freedom) over whole windows along the last axis."""
    return sliding_window_view(np.asarray(values, float), window, axis=-1).var(-1, ddof=1)


def ratio(without: np.ndarray, with_fields: np.ndarray, window: int) -> np.ndarray:
    """The ratio of the smoothed moving variances, seed by seed: (seeds, steps) → (seeds, steps − 2 window + 2)."""
    smooth = [np.stack([moving_average(moving_variance(row, window), window) for row in rows])
              for rows in (without, with_fields)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return smooth[0] / smooth[1]


def coefficient_of_variation(values: np.ndarray) -> np.ndarray:
    """The coefficient of variation of each row: its standard deviation over its mean."""
    values = np.asarray(values, float)
    return values.std(-1) / values.mean(-1)


def step_conditions(series: Series) -> np.ndarray:
    """|ΔL_F|/‖Δθ‖ of the steps, (seeds, steps − 1); the points stay the same."""
    equations = np.asarray(series.equations, float)
    return np.abs(np.diff(equations, axis=1)) / series.moved[:, :-1]


# --- Trainings -------------------------------------------------------------------------------------------------


def all_cases(work: Work) -> list[Case]:
    """Every problem and network, without and with extra fields: trained, or read if that was done before."""
    found = []
    for problem, network, both in _all_settings(work.quick):
        series, made = zip(*(trained(work, settings) for settings in both))
        found.append(Case(problem, network, both, list(series), list(made)))
    return found


def _all_settings(quick: bool) -> list[tuple[str, tuple[int, int], list[dict[str, Any]]]]:
    """Problem, network, and the settings without and with extra fields, of every case."""
    return [(problem, network, [training_settings(problem, network, extra, quick) for extra in (False, True)])
            for problem in TITLES for network in (QUICK_NETWORKS if quick else NETWORKS)]


def oscillation_trainings(name: str, quick: bool) -> dict[str, Callable[[Work], Any]]:
    """The trainings of figures 4 and 6, which can be made in any order; none of another experiment."""
    if name not in ("fig4", "fig6"):
        return {}
    return {_name(settings): partial(trained, settings=settings)
            for _, _, both in _all_settings(quick) for settings in both}


def training_settings(problem: str, network: tuple[int, int], extra: bool, quick: bool) -> dict[str, Any]:
    """All that a training depends on, as plain data; its points are drawn once."""
    known = preset("pinn", "paper", suited=SUITED[problem])
    depth, width = network
    method = {**known["method"], "layers": [width] * depth, "gradients": "fields" if extra else "derivatives",
              "dtype": "float32"}
    stage = {**known["stages"][0], "redraw": 0}
    if quick:
        method |= {key: value for key, value in QUICK_POINTS.items() if key in method}
        stage["steps"] = QUICK_STEPS
    return {"problem": problem, "extra": extra, "method": method, "stage": stage,
            "seeds": list(range(1 if quick else SEEDS))}


def trained(work: Work, settings: dict[str, Any]) -> tuple[Series, dict[str, Any]]:
    """The series of a training, its seconds and its device; read if one with the very same settings was kept."""
    depth, width = _network(settings)
    name = _name(settings)
    text = json.dumps(settings, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    kind = "with" if settings["extra"] else "without"
    path = work.folder / "extra-fields" / f"{settings['problem']}-{depth}x{width}-{kind}-{digest}.npz"
    known = _read(path, text)
    if known is not None:
        work.say(f"{name}: already trained")
        return known
    started = time.perf_counter()
    found = train(settings, lambda step: work.say(f"{name}: step {step} of {settings['stage']['steps']}"))
    made = {"seconds": time.perf_counter() - started, "device": current_device().device_kind}
    work.say(f"{name}: {made['seconds']:.0f} s")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, settings=text, made=json.dumps(made), **found._asdict())
    return found, made


def _network(settings: dict[str, Any]) -> tuple[int, int]:
    layers = settings["method"]["layers"]
    return len(layers), layers[0]


def _name(settings: dict[str, Any]) -> str:
    depth, width = _network(settings)
    return f"{settings['problem']}, {depth} × {width}, {'with' if settings['extra'] else 'without'} extra fields"


def _read(path: Path, settings: str) -> tuple[Series, dict[str, Any]] | None:
    """What a file holds; None if there is none, or none of these settings."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if file["settings"].item() != settings:
                return None
            return Series(*(file[name] for name in Series._fields)), json.loads(file["made"].item())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def train(settings: dict[str, Any], report: Callable[[int], None] = lambda step: None) -> Series:
    """Train the vanilla PINN as the settings say, with all seeds side by side."""
    formulation = make(pinn, _problem(settings["problem"], settings["extra"]), settings["method"])
    return record(formulation, make_stages([settings["stage"]])[0], settings["seeds"], report)


@cache
def _problem(name: str, extra: bool) -> Problem:
    return PROBLEMS[name](extra=extra)


def record(formulation: Formulation, stage: Stage, seeds: list[int],
           report: Callable[[int], None] = lambda step: None) -> Series:
    """What Series tells of each step of trainings with these seeds; unknown where a loss was not finite any more."""
    trainings = fit_all(formulation, [stage], jnp.stack([jax.random.key(seed) for seed in seeds]), observe=_observed,
                        report=lambda record: report(record["step"]))

    def complete(values: np.ndarray) -> np.ndarray:
        return np.pad(values, (0, stage.steps - len(values)), constant_values=np.nan)

    return Series(*(np.stack([complete(values) for values in each])
                    for each in zip(*(training.observed for training in trainings))))


def _observed(loss: Array, terms: Array, gradients: Any, updates: Any) -> Series:
    sizes = jax.tree.map(lambda g: jnp.abs(g[0]).sum(), gradients)
    return Series(sum(jax.tree.leaves(sizes)) / count(updates), terms[0], loss,
                  jnp.linalg.norm(ravel_pytree(updates)[0]))


# --- Words and numbers -----------------------------------------------------------------------------------------


def _settings_text(cases: list[Case], quick: bool) -> str:
    """How it was trained, from the settings themselves."""
    lines = []
    for problem, title in TITLES.items():
        mine = [case for case in cases if case.problem == problem]
        method, stage = (mine[0].settings[0][key] for key in ("method", "stage"))
        counts = ", ".join(f"{value} {name}" for name, value in (
            ("points inside", method["points"]), ("on the boundary", method["boundary"]),
            ("at the start", method.get("initial"))) if value)
        seeds = len(mine[0].settings[0]["seeds"])
        lines.append(f"{title}: {counts}, drawn once; {stage['steps']} steps of Adam at "
                     f"{stage['options']['learning_rate']:g}, {method['dtype']}, {seeds} seed{'s' * (seeds > 1)}, "
                     f"networks {', '.join(case.name for case in mine)}.")
    spent = sum(made["seconds"] for case in cases for made in case.made)
    devices = ", ".join(sorted({made["device"] for case in cases for made in case.made}))
    lines.append(f"All trainings took {spent:.0f} s ({devices}).")
    return " ".join([*lines, *["This was a quick run: fewer networks, points and steps, to see that it works; it says "
                               "nothing about the paper's claim."] * quick])


def _less(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return None not in (one["median"], other["median"]) and one["median"] < other["median"]


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values]


def _text(value: Any) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.3g}"


def _range(values: np.ndarray) -> str:
    return f"{_text(values.min())} to {_text(values.max())}"


def _thin(curve: np.ndarray, most: int = 200) -> list[float | None]:
    return _numbers(curve[:: max(1, len(curve) // most)])


def _curve_steps(length: int, window: int, most: int = 200) -> list[int]:
    """The last step of the windows that `_thin` keeps, counted from 1."""
    return list(range(2 * window - 1, 2 * window - 1 + length, max(1, length // most)))
