"""What finite elements pay for the battery pack: error against the shipped reference, and seconds, from coarse to fine.

    python benchmarks/fem.py --out results/fem-battery-pack-cpu.json

The settings go from linear elements and few steps in time to those of `hardpde reference`. Seconds are those of the
processor, all its cores added, for one solution from the mesh to the values at the nodes of the reference, best of
--repeats; "elapsed" is what a clock showed, which other work on the machine makes longer.
"""

import time

import numpy as np
from common import options, write_result

from hardpde.problems import PROBLEMS
from hardpde.problems.fem.base import versions
from hardpde.problems.fem.battery_pack import BOX, DISCS, LEVELS, ROBIN, TIMES
from hardpde.problems.fem.heat import heat_robin

COARSE = [
    {"maxh": 2.0, "near": 0.8, "order": 1, "steps": 1, "halvings": 0, "stages": 1},
    {"maxh": 2.0, "near": 0.8, "order": 2, "steps": 1, "halvings": 1, "stages": 2},
    {"maxh": 1.5, "near": 0.5, "order": 2, "steps": 1, "halvings": 3, "stages": 2},
    {"maxh": 1.2, "near": 0.4, "order": 3, "steps": 1, "halvings": 5, "stages": 3},
    {"maxh": 1.0, "near": 0.4, "order": 3, "steps": 2, "halvings": 6, "stages": 3},
]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    reference = PROBLEMS["battery-pack"]().make_reference()
    rows = []
    for settings in [*COARSE, LEVELS[0]]:
        spent = []
        for _ in range(arguments.repeats):
            began, clock = time.process_time(), time.perf_counter()
            found = heat_robin(BOX, DISCS, ROBIN, reference.x, TIMES, initial=0.1, **settings)
            spent.append((time.process_time() - began, time.perf_counter() - clock))
        mae = float(np.abs(found - reference.values["T"]).mean())
        rows.append({"settings": settings, "mae": mae, "seconds": min(spent)[0], "elapsed": min(spent)[1]})
        print(f"MAE {mae:.1e} in {min(spent)[0]:.2f} s ({min(spent)[1]:.2f} s elapsed)   {settings}", flush=True)
    write_result(arguments.out, {"problem": "battery-pack", "nodes": len(reference.x), "repeats": arguments.repeats,
                                 "rows": rows}, versions())


if __name__ == "__main__":
    main()
