"""Solve problems that no setting was made for, with the defaults and no hints: the error and the seconds of each.

    python benchmarks/generality.py [--preset best] [--examples burgers,kovasznay] [--out results/generality.json]

They are examples with known solutions: in 2-D and 3-D, linear and nonlinear, one of them with time. The error is
the largest relative L2 error of a field; seconds are of everything, from the statement to the trained network.
"""

import time

from common import EXAMPLES, options, write_result

import hardpde as hp
from hardpde.runs.load import load_problem

CHOSEN = ("robin_hole", "plate_with_hole", "kovasznay", "burgers", "reaction_3d")


def measure(name: str, preset: str, seed: int) -> dict:
    """One example, solved as the preset says."""
    start = time.perf_counter()
    problem, _ = load_problem(str(EXAMPLES / f"{name}.py"))
    solution = hp.solve(problem, preset=preset, seed=seed)
    seconds = time.perf_counter() - start
    gradients = dict(problem.schema.gradients)
    errors = {component: found["relative_l2"] for component, found in solution.errors().items()}
    last = solution.training.history[-1]
    return {"example": name, "relative_l2": max(error for component, error in errors.items()
                                                if component.split("[")[0] not in gradients),
            "errors": errors, "seconds": seconds, "first_step_seconds": solution.training.first_step,
            "parameters": solution.parameters, "loss": last["loss"], "held_out": last["held_out"]}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--preset", default="best")
    parser.add_argument("--examples", default=",".join(CHOSEN), help="names with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.examples.split(","):
        rows.append(measure(name, arguments.preset, arguments.seed))
        print(f"{name:16} relative L2 {rows[-1]['relative_l2']:.1e} in {rows[-1]['seconds']:.0f} s", flush=True)
        write_result(arguments.out, {"preset": arguments.preset, "seed": arguments.seed, "problems": rows})


if __name__ == "__main__":
    main()
