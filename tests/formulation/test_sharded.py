"""Several devices find what one finds, each with its share of the points; so do several processes.

The devices are simulated on the CPU, in processes of their own: this file is also the program that they run.
"""

import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from threading import Event, Thread

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import hardpde as hp
from hardpde import methods
from hardpde.cli.parser import main
from hardpde.formulation.batch import join_batch
from hardpde.formulation.sharded import shard
from hardpde.support.hardware import ENOUGH, usual_devices
from hardpde.training import Stage, adam, fit, fit_all, levenberg_marquardt, sharding, ssbroyden

pytestmark = pytest.mark.usefixtures("quick_compilation")
BAR = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="left", right="right"), time=(0, 1), fields="u", gradients={"grad_u": "u"},
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.grad_u), name="bar",
    conditions=[hp.initial("u", 0), hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=1, g=1)])
"""
STAGES = [{"optimiser": "adam", "steps": 4, "redraw": 2, "block": 4}]
EXACT = {"width": 4, "depth": 1, "points": 64, "chunk": 8}  # two chunks on each of four devices
NETWORK = {"layers": [4], "points": 32, "boundary": 16, "initial": 16, "dtype": "float64"}
SIZES = {"exact": EXACT, "pinn-ntk": {**NETWORK, "sample": 8, "chunk": 4},
         "xpinn": {**NETWORK, "blocks": [2], "interface": 8}}


def bar() -> hp.Problem:
    known: dict = {}
    exec(BAR, known)
    return known["problem"]


@cache
def make(method: str, devices: int = 4):
    return methods.make(methods.METHODS[method], bar(), {**SIZES[method], "devices": devices})


def weights(tree) -> np.ndarray:
    return np.asarray(ravel_pytree(tree)[0])


def apart(one, other) -> float:
    """The largest difference of two trees, relative to the largest number."""
    one, other = weights(one), weights(other)
    return float(np.abs(one - other).max() / np.abs(one).max())


# --- What runs where there are four devices -------------------------------------------------------------------


def compare_losses(method: str) -> dict:
    """The loss, its gradient and, where there are any, new weights of its terms: four devices beside one."""
    one, key = make(method), jax.random.key(1)
    four, model = shard(one), one.init(jax.random.key(0))
    alone, shared = one.draw(key, model), four.draw(key, model)
    step = "value_and_grad" if one.balance is None else "rebalance"
    expected = jax.jit(getattr(one, step))(model, alone)
    found = {"step": apart(expected, jax.jit(getattr(four, step))(model, shared)),
             "in parts": [apart(expected, jax.jit(getattr(formulation, step))(model, formulation.in_parts(batch)))
                          for formulation, batch in ((one, alone), (four, shared))],
             "chunks": [one.chunks, four.one.chunks],
             "points": one.points, "drawn": apart(shared, jax.jit(four.draw)(key, model))}
    arrays = jax.tree.leaves(shared)
    found["shards"] = sorted({held.data.shape[0] for a in arrays for held in a.addressable_shards})
    found["devices"] = sorted({len({held.device for held in a.addressable_shards}) for a in arrays})
    found["held"] = [int(held.data.size) for held in shared.x.addressable_shards]
    if method != "xpinn":  # which sorts points by block
        whole = join_batch(shared)
        found["points apart"] = max(float(abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, (alone, whole))))
    if method == "exact":
        found["as a whole"] = apart(jax.jit(one.value_and_grad)(model, alone),
                                    jax.jit(jax.value_and_grad(four.loss))(model, shared))
    return found


def compare_training(folder: Path) -> dict:
    """A short training with new points, then SSBroyden, with a checkpoint after every block."""
    one = make("exact")
    four, path, kept = shard(one), folder / "checkpoint.npz", folder / "kept.npz"
    stages = [Stage("adam", adam(5e-3, plateau=False), 10, redraw=5, block=10),
              Stage("ssbroyden", ssbroyden(), 10, block=5)]

    def keep(record: dict) -> None:  # as it was after the first block of SSBroyden
        if record["stage"] == "ssbroyden" and record["step"] == 10:
            shutil.copyfile(path, kept)

    alone = fit(one, stages, jax.random.key(3))
    shared = fit(four, stages, jax.random.key(3), path=path, report=keep, every=0)
    resumed = fit(four, stages, jax.random.key(3), path=kept, resume=True)
    return {"training": apart(alone.model, shared.model),
            "losses of training": [record["loss"] for record in alone.history],
            "resumed": apart(shared.model, resumed.model),
            "one device": all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(shared.model))}


def compare_seeds() -> dict:
    """Two seeds at once, by a method that needs all residuals and their derivatives."""
    one, stages = make("exact"), [Stage("lm", levenberg_marquardt(), 3, block=3)]
    keys = jax.random.split(jax.random.key(0), 2)
    pairs = zip(fit_all(one, stages, keys), fit_all(shard(one), stages, keys))
    return {"seeds": max(apart(a.model, b.model) for a, b in pairs)}


def turns() -> list[bool]:
    """Whether another thread may use all devices while one trains, and after that."""
    four, came, seen = shard(make("exact")), Event(), []

    def other() -> None:
        with sharding.alone(four.mesh):
            came.set()

    thread = Thread(target=other)

    def report(_: dict) -> None:
        thread.start()
        seen.append(came.wait(0.5))

    fit(four, [Stage("adam", adam(1e-2), 2, block=2)], jax.random.key(0), report=report)
    thread.join(60)
    return [*seen, came.is_set()]


def rows_of_the_matrix() -> list[list[int]]:
    """The shapes of the parts of SSBroyden's matrix on the devices, between blocks."""
    four = shard(make("exact"))
    model = four.init(jax.random.key(0))
    number = len(weights(model))
    state = jax.jit(lambda m: sharding.laid_out(four.mesh, ssbroyden().init(m), number))(model)
    return [[number, number], *[list(held.data.shape) for held in state.Z.addressable_shards]]


def messages_of_a_step() -> list[int]:
    """How many numbers devices send each other at a time in a step of SSBroyden, apart from the loss."""
    mesh, optimiser, n = shard(make("exact")).mesh, ssbroyden(), 201
    x = jax.jit(lambda: sharding.everywhere(mesh, jnp.ones(n)))()

    def step(x, state):
        known = jax.value_and_grad(lambda x: (x**4).sum())
        value, gradient = known(x)
        updates, state = optimiser.update(gradient, sharding.in_use(mesh, state, n), x, value=value,
                                          value_and_grad_fn=known, gather=partial(sharding.gathered, mesh))
        return sharding.everywhere(mesh, x + updates), sharding.laid_out(mesh, state, n)

    state = jax.jit(lambda x: sharding.laid_out(mesh, optimiser.init(x), n))(x)
    program = jax.jit(step).lower(x, state).compile().as_text()
    kinds = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
    results = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", program)
    return [math.prod(int(n) for n in shape.split(",") if n)
            for result in results for shape in re.findall(r"f64\[([\d,]*)\]", result)]


def work(folder: Path) -> None:
    found = {"losses": {method: compare_losses(method) for method in SIZES}, **compare_training(folder),
             **compare_seeds(), "turns": turns(), "matrix": rows_of_the_matrix(), "messages": messages_of_a_step()}
    two = hp.solve(bar(), options=EXACT, stages=STAGES, devices=2)
    two.save(folder / "two.eqx")
    found["settings"] = two.settings["method"]["devices"]
    found["usual"] = [usual_devices(points) for points in (100, 1024, 10**6)]
    (folder / "found.json").write_text(json.dumps(found))


def start(devices: int, *words: str) -> subprocess.Popen:
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "JAX_PLATFORMS": "cpu",
                   "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}  # compilation is most of the time
    return subprocess.Popen([sys.executable, *words], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> tuple[str, str]:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("devices")


@pytest.fixture(scope="module")
def found(folder):
    finish(start(4, __file__, str(folder)))
    return json.loads((folder / "found.json").read_text())


# --- What it must have found ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SIZES)
def test_loss_and_gradient_are_those_of_one_device(found, method):
    assert found["losses"][method]["step"] < 1e-12


@pytest.mark.parametrize("method", SIZES)
def test_a_batch_that_was_cut_into_chunks_gives_the_same(found, method):
    assert found["losses"][method]["chunks"] == ([1, 1] if method == "xpinn" else [8, 2])
    assert max(found["losses"][method]["in parts"]) < 1e-12


def test_the_loss_can_be_differentiated_as_a_whole(found):
    assert found["losses"]["exact"]["as a whole"] < 1e-12


@pytest.mark.parametrize("method", SIZES)
def test_every_device_holds_its_share_of_the_points(found, method):
    row = found["losses"][method]
    assert row["shards"] == [1] and row["devices"] == [4]  # one row of four of every array, on each of four devices
    assert row["held"] == [row["points"] // 4 * 2] * 4


@pytest.mark.parametrize("method", ["exact", "pinn-ntk"])
def test_the_points_are_those_of_one_device(found, method):
    assert found["losses"][method]["points apart"] < 1e-12


@pytest.mark.parametrize("method", SIZES)
def test_points_that_one_core_hands_out_are_those_that_each_would_draw(found, method):
    assert found["losses"][method]["drawn"] < 1e-12


def test_cores_share_the_points_if_each_has_enough(found):
    assert found["usual"] == [1, 2, 4]


def test_training_takes_the_same_steps(found):
    first, *_, last = found["losses of training"]
    assert last < 0.5 * first
    assert found["training"] < 1e-12
    assert found["one device"]  # the model is ready for whatever comes next


def test_seeds_at_once_take_the_same_steps(found):
    assert found["seeds"] < 1e-11


def test_trainings_in_threads_wait_for_one_another(found):
    """Programs of several threads that send messages at once may wait for each other forever."""
    assert found["turns"] == [False, True]


def test_a_resumed_run_equals_the_uninterrupted_one(found):
    assert found["resumed"] == 0


def test_the_dense_matrix_is_shared_by_rows(found):
    (n, columns), *parts = found["matrix"]
    assert n % 4  # rows are padded
    assert parts == [[-(-n // 4), columns]] * 4


def test_only_vectors_are_sent_while_the_matrix_stays(found):
    assert max(found["messages"]) in (201, 204)  # with what fills up the last part


def test_the_number_of_devices_is_a_setting(found):
    assert found["settings"] == 2


def test_two_processes_find_what_one_with_two_devices_finds(found, folder):
    (folder / "bar.py").write_text(BAR)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = [word for name, value in EXACT.items() for word in ("--set", f"{name}={value}")]
    words = ["-m", "hardpde.cli", "solve", str(folder / "bar.py"), *options, "--stages", json.dumps(STAGES), "--json",
             "--out", str(folder / "run"), "--coordinator", f"localhost:{port}", "--processes", "2", "--process"]
    first, second = [finish(process) for process in [start(1, *words, "0"), start(1, *words, "1")]]
    assert json.loads(first[0].splitlines()[-1])["method"] == "exact"
    assert "points shared by 2 devices" in first[1]
    assert "{" not in second[0] and "loss" not in second[1]  # only the first speaks
    problem = bar()
    one, both = (hp.Solution.load(folder / name, problem) for name in ("two.eqx", "run/model.eqx"))
    assert one.formulation.devices == 2  # read where there is one
    assert apart(one.training.model, both.training.model) < 1e-12
    assert json.loads((folder / "run" / "run.json").read_text())["settings"]["method"]["devices"] == 2


# --- Here, with one device --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "jax.devices()"])
def test_the_cores_are_devices_unless_jax_is_in_use(before):
    code = f"import jax; {before or 'pass'}; import hardpde; print(len(jax.devices()))"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_NUM_CPU_DEVICES"} | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == (1 if before else len(os.sched_getaffinity(0)))


@pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two cores")
def test_a_solve_is_shared_by_the_cores_unless_told_otherwise():
    stages, points = [{"optimiser": "adam", "steps": 2}, {"optimiser": "ssbroyden", "steps": 2}], 2 * ENOUGH
    many, one = (hp.solve(bar(), options={**EXACT, "points": points}, stages=stages, devices=n) for n in (None, 1))
    assert many.settings["method"]["devices"] == 2 and "devices" not in one.settings["method"]
    x = np.linspace(0, 1, 9)[:, None]
    np.testing.assert_allclose(many(x, 0.5)["u"], one(x, 0.5)["u"], atol=1e-12)
    few = hp.solve(bar(), options={**EXACT, "points": points - 1}, stages=stages)
    assert "devices" not in few.settings["method"]


def test_one_device_is_the_formulation_itself():
    formulation = make("pinn-ntk", 1)
    assert shard(formulation) is formulation


@pytest.mark.parametrize("words,says", [
    (["--devices", "640"], " (cpu); JAX_NUM_CPU_DEVICES=640 in the environment simulates them"),
    (["--devices", "0"], "0 devices are asked for; it is a positive whole number"),
    (["--set", "devices=many"], "option 'devices' is 'many'; it must be a positive whole number"),
    (["--processes", "2"], "need --coordinator HOST:PORT, --processes N and --process I, all three"),
    (["--coordinator", "here", "--processes", "2", "--process", "0"], "'here'; it is HOST:PORT"),
    (["--coordinator", "here:1", "--processes", "2", "--process", "2"], "process 2 of 2 is asked for"),
])
def test_a_mistake_about_devices_is_a_sentence_and_writes_nothing(capsys, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    assert main(["solve", "poisson", *words]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    work(Path(sys.argv[1]))
