"""Finite-element references (NGSolve, imported only when used)."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpde.problem.reference import Reference

# Built-in problems with a finite-element reference: the module whose reference(level) computes it.
REFERENCES = {"battery-pack": "hardpde.problems.fem.battery_pack", "airfoil": "hardpde.problems.fem.airfoil"}


def compute_reference(problem: str, level: int) -> Reference:
    """The finite-element reference of a built-in problem, at a level of refinement."""
    if problem not in REFERENCES:
        raise ValueError(f"'{problem}' has no finite-element reference; choose from {', '.join(REFERENCES)}")
    return import_module(REFERENCES[problem]).reference(level)


def ngsolve() -> Any:
    """The module NGSolve, or a sentence how to install it."""
    try:
        import ngsolve
    except ImportError:
        raise ImportError("finite-element references need NGSolve: pip install 'hardpde[fem]'") from None
    return ngsolve


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    packages = {name: version(name) for name in ("hardpde", "ngsolve", "numpy", "scipy")}
    return {"python": platform.python_version(), **packages}
