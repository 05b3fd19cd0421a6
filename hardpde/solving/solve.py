"""From a problem to its solution in one call; and the solution."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hardpde.formulation.formulation import Formulation
from hardpde.formulation.sharded import check_devices, spread, usual_devices
from hardpde.methods import METHODS
from hardpde.networks.mlp import count
from hardpde.problem.parameters import as_points, column, values
from hardpde.problem.problem import Problem
from hardpde.problems.presets import described, make_stages, preset, wished_kind, with_steps
from hardpde.support.files import as_path, replacing
from hardpde.support.messages import first_line
from hardpde.support.tensorboard import check_tensorboard, event_writer
from hardpde.training import CHECKPOINT_SECONDS, Stage, Training, fit, fit_all, history_so_far

MOST_DENSE = 30_000  # weights for which a dense inverse Hessian is kept


@dataclass(frozen=True, eq=False)
class Solution:
    """A trained model of a problem: callable at points, with its history and why each stage ended."""

    problem: Problem
    formulation: Formulation
    settings: dict[str, Any]
    training: Training

    def __call__(self, /, x: Any, t: Any = None, **stated: Any) -> dict[str, np.ndarray]:
        """All fields at points x (n, d), at time t and with the parameters stated by name (each a number or n
        numbers): {name: (n, *shape)}; NaN outside a field's region."""
        schema = self.problem.schema
        x = as_points(x)
        if t is not None and not schema.timed:
            raise ValueError(f"t is {t!r}, and the problem has no time; leave t out")
        if t is not None and x.shape[1] != schema.dim:
            raise ValueError(f"points have {x.shape[1]} coordinates; {schema.dim} are needed where t is given")
        if x.shape[1] == schema.dim and schema.timed:
            if t is None:
                raise ValueError("the solution depends on time; give t, or points with time as last coordinate")
            x = _appended(x, {"t": t})
        if x.shape[1] != schema.coordinates:
            raise ValueError(f"points have {x.shape[1]} coordinates; {schema.coordinates} are needed")
        x = self.problem.back(_appended(x, values(self.problem.parameters, stated)))
        inner = self.formulation.problem.schema
        if inner.names == schema.names:
            q = self.formulation.predict(self.training.model, x)
            found = {name: q[:, part].reshape(len(x), *schema.shapes[name]) for name, part in schema.slices.items()}
            return self.problem.masked(found, x[:, : schema.dim])
        # Gradient fields that are not fields of the model are its derivatives.
        jet = self.formulation.jet(self.training.model, x)
        found = {}
        for name, shape in schema.fields:
            base = dict(schema.gradients).get(name, name)
            part = jet[:, inner.slices[base]]
            part = part[:, :, 0] if base == name else part[:, :, 1 : 1 + schema.dim]
            found[name] = np.asarray(part).reshape(len(x), *shape)
        return self.problem.masked(found, x[:, : schema.dim])

    def at(self, /, **stated: float) -> "Solution":
        """The solution of one problem of a family, with a value for each of its parameters."""
        problem, at = self.problem.at(**stated), self.formulation.at
        if problem is self.problem:
            return self
        fixed = values(self.problem.parameters, stated)

        def whole(x: np.ndarray, derivatives: bool = False) -> Any:
            return at(_appended(x, fixed), derivatives)

        inner = self.formulation.problem
        inner = problem if inner is self.problem else inner.at(**stated)
        formulation = replace(self.formulation, at=whole, problem=inner)
        return Solution(problem, formulation, {**self.settings, "parameters": dict(stated)}, self.training)

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        return count(self.training.model)

    def errors(self) -> dict[str, dict[str, Any]]:
        """Errors {component: {metric: value}} against the known solution or the reference; {} without one."""
        from hardpde.evaluation.evaluate import make_reference, measure

        return measure(self, make_reference(self.problem))

    def picture(self, component: str) -> Any:
        """A component of a field, e.g. "T" or "u[0]": reference, prediction and error, at a few times."""
        from hardpde.evaluation.evaluate import components, make_reference
        from hardpde.evaluation.figures.plots import field_grid

        found = components(self, make_reference(self.problem))
        if component not in found:
            raise ValueError(f"there is no picture of '{component}'; there are {', '.join(found)}")
        return field_grid(*found[component], component)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: losses, errors, why each stage ended, the first field."""
        from hardpde.evaluation.notebook import solution_html

        return solution_html(self)

    def save(self, path: str | Path) -> None:
        """Write the weights: settings in the first line, then plain arrays. Loading never executes code."""
        header = {"hardpde": 2, "settings": self.settings, "fingerprint": fingerprint(self.problem)}
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write((json.dumps(header) + "\n").encode())
            eqx.tree_serialise_leaves(file, self.training.model)

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "Solution":
        """Read weights written by `save`, for the same problem."""
        path = as_path(path, "the file of a model")
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                if header["hardpde"] != 2:
                    raise ValueError("another version of hardpde wrote it; solve the problem again")
                settings = header["settings"]
                (kind, sums), (own_kind, own_sums) = header["fingerprint"], fingerprint(problem)
                if kind != own_kind or not np.allclose(sums, own_sums, rtol=0, atol=1e-9):
                    raise ValueError("it was trained for another problem")
                formulation = make_formulation(problem, settings)
                like = jax.eval_shape(formulation.init, jax.random.key(0))
                model = eqx.tree_deserialise_leaves(file, like)
        except OSError as error:
            raise ValueError(f"'{path}' cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
            raise ValueError(f"'{path}' is damaged or not a model of this problem ({first_line(error)})") from None
        return cls(problem, formulation, settings, Training(model))


def solve(problem: Problem, method: str = "exact", preset: str = "quick", seed: int = 0, *,
          options: dict[str, Any] | None = None, stages: list[dict[str, Any] | Stage] | None = None,
          steps: list[int] | None = None, schedule: str = "fair", devices: int | None = None,
          report: Callable[[dict], None] = lambda record: None, tensorboard: str | Path | None = None) -> Solution:
    """Solve a problem as a preset says.

    `options` overrides settings of the method, e.g. {"width": 64}; `stages` replaces the preset's, e.g.
    [{"optimiser": "adam", "steps": 500}, {"optimiser": "levenberg_marquardt", "steps": 200, "redraw": 50}], or
    [Stage("lion", optax.lion(1e-3), 500, redraw=50), …] with an optimiser of optax's that has no line search;
    `steps` changes the number of steps of each stage; `schedule` "as-published" keeps Adam's rate constant for the
    paper's baselines, as in the code behind its tables; so many `devices` share the points evenly (unless stated, one
    GPU or the cores of a CPU); `tensorboard` is a folder for event files with the curves of the training, which
    TensorBoard reads.
    """
    if tensorboard is not None:
        tensorboard = as_path(tensorboard, "tensorboard")
        check_tensorboard()
    check_problem(problem)
    settings = make_settings(problem, method, preset, seed, options, steps, stages, schedule, devices)
    made = make_stages(stages) if stages is not None and any(isinstance(stage, Stage) for stage in stages) else None
    if made and steps is not None:
        raise ValueError("steps are given beside stages with optimisers of your own; state them in the stages")
    return run(problem, settings, report=report, tensorboard=tensorboard, stages=made)


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
    if not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"the seed is {seed!r}; it is a whole number from 0 to 2^32 − 1")
    if options is not None and not isinstance(options, dict):
        raise ValueError(f"options is {options!r}; it is a dictionary like {{'width': 64}}")
    settings = preset(problem.name if _comes_with_us(problem) else "", method, preset_name, schedule)
    settings["method"] |= options or {}
    share(method, settings["method"], devices)
    if isinstance(wished := settings["method"].get("devices", 1), int):
        check_devices(wished)
    if stages is not None:
        make_stages(stages)
        settings["stages"] = [described(stage) for stage in stages]
    if steps is not None:
        settings = with_steps(settings, steps)
    return {"problem": problem.name, "method_name": method, "preset": preset_name, "schedule": schedule, "seed": seed,
            **settings}


def share(method: str, options: dict[str, Any], devices: int | None) -> None:
    """State in the options of a method how many devices share its points; None: as many as are usual, unless stated."""
    if devices is None:
        known = METHODS[method].__kwdefaults__ or {}
        points: Any = options.get("points", known.get("points"))
        stated = "devices" in options or "devices" not in known or not isinstance(points, int)
        devices = 1 if stated else usual_devices(points)
    if devices != 1:
        options["devices"] = devices


def _comes_with_us(problem: Problem) -> bool:
    """Settings are known for built-in problems; a user's may have the name of one."""
    return str(getattr(problem.residual, "__module__", "")).startswith("hardpde.problems.")


def make_formulation(problem: Problem, settings: dict[str, Any]) -> Formulation:
    check_options(settings)
    method: Any = METHODS[settings["method_name"]]
    formulation: Formulation = method(problem, **settings["method"])
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
    known = METHODS[name].__kwdefaults__ or {}
    for name, value in settings["method"].items():
        if name not in known:
            raise ValueError(f"method '{settings['method_name']}' has no option '{name}'; "
                             f"its options are {', '.join(known)}")
        if what := wished_kind(name, known[name], value):
            raise ValueError(f"option '{name}' is {value!r}; it must be {what}")


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

        training = fit(spread(formulation), stages, jax.random.key(settings["seed"]), path=checkpoint, resume=resume,
                       report=tell, every=every)
    return Solution(problem, formulation, settings, training)


def run_seeds(problem: Problem, settings: dict[str, Any], seeds: list[int], *, formulation: Formulation | None = None,
              report: Callable[[dict], None] = lambda record: None) -> list[Solution]:
    """Train as the settings say with every seed, all at once; each takes the steps it would take alone."""
    formulation = formulation or make_formulation(problem, settings)
    keys = jax.numpy.stack([jax.random.key(seed) for seed in seeds])
    trainings = fit_all(spread(formulation), make_stages(settings["stages"]), keys, report=report)
    return [Solution(problem, formulation, {**settings, "seed": seed}, training)
            for seed, training in zip(seeds, trainings)]


def fingerprint(problem: Problem) -> tuple[str, list[float]]:
    """What a model's shape depends on: a short name for the fields, the pieces and their conditions; and three sums
    over the numbers that state the pieces, which machines may round differently."""
    pieces = [(piece.name, len(piece.params)) for piece in problem.domain.pieces]
    open_numbers = [[[p.name, p.low, p.high] for p in problem.parameters]] if problem.parameters else []
    text = json.dumps([problem.schema.fields, problem.time, pieces, [c.name for c in problem.conditions],
                       *open_numbers])
    numbers = np.array([p for piece in problem.domain.pieces for p in piece.params], float)
    sums = np.cos(np.outer([1, 2, 3], np.arange(numbers.size))) @ numbers / max(1.0, np.abs(numbers).sum())
    return hashlib.sha256(text.encode()).hexdigest()[:16], sums.tolist()


def _appended(x: np.ndarray, more: Mapping[str, Any]) -> np.ndarray:
    """Points (n, c) with more numbers, each the same for all or one for each."""
    return np.concatenate([x, *[column(name, value, len(x)) for name, value in more.items()]], axis=1)
