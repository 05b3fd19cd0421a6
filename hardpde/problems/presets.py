"""Presets: settings of a method for a purpose, as plain data that a run records.

quick: minutes on two cores. best: about a minute on a large GPU. paper: the paper's own budget.
"""

import inspect
from copy import deepcopy
from typing import Any

from hardpde.methods import METHODS
from hardpde.support.checking import is_positive, is_whole, wished_kind
from hardpde.training import OPTIMISERS, Stage

PRESETS = ("quick", "paper", "best")
_STAGE_KEYS = {"optimiser", "options", "steps", "redraw", "block", "reweigh"}


def _adam(rate: float = 1e-2, steps: int = 5000) -> dict[str, Any]:
    """Adam with PyTorch's plateau rule as the paper's code sets it."""
    return {"optimiser": "adam", "options": {"learning_rate": rate, "factor": 0.75, "patience": 100, "min_lr": 1e-5},
            "steps": steps, "redraw": 10, "block": 100}


def _constant(rate: float, steps: int) -> dict[str, Any]:
    return {"optimiser": "adam", "options": {"learning_rate": rate, "plateau": False}, "steps": steps, "redraw": 10,
            "block": 100}


# Until it converges, at most as long as in the paper's figure 7. Points stay while it runs, and are drawn again now
# and then.
_LBFGS = {"optimiser": "lbfgs", "options": {"tolerance": 1e-8}, "steps": 15_000, "redraw": 1000}
_PAPER_STAGES = [_adam(), _LBFGS]


def _start(steps: int, rate: float) -> dict[str, Any]:
    return {"optimiser": "adam", "options": {"learning_rate": rate, "plateau": False}, "steps": steps, "redraw": 50}


def _finish(steps: int, redraw: int) -> dict[str, Any]:
    return {"optimiser": "ssbroyden", "steps": steps, "redraw": redraw, "block": 100}


_DEFAULTS: dict[tuple[str, str], dict[str, Any]] = {
    ("exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 2048},
        "stages": [_start(200, 5e-3), _finish(5000, 200)],
    },
    ("exact", "best"): {
        "method": {"width": 48, "depth": 4, "points": 8192},
        "stages": [_start(500, 3e-3), _finish(10_000, 500)],
    },
    ("exact", "paper"): {"method": {"width": 50, "depth": 4, "points": 8192, "dtype": "float32"},
                         "stages": _PAPER_STAGES},
    ("hc", "quick"): {"method": {"points": 2048}, "stages": [_adam(steps=1000)]},
    ("hc", "paper"): {"method": {}, "stages": _PAPER_STAGES},
    ("hc", "best"): {"method": {"dtype": "float64"}, "stages": _PAPER_STAGES},
}

# What is better for one problem and not for others is a setting of that problem.
_OVERRIDES: dict[tuple[str, str, str], dict[str, Any]] = {
    ("battery-pack", "exact", "best"): {"method": {}, "stages": [_start(500, 3e-3), _finish(28_000, 500)]},
    ("battery-pack-family", "exact", "quick"): {
        "method": {"width": 32, "depth": 3, "points": 4096}, "stages": [_start(200, 5e-3), _finish(3000, 100)]},
    ("battery-pack-family", "exact", "best"): {
        "method": {"points": 16_384}, "stages": [_start(500, 3e-3), _finish(15_000, 300)]},
    ("airfoil", "exact", "quick"): {"method": {"points": 4096}, "stages": [_start(200, 5e-3), _finish(4000, 200)]},
    ("airfoil", "exact", "best"): {"method": {}, "stages": [_start(300, 3e-3), _finish(16_200, 600)]},
    ("heat-ball", "exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 1024, "gradients": "derivatives"},
        "stages": [_start(200, 5e-3), _finish(9000, 200)],
    },
    ("heat-ball", "exact", "best"): {
        "method": {"width": 48, "depth": 3, "points": 8192, "gradients": "derivatives"},
        "stages": [_start(300, 3e-3), _finish(16_000, 1000)],
    },
    ("heat-ball", "hc", "paper"): {"method": {"points": 1000}},
    ("airfoil-printed", "hc", "paper"): {
        "method": {"main": [50] * 6, "sub": [40] * 4, "points": 10_000},
        "stages": [_adam(1e-3), _LBFGS],
    },
    ("poisson", "exact", "quick"): {"method": {"points": 256}},
    ("schroedinger", "exact", "quick"): {
        "method": {"points": 3072}, "stages": [_start(200, 5e-3), _finish(6000, 200)],
    },
}

# The sizes of the paper's baselines (A.8), where they are not the methods' defaults: for networks over the whole
# domain and for those of blocks. A method gets those that it has as options.
_FEW = {"points": 2048, "boundary": 256, "initial": 256, "interface": 256}
_FLOW = ({"layers": [50] * 6}, {"layers": [30] * 4, "blocks": [6, 3], "sigma": 0.2})
_BASELINES: dict[str, tuple[dict[str, Any], tuple[dict, dict], list[dict]]] = {
    **dict.fromkeys(("airfoil", "airfoil-printed"), (
        {"points": 10_000, "boundary": 2048, "interface": 2048}, _FLOW, [_adam(1e-3), _LBFGS])),
    "heat-ball": ({"points": 1000, "boundary": 100, "initial": 100}, ({}, {}), _PAPER_STAGES),
    "poisson": ({"points": 128, "boundary": 2}, ({"layers": [50] * 3}, {}), [_constant(1e-3, 10_000)]),
    "schroedinger": ({"points": 1000, "boundary": 20, "initial": 200}, ({"layers": [50] * 3}, {}),
                     [_constant(1e-3, 10_000)]),
}


def _baseline(problem: str, method: str, name: str) -> dict[str, Any]:
    known = METHODS[method].__kwdefaults__ or {}
    if name == "quick":
        return {"method": {key: value for key, value in _FEW.items() if key in known}, "stages": [_adam(steps=1000)]}
    sizes, networks, stages = _BASELINES.get(problem, ({}, ({}, {}), _PAPER_STAGES))
    wished = {**sizes, **networks["blocks" in known], **({"dtype": "float64"} if name == "best" else {})}
    return {"method": {key: value for key, value in wished.items() if key in known}, "stages": stages}


SCHEDULES = ("fair", "as-published")


def preset(problem: str, method: str, name: str, schedule: str = "fair") -> dict[str, Any]:
    """The settings {"method": options, "stages": [...]} of a preset.

    schedule: "fair": Adam's rate follows the plateau rule, as the paper's text says for every method;
    "as-published": it stays constant for all but hc, as in the code behind the paper's tables.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset '{name}'; the presets are {', '.join(PRESETS)}")
    if schedule not in SCHEDULES:
        raise ValueError(f"there is no schedule '{schedule}'; it is {' or '.join(SCHEDULES)}")
    settings = deepcopy(_DEFAULTS.get((method, name)) or _baseline(problem, method, name))
    override = deepcopy(_OVERRIDES.get((problem, method, name), {}))
    settings["method"] |= override.get("method", {})
    settings["stages"] = override.get("stages", settings["stages"])
    if schedule == "as-published" and method not in ("exact", "hc"):
        for stage in settings["stages"]:
            if stage["optimiser"] == "adam":
                stage.update(_constant(stage["options"]["learning_rate"], stage["steps"]))
    return settings


def with_steps(settings: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """The same settings with other numbers of steps, one for each stage; 0 leaves a stage out."""
    stages = settings["stages"]
    if not isinstance(steps, list | tuple) or not all(map(is_whole, steps)):
        raise ValueError(f"steps is {steps!r}; it is a list of whole numbers like [500, 2000]")
    if len(steps) != len(stages):
        names = ", ".join(stage["optimiser"] for stage in stages)
        raise ValueError(f"the steps are {', '.join(map(str, steps))} and the stages {names}; give one number for each "
                         f"stage")
    if min(steps) < 0 or sum(steps) == 0:
        raise ValueError("steps must be positive; 0 leaves a stage out, and one stage must remain")
    new = [{**stage, "steps": n, "redraw": redraw if (redraw := stage.get("redraw", 0)) < n else 0}
           for stage, n in zip(stages, steps) if n]
    return {**settings, "stages": new}


def described(stage: dict[str, Any] | Stage) -> dict[str, Any]:
    """A stage as plain data, for the record; of a user's own optimiser the name is known."""
    if not isinstance(stage, Stage):
        return stage
    return {"optimiser": stage.name, "steps": stage.steps, "redraw": stage.redraw, "block": stage.block}


def make_stages(specifications: list[dict[str, Any] | Stage]) -> list[Stage]:
    """Stages from their plain description: optimiser, steps and, if wanted, options, redraw and block; or as they are.
    """
    if not isinstance(specifications, list) or not specifications:
        raise ValueError("stages are a list like [{'optimiser': 'adam', 'steps': 500}, …], with at least one")
    stages = []
    for spec in specifications:
        if isinstance(spec, Stage):
            stages.append(spec)
            continue
        if not isinstance(spec, dict) or not {"optimiser", "steps"} <= set(spec) <= _STAGE_KEYS:
            raise ValueError(f"stage {spec!r} must name optimiser and steps, and may have options, redraw, "
                             f"block and reweigh")
        name = spec["optimiser"]
        for key in ("steps", "redraw", "block"):
            if not is_whole(spec.get(key, 1)):
                raise ValueError(f"stage '{name}': {key} is {spec[key]!r}; it is a whole number")
        if not isinstance(name, str) or name not in OPTIMISERS:
            raise ValueError(f"there is no optimiser '{name}'; the optimisers are {', '.join(OPTIMISERS)}")
        options = spec.get("options", {})
        if not isinstance(options, dict):
            raise ValueError(f"stage '{name}': options is {options!r}; it is a dictionary of what the optimiser knows")
        rate = options.get("learning_rate", 1.0)
        if not is_positive(rate):
            raise ValueError(f"stage '{name}': learning_rate is {rate!r}; it must be a positive number")
        build: Any = OPTIMISERS[name]
        known = {option: parameter.default for option, parameter in inspect.signature(build).parameters.items()}
        for option, value in options.items():
            if option not in known:
                raise ValueError(f"optimiser '{name}' has no option '{option}'; its options are {', '.join(known)}")
            if what := wished_kind(option, known[option], value):
                raise ValueError(f"optimiser '{name}': {option} is {value!r}; it must be {what}")
        optimiser = build(**options)
        # A line search needs a loss that stays what it is.
        reweigh = spec.get("reweigh", name == "adam")
        if not isinstance(reweigh, bool):
            raise ValueError(f"stage '{name}': reweigh is {reweigh!r}; it is true or false")
        stages.append(Stage(name, optimiser, spec["steps"], spec.get("redraw", 0), spec.get("block", 50), reweigh))
    return stages
