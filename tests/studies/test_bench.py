"""`hardpde bench`: operations counted as on paper, the floor, what is reported, and the memory of a step."""

import json

import jax
import jax.numpy as jnp
import pytest

import hardpde as hp
from hardpde.ansatz.base import Term
from hardpde.cli.parser import main
from hardpde.formulation.batch import Batch
from hardpde.networks.mlp import mlp
from hardpde.networks.tiles import TILE
from hardpde.solving.settings import make_formulation, make_settings
from hardpde.studies.bench import Evaluation, compile_steps, counts, evaluations, temporary_bytes, timings, xla_counts
from helpers import built_in

PLATE = hp.Problem(
    domain=hp.Box((-1, -1), (1, 1), name="wall") - hp.Ball((0.2, 0.1), 0.4, name="hole"), fields="u",
    gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p) + 1,
    conditions=[hp.dirichlet("wall", "u", 0), hp.robin("hole", "u", a=1, b=1, g=0)])


def made(method, **options):
    """A formulation, and the shapes of its model and of its batch."""
    formulation = make_formulation(PLATE, make_settings(PLATE, method, "quick", 0, options))
    model = jax.eval_shape(formulation.init, jax.random.key(0))
    return formulation, model, jax.eval_shape(lambda key: formulation.draw(key, None), jax.random.key(1))


def test_operations_of_a_small_network_counted_on_paper():
    # 3 → 5 → 2 at 7 rows: forward 7·(3·5 + 5·2) = 175 multiplications, gradient by the weights as many,
    # gradient by the hidden layer 7·5·2 = 70; two operations each.
    assert Evaluation(1, (3, 5, 2), 7).flops == 2 * (175 + 175 + 70)
    assert Evaluation(4, (3, 5, 2), 7).flops == 4 * 840
    assert Evaluation(4, (3, 5, 2), 7).activations == 4 * 7 * (5 + 2)


def test_the_evaluations_of_the_papers_pack():
    problem = built_in("battery-pack")
    formulation = make_formulation(problem, make_settings(problem, "hc", "paper", 0, {"points": 512}))
    batch = jax.eval_shape(lambda key: formulation.draw(key, None), jax.random.key(1))
    model = jax.eval_shape(formulation.init, jax.random.key(0))
    main, subs = evaluations(model, batch)
    assert main == Evaluation(1, (3, 50, 50, 50, 50, 3), 4 * 512)  # value, ∂x, ∂y, ∂t
    # 18 sub-networks, of which each has a list of its points, in tiles
    assert subs == Evaluation(subs.number, (3, 20, 20, 20, 3), 4 * TILE)
    assert 18 < subs.number < 18 * 512 / TILE
    # and as the ansatz is stated all of them at all points
    assert list(evaluations(model, batch, tiled=False)) == [main, Evaluation(18, (3, 20, 20, 20, 3), 4 * 512)]


def test_the_exact_ansatz_is_counted_with_its_feet():
    formulation, model, batch = made("exact", width=8, depth=2, points=256)
    main_rows, *feet = [evaluation.rows for evaluation in evaluations(model, batch)]
    assert main_rows == 3 * formulation.points
    corrected = [term.inputs.shape[-1] for term in batch.terms[1:]]
    assert feet == [3 * n for n in corrected] and 0 < feet[0] < main_rows


@pytest.mark.parametrize("method", ["hc", "exact", "pinn", "fbpinn", "xpinn"])
def test_xla_counts_little_more_than_the_products(method):
    # Without chunks, so that nothing is multiplied; wide layers, so that tanh and the like are a small part.
    wide = {"exact": {"width": 96}, "hc": {"main": (96, 96), "sub": (96, 96)}}.get(method, {"layers": (96, 96)})
    chunk = {} if method == "xpinn" else {"chunk": 128}
    formulation, model, batch = made(method, points=128, **wide, **chunk)
    found = counts(formulation, model, batch)["flops"]
    assert formulation.chunks == 1
    assert 0.95 * found < xla_counts(compile_steps(formulation, model, batch), 1)["flops"] < 1.6 * found


def test_a_step_needs_memory_in_proportion_to_the_points_or_to_the_chunk():
    def beside(points, chunk):
        """Temporary bytes, without a copy of what is given."""
        formulation, model, batch = made("hc", points=points, chunk=chunk)
        given = counts(formulation, model, batch)["given_bytes"] if chunk < points else 0
        return temporary_bytes(compile_steps(formulation, model, batch)) - given

    few, many = beside(1024, 1024), beside(4096, 4096)
    assert 3.5 < many / few < 4.5
    capped = [beside(points, 256) for points in (1024, 4096)]
    assert max(capped) < 1.2 * min(capped) < few


def test_the_command_reports_a_step_its_floor_and_the_machine(tmp_path, capsys):
    words = ["bench", "poisson", "--method", "exact", "--preset", "quick", "--points", "64", "--out",
             str(tmp_path / "bench.json"), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"step_ms", "floor_ms", "ratio_to_floor", "gflops", "gbytes_per_s", "device"} <= set(found)
    assert found["ratio_to_floor"] == pytest.approx(found["step_ms"] / found["floor_ms"])
    counted, limits = found["counts"], found["ceilings"]
    floor = max(counted["flops"] / limits["gflops"], counted["bytes"] / limits["gbytes_per_s"])
    assert found["floor_ms"] == pytest.approx(1e-6 * floor)
    assert set(found["iteration_ms"]) == {"adam", "ssbroyden"}
    assert found["solve"]["estimated"] and found["solve"]["steps"] == 5200
    assert found["provenance"]["device"] == found["device"]
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert "ratio" in timings(found)


@pytest.mark.parametrize("words, sentence", [
    (["bench", "poisson", "--method", "nothing"], "there is no method 'nothing'"),
    (["bench", "poisson", "--points", "0"], "option 'points' is 0"),
    (["bench", "nowhere"], "nowhere"),
    (["bench", "poisson", "--out", "no/such/folder.json"], "there is no folder 'no/such'"),
])
def test_a_mistake_is_one_sentence(words, sentence, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert sentence in error and len(error.splitlines()) == 1


def test_a_dual_term_carries_two_jets():
    jet = jnp.zeros((2, 3, 10))
    batch = Batch(jnp.zeros((10, 2)), None, (Term(jet, None, jet),), None)
    assert [found.rows for found in evaluations(mlp(jax.random.key(0), [2, 4, 1]), batch)] == [2 * 3 * 10]


def test_the_start_is_timed_part_by_part(tmp_path, capsys):
    (tmp_path / "line.py").write_text(
        "import hardpde as hp\n"
        "problem = hp.Problem(hp.Interval(0, 1, name='ends'), 'u', lambda x, q, dq: hp.laplacian(dq.u) + 2,\n"
        "                     [hp.dirichlet('ends', 'u', 0)], exact=lambda x: {'u': x[0] * (1 - x[0])})\n")
    assert main(["bench", str(tmp_path / "line.py"), "--start", "--json", "--out", str(tmp_path / "start.json")]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found["parts"]) == ["imports", "statement", "formulation", "drawing", "figures of merit",
                                    "verdict and error bar", "report"]
    assert all(part["seconds"] > 0 and part["cpu_seconds"] >= 0 for part in found["parts"].values())
    assert found["seconds"] == pytest.approx(sum(part["seconds"] for part in found["parts"].values()))
    after = sum(found["parts"][name]["seconds"] for name in ("verdict and error bar", "report"))
    assert found["seconds_to_numbers"] == pytest.approx(found["seconds"] - after)
    assert (found["method"], found["preset"]) == ("exact", "quick") and "imports" in err
    assert json.loads((tmp_path / "start.json").read_text()) == found
