"""What the command line says to people."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from hardpde.evaluation.base import UNTRAINED
from hardpde.problem.well_posed import WellPosed
from hardpde.support.clock import seconds_since_start
from hardpde.support.hardware import first_process
from hardpde.support.progress import Progress
from hardpde.support.provenance import device


def refusal(error: OSError) -> str:
    """What the system refused, and of which file."""
    return f"{error.strerror or error}: '{error.filename}'" if error.filename else str(error)


def say(arguments: argparse.Namespace, text: str) -> None:
    """Words for people: on stdout, or on stderr where stdout is for a program; of several processes one speaks."""
    if first_process():
        print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)


def say_row(arguments: argparse.Namespace, row: dict[str, Any], progress: Progress) -> None:
    """Say how a solve goes on: a size that was solved in a line, a training by its progress."""
    if row["stage"] not in UNTRAINED:
        return progress(row)
    say(arguments, f"{row['step']} unknowns: residual {row['loss'] ** 0.5:.1e}, held-out "
                   f"{row['held_out'] ** 0.5:.1e}, {row['seconds']:.1f} s")


class Underway:
    """Says now and then how far a march with so many unknowns is, and how long the rest of it may take."""

    def __init__(self, arguments: argparse.Namespace, every: float = 10.0):
        self.arguments, self.every, self.unknowns = arguments, every, 0
        self.began, self.last, self.first = 0.0, 0.0, 0.0

    def __call__(self, unknowns: int, t: float, share: float) -> None:
        now = time.perf_counter()
        if unknowns != self.unknowns:
            self.unknowns, self.began, self.last, self.first = unknowns, now, now, share
        if now - self.last >= self.every and self.first < share < 1:
            self.last = now
            left = (now - self.began) * (1 - share) / (share - self.first)
            say(self.arguments, f"{unknowns} unknowns: t = {t:.4g}, {share:.1%} of the time, about {left:.0f} s left")


def say_errors(arguments: argparse.Namespace, result: dict[str, Any]) -> float:
    """Say errors and violations; returns the seconds since the process began."""
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
    how = "training" if result.get("solver", "train") == "train" else "solving"
    say(arguments, f"{result['seconds']:.1f} s of {how}")
    return seconds_since_start()


def say_worth(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    """Say the verdict and the error bar."""
    if verdict := result.get("verdict"):
        say(arguments, f"verdict: {verdict}, because {result['because']}")
        for row in result.get("conservation", []):
            say(arguments, "  " + _balance(row))
    if bar := result.get("error_bar"):
        say(arguments, bar["sentence"])


def shaped(result: dict[str, Any], folder: Path, wall: float) -> dict[str, Any]:
    """The figures of merit for --json. wall: seconds from the start of the process until errors were said."""
    direct, baselines = result.get("direct", {}), result.get("baselines", {})
    keys = ("problem", "method", "preset", "seed", "parameters", "mae", "boundary_violation", "seconds")
    flat = {**{key: result[key] for key in keys}, "solver": result.get("solver", "train"),
            "decision": result.get("decision"),
            **{key: direct.get(key) for key in ("unknowns", "rows", "estimated_error", "steps")},
            "held_out": result["held_out"] if direct.get("held_out") is None else direct["held_out"],
            "solve_seconds": result["seconds"], "verdict": result.get("verdict"), "because": result.get("because"),
            "conservation": result.get("conservation", []), "errors": _timeless(result["errors"])}
    if "error_bar" in result:
        flat["error_bar"] = result["error_bar"]
    if baselines:
        flat["baselines"] = {name: _timeless(table) for name, table in baselines.items()}
    return {**flat, "wall_seconds": wall, "judged_seconds": seconds_since_start(), "device": device(),
            "run": str(folder)}


def _balance(row: dict[str, Any]) -> str:
    """A row of the conservation table."""
    flows = ", ".join(f"{name} {value:.4g}" for name, value in row["through"].items())
    when = "" if row["time"] is None else f" at t = {row['time']:.4g}"
    return (f"{row['equation']}{when}: out through {flows}; made inside {row['source']:.4g}; difference "
            f"{row['sum']:.2g}, missing at most {row['imbalance']:.1%}")


def say_well_posed(arguments: argparse.Namespace, found: WellPosed) -> None:
    """Say how many conditions are needed and stated, what is wrong, and the verdict."""
    for name, row in found.needs.items():
        if row["needed"] is not None:
            say(arguments, f"  {name}: {row['needed']} needed, {row['stated']} stated")
    for sentence in found.sentences:
        say(arguments, f"  {sentence}")
    say(arguments, {True: "the problem is well posed, as far as can be told without solving it",
                    False: "the problem is not well posed", None: "whether the problem is well posed cannot be told"}[
        found.verdict])


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
