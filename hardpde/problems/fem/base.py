"""What every finite-element reference needs: NGSolve, its meshes as arrays, and levels of refinement to compare."""

import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

Found = TypeVar("Found")


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


def check_level(level: int, levels: Sequence[Any], least: int = 0) -> None:
    """A level of refinement is one of those that there are; least = 1 where it is compared with the one below."""
    if not least <= level < len(levels):
        why = ", each is checked against the one before" if least else ""
        raise ValueError(f"level is {level}; choose {least} to {len(levels) - 1}{why}")


def with_level_below(solve: Callable[[int], Found], level: int) -> tuple[Found, Found, dict[str, float]]:
    """What is solved one level below, what is solved at the level, and the seconds of both."""
    found, seconds = [], {}
    for each in (level - 1, level):
        begun = time.perf_counter()
        found.append(solve(each))
        seconds[str(each)] = round(time.perf_counter() - begun, 1)
    return found[0], found[1], seconds


def nodes_and_cells(mesh: Any) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, d) and simplices (c, d + 1) of a mesh."""
    x = np.array([vertex.point for vertex in mesh.vertices])
    return x, np.array([[v.nr for v in cell.vertices] for cell in mesh.Elements(ngsolve().VOL)], np.int32)


def mesh_points(mesh: Any, x: np.ndarray, away: Callable[[np.ndarray, float], np.ndarray]) -> np.ndarray:
    """The mesh points of `x` (n, d); where a curved element cuts the edge of a body, the nearest found off the body.

    away: points (k, d) and a length → these points, pushed so far off the body.
    """
    found = mesh(*x.T)
    for length in 10.0 ** np.arange(-11, -1):
        lost = np.flatnonzero(found["nr"] < 0)
        if not len(lost):
            break
        y = away(x[lost], length)
        found[lost] = mesh(*y.T)
    if np.any(found["nr"] < 0):
        raise ValueError("the mesh is too coarse to follow its curved walls; pass a smaller near or a higher order")
    return found
