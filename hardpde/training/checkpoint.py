"""Checkpoints: every number of a training run in one file that is written whole or not at all.

The file is a plain .npz of arrays and text; loading it never executes code.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from hardpde.support.files import replacing
from hardpde.support.hardware import first_process
from hardpde.training.sharding import placed_like, to_host

T = TypeVar("T")


def save(path: Path, tree: Any, meta: dict) -> None:
    """Write the arrays of a pytree and a JSON-able dictionary; of several processes, the first one does."""
    arrays = {f"leaf{i}": to_host(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    if not first_process():
        return
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_meta(path: Path, keys: tuple[str, ...] = ()) -> dict:
    """The dictionary alone, which must have these keys."""

    def extract(file: Any) -> dict:
        meta = json.loads(file["meta"].tobytes())
        return {**meta, **{key: meta[key] for key in keys}}

    return _read(path, extract)


def load(path: Path, like: Any) -> Any:
    """The pytree saved, checked against the structure, shapes and types of `like`."""
    leaves, tree = jax.tree.flatten(like)
    found = _read(path, lambda file: [file[f"leaf{i}"] for i in range(len(file.files) - 1)])
    same = len(found) == len(leaves) and all(
        a.shape == tuple(b.shape) and a.dtype == b.dtype for a, b in zip(found, leaves))
    if not same:
        raise ValueError(f"'{path}' belongs to another model or another version; start the run again")
    return jax.tree.unflatten(tree, [placed_like(a, b) for a, b in zip(found, leaves)])


def _read(path: Path, extract: Callable[[Any], T]) -> T:
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return extract(file)
    except FileNotFoundError:
        raise ValueError(f"'{path}' does not exist") from None
    except Exception as error:  # whatever the readers of archives and arrays find in a damaged one
        raise ValueError(f"'{path}' is damaged or not a hardpde file ({error}); start the run again") from None
