"""How the cost of a problem grows with its points and with its boundaries.

    python benchmarks/growth.py [--points 1024,8192,65536,262144,1048576] [--holes 1,10,100,1000] [--budget 300]
                                [--out results/growth-cpu.json]

Points: a plate with 10 holes (examples/thousand_holes.py), in chunks of 2048 points. Holes: 8192 points. For each size
the seconds to state the problem, to make its points (shapes first, then a draw) and until the first step is done, and
then the time, operations and memory of a step. A series ends early when a size takes longer than the budget (seconds).
Beside the JSON file a picture of both series is drawn.
"""

import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from common import example, options, write_result

from hardpde.solving.settings import make_settings
from hardpde.studies.bench import time_step
from hardpde.support.provenance import device

CHUNK, HOLES, POINTS = 2048, 10, 8192


def measure(holes: int, points: int) -> dict:
    """One size, in a process of its own: nothing is compiled, and no memory taken, before."""
    start = time.perf_counter()
    problem = example("thousand_holes").problem(holes)
    stated = time.perf_counter() - start
    settings = make_settings(problem, "exact", "quick", 0, {"points": points, "chunk": CHUNK}, devices=None)
    _, found = time_step(problem, settings, repeats=3)
    return {"holes": holes, "stated_s": stated, **found, "process_bytes": 1024 * resource.getrusage(
        resource.RUSAGE_SELF).ru_maxrss, "seconds": time.perf_counter() - start}


def series(sizes: list[tuple[int, int]], budget: float) -> list[dict]:
    rows: list[dict] = []
    for holes, points in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            try:
                rows.append(process.submit(measure, holes, points).result())
            except BrokenProcessPool:
                print(f"{holes} holes, {points} points: more than the memory of this machine", flush=True)
                break
        print(json.dumps(rows[-1]), flush=True)
        if rows[-1]["seconds"] > budget:
            break
    return rows


def draw(result: dict, path: Path) -> None:
    """Times and memory of both series, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure((9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, name in enumerate(("points", "holes")):
        rows = result[name]
        x = [row[name] for row in rows]
        times, memory = axes[:, column]
        for label, values in (("a step", [row["step_ms"] / 1e3 for row in rows]),
                              ("new points", [row["draw_ms"] / 1e3 for row in rows]),
                              ("statement", [row["stated_s"] for row in rows]),
                              ("then until the first step", [row["first_step_s"] for row in rows])):
            times.loglog(x, values, "o-", label=label)
        for label, key in (("temporary, of a step", "temporary_bytes"), ("the process, at most", "process_bytes")):
            memory.loglog(x, [row[key] / 1e6 for row in rows], "o-", label=label)
        memory.set_xlabel(name)
        fixed = f"{rows[0]['holes']} holes" if name == "points" else f"{rows[0]['points']} points"
        times.set_title(f"{fixed}, chunks of {CHUNK} points")
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("MB")
    axes[0, 0].legend()
    axes[1, 0].legend()
    figure.suptitle(device())
    figure.savefig(path, dpi=130)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--points", type=numbers, default=[2**10, 2**13, 2**16, 2**18, 2**20])
    parser.add_argument("--holes", type=numbers, default=[1, 10, 100, 1000])
    parser.add_argument("--budget", type=float, default=300.0)
    arguments = parser.parse_args()
    result = {"holes": series([(holes, POINTS) for holes in arguments.holes], arguments.budget),
              "points": series([(HOLES, points) for points in arguments.points], arguments.budget)}
    write_result(arguments.out, result)
    if arguments.out:
        draw(result, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
