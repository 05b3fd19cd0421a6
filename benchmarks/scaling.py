"""Weak scaling: every device has as many points, whatever their number; and what 8 and 64 GPUs would do, on paper.

    python benchmarks/scaling.py [--devices 1,2,4] [--out results/scaling-cpu.json]

Measured: milliseconds of a step (battery-pack by exact; Adam, and SSBroyden with its matrix by rows), bytes on a
device, and the messages between devices, as compiled. On a CPU the devices are simulated and share its cores: that
shows what sharing costs, not how much faster it is. Estimated: steps on 8 and 64 GPUs, from steps of one GPU that
another file holds (this run's own without it), the sizes of the messages, and links as the options state them.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import optax
from common import RESULTS, options, write_result

from hardpde.formulation.engine import Engine
from hardpde.formulation.sharded import shard
from hardpde.methods import exact
from hardpde.networks.mlp import count
from hardpde.problems import PROBLEMS
from hardpde.support.provenance import provenance
from hardpde.training import adam, ssbroyden
from hardpde.training.ahead import Ahead, ahead
from hardpde.training.sharding import everywhere, gathered, in_use, laid_out

OPTIMISERS = {"adam": adam(1e-3, plateau=False), "ssbroyden": ssbroyden()}
COLLECTIVES = re.compile(r"= (.*?) (all-reduce|all-gather|collective-permute|all-to-all|reduce-scatter)(?:-start)?\(")
ARRAY = re.compile(r"\b(f64|f32|s64|s32|pred)\[([\d,]*)\]")
BYTES = {"f64": 8, "f32": 4, "s64": 8, "s32": 4, "pred": 1}
NODE = 8  # GPUs with fast links between them
CURVES = ("adam", "ssbroyden, matrix by rows", "ssbroyden, matrix on every GPU")


# --- Measured ----------------------------------------------------------------------------------------------------


def measure(devices: int, points: int, width: int, depth: int, repeats: int) -> dict[str, Any]:
    """Steps of both optimisers on the devices of this process; `points` of them on each."""
    problem = PROBLEMS["battery-pack"]()
    whole = exact(problem, width=width, depth=depth, engine=Engine(points * devices, devices=devices))
    formulation = shard(whole)
    place = jax.jit(partial(everywhere, formulation.mesh))
    model = place(formulation.init(jax.random.key(0)))
    batch = formulation.in_parts(formulation.draw(jax.random.key(1), model))
    found: dict[str, Any] = {"devices": devices, "points": whole.points, "weights": count(model),
                             "batch_bytes": _on_first(batch)}
    for name, optimiser in OPTIMISERS.items():
        found[name] = time_step(formulation, optimiser, model, batch, found["weights"], repeats)
    return found


def time_step(formulation, optimiser, model, batch, weights: int, repeats: int) -> dict[str, Any]:
    mesh = formulation.mesh

    def step(model, state, batch):
        value, gradient = ahead(state) or formulation.value_and_grad(model, batch)
        updates, state = optimiser.update(
            gradient, in_use(mesh, state, weights), model, value=value, fresh=False,
            value_and_grad_fn=lambda m: formulation.value_and_grad(m, batch), gather=partial(gathered, mesh))
        return everywhere(mesh, optax.apply_updates(model, updates)), laid_out(mesh, state, weights)

    def first(model, batch):
        state = optimiser.init(model)
        if ahead(state):
            state = state._replace(ahead=Ahead(*formulation.value_and_grad(model, batch)))
        return laid_out(mesh, state, weights)

    state = jax.jit(first)(model, batch)
    compiled = jax.jit(step, donate_argnums=1).lower(model, state, batch).compile()
    memory, state_bytes = compiled.memory_analysis(), _on_first(state)
    inner = 1 if jax.default_backend() == "cpu" else 50
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        for _ in range(inner):
            model, state = compiled(model, state, batch)
        jax.block_until_ready(model)
        times.append(1e3 * (time.perf_counter() - start) / inner)
    return {"step_ms": statistics.median(times[2:]), "fastest_ms": min(times[2:]), "state_bytes": state_bytes,
            "working_bytes": memory.temp_size_in_bytes, "messages": messages(compiled.as_text())}


def messages(program: str) -> list[list]:
    """[kind, bytes] of everything that devices send each other in a compiled step."""
    return [[kind, sum(BYTES[number] * math.prod(int(n) for n in shape.split(",") if n)
                       for number, shape in ARRAY.findall(result))]
            for result, kind in COLLECTIVES.findall(program)]


def _on_first(tree: Any) -> int:
    """Bytes of a tree on the first device."""
    return sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(tree))


def in_own_process(devices: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """What `measure` finds in a process that has so many devices, real or simulated."""
    words = [sys.executable, __file__, "--worker", str(devices), *[
        f"--{name}={getattr(arguments, name)}" for name in ("points", "width", "depth", "repeats")]]
    done = subprocess.run(words, env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}, stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure_all(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = [in_own_process(int(n), arguments) for n in arguments.devices.split(",")]
    for row in rows:  # beside those of the first row
        row["efficiency"] = {name: rows[0][name]["step_ms"] / row[name]["step_ms"] for name in OPTIMISERS}
        row["points_per_second"] = {name: row["points"] / rows[0]["points"] * row["efficiency"][name]
                                    for name in OPTIMISERS}
    return {"simulated": jax.default_backend() == "cpu", "rows": rows, "commit": provenance()["commit"]}


# --- Estimated ---------------------------------------------------------------------------------------------------


def one_gpu(bench: Path) -> dict[str, Any]:
    """Steps of one GPU from a file: of Adam as the loss with its gradient, of SSBroyden as an iteration."""
    found = json.loads(bench.read_text())
    return {"from": bench.name, "points": found["points"], "weights": found["parameters"],
            "adam_ms": found["step_ms"], "ssbroyden_ms": found["iteration_ms"]["ssbroyden"]}


def own_device(row: dict[str, Any]) -> dict[str, Any]:
    return {"from": "this run", "points": row["points"], "weights": row["weights"],
            **{f"{name}_ms": row[name]["step_ms"] for name in OPTIMISERS}}


def estimate(gpus: int, one: dict[str, Any], row: dict[str, Any], links: argparse.Namespace) -> dict[str, dict]:
    """Milliseconds of a step with as many points on each of several GPUs: from that of one GPU, and the messages that
    were compiled for several devices."""
    n = one["weights"]

    def sent(found: list[list]) -> float:
        return sum(send(gpus, links, size * n / row["weights"], 2 if kind == "all-reduce" else 1)
                   for kind, size in found)

    matrix = 1e3 * 4 * 8 * n**2 / (1e9 * links.memory_gb_s)  # Z is read three times and written once
    adam_ms, own = one["adam_ms"], one["ssbroyden_ms"]
    replicated = send(gpus, links, 8 * (n + 1), 2)  # the loss and its gradient
    steps = (adam_ms + sent(row["adam"]["messages"]),
             own - matrix + matrix / gpus + sent(row["ssbroyden"]["messages"]), own + replicated)
    return {name: {"step_ms": step, "efficiency": alone / step}
            for name, step, alone in zip(CURVES, steps, (adam_ms, own, own))}


def send(gpus: int, links: argparse.Namespace, size: float, rounds: int) -> float:
    """Milliseconds of a message between all GPUs: rings in the nodes, then one between them; a sum takes two rounds."""
    inside, nodes = min(gpus, NODE), max(1, gpus // NODE)
    seconds = rounds * size * ((inside - 1) / inside / (1e9 * links.node_gb_s)
                               + (nodes - 1) / nodes / (1e9 * links.network_gb_s))
    return 1e3 * seconds + 1e-3 * (links.node_us + links.network_us * math.log2(nodes))


# --- Written -----------------------------------------------------------------------------------------------------


def draw(result: dict[str, Any], path: Path) -> None:
    """Left: what was measured; right: what is estimated."""
    from matplotlib.figure import Figure

    figure = Figure((10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = result["measured"]["rows"]
    for name in OPTIMISERS:
        left.plot([row["devices"] for row in rows], [row[name]["step_ms"] for row in rows], "o-", label=name)
    kind = "simulated on shared cores" if result["measured"]["simulated"] else "devices"
    left.set(xlabel=f"devices ({kind})", ylabel="ms per step", title="measured, points per device constant")
    left.set(ylim=(0, None), xticks=[row["devices"] for row in rows])
    gpus = sorted(int(key) for key in result["estimated"]["gpus"])
    for name in CURVES:
        right.plot([1, *gpus], [1, *[result["estimated"]["gpus"][str(g)][name]["efficiency"] for g in gpus]], "o--",
                   label=name)
    right.set(xlabel="GPUs", ylabel="efficiency", title="estimated", xscale="log",
              ylim=(0, None), xticks=[1, *gpus], xticklabels=[1, *gpus])
    for axes in (left, right):
        axes.legend()
    figure.savefig(path, dpi=130)


def say(result: dict[str, Any]) -> None:
    rows = result["measured"]["rows"]
    print("measured" + (" (simulated devices share the cores: this shows overhead, not speed-up)"
                        if result["measured"]["simulated"] else ""))
    for row in rows:
        for name in OPTIMISERS:
            found, sent = row[name], sum(size for _, size in row[name]["messages"])
            print(f"  {row['devices']} devices, {row['points']} points, {name}: {found['step_ms']:.2f} ms, "
                  f"efficiency {row['efficiency'][name]:.2f}, points per second × "
                  f"{row['points_per_second'][name]:.2f}; {row['batch_bytes'] / 1e6:.2f} MB of points, "
                  f"{found['state_bytes'] / 1e6:.2f} MB of state on a device; {len(found['messages'])} messages, "
                  f"{sent} bytes")
    print(f"estimated, not measured, from one device ({result['estimated']['from']})")
    for gpus, found in result["estimated"]["gpus"].items():
        for name, values in found.items():
            print(f"  {gpus} GPUs, {name}: {values['step_ms']:.3f} ms, efficiency {values['efficiency']:.2f}")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--devices", default="1,2,4", help="numbers with commas between them (default 1,2,4)")
    parser.add_argument("--points", type=int, default=512, help="on every device (default 512)")
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--again", type=Path, metavar="FILE",
                        help="measure nothing: estimate again from what this program measured and wrote there")
    parser.add_argument("--bench", type=Path, default=RESULTS / "bench-battery-pack-exact-h200.json",
                        help="what `hardpde bench battery-pack --method exact --preset best --json` wrote on a GPU")
    parser.add_argument("--node-gb-s", type=float, default=450.0, help="NVLink 4, one direction (default 450)")
    parser.add_argument("--network-gb-s", type=float, default=50.0, help="of one GPU between nodes (default 50)")
    parser.add_argument("--node-us", type=float, default=10.0, help="a message inside a node (default 10)")
    parser.add_argument("--network-us", type=float, default=20.0, help="for every doubling of nodes (default 20)")
    parser.add_argument("--memory-gb-s", type=float, default=4800.0, help="of a GPU's memory, H200 (default 4800)")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure(arguments.worker, arguments.points, arguments.width, arguments.depth,
                                 arguments.repeats)))
        return
    measured = json.loads(arguments.again.read_text())["measured"] if arguments.again else measure_all(arguments)
    rows = measured["rows"]
    one = one_gpu(arguments.bench) if arguments.bench.exists() else own_device(rows[0])
    links = {key: getattr(arguments, key) for key in ("node_gb_s", "network_gb_s", "node_us", "network_us",
                                                      "memory_gb_s")}
    result = {"measured": measured,
              "estimated": {**one, "links": links, "gpus": {str(n): estimate(n, one, rows[-1], arguments)
                                                             for n in (8, 64)}}}
    say(result)
    write_result(arguments.out, result)
    if arguments.out:
        draw(result, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
