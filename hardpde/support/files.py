"""Files that are either written whole or not at all, and where those of the user lie."""

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np


def as_path(path: Any, what: str) -> Path:
    """The path that a user states for something."""
    try:
        return Path(path)
    except TypeError:
        raise ValueError(f"{what} is {path!r}; it is a path, like 'folder/file'") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; on success flush it to disk and rename it to `path`.

    What the system refuses, a full disk for one, is an OSError that names `path`.
    """
    path = as_path(path, "the file to write")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except Exception as error:
        cause = _refusal(error)
        if cause is None:
            raise
        raise OSError(cause.errno, cause.strerror or str(cause), str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def sha256_of(path: Path) -> str:
    """The SHA-256 of what a file holds."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sweep(folder: str | Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    for file in Path(folder).rglob(".*.tmp"):
        if is_temporary(file):
            file.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Whether a file has a name that `replacing` gives."""
    return re.fullmatch(r"\..+\.\d+\.tmp", path.name) is not None


def _refusal(error: BaseException | None) -> OSError | None:
    """The OSError behind an error: a writer that cannot close its archive may hide it."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error


def write_json(path: Path, data: Any) -> None:
    """JSON without NaN or infinity: they become null."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(finite_or_none(data), indent=1) + "\n")


def finite_or_none(data: Any) -> Any:
    """Data in which null stands for the numbers that JSON does not have, like NaN."""
    if isinstance(data, dict):
        return {key: finite_or_none(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite_or_none(value) for value in data]
    if isinstance(data, (float, np.floating)):
        return float(data) if math.isfinite(data) else None
    return data


def folder_of_user(variable: str, unix: tuple[str, ...], mac: tuple[str, ...]) -> Path | None:
    """The usual folder of this system for what is kept for hardpde's user, below the home on Unix unless the variable
    names another one; None for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:  # nobody's
        return None
    usual = {"Windows": ("LOCALAPPDATA", home / "AppData" / "Local"), "Darwin": ("", home.joinpath(*mac))}
    variable, folder = usual.get(platform.system(), (variable, home.joinpath(*unix)))
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else folder) / "hardpde"
