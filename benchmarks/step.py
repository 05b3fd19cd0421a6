"""Time one training step of several methods at the paper's sizes, alone and with several seeds at once.

    python benchmarks/step.py [--problem battery-pack] [--methods hc,exact] [--seeds 1,5] [--devices N]
                              [--out results/step.json]

step_ms is the loss with its gradient (8192 points, hc: 25,697 weights); training_ms[seeds][stage] is an iteration of
the preset `paper` as training takes it, with its share of drawing points and all seeds at once. `hardpde bench`
measures one method, and sets it against the floor of the machine.
"""

import json

from common import options, write_result

from hardpde.methods import METHODS
from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS
from hardpde.solving.settings import make_settings
from hardpde.studies.bench import iteration_times, time_step


def measure(problem: Problem, method: str, repeats: int, seeds: list[int], devices: int | None) -> dict:
    settings = make_settings(problem, method, "paper", 0, devices=devices)
    if method == "exact":
        settings["method"] |= {"width": 48, "dtype": "float64"}
    formulation, found = time_step(problem, settings, repeats)
    training = {str(number): iteration_times(problem, settings, formulation, found, number)
                for number in seeds}
    return {"problem": problem.name, "method": method, **found, "training_ms": training}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--problem", default="battery-pack", choices=sorted(PROBLEMS))
    parser.add_argument("--methods", default="hc,exact", help="names with commas between them, or all")
    parser.add_argument("--seeds", default="1", help="numbers of seeds trained at once, with commas between them")
    parser.add_argument("--devices", type=int, help="how many share the points (default: as in a solve)")
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    problem = PROBLEMS[arguments.problem]()
    rows = []
    for method in list(METHODS) if arguments.methods == "all" else arguments.methods.split(","):
        try:
            rows.append(measure(problem, method, arguments.repeats, [int(n) for n in arguments.seeds.split(",") if n],
                                arguments.devices))
            print(json.dumps(rows[-1]), flush=True)
        except ValueError as error:
            print(f"{method} does not apply: {error}", flush=True)
    write_result(arguments.out, {"steps": rows})


if __name__ == "__main__":
    main()
