"""What the command line says to people."""

import argparse
import sys
from pathlib import Path
from typing import Any

from hardpde.support.hardware import first_process
from hardpde.support.provenance import device


def refusal(error: OSError) -> str:
    """What the system refused, and of which file."""
    return f"{error.strerror or error}: '{error.filename}'" if error.filename else str(error)


def say(arguments: argparse.Namespace, text: str) -> None:
    """Words for people: on stdout, or on stderr where stdout is for a program; of several processes one speaks."""
    if first_process():
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)


def say_result(arguments: argparse.Namespace, result: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Say the figures of merit and shape them for --json."""
    baselines = result.get("baselines", {})
    for name, found in result["errors"].items():
        trivial = {other: table[name] for other, table in baselines.items() if name in table}
        say(arguments, f"{name}: {_figures(found)}{_beside(trivial)}")
        for part, row in found.get("parts", {}).items():
            parts = {other: table["parts"][part] for other, table in trivial.items()}
            say(arguments, f"  {part}: {_figures(row)}{_beside(parts)}")
    if not result["errors"]:
        say(arguments, f"no reference to compare with; held-out loss {result['held_out']:.2e}")
    say(arguments, f"largest violation of a condition: {result['boundary_violation']:.1e}")
    say(arguments, f"{result['seconds']:.1f} s of training; open {folder / 'report.html'}")
    keys = ("problem", "method", "preset", "seed", "parameters", "mae", "boundary_violation", "seconds")
    flat = {**{key: result[key] for key in keys}, "errors": _timeless(result["errors"])}
    if baselines:
        flat["baselines"] = {name: _timeless(table) for name, table in baselines.items()}
    return {**flat, "device": device(), "run": str(folder)}


def _figures(found: dict[str, Any]) -> str:
    return ", ".join(f"{metric} {value:.3g}" for metric, value in found.items() if isinstance(value, float))


def _beside(trivial: dict[str, dict[str, Any]]) -> str:
    """What trivial predictions score, in brackets."""
    rows = [f"{name}: mae {found['mae']:.3g}" for name, found in trivial.items() if found["mae"] is not None]
    return f" ({'; '.join(rows)})" if rows else ""


def _timeless(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Errors without those at each time."""
    return {name: {metric: value for metric, value in found.items() if metric != "by_time"}
            for name, found in table.items()}
