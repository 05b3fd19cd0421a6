"""How long everything takes that is no solving: imports, checks, compilation, evaluation, pictures (docs/speed.md)."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from hardpde.problem.problem import Problem
from hardpde.runs.finish import keep, measure, present
from hardpde.solving.settings import make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.support.clock import seconds_since_start
from hardpde.support.compiling import runs_once
from hardpde.support.provenance import device, provenance
from hardpde.training import Training

BEFORE = ("imports", "statement", "formulation", "drawing", "figures of merit")  # parts before the numbers are said


class _Parts:
    """Seconds and seconds of processor time of one part after another."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._last = 0.0, 0.0

    def end(self, name: str) -> None:
        now = seconds_since_start(), time.process_time()
        self.found[name] = {"seconds": now[0] - self._last[0], "cpu_seconds": now[1] - self._last[1]}
        self._last = now


def time_overhead(load: Callable[[], Problem], method: str = "exact", preset: str = "quick") -> dict[str, Any]:
    """The parts of a solve without its solving, from the start of the process on; the network is not trained."""
    parts = _Parts()
    parts.end("imports")
    problem = load()
    parts.end("statement")
    settings = make_settings(problem, method, preset, 0)
    formulation = make_formulation(problem, settings)
    parts.end("formulation")
    with runs_once():
        jax.block_until_ready(formulation.draw(jax.random.key(0), None))
    parts.end("drawing")
    model = formulation.init(jax.random.key(0))
    row = {"stage": "untrained", "step": 0, "steps": 0, "loss": 1.0, "held_out": 1.0, "seconds": 0.0}
    solution = Solution(problem, formulation, settings, Training(model, [row], [], 0.0, 0.0))
    measured = measure(solution, lambda result: parts.end("figures of merit"))
    parts.end("verdict and error bar")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keep(solution, folder, measured.result, {})
        present(solution, folder, measured, {})
    parts.end("report")
    found = parts.found
    return {"problem": problem.name, "method": method, "preset": preset, "parts": found,
            "seconds_to_numbers": sum(found[name]["seconds"] for name in BEFORE),
            "seconds": sum(part["seconds"] for part in found.values()),
            "cache": jax.config.jax_compilation_cache_dir,  # type: ignore[attr-defined]
            "device": device(), "provenance": provenance()}


def overhead_lines(found: dict[str, Any]) -> str:
    """The parts as a few lines of text."""
    rows = [f"  {name:22} {part['seconds']:7.2f} s  ({part['cpu_seconds']:.2f} s of processor time)"
            for name, part in found["parts"].items()]
    total = f"  {'to the numbers':22} {found['seconds_to_numbers']:7.2f} s, with the report {found['seconds']:.2f} s"
    kept = f"what is compiled is kept in {found['cache']}" if found["cache"] else "what is compiled is not kept"
    return "\n".join([*rows, total, f"  {kept}; {found['device']}"])
