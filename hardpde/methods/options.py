"""Options of a method as plain data: those of its engine stand among its own."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.problem.problem import Problem

Method = Callable[..., Formulation]


def known_options(method: Method) -> dict[str, Any]:
    """The options of a method with their defaults."""
    found: dict[str, Any] = {}
    for name, default in _keywords(method).items():
        found |= default.options if isinstance(default, Engine) else {name: default}
    return found


def make(method: Method, problem: Problem, options: Mapping[str, Any]) -> Formulation:
    """The formulation that a method makes of a problem, with the fields that its statement needs, and these options."""
    stated = dict(options)
    for name, default in _keywords(method).items():
        if isinstance(default, Engine):
            stated[name] = replace(default, **{key: stated.pop(key) for key in default.options if key in stated})
    return method(problem.completed, **stated)


def _keywords(method: Method) -> dict[str, Any]:
    return getattr(method, "__kwdefaults__", None) or {}
