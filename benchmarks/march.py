"""Marching in time: the error and the seconds of each problem.

    python benchmarks/march.py [--only battery-pack,schroedinger] [--out results/march-cpu.json]

Each is `hardpde solve PROBLEM --solver march --tolerance … --json --report none`, in a process of its own, first with
an empty cache of compiled functions, then again. Seconds are from the start of the process to the printed error.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, options, write_result

# Problem, tolerance, and what is asked for: the mean absolute or the relative L2 error of a field, in so many seconds.
ASKED = (("battery-pack", 1e-3, "mae", 3e-4, 40), ("schroedinger", 1e-5, "relative_l2", 1e-6, 30),
         ("examples/heat_rod.py", 1e-5, "relative_l2", 1e-5, 30), ("benchmarks/drum.py", 1e-4, "relative_l2", 1e-3, 60))


def measure(place: str, tolerance: float, metric: str, cache: Path, folder: Path) -> dict[str, Any]:
    """One run of the command, as --json says it."""
    command = [sys.executable, "-m", "hardpde", "solve", place, "--solver", "march", "--tolerance",
               f"{tolerance:g}", "--json", "--report", "none", "--out", str(folder), "--force"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "HARDPDE_CACHE": str(cache)})
    if done.returncode:
        return {"problem": place, "failed": done.stderr.strip().splitlines()[-1]}
    said = json.loads(done.stdout.splitlines()[-1])
    keys = ("decision", "unknowns", "rows", "steps", "held_out", "estimated_error", "solve_seconds", "wall_seconds")
    errors = [found[metric] for label, found in said["errors"].items() if not label.startswith("grad")]
    return {"problem": place, "tolerance": tolerance, metric: max((e for e in errors if e is not None), default=None),
            "violation": said["boundary_violation"], **{key: said.get(key) for key in keys}}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", default="", help="problems, separated by commas")
    arguments = parser.parse_args()
    wanted, rows = arguments.only.split(",") if arguments.only else [], []
    with tempfile.TemporaryDirectory() as temporary:
        for place, tolerance, metric, asked, seconds in ASKED:
            if wanted and Path(place).stem not in wanted:
                continue
            cache, folder = Path(temporary) / Path(place).stem, Path(temporary) / "run"
            cold = measure(place, tolerance, metric, cache, folder)
            row = measure(place, tolerance, metric, cache, folder)
            rows.append({**row, "asked": asked, "asked_seconds": seconds, "cold_seconds": cold.get("wall_seconds")})
            print(rows[-1], flush=True)
    write_result(arguments.out, {"march": rows})


if __name__ == "__main__":
    main()
