"""hardpde beside DeepXDE, jinns and PINA: two small problems with known solutions, one machine, the same time.

    python benchmarks/others.py [--problems robin-holes,heat-ball] [--libraries hardpde,deepxde,jinns,pina]
                                [--budget SECONDS] [--out results/others-cpu.json]

benchmarks/others/ has one file for each library and problem, with what a user of that library writes. Here is what
measures them: each trains in a process of its own until it ends or `budget` seconds have passed. Seconds count from the
reading of the user's file, compilation included, and stand still while an error is measured; nothing else should run on
the machine.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import options, write_result

FOLDER = Path(__file__).resolve().parent / "others"
sys.path.insert(0, str(FOLDER))

import heat_ball  # noqa: E402
import robin_holes  # noqa: E402
import watch as watching  # noqa: E402

EVERY = 2.0  # seconds between two looks at the error
TARGETS = (1e-2, 1e-3)
POINTS, BOUNDARY = 10_000, 2000
PACKAGES = {  # what must be importable, and the distribution whose version counts
    "hardpde": (("hardpde",), "hardpde"),
    "deepxde": (("deepxde", "torch"), "deepxde"),
    "jinns": (("jinns",), "jinns"),
    "pina": (("pina",), "pina-mathlab"),
}


class Condition(NamedTuple):
    """A condition at points: residual(u, derivatives) is zero for the solution."""

    name: str
    x: np.ndarray
    residual: Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Known:
    """Points with the known solution there, and the conditions at points of the boundary."""

    x: np.ndarray
    u: np.ndarray
    conditions: list[Condition]


def robin_holes_known() -> Known:
    rng = np.random.default_rng(20)
    x = rng.random((3 * POINTS, 2))
    away = [np.linalg.norm(x - hole, axis=1) > robin_holes.RADIUS for hole in robin_holes.HOLES]
    x = x[np.all(away, axis=0)][:POINTS]
    along = rng.random((BOUNDARY // 4, 1))
    zero, one = np.zeros_like(along), np.ones_like(along)
    sides = np.concatenate([np.hstack(pair) for pair in ((along, zero), (along, one), (zero, along), (one, along))])
    conditions = [Condition("sides", sides, lambda u, slope: u)]
    for k, hole in enumerate(robin_holes.HOLES):
        angle = rng.uniform(0, 2 * np.pi, BOUNDARY // 4)
        outward = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        rim = hole + robin_holes.RADIUS * outward
        data = robin_holes.rim(rim[:, 0], rim[:, 1], hole, np)
        conditions.append(Condition(f"hole{k}", rim, _robin(-outward, data)))
    return Known(x, robin_holes.solution(x[:, 0], x[:, 1], np), conditions)


def _robin(normal: np.ndarray, data: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda u, slope: robin_holes.A * u + (normal * slope).sum(1) - data


def heat_ball_known() -> Known:
    rng, dim = np.random.default_rng(20), heat_ball.DIM

    def directions(n: int) -> np.ndarray:
        x = rng.standard_normal((n, dim))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def inside(n: int) -> np.ndarray:
        return directions(n) * rng.random((n, 1)) ** (1 / dim)

    x = np.hstack([inside(POINTS), rng.random((POINTS, 1))])
    sphere = np.hstack([directions(BOUNDARY), rng.random((BOUNDARY, 1))])
    start = np.hstack([inside(BOUNDARY), np.zeros((BOUNDARY, 1))])
    flux, first = (heat_ball.solution(p[:, :dim], p[:, dim], np) for p in (sphere, start))
    return Known(x, heat_ball.solution(x[:, :dim], x[:, dim], np), [
        Condition("sphere", sphere, lambda u, slope: (sphere[:, :dim] * slope[:, :dim]).sum(1) - flux),
        Condition("initial", start, lambda u, slope: u - first),
    ])


PROBLEMS = {"robin-holes": robin_holes_known, "heat-ball": heat_ball_known}


class Watch:
    """A clock that stands still while the error is measured, and what it saw.

    After `step`, `due` tells whether the error is wanted now and stops the clock; `look` or `note` starts it again.
    """

    def __init__(self, known: Known, budget: float) -> None:
        self.x, self.known, self.budget = known.x, known.u, budget
        self.start, self.paused, self.since = time.perf_counter(), 0.0, 0.0
        self.steps: list[tuple[str, int, float]] = []
        self.errors: list[tuple[float, float]] = []
        self.stopped = False

    def seconds(self) -> float:
        return time.perf_counter() - self.start - self.paused

    def step(self, stage: str, step: int) -> bool:
        """So many steps of a stage are done; whether the time is up."""
        self.steps.append((stage, step, self.seconds()))
        self.stopped = self.steps[-1][2] >= self.budget
        return self.stopped

    def due(self) -> bool:
        last = self.errors[-1][0] if self.errors else 0.0
        if not self.steps or not (self.stopped or self.seconds() - last >= EVERY):
            return False
        self.since = time.perf_counter()
        return True

    def look(self, predict: Callable[[np.ndarray], np.ndarray]) -> None:
        self.note(relative(predict(self.x), self.known))

    def note(self, error: float) -> None:
        self.errors.append((self.since - self.start - self.paused, float(error)))
        self.paused += time.perf_counter() - self.since


def relative(u: np.ndarray, known: np.ndarray) -> float:
    return float(np.linalg.norm(u - known) / np.linalg.norm(known))


def measure(library: str, problem: str, budget: float,
            train: Callable[[Any, Watch], watching.Trained] | None = None) -> dict[str, Any]:
    """Train one library on one problem in this process."""
    known = PROBLEMS[problem]()
    watching.prepare(library)
    watch = Watch(known, budget)
    name = f"{library}_{problem.replace('-', '_')}"
    user = importlib.import_module(name)
    trained = train(user, watch) if train else watching.train(library, user, watch)
    seconds = watch.seconds()
    u, _ = trained.state(known.x)
    error = relative(u, known.u)
    curve = [*watch.errors, (seconds, error)]
    return {
        "problem": problem, "library": library, "version": importlib.metadata.version(PACKAGES[library][1]),
        "backend": trained.backend, "dtype": trained.dtype, "weights": trained.weights,
        "lines": lines(FOLDER / f"{name}.py"), "seconds": seconds, "ended": trained.why,
        **timings(watch.steps),
        "relative_l2": error, "mae": float(np.abs(u - known.u).mean()),
        "seconds_to": {f"{target:g}": next((s for s, e in curve if e <= target), None) for target in TARGETS},
        "violation": violation(known, trained.state),
        "curve": [[round(s, 2), float(f"{e:.3e}")] for s, e in curve],
    }


def violation(known: Known, state: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Mean and largest |residual| of the conditions, with the derivatives of u itself."""
    ends = np.cumsum([len(c.x) for c in known.conditions])[:-1]
    u, slope = (np.split(part, ends) for part in state(np.concatenate([c.x for c in known.conditions])))  # all at once
    found = {c.name: np.abs(c.residual(*there)) for c, *there in zip(known.conditions, u, slope)}
    everything = np.concatenate(list(found.values()))
    return {"mean": float(everything.mean()), "max": float(everything.max()), "points": len(everything),
            "parts": {name: {"mean": float(r.mean()), "max": float(r.max())} for name, r in found.items()}}


def timings(steps: list[tuple[str, int, float]]) -> dict[str, Any]:
    """Median milliseconds of a step in each stage, and the seconds that the first steps of the stages took longer."""
    step_ms, taken, compiling, before = {}, {}, 0.0, 0.0
    for stage in dict.fromkeys(stage for stage, *_ in steps):
        done = [(step, seconds) for name, step, seconds in steps if name == stage]
        each = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(done) if b[0] > a[0]]
        step_ms[stage] = statistics.median(each) * 1e3 if each else None
        taken[stage] = done[-1][0]
        compiling += max(done[0][1] - before - done[0][0] * (step_ms[stage] or 0.0) / 1e3, 0.0)
        before = done[-1][1]
    return {"step_ms": step_ms, "steps": taken, "first_steps_s": compiling}


def lines(path: Path) -> int:
    """Lines of code: neither blank nor a comment; docstrings count as comments."""
    text = path.read_text().split('"""')
    code = "".join(text[::2])
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in code.splitlines())


def missing(library: str) -> bool:
    return not all(importlib.util.find_spec(name) for name in PACKAGES[library][0])


def measure_apart(library: str, problem: str, budget: float) -> dict[str, Any]:
    """What `measure` finds, in a process of its own: libraries set precision, threads and warnings for all."""
    if missing(library):
        return {"problem": problem, "library": library, "failure": "not installed: pip install 'hardpde[bench]'"}
    command = [sys.executable, __file__, "--problems", problem, "--libraries", library, "--budget", str(budget),
               "--here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"problem": problem, "library": library, "failure": f"failed: {last}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in Markdown."""
    from hardpde.support.tables import markdown_table  # other libraries are measured without hardpde

    head = ("problem", "library", "step (ms)", "first steps (s)", "to 1e-2 (s)", "to 1e-3 (s)", "trained (s)",
            "relative L2", "MAE", "violation, mean / max", "weights", "dtype", "lines")
    return markdown_table(head, map(_cells, rows))


def _cells(row: dict[str, Any]) -> list[str]:
    name = f"{row['library']} {row.get('version', '')}".strip()
    if "failure" in row:
        return [row["problem"], name, row["failure"], *[""] * 10]
    steps = ", ".join(f"{stage} {_text(ms, '.1f')}" for stage, ms in row["step_ms"].items())
    reached = [_text(row["seconds_to"][f"{target:g}"], ".0f") for target in TARGETS]
    broken = f"{row['violation']['mean']:.1e} / {row['violation']['max']:.1e}"
    return [row["problem"], name, steps, f"{row['first_steps_s']:.0f}", *reached, f"{row['seconds']:.0f}",
            f"{row['relative_l2']:.1e}", f"{row['mae']:.1e}", broken, f"{row['weights']:,}", row["dtype"],
            str(row["lines"])]


def _text(number: float | None, form: str) -> str:
    return "–" if number is None else format(number, form)


def names(text: str, known: list[str]) -> list[str]:
    found = text.split(",")
    for name in found:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no '{name}'; there are {', '.join(known)}")
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--problems", type=lambda text: names(text, list(PROBLEMS)), default=list(PROBLEMS))
    parser.add_argument("--libraries", type=lambda text: names(text, list(PACKAGES)), default=list(PACKAGES))
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of training for each")
    parser.add_argument("--here", action="store_true", help="one problem and library in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(measure(arguments.libraries[0], arguments.problems[0], arguments.budget)))
        return
    rows = []
    for problem in arguments.problems:
        for library in arguments.libraries:
            load = os.getloadavg()[0]
            rows.append({**measure_apart(library, problem, arguments.budget), "load_before": load})
            print(f"{problem}, {library}: {rows[-1].get('failure') or format(rows[-1]['relative_l2'], '.1e')}",
                  file=sys.stderr, flush=True)
    write_result(arguments.out, {"rows": rows, "budget": arguments.budget})
    print(table(rows))


if __name__ == "__main__":
    main()
