"""The printed airfoil problem is under-determined: flows that all satisfy it, and how far apart they are.

    python benchmarks/underdetermined.py [--level 2]

At the wall the paper states n.u = 0 only; Navier–Stokes needs a second condition there. Slip (no tangential traction),
friction (tangential traction -beta u_t) and no slip each complete it. Writes results/airfoil-underdetermined.json.
"""

import argparse
import json
from itertools import combinations

import numpy as np
from common import RESULTS, write_result

from hardpde.problems.airfoil import airfoil_solution
from hardpde.problems.fem import airfoil
from hardpde.problems.fem.base import versions

FRICTION = 0.1


def apart(one: dict, two: dict) -> dict[str, float]:
    """Mean absolute differences of u1, u2 and p over the nodes."""
    u = np.abs(one["u"] - two["u"]).mean(axis=0)
    return {"u1": float(u[0]), "u2": float(u[1]), "p": float(np.abs(one["p"] - two["p"]).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--level", type=int, default=2, help="of refinement of the finite elements (default 2)")
    level = parser.parse_args().level
    shipped = airfoil_solution()
    found, drag = {}, {}
    for wall in airfoil.WALLS:
        flow = airfoil.airfoil_flow(level, wall, FRICTION)
        found[wall] = airfoil.at_nodes(flow, shipped.x, shipped.cells)
        drag[wall] = flow.force("wall")[0]
        print(f"{wall}: drag {drag[wall]:.5f}", flush=True)
    n = len(shipped.x)
    constant = {"u": np.tile([1.0, 0.0], (n, 1)), "p": np.ones(n)}
    result = {
        "problem": "airfoil, as printed: n.u = 0 is the only condition at the wall",
        "nodes": n,
        "level": level,
        "settings": airfoil.LEVELS[level],
        "friction": FRICTION,
        "mae": {f"{one} - {two}": apart(found[one], found[two]) for one, two in combinations(airfoil.WALLS, 2)},
        "mae_of_constant_flow_to_slip": apart(constant, found["slip"]),
        "mae_of_slip_to_shipped_reference": apart(found["slip"], shipped.values),
        "drag": drag,
    }
    write_result(RESULTS / "airfoil-underdetermined.json", result, versions())
    print(json.dumps({key: result[key] for key in ("mae", "mae_of_constant_flow_to_slip", "drag")}, indent=1))


if __name__ == "__main__":
    main()
