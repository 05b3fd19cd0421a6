"""Presets: settings of a method for a purpose, as plain data that a run records; a problem states its own beside it.

quick: minutes on two cores. best: about a minute on a large GPU. paper: the paper's own budget.
"""

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hardpde.methods import METHODS, known_options
from hardpde.support.checking import is_positive, is_whole, wished_kind
from hardpde.support.choices import PRESETS, SCHEDULES
from hardpde.training import OPTIMISERS, Stage

_STAGE_KEYS = {"optimiser", "options", "steps", "redraw", "block", "reweigh"}


def plateau_adam(rate: float = 1e-2, steps: int = 5000) -> dict[str, Any]:
    """Adam with PyTorch's plateau rule as the paper's code sets it."""
    return {"optimiser": "adam", "options": {"learning_rate": rate, "factor": 0.75, "patience": 100, "min_lr": 1e-5},
            "steps": steps, "redraw": 10, "block": 100}


def constant_adam(rate: float, steps: int) -> dict[str, Any]:
    """Adam at a constant rate, as in the code behind the paper's tables."""
    return {"optimiser": "adam", "options": {"learning_rate": rate, "plateau": False}, "steps": steps, "redraw": 10,
            "block": 100}


# Until it converges, at most as long as in the paper's figure 7. Points stay while it runs, and are drawn again now
# and then.
LBFGS = {"optimiser": "lbfgs", "options": {"tolerance": 1e-8}, "steps": 15_000, "redraw": 1000}
PAPER_STAGES = (plateau_adam(), LBFGS)


def start_and_finish(steps: int, rate: float, last: int, redraw: int) -> list[dict[str, Any]]:
    """A few steps of Adam, then `last` of self-scaled Broyden with new points every `redraw`."""
    return [{"optimiser": "adam", "options": {"learning_rate": rate, "plateau": False}, "steps": steps, "redraw": 50},
            {"optimiser": "ssbroyden", "steps": last, "redraw": redraw, "block": 100}]


@dataclass(frozen=True)
class Presets:
    """What suits the problem of that name better than the general settings.

    settings: {(method, preset): {"method": options, "stages": […]}}, of which one may be missing. The others are what
    the paper's baselines (A.8) have, of which a method gets those that it has as options: sizes, options of networks
    over the whole domain and of those of blocks, and the stages.
    """

    problem: str = ""
    settings: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    blocks: Mapping[str, Any] = field(default_factory=dict)
    stages: Sequence[Mapping[str, Any]] = PAPER_STAGES


GENERAL = Presets(settings={
    ("exact", "quick"): {
        "method": {"width": 24, "depth": 3, "points": 2048}, "stages": start_and_finish(200, 5e-3, 5000, 200)},
    ("exact", "best"): {
        "method": {"width": 48, "depth": 4, "points": 8192}, "stages": start_and_finish(500, 3e-3, 10_000, 500)},
    ("exact", "paper"): {
        "method": {"width": 50, "depth": 4, "points": 8192, "dtype": "float32"}, "stages": PAPER_STAGES},
    ("hc", "quick"): {"method": {"points": 2048}, "stages": [plateau_adam(steps=1000)]},
    ("hc", "paper"): {"method": {}, "stages": PAPER_STAGES},
    ("hc", "best"): {"method": {"dtype": "float64"}, "stages": PAPER_STAGES},
})
_FEW = {"points": 2048, "boundary": 256, "initial": 256, "interface": 256}  # of a baseline, quickly


def _baseline(suited: Presets, method: str, name: str) -> dict[str, Any]:
    known = known_options(METHODS[method])
    networks = suited.blocks if "blocks" in known else suited.network
    precision = {"dtype": "float64"} if name == "best" else {}
    wished, stages = {**suited.sizes, **networks, **precision}, suited.stages
    if name == "quick":
        wished, stages = _FEW, [plateau_adam(steps=1000)]
    return {"method": {key: value for key, value in wished.items() if key in known}, "stages": stages}




def preset(method: str, name: str, schedule: str = "fair", suited: Presets = GENERAL) -> dict[str, Any]:
    """The settings {"method": options, "stages": [...]} of a preset, with what is suited to a problem.

    schedule: "fair": Adam's rate follows the plateau rule, as the paper's text says for every method;
    "as-published": it stays constant for all but hc, as in the code behind the paper's tables.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset '{name}'; the presets are {', '.join(PRESETS)}")
    if schedule not in SCHEDULES:
        raise ValueError(f"there is no schedule '{schedule}'; it is {' or '.join(SCHEDULES)}")
    general = GENERAL.settings.get((method, name)) or _baseline(suited, method, name)
    own = suited.settings.get((method, name), {})
    settings = {"method": {**deepcopy(general["method"]), **deepcopy(own.get("method", {}))},
                "stages": deepcopy(list(own.get("stages", general["stages"])))}
    if schedule == "as-published" and method not in ("exact", "hc"):
        for stage in settings["stages"]:
            if stage["optimiser"] == "adam":
                stage.update(constant_adam(stage["options"]["learning_rate"], stage["steps"]))
    return settings


def with_steps(settings: dict[str, Any], steps: list[int]) -> dict[str, Any]:
    """Settings with other numbers of steps, one for each stage; 0 leaves a stage out."""
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
    """Stages as they are, or from their plain description: optimiser, steps and, if wanted, options, redraw, block."""
    if not isinstance(specifications, list) or not specifications:
        raise ValueError("stages are a list like [{'optimiser': 'adam', 'steps': 500}, …], with at least one")
    return [spec if isinstance(spec, Stage) else _make_stage(spec) for spec in specifications]


def _make_stage(spec: dict[str, Any]) -> Stage:
    if not isinstance(spec, dict) or not {"optimiser", "steps"} <= set(spec) <= _STAGE_KEYS:
        raise ValueError(f"stage {spec!r} must name optimiser and steps, and may have options, redraw, "
                         f"block and reweigh")
    name = spec["optimiser"]
    for key in ("steps", "redraw", "block"):
        if not is_whole(spec.get(key, 1)):
            raise ValueError(f"stage '{name}': {key} is {spec[key]!r}; it is a whole number")
    if not isinstance(name, str) or name not in OPTIMISERS:
        raise ValueError(f"there is no optimiser '{name}'; the optimisers are {', '.join(OPTIMISERS)}")
    optimiser = _make_optimiser(name, spec.get("options", {}))
    # A line search needs a loss that stays what it is.
    reweigh = spec.get("reweigh", name == "adam")
    if not isinstance(reweigh, bool):
        raise ValueError(f"stage '{name}': reweigh is {reweigh!r}; it is true or false")
    return Stage(name, optimiser, spec["steps"], spec.get("redraw", 0), spec.get("block", 50), reweigh)


def _make_optimiser(name: str, options: dict[str, Any]) -> Any:
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
    return build(**options)
