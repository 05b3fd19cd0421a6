"""hardpde: PDEs solved by neural networks whose conditions hold by construction.

Importing it switches JAX to double precision: conditions exact to rounding need it. Where JAX computes nothing yet, it
also makes every core of the CPU a device of JAX's, so that they can share the points of a training. All else is loaded
as the first public name is asked for: `hardpde --version` needs none.
"""

import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from hardpde.public import *  # noqa: F403

jax.config.update("jax_enable_x64", True)
_stated = (getattr(jax.config, "jax_num_cpu_devices", 0) >= 0
           or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""))
if not _stated:
    with suppress(RuntimeError):  # devices are known already, and stay
        _cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        jax.config.update("jax_num_cpu_devices", len(_cores))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("hardpde")
    if name.startswith("__") and name != "__all__":  # what Python and its tools look for
        raise AttributeError(f"hardpde has no attribute {name!r}")
    public = import_module("hardpde.public")
    globals().update({each: getattr(public, each) for each in (*public.__all__, "__all__")})
    if name not in globals():  # floors are there too now
        raise AttributeError(f"hardpde has no attribute {name!r}")
    return globals()[name]


def __dir__() -> list[str]:
    """The public names alone."""
    return sorted([*import_module("hardpde.public").__all__, "__version__"])
