"""From a problem to its solution in one call; and the solution."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hardpde.files import replacing
from hardpde.formulation import Formulation
from hardpde.methods import METHODS
from hardpde.networks import count
from hardpde.presets import make_stages, preset, with_steps
from hardpde.problem import Problem
from hardpde.training import CHECKPOINT_SECONDS, Training, fit


@dataclass(frozen=True, eq=False)
class Solution:
    """A trained model of a problem: callable at points, with its history and why each stage ended."""

    problem: Problem
    formulation: Formulation
    settings: dict[str, Any]
    training: Training

    def __call__(self, x: Any, t: Any = None) -> dict[str, np.ndarray]:
        """All fields at points x (n, d), at time t (a number or n numbers): {name: (n, *shape)}."""
        schema = self.problem.schema
        x = np.atleast_2d(np.asarray(x, float))
        if x.shape[1] == schema.dim and schema.timed:
            if t is None:
                raise ValueError("the solution depends on time; give t, or points with time as last coordinate")
            x = np.concatenate([x, np.broadcast_to(np.asarray(t, float).reshape(-1, 1), (len(x), 1))], axis=1)
        if x.shape[1] != schema.coordinates:
            raise ValueError(f"points have {x.shape[1]} coordinates; {schema.coordinates} are needed")
        q = self.formulation.predict(self.training.model, x)
        return {name: q[:, part].reshape(len(x), *schema.shapes[name]) for name, part in schema.slices.items()}

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        return count(self.training.model)

    def save(self, path: str | Path) -> None:
        """Write the weights: settings in the first line, then plain arrays. Loading never executes code."""
        header = {"hardpde": 1, "settings": self.settings, "fingerprint": fingerprint(self.problem)}
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write((json.dumps(header) + "\n").encode())
            eqx.tree_serialise_leaves(file, self.training.model)

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "Solution":
        """Read weights written by `save`, for the same problem."""
        path = Path(path)
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                settings = header["settings"]
                if header["fingerprint"] != fingerprint(problem):
                    raise ValueError("it was trained for another problem")
                formulation = make_formulation(problem, settings)
                like = jax.eval_shape(formulation.init, jax.random.key(0))
                model = eqx.tree_deserialise_leaves(file, like)
        except OSError as error:
            raise ValueError(f"'{path}' cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
            raise ValueError(f"'{path}' is damaged or not a model of this problem ({_line(error)})") from None
        return cls(problem, formulation, settings, Training(model))


def solve(problem: Problem, method: str = "exact", preset: str = "quick", seed: int = 0, *,
          options: dict[str, Any] | None = None, steps: list[int] | None = None,
          report: Callable[[dict], None] = lambda record: None) -> Solution:
    """Solve a problem. `options` overrides settings of the method, `steps` those of the stages."""
    settings = make_settings(problem, method, preset, seed, options, steps)
    return run(problem, settings, report=report)


def make_settings(problem: Problem, method: str, preset_name: str, seed: int,
                  options: dict[str, Any] | None = None, steps: list[int] | None = None) -> dict[str, Any]:
    """All settings of a run as plain data: with the problem, they determine the result."""
    if method not in METHODS:
        raise ValueError(f"there is no method '{method}'; the methods are {', '.join(METHODS)}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"the seed is {seed}; it is a whole number from 0 to 2^32 − 1")
    settings = preset(problem.name, method, preset_name)
    settings["method"] |= options or {}
    if steps is not None:
        settings = with_steps(settings, steps)
    return {"problem": problem.name, "method_name": method, "preset": preset_name, "seed": seed, **settings}


def make_formulation(problem: Problem, settings: dict[str, Any]) -> Formulation:
    method = METHODS[settings["method_name"]]
    known = method.__kwdefaults__ or {}
    for name, value in settings["method"].items():
        if name not in known:
            raise ValueError(f"method '{settings['method_name']}' has no option '{name}'; "
                             f"its options are {', '.join(known)}")
        default = known[name]
        if isinstance(default, (int, float)) and not isinstance(default, bool):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"option '{name}' is {value!r}; it is a number")
    return method(problem, **settings["method"])


def run(problem: Problem, settings: dict[str, Any], *, checkpoint: Path | None = None, resume: bool = False,
        report: Callable[[dict], None] = lambda record: None, every: float = CHECKPOINT_SECONDS) -> Solution:
    """Train as the settings say; with a checkpoint, a killed run can be resumed."""
    stages = make_stages(settings["stages"])
    formulation = make_formulation(problem, settings)
    training = fit(formulation, stages, jax.random.key(settings["seed"]), path=checkpoint, resume=resume,
                   report=report, every=every)
    return Solution(problem, formulation, settings, training)


def fingerprint(problem: Problem) -> str:
    """A short name for what a model's shape depends on: the fields, the pieces and their conditions."""
    pieces = [(piece.name, [round(p, 12) for p in piece.params]) for piece in problem.domain.pieces]
    text = json.dumps([problem.schema.fields, problem.time, pieces, [c.name for c in problem.conditions]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
