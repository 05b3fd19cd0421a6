"""Where a figure comes from: versions, machine, commit."""

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax


def provenance() -> dict:
    """Versions, device and commit of this process, as plain data."""
    packages = {}
    for name in ("hardpde", "jax", "jaxlib", "equinox", "optax", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    program = Path(sys.argv[0]).name
    command = plain_command(" ".join(["hardpde" if program == "__main__.py" else program, *sys.argv[1:]]))
    versions = {"python": platform.python_version(), **packages}
    return {"command": command, "versions": versions, "device": device(), "commit": commit()}


def plain_command(command: str) -> str:
    """A command without what does not change its figures: where it wrote, and how it spoke."""
    return re.sub(r" --(out|picture|checkpoint-every)[ =]\S+| --(json|force|resume|tensorboard)\b", "", command)


def device() -> str:
    """The device that JAX computes on, in words."""
    first = jax.devices()[0]
    if first.platform == "cpu":
        return f"CPU, {os.cpu_count()} cores ({platform.machine()})"
    return f"{first.device_kind} ({len(jax.devices())})"


def commit() -> str:
    """The commit of the code: what HARDPDE_COMMIT says, or that of the checkout; '+' marks uncommitted changes."""
    if stated := os.environ.get("HARDPDE_COMMIT"):
        return stated
    folder = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True,
                              timeout=10, check=True).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != folder.parent:
            return "unknown"
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(folder))
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
