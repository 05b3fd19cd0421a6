"""All settings of a run, as plain data; and the formulation that they make of a problem."""

from typing import Any

import jax
import jax.numpy as jnp

from hardpde.formulation.formulation import Formulation
from hardpde.methods import METHODS, known_options, make
from hardpde.networks.features import LOCAL, RandomFeatures, Source
from hardpde.networks.marched import blank_marched
from hardpde.networks.mlp import count
from hardpde.problem.problem import Problem
from hardpde.problems.presets import GENERAL, Presets, described, make_stages, preset, with_steps
from hardpde.support.checking import is_whole, wished_kind
from hardpde.support.hardware import check_devices, usual_devices
from hardpde.training import Stage

MOST_DENSE = 30_000  # weights for which a dense inverse Hessian is kept


def check_problem(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise ValueError(f"{type(problem).__name__} is given in place of a problem; make one with Problem(…)")


def make_settings(problem: Problem, method: str, preset_name: str, seed: int,
                  options: dict[str, Any] | None = None, steps: list[int] | None = None,
                  stages: list[dict[str, Any] | Stage] | None = None, schedule: str = "fair",
                  devices: int | None = 1) -> dict[str, Any]:
    """All settings of a run as plain data: with the problem, they determine the result.

    devices: None for as many as are usual here for so many points.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"there is no method '{method}'; the methods are {', '.join(METHODS)}")
    if not is_whole(seed, 0) or seed >= 2**32:
        raise ValueError(f"the seed is {seed!r}; it is a whole number from 0 to 2^32 − 1")
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"options is {options!r}; it is a dictionary like {{'width': 64}}")
    settings = preset(method, preset_name, schedule, suited(problem))
    settings["method"] |= options or {}
    state_devices(method, settings["method"], devices)
    if isinstance(wished := settings["method"].get("devices", 1), int):
        check_devices(wished)
    if stages is not None:
        make_stages(stages)
        settings["stages"] = [described(stage) for stage in stages]
    if steps is not None:
        settings = with_steps(settings, steps)
    return {"problem": problem.name, "method_name": method, "preset": preset_name, "schedule": schedule, "seed": seed,
            **settings}


def state_devices(method: str, options: dict[str, Any], devices: int | None) -> None:
    """State in the options of a method how many devices share its points; None: as many as are usual, unless stated."""
    if devices is None:
        known = known_options(METHODS[method])
        points: Any = options.get("points", known.get("points"))
        stated = "devices" in options or "devices" not in known or not isinstance(points, int)
        devices = 1 if stated else usual_devices(points)
    if devices != 1:
        options["devices"] = devices


def suited(problem: Problem) -> Presets:
    """What the problem states of settings that suit it; a problem that was given another name has none."""
    stated = problem.presets
    if stated is not None and not isinstance(stated, Presets):
        raise ValueError(f"presets is {stated!r}; write Presets('{problem.name}', …)")
    return stated if stated is not None and stated.problem == problem.name else GENERAL


def make_formulation(problem: Problem, settings: dict[str, Any]) -> Formulation:
    check_options(settings)
    formulation = make(METHODS[settings["method_name"]], problem, settings["method"])
    weights = count(jax.eval_shape(formulation.init, jax.random.key(0)))
    if weights > MOST_DENSE and any(stage["optimiser"] == "ssbroyden" for stage in settings["stages"]):
        raise ValueError(f"ssbroyden keeps a dense matrix of {weights}² numbers, {8 * weights**2 / 1e9:.0f} GB; "
                         f"use a network of at most {MOST_DENSE} weights, or lbfgs in the stages")
    return formulation


def check_options(settings: dict[str, Any]) -> None:
    """Every option is one of the method's, and of the kind of its default."""
    name, options = settings["method_name"], settings["method"]
    if not isinstance(name, str) or name not in METHODS or not isinstance(options, dict):
        raise ValueError(f"there is no method {name!r} with options {options!r}; the methods are {', '.join(METHODS)}")
    known = known_options(METHODS[name])
    for name, value in settings["method"].items():
        if name not in known:
            raise ValueError(f"method '{settings['method_name']}' has no option '{name}'; "
                             f"its options are {', '.join(known)}")
        if what := wished_kind(name, known[name], value):
            raise ValueError(f"option '{name}' is {value!r}; it must be {what}")


def blank_model(formulation: Formulation, settings: dict[str, Any]) -> Any:
    """The shapes of the model that these settings make."""
    trained = jax.eval_shape(formulation.init, jax.random.key(0))
    stated = settings.get("features")
    if stated is None:
        return trained
    if "knots" in stated:
        return blank_marched(stated, trained.weights[0].shape[0])
    inputs, outputs = trained.weights[0].shape[0], trained.weights[-1].shape[1]
    base = trained if stated["on_trained"] else None
    inputs += base.biases[-2].size if base is not None else 0
    sources = tuple(Source(*source) for source in stated.get("sources", ()))
    if sources:
        inputs //= 1 + max(source.axis for source in sources)
        outputs = 1 + max(source.column for source in sources)

    def layer(kind: str, size: int, windows: int) -> tuple[jax.ShapeDtypeStruct, ...]:
        shapes: list[tuple[int, ...]] = [(inputs, size), (size,), *[(inputs, size)] * (kind == "power")]
        if kind == LOCAL:
            shapes = [(windows, inputs, size), (windows, size), (windows, inputs), (windows, inputs)]
        return tuple(jax.ShapeDtypeStruct(shape, jnp.float64) for shape in shapes)

    sizes = list(zip(stated["sizes"], stated.get("windows", [1] * len(stated["sizes"])), strict=True))
    arrays = tuple(layer(kind, *size) for kind, size in zip(stated["kinds"], sizes, strict=True))
    last = jax.ShapeDtypeStruct((sum(size * windows for size, windows in sizes), outputs), jnp.float64)
    return RandomFeatures(arrays, last, base, tuple(stated["kinds"]), sources)
