"""Solve by features whose last layer is found by least squares: the error and the seconds of each problem.

    python benchmarks/direct.py [--only robin_hole,heat_rod] [--out results/direct-cpu.json]

Each is `hardpde solve FILE --tolerance … --json --report none`, in a process of its own, first with an empty cache of
compiled functions, then again. The error is the largest relative L2 error of a field; seconds are from the start of the
process to the printed error. The tolerances are the errors asked for; nothing else is stated.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import ROOT, options, write_result

# Problem, the error asked for, and seconds with an empty cache and with a full one.
ASKED = (
    ("robin_hole", 1e-9, 15, 6), ("mixed_corners", 1e-9, 15, 6), ("heat_rod", 1e-9, 15, 6), ("poisson", 1e-9, 15, 6),
    ("elastic_ring", 1e-9, 15, 6), ("robin_holes", 1e-9, 15, 6), ("plate_with_hole", 1e-6, 20, 10),
    ("interface", 1e-6, 20, 10), ("kovasznay", 1e-8, 20, 10), ("balls_3d", 1e-5, 60, 40), ("reaction_3d", 1e-5, 60, 40),
    ("bracket_stl", 1e-5, 60, 40), ("gasket_svg", 1e-5, 60, 40), ("find_cooling", 1e-5, 60, 40),
    ("wave", 1e-4, 60, 40), ("thousand_holes", 1e-4, 120, 120),
)
PLACES = {"poisson": "poisson", "robin_holes": "benchmarks/robin_holes_known.py", "wave": "benchmarks/wave.py"}


def measure(name: str, tolerance: float, cache: Path, folder: Path) -> dict[str, Any]:
    """One run of the command, as --json says it."""
    place = PLACES.get(name, f"examples/{name}.py")
    command = [sys.executable, "-m", "hardpde", "solve", place, "--tolerance", f"{tolerance:g}", "--json",
               "--report", "none", "--out", str(folder), "--force", "--seconds", "240"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "HARDPDE_CACHE": str(cache)})
    if done.returncode:
        return {"problem": name, "failed": done.stderr.strip().splitlines()[-1]}
    said = json.loads(done.stdout.splitlines()[-1])
    errors = [found["relative_l2"] for label, found in said["errors"].items() if not label.startswith("grad")]
    keys = ("solver", "decision", "unknowns", "rows", "held_out", "solve_seconds", "wall_seconds")
    largest = max((error for error in errors if error is not None), default=None)
    return {"problem": name, "tolerance": tolerance, "relative_l2": largest,
            "errors": {label: found.get("relative_l2") for label, found in said["errors"].items()},
            "violation": said["boundary_violation"], **{key: said.get(key) for key in keys}}


def said(name: str, error: float, cold: float, warm: float, row: dict[str, Any]) -> str:
    """A row as a line."""
    asked = f"{name:16} asked {error:.0e} {cold}/{warm} s: "
    if "failed" in row:
        return asked + row["failed"]
    found = "no reference" if row["relative_l2"] is None else f"{row['relative_l2']:.1e}"
    return (f"{asked}{found} in {row.get('cold_seconds', 0):.1f}/{row['wall_seconds']:.1f} s (solve "
            f"{row['solve_seconds']:.1f}), violation {row['violation']:.0e}, {row['solver']}: {row['decision']}")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", default="", help="names with commas between them")
    parser.add_argument("--once", action="store_true", help="with the cache as it is, and not again")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else [name for name, *_ in ASKED]
    rows = []
    for name, error, cold, warm in ASKED:
        if name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            usual = Path(os.environ.get("HARDPDE_CACHE", "~/.cache/hardpde")).expanduser()
            row = measure(name, error, usual if arguments.once else place / "cache", place / "run")
            if not arguments.once and "failed" not in row:
                row = {**measure(name, error, place / "cache", place / "run"), "cold_seconds": row["wall_seconds"]}
        rows.append({**row, "asked": {"error": error, "cold_seconds": cold, "seconds": warm}})
        print(said(name, error, cold, warm, row), flush=True)
        write_result(arguments.out, {"problems": rows})


if __name__ == "__main__":
    main()
