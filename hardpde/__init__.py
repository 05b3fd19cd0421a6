"""hardpde: PDEs solved by neural networks whose conditions hold by construction.

Importing it switches JAX to double precision: conditions exact to rounding need it. Where JAX computes nothing yet, it
also makes every core of the CPU a device of JAX's, so that they can share the points of a training. A public
name is loaded as it is asked for, from where `__init__.pyi` says that it is.
"""

import ast
import os
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)
_stated = (getattr(jax.config, "jax_num_cpu_devices", 0) >= 0
           or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""))
if not _stated:
    with suppress(RuntimeError):  # devices are known already, and stay
        _cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        jax.config.update("jax_num_cpu_devices", len(_cores))


@cache
def _public() -> dict[str, str]:
    """The public names and where they are: what the stub beside this file imports."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text())
    return {each.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) and node.module
            for each in node.names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("hardpde")
    if name == "__all__":
        return sorted(_public())
    if name not in _public():
        raise AttributeError(f"hardpde has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_public()[name]), name)
    return found


def __dir__() -> list[str]:
    """The public names alone."""
    return sorted([*_public(), "__version__"])
