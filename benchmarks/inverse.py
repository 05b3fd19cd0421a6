"""What is found from noisy measurements: the two inverse examples, with several draws of the noise and several seeds.

    python benchmarks/inverse.py [--noises 40] [--seeds 3] [--out results/inverse.json]

Numbers: `examples/find_cooling.py` is solved once, and its parameters are found for every draw of the noise: how far
off they are, and how often the intervals hold the true value. A field: `examples/find_conductivity.py` is solved with
several seeds at once; their spread tells how much of the field the data determine.
"""

import jax
import numpy as np
from common import example, options, write_result

import hardpde as hp
from hardpde.solving.settings import make_settings
from hardpde.solving.solve import run_seeds


def numbers(noises: int) -> dict:
    """The parameters of find_cooling for many draws of the noise."""
    module = example("find_cooling")
    solution = hp.solve(module.problem, steps=[200, 1500])
    x, _ = module.measured()
    true = np.asarray(jax.vmap(module.problem.at(**module.TRUE).exact)(x)["u"])
    rng, rows = np.random.default_rng(1), []
    for _ in range(noises):
        found = hp.infer(solution, "u", x, true + 0.01 * np.abs(true).max() * rng.normal(size=len(x)))
        rows.append({name: {"value": value, "interval": found.interval[name],
                            "off": value / module.TRUE[name] - 1,
                            "inside": found.interval[name][0] <= module.TRUE[name] <= found.interval[name][1]}
                     for name, value in found.values.items()})
    summary = {name: {"mean_off": float(np.mean([abs(row[name]["off"]) for row in rows])),
                      "worst_off": float(np.max([abs(row[name]["off"]) for row in rows])),
                      "inside": float(np.mean([row[name]["inside"] for row in rows]))} for name in module.TRUE}
    return {"true": module.TRUE, "measurements": len(x), "noise": 0.01, "draws": rows, "summary": summary,
            "relative_l2": solution.errors()["u"]["relative_l2"], "seconds": solution.training.seconds}


def field(seeds: int) -> dict:
    """The conductivity of find_conductivity with several seeds."""
    problem = example("find_conductivity").problem
    solutions = run_seeds(problem, make_settings(problem, "exact", "quick", 0), list(range(seeds)))
    errors = [solution.errors() for solution in solutions]
    x = np.asarray(problem.make_reference().x)
    each = np.stack([solution(x)["a"] for solution in solutions])
    return {"relative_l2": {name: [found[name]["relative_l2"] for found in errors] for name in ("u", "a")},
            "spread": float(each.std(axis=0).mean()), "seconds": solutions[0].training.seconds}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--noises", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    found = {"find_cooling": numbers(arguments.noises)}
    for name, row in found["find_cooling"]["summary"].items():
        print(f"{name}: off by {100 * row['mean_off']:.2f} % on average, {100 * row['worst_off']:.2f} % at worst; the "
              f"95 % interval holds it in {100 * row['inside']:.0f} % of the draws", flush=True)
    found["find_conductivity"] = field(arguments.seeds)
    print(f"conductivity: relative L2 error {np.round(found['find_conductivity']['relative_l2']['a'], 4).tolist()}, "
          f"spread {found['find_conductivity']['spread']:.2g}")
    write_result(arguments.out, found)


if __name__ == "__main__":
    main()
