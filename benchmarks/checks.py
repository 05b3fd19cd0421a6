"""Certify the conditions of every problem and example with random networks and write results/checks.json.

    python benchmarks/checks.py

Each figure is the largest violation of a condition by untrained networks of unit size, on every boundary.
"""

import time

from common import EXAMPLES, RESULTS, write_result

from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.methods import METHODS, make
from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS
from hardpde.runs.load import load_problem


def largest(problem: Problem, method: str, **options: str) -> float | None:
    """The largest violation; None where the method refuses the problem."""
    try:
        formulation = make(METHODS[method], problem, {"points": 256, **options})
    except ValueError as error:
        print(f"{problem.name} by {method}: {error}")
        return None
    return violation(certify(formulation, random_models(formulation)))


def problems() -> list[tuple[str, Problem, dict]]:
    """What is checked: a name, the problem, options of method exact."""
    found: list[tuple[str, Problem, dict]] = [(name, make(), {}) for name, make in PROBLEMS.items()]
    found += [(f"{name}, extra=false", PROBLEMS[name](extra=False), {}) for name in ("poisson", "schroedinger")]
    found.append(("heat-ball, gradients=derivatives", PROBLEMS["heat-ball"](), {"gradients": "derivatives"}))
    found += [(f"examples/{path.name}", load_problem(str(path))[0], {})
              for path in sorted(EXAMPLES.glob("*.py"))]
    return found


def main() -> None:
    rows, began = [], time.perf_counter()
    for name, problem, options in problems():
        rows.append({"problem": name, "exact": largest(problem, "exact", **options),
                     "hc": None if options else largest(problem, "hc")})
        print(rows[-1], flush=True)
    write_result(RESULTS / "checks.json", {"seed": 0, "checks": rows, "seconds": time.perf_counter() - began})


if __name__ == "__main__":
    main()
