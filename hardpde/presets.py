"""Presets: settings of a method for a purpose, as plain data that a run records.

quick: minutes on two cores. best: about a minute on a large GPU. paper: the paper's own budget.
"""

from copy import deepcopy
from typing import Any

from hardpde.training import OPTIMISERS, Stage

PRESETS = ("quick", "paper", "best")
_STAGE_KEYS = {"optimiser", "options", "steps", "redraw", "block"}

_ADAM = {"optimiser": "adam", "options": {"learning_rate": 1e-2, "every": 100}, "steps": 5000, "redraw": 10,
         "block": 100}
_PAPER_STAGES = [_ADAM, {"optimiser": "lbfgs", "options": {}, "steps": 3000, "redraw": 1000}]


def _start(steps: int, rate: float) -> dict[str, Any]:
    return {"optimiser": "adam", "options": {"learning_rate": rate, "plateau": False}, "steps": steps, "redraw": 50}


def _finish(steps: int, redraw: int, line_search: str = "batched") -> dict[str, Any]:
    return {"optimiser": "ssbroyden", "options": {"line_search": line_search}, "steps": steps, "redraw": redraw,
            "block": 100}


_DEFAULTS: dict[tuple[str, str], dict[str, Any]] = {
    ("exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 2048},
        "stages": [_start(200, 5e-3), _finish(3000, 200, "backtracking")],
    },
    ("exact", "best"): {
        "method": {"width": 48, "depth": 4, "points": 8192},
        "stages": [_start(500, 3e-3), _finish(10_000, 500)],
    },
    ("exact", "paper"): {"method": {"width": 50, "depth": 4, "points": 8192, "dtype": "float32"},
                         "stages": _PAPER_STAGES},
    ("hc", "quick"): {"method": {"points": 2048}, "stages": [{**_ADAM, "steps": 1000}]},
    ("hc", "paper"): {"method": {}, "stages": _PAPER_STAGES},
    ("hc", "best"): {"method": {"dtype": "float64"}, "stages": _PAPER_STAGES},
}

# What is better for one problem and not for others is a setting of that problem.
_OVERRIDES: dict[tuple[str, str, str], dict[str, Any]] = {
    ("airfoil", "exact", "quick"): {"method": {"points": 4096}},
    ("airfoil", "exact", "best"): {"method": {}, "stages": [_start(300, 3e-3), _finish(9000, 300)]},
    ("heat-ball", "exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 1024, "gradients": "derivatives"},
        "stages": [_start(200, 5e-3), _finish(2000, 200, "backtracking")],
    },
    ("heat-ball", "exact", "best"): {
        "method": {"width": 32, "depth": 3, "points": 4096, "gradients": "derivatives"},
        "stages": [_start(300, 3e-3), _finish(10_000, 500)],
    },
    ("heat-ball", "hc", "paper"): {"method": {"points": 1000}},
    ("airfoil-printed", "hc", "paper"): {
        "method": {"main": [50] * 6, "sub": [40] * 4, "points": 10_000},
        "stages": [{**_ADAM, "options": {"learning_rate": 1e-3, "every": 100}}, _PAPER_STAGES[1]],
    },
    ("poisson", "exact", "quick"): {"method": {"points": 256}},
    ("schroedinger", "exact", "quick"): {
        "method": {"points": 3072}, "stages": [_start(200, 5e-3), _finish(6000, 200, "backtracking")],
    },
}


def preset(problem: str, method: str, name: str) -> dict[str, Any]:
    """The settings {"method": options, "stages": [...]} of a preset."""
    if name not in PRESETS:
        raise ValueError(f"there is no preset '{name}'; the presets are {', '.join(PRESETS)}")
    if (method, name) not in _DEFAULTS:
        raise ValueError(f"method '{method}' has no preset '{name}'")
    settings = deepcopy(_DEFAULTS[method, name])
    override = deepcopy(_OVERRIDES.get((problem, method, name), {}))
    settings["method"] |= override.get("method", {})
    settings["stages"] = override.get("stages", settings["stages"])
    return settings


def with_steps(settings: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """The same settings with other numbers of steps, one for each stage; 0 leaves a stage out."""
    stages = settings["stages"]
    if len(steps) != len(stages):
        names = ", ".join(stage["optimiser"] for stage in stages)
        raise ValueError(f"{len(steps)} numbers of steps are given for {len(stages)} stages ({names})")
    if min(steps) < 0 or sum(steps) == 0:
        raise ValueError("steps must be positive; 0 leaves a stage out, and one stage must remain")
    new = []
    for stage, n in zip(stages, steps):
        redraw = stage.get("redraw", 0)
        while redraw and n % redraw:  # the nearest period below that fits
            redraw -= 1
        if n:
            new.append({**stage, "steps": n, "redraw": redraw if redraw < n else 0})
    return {**settings, "stages": new}


def make_stages(specifications: list[dict[str, Any]]) -> list[Stage]:
    """Stages from their plain description: optimiser, steps and, if wanted, options, redraw and block."""
    if not isinstance(specifications, list) or not specifications:
        raise ValueError("stages are a list like [{'optimiser': 'adam', 'steps': 500}, …], with at least one")
    stages = []
    for spec in specifications:
        if not isinstance(spec, dict) or not {"optimiser", "steps"} <= set(spec) <= _STAGE_KEYS:
            raise ValueError(f"stage {spec!r} must name optimiser and steps, and may have options, redraw and block")
        name = spec["optimiser"]
        for key in ("steps", "redraw", "block"):
            if not isinstance(spec.get(key, 1), int):
                raise ValueError(f"stage '{name}': {key} is {spec[key]!r}; it is a whole number")
        if name not in OPTIMISERS:
            raise ValueError(f"there is no optimiser '{name}'; the optimisers are {', '.join(OPTIMISERS)}")
        try:
            build: Any = OPTIMISERS[name]
            optimiser = build(**spec.get("options", {}))
        except TypeError as error:
            raise ValueError(f"optimiser '{name}': {error}") from None
        stages.append(Stage(name, optimiser, spec["steps"], spec.get("redraw", 0), spec.get("block", 50)))
    return stages
