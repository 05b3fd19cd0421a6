"""Time one training step of methods at the paper's sizes: the loss with its gradient alone, and steps of a training.

    python benchmarks/step.py [--problem battery-pack] [--methods hc,exact] [--seeds 1,5] [--out results/step.json]

step_ms is the loss with its gradient (8192 points, hc: 25,697 weights); training_ms[seeds][stage] is a step of the
preset `paper` as training takes it, with the optimiser, new points every 10 steps of Adam, and all seeds at once.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import jax

import hardpde  # noqa: F401  (double precision)
from hardpde.compare import step_times
from hardpde.methods import METHODS
from hardpde.networks import count
from hardpde.problems import PROBLEMS
from hardpde.provenance import provenance
from hardpde.solve import make_formulation, make_settings, run_seeds

STEPS = {"adam": 400, "lbfgs": 100}  # timed without their first block, which is compiled


def measure(problem, method: str, repeats: int, seeds: list[int]) -> dict:
    """Median milliseconds of a step, and seconds until the first one is done (statement of the problem left out)."""
    start = time.perf_counter()
    settings = make_settings(problem, method, "paper", 0)
    for stage in settings["stages"]:
        stage["steps"], stage["redraw"] = STEPS[stage["optimiser"]], min(stage["redraw"], STEPS[stage["optimiser"]])
        stage["block"] = min(stage.get("block", 50), 50)
    if method == "exact":
        settings["method"] |= {"width": 48, "dtype": "float64"}
    formulation = make_formulation(problem, settings)
    model = formulation.init(jax.random.key(0))
    batch = formulation.draw(jax.random.key(1), None)
    step = jax.jit(formulation.value_and_grad if formulation.balance is None else formulation.rebalance)
    jax.block_until_ready(step(model, batch))
    first = time.perf_counter() - start
    inner = 1 if jax.default_backend() == "cpu" else 50
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            result = step(model, batch)
        jax.block_until_ready(result)
        times.append((time.perf_counter() - start) / inner * 1e3)
    training = {}
    for number in seeds:
        solutions = run_seeds(problem, settings, list(range(number)), formulation=formulation)
        training[str(number)] = step_times(solutions[0].training.history)
    return {"problem": problem.name, "method": method, "points": formulation.points, "parameters": count(model),
            "dtype": str(formulation.dtype), "step_ms": statistics.median(times), "fastest_ms": min(times),
            "training_ms": training, "first_step_s": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="battery-pack", choices=sorted(PROBLEMS))
    parser.add_argument("--methods", default="hc,exact", help="names with commas between them, or all")
    parser.add_argument("--seeds", default="1", help="numbers of seeds trained at once, with commas between them")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    problem = PROBLEMS[arguments.problem]()
    rows = []
    for method in list(METHODS) if arguments.methods == "all" else arguments.methods.split(","):
        try:
            rows.append(measure(problem, method, arguments.repeats, [int(n) for n in arguments.seeds.split(",") if n]))
            print(json.dumps(rows[-1]), flush=True)
        except ValueError as error:
            print(f"{method} does not apply: {error}", flush=True)
    result = {"steps": rows, **provenance()}
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
