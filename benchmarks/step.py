"""Time one training step (value and gradient) of the paper's battery pack: 8192 points, 25,697 weights.

    python benchmarks/step.py [--method hc] [--out results/step.json]
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import jax

import hardpde  # noqa: F401  (double precision)
from hardpde.methods import METHODS
from hardpde.networks import count
from hardpde.problems import PROBLEMS
from hardpde.provenance import provenance

OPTIONS = {"hc": {"points": 8192}, "exact": {"points": 8192, "width": 48, "depth": 4}}


def measure(method: str, repeats: int) -> dict:
    """Median milliseconds of a step, and seconds until the first one is done (problem statement included)."""
    start = time.perf_counter()
    formulation = METHODS[method](PROBLEMS["battery-pack"](), **OPTIONS[method])
    model = formulation.init(jax.random.key(0))
    batch = formulation.draw(jax.random.key(1), None)
    step = jax.jit(formulation.value_and_grad)
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
    draw = time.perf_counter()
    jax.block_until_ready(formulation.draw(jax.random.key(2), None))
    draw = time.perf_counter() - draw
    return {"method": method, "points": formulation.points, "parameters": count(model),
            "dtype": str(formulation.dtype), "step_ms": statistics.median(times), "fastest_ms": min(times),
            "draw_ms": draw * 1e3, "first_step_s": first}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=sorted(OPTIONS), nargs="*", default=["hc", "exact"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = [measure(method, arguments.repeats) for method in arguments.method]
    result = {"steps": rows, **provenance()}
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
