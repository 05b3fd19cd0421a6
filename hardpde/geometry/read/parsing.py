"""What the readers of geometry files share: packages at the point of use, faults as one sentence, nested outlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from hardpde.geometry.base import Shape
from hardpde.geometry.csg import Difference, Union
from hardpde.support.files import as_path


def need(package: str, path: Path) -> Any:
    """A package of the extra `geometry`."""
    try:
        return import_module(package)
    except ImportError:
        raise ValueError(
            f"{path.name} cannot be read without the package {package.split('.')[0]}; pip install 'hardpde[geometry]'"
        ) from None


def existing(path: str | Path, suffixes: Sequence[str], reads: str) -> Path:
    """The path of a file that is there, is not empty and has one of the suffixes."""
    path = as_path(path, f"the file for {reads}")
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{path.name} is of unknown kind; {reads} reads {', '.join(suffixes)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}; check its name and folder")
    if not path.stat().st_size:
        raise ValueError(f"{path.name} is empty; write it again")
    return path


@contextmanager
def parsing(path: Path, kind: str) -> Iterator[None]:
    """Whatever another package finds wrong with a file becomes one sentence; what it prints is kept back."""
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    except (Exception, SystemExit) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path.name} cannot be read as {kind} ({words[:120]}); write the file again") from error


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Faults of a shape are said of the file that it came from."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(path.name) else f"{path.name}: {text}") from None


def nest(shapes: Sequence[Shape], inside: Callable[[int, int], bool]) -> Shape:
    """One shape of solids that lie in each other: what lies in a solid is a hole, what lies in a hole is solid again.

    inside(i, j): whether all of solid i lies in solid j.
    """
    within = np.array([[i != j and inside(i, j) for j in range(len(shapes))] for i in range(len(shapes))], bool)
    depth = within.sum(axis=1)
    solids: list[Shape] = []
    for j, shape in enumerate(shapes):
        if depth[j] % 2 == 0:
            holes = [shapes[i] for i in range(len(shapes)) if within[i, j] and depth[i] == depth[j] + 1]
            solids.append(Difference(shape, *holes) if holes else shape)
    return solids[0] if len(solids) == 1 else Union(*solids)
