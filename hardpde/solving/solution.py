"""The answer: callable at points, with errors, pictures, save and load."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from hardpde.bounds.error_bar import ErrorBar, at_least_change, error_bar
from hardpde.evaluation.base import last_losses, told_decision
from hardpde.evaluation.certificate import certify
from hardpde.evaluation.certificate import violation as largest_violation
from hardpde.evaluation.errors import checked_reference, measure_errors
from hardpde.evaluation.verdict import Verdict, judge
from hardpde.formulation.batch import Batch
from hardpde.formulation.formulation import Formulation
from hardpde.networks.mlp import count
from hardpde.problem.parameters import as_points, column, values
from hardpde.problem.problem import Problem
from hardpde.solving.outside import without_unknown
from hardpde.solving.settings import blank_model, check_problem, make_formulation
from hardpde.support.compiling import runs_once
from hardpde.support.files import as_path, replacing
from hardpde.support.messages import first_line
from hardpde.training import Training

if TYPE_CHECKING:
    from hardpde.problem.datum import Datum
    from hardpde.solving.goals import Found, Goal

VERSION = 3  # of the files of models; those of version 2 have no checksum


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A trained model of a problem: callable at points, with its history and why each stage ended."""

    problem: Problem
    formulation: Formulation
    settings: dict[str, Any]
    training: Training

    def __call__(self, /, x: Any, t: Any = None, **stated: Any) -> dict[str, np.ndarray]:
        """All fields at points x (n, d), at time t and with the parameters stated by name (each a number or n
        numbers): {name: (n, *shape)}; NaN outside a field's region, and with a warning outside the domain, its time
        and the ranges of the parameters."""
        problem = self.problem
        x = problem.back(_appended(self._points(x, t), values(problem.parameters, stated, anywhere=True)))
        return without_unknown(problem, self._fields(x), x)

    def anywhere(self, /, x: Any, t: Any = None, **stated: Any) -> dict[str, np.ndarray]:
        """The same, also at points that lie outside the domain a little, like nodes of a mesh round it: what the model
        says there."""
        return self._fields(self.problem.back(_appended(self._points(x, t), values(self.problem.parameters, stated))))

    def _fields(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """All fields at points (n, c) of the domain as it was stated."""
        schema = self.problem.schema
        inner = self.formulation.problem.schema
        if set(inner.names) >= set(schema.names):
            q = self.formulation.predict(self.training.model, x)
            found = {name: q[:, inner.slices[name]].reshape(len(x), *shape) for name, shape in schema.fields}
            return self.problem.masked(found, x[:, : schema.dim])
        # Gradient fields that are not fields of the model are its derivatives.
        jet = self.formulation.jet(self.training.model, x, 1)
        found = {}
        for name, shape in schema.fields:
            base = dict(schema.gradients).get(name, name)
            part = jet[:, inner.slices[base]]
            part = part[:, :, 0] if base == name else part[:, :, 1 : 1 + schema.dim]
            found[name] = np.asarray(part).reshape(len(x), *shape)
        return self.problem.masked(found, x[:, : schema.dim])

    def _points(self, x: Any, t: Any) -> np.ndarray:
        """Points in space and time, (n, c) without parameters, of what a user gives."""
        schema, x = self.problem.schema, as_points(x)
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
        return x

    def at(self, /, **stated: float) -> "Solution":
        """The solution of one problem of a family, with a value for each of its parameters."""
        problem, at = self.problem.at(**stated), self.formulation.at
        if problem is self.problem:
            return self
        fixed = values(self.problem.parameters, stated)

        def at_member(x: np.ndarray, order: int = 0) -> Batch:
            return at(_appended(x, fixed), order)

        inner = self.formulation.problem
        inner = problem if inner is self.problem else inner.at(**stated)
        formulation = replace(self.formulation, at=at_member, problem=inner)
        return Solution(problem, formulation, {**self.settings, "parameters": dict(stated)}, self.training)

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        return count(self.training.model)

    @property
    def decision(self) -> str:
        """How the solution was found and why in that way, in a sentence."""
        return told_decision(self)

    def errors(self) -> dict[str, dict[str, Any]]:
        """Errors {component: {metric: value}} against the known solution or the reference; {} without one."""
        return measure_errors(self, checked_reference(self.problem))

    def __repr__(self) -> str:
        """Three lines: what was solved and how, why it ended, its losses."""
        settings, training = self.settings, self.training
        way = {"direct": "directly", "march": "by marching", "auto": "directly or trained",
               "train+direct": "by training with features added"}.get(settings.get("solver", ""), "trained")
        losses = ", ".join(f"{name} {value:.2e}" for name, value in last_losses(training.history).items())
        losses = losses or "no history"
        return "\n".join([
            f"{self.problem.name} by {settings.get('method_name', 'exact')}, solved {way}: {self.parameters} weights, "
            f"{training.seconds:.1f} s",
            self.decision if training.endings else "read from a file",
            f"fields {', '.join(self.problem.schema.names)}; {losses}; "
            f"solution.verdict() says what it is worth"])

    def verdict(self) -> Verdict:
        """What the answer is worth: "good", "doubtful" or "failed", because of what, with the conservation table."""
        with runs_once():
            rows = certify(self.formulation, [self.training.model])
            return judge(self, self.errors(), largest_violation(rows))

    def error_bar(self, violation: float | None = None) -> ErrorBar:
        """How far the fields may be from the solution, and whether that is guaranteed or estimated. violation: how far
        conditions are from exact, where that was measured already."""
        if not self._bars:
            self._bars.append(self._error_bar(violation))
        return self._bars[0]

    def goal(self, asked: "Goal | Datum") -> "Found":
        """A number of the solution, `hp.mean("T")`, `hp.integral(…)` or `hp.flux("T", on=…)`, and what it lies between.
        """
        from hardpde.solving.goals import goal  # solves an adjoint problem

        return goal(self, asked)

    @cached_property
    def _bars(self) -> list[ErrorBar]:
        """The error bar, once it was asked for."""
        return []

    def _error_bar(self, off: float | None) -> ErrorBar:
        with runs_once():
            if off is None:
                off = largest_violation(certify(self.formulation, [self.training.model], 200))
        bar = error_bar(self.formulation, self.training.model, self.problem, self.settings["method_name"], off)
        return at_least_change(bar, self.settings.get("found", {}).get("estimated_error"))

    def picture(self, component: str) -> Any:
        """A component of a field, e.g. "T" or "u[0]": reference, prediction and error, at a few times."""
        from hardpde.evaluation.figures.maps import field_grid
        from hardpde.evaluation.figures.pictures import drawn_components

        found = drawn_components(self, checked_reference(self.problem))
        if component not in found:
            raise ValueError(f"there is no picture of '{component}'; there are {', '.join(found)}")
        return field_grid(*found[component], component)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: losses, errors, why each stage ended, the first field."""
        from hardpde.evaluation.notebook import solution_html

        return solution_html(self)

    def save(self, path: str | Path) -> None:
        """Write the weights: settings in the first line, then plain arrays. Loading never executes code."""
        header = {"hardpde": VERSION, "settings": self.settings, "fingerprint": fingerprint(self.problem)}
        arrays = io.BytesIO()
        eqx.tree_serialise_leaves(arrays, self.training.model)
        sealed = {**header, "sha256": _digest(header, arrays.getvalue())}
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write((json.dumps(sealed) + "\n").encode() + arrays.getvalue())

    @classmethod
    def load(cls, path: str | Path, problem: Problem) -> "Solution":
        """Read weights written by `save`, for the same problem."""
        path = as_path(path, "the file of a model")
        check_problem(problem)
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                if header["hardpde"] not in (2, VERSION):
                    raise ValueError("another version of hardpde wrote it; solve the problem again")
                arrays = io.BytesIO(file.read())
                if "sha256" in header or header["hardpde"] == VERSION:
                    if header.pop("sha256") != _digest(header, arrays.getvalue()):
                        raise ValueError("its checksum is not that of what it holds")
                settings = header["settings"]
                (kind, sums), (own_kind, own_sums) = header["fingerprint"], fingerprint(problem)
                if kind != own_kind or not np.allclose(sums, own_sums, rtol=0, atol=1e-9):
                    raise ValueError("it was trained for another problem")
                formulation = make_formulation(problem, settings)
                like = blank_model(formulation, settings)
                model = eqx.tree_deserialise_leaves(arrays, like)
        except OSError as error:
            raise ValueError(f"'{path}' cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RuntimeError, EOFError) as error:
            raise ValueError(f"'{path}' is damaged or not a model of this problem ({first_line(error)})") from None
        return cls(problem, formulation, settings, Training(model))


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


def _digest(header: dict[str, Any], arrays: bytes) -> str:
    """The checksum of a model's file: of its first line and its arrays."""
    return hashlib.sha256(json.dumps(header).encode() + arrays).hexdigest()


def _appended(x: np.ndarray, more: Mapping[str, Any]) -> np.ndarray:
    """Points (n, c) with more numbers, each the same for all or one for each."""
    return np.concatenate([x, *[column(name, value, len(x)) for name, value in more.items()]], axis=1)
