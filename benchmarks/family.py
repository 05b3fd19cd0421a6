"""A solved family of battery packs against finite elements: errors at random parameters, and when it has paid off.

    hardpde solve battery-pack-family --preset best --out runs/family
    python benchmarks/family.py runs/family [--members 20] [--out results/family.json]

At every member the temperatures are compared with finite elements of high order on the nodes of the pack's reference
mesh. Finite elements of several qualities are timed too: the family is held against the quickest of them that is at
least as accurate as the network.
"""

import json
import time
from pathlib import Path

import numpy as np
from common import options, write_result

from hardpde.problems.battery_pack import RANGES, battery_pack
from hardpde.problems.fem.battery_pack import BOX, DISCS, LEVELS, TIMES
from hardpde.problems.fem.heat import heat_robin
from hardpde.runs.load import read_run
from hardpde.solving.solution import Solution

QUALITIES = [  # from quick to accurate
    {"maxh": 2.0, "near": 0.8, "order": 2, "stages": 2, "steps": 1, "halvings": 2},
    {"maxh": 1.5, "near": 0.5, "order": 2, "stages": 2, "steps": 1, "halvings": 4},
    {"maxh": 1.2, "near": 0.4, "order": 3, "stages": 2, "steps": 1, "halvings": 6},
    {"maxh": 1.0, "near": 0.4, "order": 3, "stages": 3, "steps": 1, "halvings": 6},
    {"maxh": 1.0, "near": 0.3, "order": 4, "stages": 3, "steps": 2, "halvings": 8},
]
TRUTH = LEVELS[1]


def elements(member: dict[str, float], x: np.ndarray, quality: dict) -> tuple[np.ndarray, float]:
    """Temperatures (11, n) by finite elements, and the seconds they took."""
    h, cell, k = (member[name] for name in ("h", "cell", "k"))
    robin = {"box": (h, k, h * 0.1), "cell": (h, k, h * cell), "pipe": (h, k, h * 1.0)}
    start = time.perf_counter()
    found = heat_robin(BOX, DISCS, robin, x, TIMES, k=k, initial=0.1, **quality)
    return found, time.perf_counter() - start


def probes(solution: Solution, x: np.ndarray, members: list[dict[str, float]], places: int = 100) -> float:
    """The median time in which a family answers at a hundred places, at the end of time."""
    some = x[:: max(1, len(x) // places)][:places]
    solution(some, 1.0, **members[0])  # compiles
    seconds = []
    for member in members:
        start = time.perf_counter()
        solution(some, 1.0, **member)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("run", type=Path, help="the folder of a finished run of battery-pack-family")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=3000, help="about so many of the reference mesh")
    parser.add_argument("--timed", type=int, default=3, help="members at which qualities of elements are compared")
    arguments = parser.parse_args()
    about, problem = read_run(arguments.run)
    solution = Solution.load(arguments.run / "model.eqx", problem)
    metrics = json.loads((arguments.run / "metrics.json").read_text())
    x = battery_pack().make_reference().x
    x = x[:: max(1, len(x) // arguments.nodes)]
    rng = np.random.default_rng(0)
    members = [{name: float(rng.uniform(*span)) for name, span in RANGES.items()} for _ in range(arguments.members)]

    def network(member: dict[str, float]) -> np.ndarray:
        return np.stack([solution(x, t, **member)["T"] for t in TIMES])

    network(members[0])  # compiles
    rows, truths = [], []
    for member in members:
        truth, slow = elements(member, x, TRUTH)
        start = time.perf_counter()
        found = network(member)
        seconds, off = time.perf_counter() - start, np.abs(found - truth)
        rows.append({"at": member, "mae": float(off.mean()), "max": float(off.max()), "network_seconds": seconds,
                     "truth_seconds": slow})
        truths.append(truth)
        print(f"{member} MAE {rows[-1]['mae']:.1e}", flush=True)
    mae = float(np.mean([row["mae"] for row in rows]))
    answer = float(np.median([row["network_seconds"] for row in rows]))
    probe = probes(solution, x, members)
    qualities = []
    for quality in QUALITIES:
        pairs = [(*elements(member, x, quality), truth) for member, truth in zip(members[: arguments.timed], truths)]
        qualities.append({**quality, "mae": float(np.mean([np.abs(found - truth).mean() for found, _, truth in pairs])),
                          "seconds": float(np.median([seconds for _, seconds, _ in pairs]))})
        print("elements: order {order}, MAE {mae:.1e} in {seconds:.2f} s".format(**qualities[-1]), flush=True)
    rival = next((row for row in qualities if row["mae"] <= mae), None)
    pays = {}
    for what, seconds in (("fields", answer), ("100 places", probe)):
        saved = rival["seconds"] - seconds if rival else 0.0
        pays[what] = metrics["seconds"] / saved if saved > 0 else None
    result = {"members": rows, "mae": mae, "worst_mae": max(row["mae"] for row in rows),
              "answer_seconds": answer, "probe_seconds": probe,
              "nodes": len(x), "times": len(TIMES), "training_seconds": metrics["seconds"], "qualities": qualities,
              "rival": rival, "solves_after_which_it_pays": pays, "training": {
                  "settings": about["settings"], "provenance": about["provenance"],
                  "boundary_violation": metrics["boundary_violation"]}}
    print(f"mean MAE {mae:.1e}; all nodes and times take {1e3 * answer:.0f} ms, 100 places {1e3 * probe:.1f} ms; "
          f"trained in {metrics['seconds']:.0f} s")
    for what, solves in pays.items():
        print(f"where {what} are asked for, " + (f"it pays after {solves:.0f} solves of {rival['seconds']:.2f} s"
                                                 if solves and rival else "finite elements are quicker"))
    write_result(arguments.out, result)


if __name__ == "__main__":
    main()
