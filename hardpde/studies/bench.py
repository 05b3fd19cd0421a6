"""How long a training step takes, and how long the machine at hand would need at least (docs/speed.md)."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import NamedSharding

from hardpde.formulation.batch import Batch
from hardpde.formulation.formulation import Formulation, Model
from hardpde.formulation.sharded import ALL, Sharded, shard
from hardpde.networks.mlp import MLP, count
from hardpde.networks.tiles import Tiled
from hardpde.problem.problem import Problem
from hardpde.solving.settings import make_formulation, make_settings
from hardpde.solving.solve import run, run_seeds
from hardpde.studies.compare import step_times
from hardpde.support.compiling import jit_for_speed
from hardpde.support.provenance import device, provenance

SAMPLE = 0.05  # seconds that one sample of a time takes at least: short functions are called many times
IN_CACHE = 32e6  # bytes of activations of a part of a batch that stay in the cache of a CPU
LITTLE = 1e-9  # times the gradient is what a step changes in the weights
ROUNDS = 8  # of changes of a long array, so that making room for it does not count
PASSES = 4  # activations are written and read once, and so are their gradients


def bench(problem: Problem, method: str = "hc", preset: str = "paper", *, points: int | None = None, repeats: int = 20,
          solve: bool = False) -> dict[str, Any]:
    """Time a step, its parts and a whole solve, and set the step against the floor of this machine: plain data.

    points: in place of the preset's. solve: run the whole solve; without, its time is estimated from the steps.
    """
    settings = make_settings(problem, method, preset, 0, {} if points is None else {"points": points}, devices=None)
    formulation, found = time_step(problem, settings, repeats)
    iterations = iteration_times(problem, settings, formulation, found)
    limits = ceilings(formulation.dtype)
    floor, stated = (1e-6 * max(count["flops"] / limits["gflops"], count["bytes"] / limits["gbytes_per_s"])
                     for count in (found["counts"], found["stated_counts"]))
    step = found["step_ms"]
    return {
        "problem": problem.name, "method": method, "preset": preset, **found, "floor_ms": floor,
        "ratio_to_floor": step / floor, "stated_floor_ms": stated, "ratio_to_stated_floor": step / stated,
        "gflops": 1e-6 * found["counts"]["flops"] / step, "gbytes_per_s": 1e-6 * found["counts"]["bytes"] / step,
        "ceilings": limits, "iteration_ms": iterations,
        "solve": _solved(problem, settings, formulation) if solve else estimated(settings, iterations, found),
        "device": device(), "provenance": provenance(),
    }


def time_step(problem: Problem, settings: dict[str, Any], repeats: int = 20) -> tuple[Formulation, dict[str, Any]]:
    """The formulation, and the time, operations, bytes and memory of the loss with its gradient.

    first_step_s: seconds from a stated problem until the first step is done.
    """
    start = time.perf_counter()
    formulation = make_formulation(problem, settings)
    shared = shard(formulation)
    model = formulation.init(jax.random.key(0))
    if shared.mesh is not None:
        model = jax.device_put(model, NamedSharding(shared.mesh, ALL))
    batch = shared.in_parts(shared.draw(jax.random.key(1), None))
    lowering = time.perf_counter()
    steps = compile_steps(shared, model, batch)
    compiled = time.perf_counter()
    jax.block_until_ready(steps(model, batch, 1))
    first = time.perf_counter()
    number = math.ceil(SAMPLE / 1e-3 / min(milliseconds(steps, model, batch, 1, repeats=2)))
    times = [ms / number for ms in milliseconds(steps, model, batch, number, repeats=repeats)]
    drawn = formulation.draw(jax.random.key(1), None)
    drawing = milliseconds(lambda key: shared.in_parts(shared.draw(key, None)), jax.random.key(2), repeats=3)
    return formulation, {
        "points": formulation.points, "chunks": formulation.chunks, "devices": formulation.devices,
        "parameters": count(model),
        "dtype": str(formulation.dtype), "step_ms": statistics.median(times), "fastest_ms": min(times),
        "draw_ms": statistics.median(drawing), "compile_s": compiled - lowering, "first_step_s": first - start,
        "counts": counts(formulation, model, drawn), "stated_counts": counts(formulation, model, drawn, tiled=False),
        "xla": xla_counts(steps, formulation.chunks), "temporary_bytes": formulation.devices * temporary_bytes(steps),
    }


def compile_steps(formulation: Formulation | Sharded, model: Model, batch: Batch) -> Any:
    """Steps one after the other, compiled: (model, batch, number) → the model and the losses, added up.

    A step is the loss with its gradient, and the new weights of its terms where a method balances them. The model
    changes a little each time, as in a training, so that no step can be left out.
    """
    function = formulation.value_and_grad if formulation.balance is None else formulation.rebalance

    def steps(model: Model, batch: Batch, number: Array) -> tuple[Model, Array]:
        def one(_: Array, carry: tuple[Model, Array]) -> tuple[Model, Array]:
            model, total = carry
            value, gradient = function(model, batch)[-2:]
            return jax.tree.map(lambda a, b: a - LITTLE * b, model, gradient), total + value

        return jax.lax.fori_loop(0, number, one, (model, jnp.zeros((), jax.tree.leaves(model)[0].dtype)))

    return jit_for_speed(steps).lower(model, batch, 1).compile()


def temporary_bytes(steps: Any) -> int:
    """The memory that compiled steps need on a device beside what they are given and what they return."""
    return int(steps.memory_analysis().temp_size_in_bytes)


def xla_counts(steps: Any, chunks: int) -> dict[str, float]:
    """What XLA itself counts: every operation, and every access of every fused part of the program.

    Of a loop it counts one pass, on one device, and a step passes over its chunks. The operations are almost all in
    that loop; the bytes are not, so that those of a step with chunks are not known.
    """
    found = steps.cost_analysis()
    return {"flops": chunks * found.get("flops", math.nan),
            "bytes": found.get("bytes accessed", math.nan) if chunks == 1 else math.nan}


# ---------------------------------------------------------------- operations and bytes


class Evaluation(NamedTuple):
    """A stack of `number` networks of the given sizes, each evaluated at so many rows.

    A row is a point's value or one of its derivatives: a product with every weight matrix.
    """

    number: int
    sizes: tuple[int, ...]
    rows: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of all matrix products of the outputs and of their gradient by the weights.

        Each layer has one product on the way forward, one for the gradient by its weights and one for that by its
        inputs, which the first layer does not need.
        """
        layers = [i * o for i, o in zip(self.sizes, self.sizes[1:])]
        return 2 * self.number * self.rows * (3 * sum(layers) - layers[0])

    @property
    def activations(self) -> int:
        """Numbers that all layers put out."""
        return self.number * self.rows * sum(self.sizes[1:])


def evaluations(model: Model, batch: Batch, tiled: bool = True) -> Iterator[Evaluation]:
    """All network evaluations of a step: main terms, feet of boundaries, sub-networks, points of penalties.

    tiled: sub-networks at the points of their tiles; otherwise at all points, as the ansatz is stated.
    """
    networks = [node for node in jax.tree.leaves(model, is_leaf=_is_network) if _is_network(node)]
    for part in (batch, *batch.penalised):
        for k, term in enumerate(part.terms):
            # A method has one network for all its terms, or one (or a stack) for each.
            weights = networks[k if len(networks) == len(part.terms) else 0].weights
            sizes = (weights[0].shape[-2], *[w.shape[-1] for w in weights])
            places = term if tiled or not isinstance(term, Tiled) else part.terms[0]
            rows = math.prod(places.inputs.shape[-2:])
            steep = getattr(term, "dual", None) is not None  # then the normal derivative is carried along
            number = math.prod(weights[0].shape[:-2])
            if isinstance(places, Tiled):
                number = len(places.owners)
            yield Evaluation(number, sizes, 2 * rows if steep else rows)


def _is_network(node: Any) -> bool:
    return isinstance(node, MLP)


def counts(formulation: Formulation, model: Model, batch: Batch, tiled: bool = True) -> dict[str, Any]:
    """The operations of a step's matrix products and the fewest bytes that it must move."""
    found = list(evaluations(model, batch, tiled))
    size = jnp.dtype(formulation.dtype).itemsize
    activations = size * sum(evaluation.activations for evaluation in found)
    given = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((model, batch)))
    cached = jax.default_backend() == "cpu" and activations / formulation.chunks <= IN_CACHE
    return {"flops": sum(evaluation.flops for evaluation in found),
            "bytes": given if cached else given + PASSES * activations,
            "activation_bytes": activations, "given_bytes": given, "activations_in_cache": cached}


# ---------------------------------------------------------------- times


def milliseconds(function: Callable, *arguments: Any, repeats: int) -> list[float]:
    """Times of a call that has been compiled already; short ones are called several times without waiting."""
    jax.block_until_ready(function(*arguments))
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    calls = max(1, math.ceil(SAMPLE / (time.perf_counter() - start)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            result = function(*arguments)
        jax.block_until_ready(result)
        times.append(1e3 * (time.perf_counter() - start) / calls)
    return times


def ceilings(dtype: Any) -> dict[str, float]:
    """What this machine does at best: a large matrix product, and changing a long array in place, over and over
    (bytes read and written)."""
    on_cpu = jax.default_backend() == "cpu"
    size, words = (2048, 2**25) if on_cpu else (8192, 2**28)
    matrix = jnp.full((size, size), 1 / size, dtype)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    array = jnp.ones(words, dtype)
    change = jax.jit(lambda a: jax.lax.fori_loop(0, ROUNDS, lambda _, a: -a, a))
    return {"gflops": 2e-6 * size**3 / min(milliseconds(product, matrix, repeats=5)),
            "gbytes_per_s": 2e-6 * ROUNDS * array.nbytes / min(milliseconds(change, array, repeats=5))}


def iteration_times(problem: Problem, settings: dict[str, Any], formulation: Formulation, found: dict[str, Any],
                    seeds: int = 1) -> dict[str, float]:
    """Milliseconds of an iteration of each optimiser of the settings, with its share of drawing points.

    found: what `time_step` did. seeds: so many models at once.
    """
    second = min(max(round(1000 / found["step_ms"]), 5), 100)  # steps in a block: about a second where they are short
    times: dict[str, float] = {}
    for stage in settings["stages"]:  # each by itself: nothing is compiled while it runs
        every = stage.get("redraw", 0)
        inside = 0 < every < second
        block = second // every * every if inside else second
        short = {**stage, "steps": 4 * block, "block": block, "redraw": every if inside else 0}
        solutions = run_seeds(problem, {**settings, "stages": [short]}, list(range(seeds)), formulation=formulation)
        longest = max((solution.training.history for solution in solutions), key=len)
        share = seeds * found["draw_ms"] / every if every and not inside else 0.0
        times |= {name: value + share for name, value in step_times(longest).items()}
    return times


def estimated(settings: dict[str, Any], iterations: dict[str, float], found: dict[str, Any]) -> dict[str, Any]:
    """The time of a whole solve from that of its iterations: at most, as optimisers may converge before."""
    steps = sum(stage["steps"] for stage in settings["stages"])
    seconds = sum(stage["steps"] * iterations.get(stage["optimiser"], math.nan) for stage in settings["stages"])
    return {"seconds": found["first_step_s"] + 1e-3 * seconds, "steps": steps, "estimated": True}


def _solved(problem: Problem, settings: dict[str, Any], formulation: Formulation) -> dict[str, Any]:
    training = run(problem, settings, formulation=formulation).training
    return {"seconds": training.seconds, "steps": sum(ending["steps"] for ending in training.endings),
            "estimated": False}


def timings(found: dict[str, Any]) -> str:
    """The figures as a few lines of text."""
    limits, whole = found["ceilings"], found["solve"]
    moved = "batch" if found["counts"]["activations_in_cache"] else "batch and activations"
    rows = [
        ("step", f"{found['step_ms']:.3g} ms", f"the first is done after {found['first_step_s']:.1f} s"),
        ("floor", f"{found['floor_ms']:.3g} ms", f"{found['counts']['flops'] / 1e9:.3g} GFLOP, "
                                                 f"{found['counts']['bytes'] / 1e6:.3g} MB ({moved})"),
        ("ratio", f"{found['ratio_to_floor']:.3g}", "step / floor"),
        *([] if found["stated_counts"] == found["counts"] else [
            ("as stated", f"{found['ratio_to_stated_floor']:.3g}",
             f"step / {found['stated_floor_ms']:.3g} ms, the floor with every sub-network at every point")]),
        ("GFLOP/s", f"{found['gflops']:.4g}", f"of {limits['gflops']:.4g}"),
        ("GB/s", f"{found['gbytes_per_s']:.4g}", f"of {limits['gbytes_per_s']:.4g}"),
        ("memory", f"{found['temporary_bytes'] / 1e6:.3g} MB", "temporary, of a step"),
        ("drawing", f"{found['draw_ms']:.3g} ms", "new points"),
        *[(name, f"{value:.3g} ms", "an iteration, with its share of drawing")
          for name, value in found["iteration_ms"].items()],
        ("solve", f"{whole['seconds']:.3g} s", f"{whole['steps']} iterations"
                                               + (" at most, estimated" if whole["estimated"] else "")),
        ("device", found["device"], ""),
    ]
    return "\n".join(f"  {name:10} {value:>12}  {text}".rstrip() for name, value, text in rows)
