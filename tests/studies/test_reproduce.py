"""The paper's tables and figures: trained once, shown beside the published values, written whole."""

import functools
import json

import jax
import numpy as np
import pytest

from hardpde import Box, Interval, Problem, Reference, dirichlet, div, dt, grad, initial, robin
from hardpde.cli.parser import main
from hardpde.solving.settings import make_settings
from hardpde.solving.solve import solve
from hardpde.studies.reproduction import comparisons, extra_fields, side_by_side
from hardpde.studies.reproduction.base import Work
from hardpde.studies.reproduction.comparisons import BALL, NAMES, PACK, TABLES, table_outcome, trainings
from hardpde.studies.reproduction.figures.curves import errors_over_hardness, loss_curves
from hardpde.studies.reproduction.hardness import CELLS, predictor, train_cells
from hardpde.studies.reproduction.published import PUBLISHED
from hardpde.studies.reproduction.reproduce import EXPERIMENTS, chosen, reproduce, results_folder

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return Work(results_folder(str(tmp_path_factory.mktemp("reproduction") / "quick"), True), True)


def files(work, name):
    data = json.loads((work.folder / f"{name}.json").read_text())
    assert data["quick"] and data["seconds"] > 0 and data["provenance"]["commit"] and data["provenance"]["versions"]
    return data, (work.folder / f"{name}.md").read_text()


def test_the_tables_of_the_pack_and_figure_7_share_their_trainings(work, monkeypatch):
    reproduce("table1", work)
    data, text = files(work, "table1")
    assert {"PINN", "HC", "exact"} <= set(data["rows"]) and "(0.0221)" in text and "(0.3215)" in text
    violations = {row: data["rows"][row]["boundary_violation"]["mean"] for row in ("exact", "HC")}
    assert violations["exact"] < 1e-12 < violations["HC"]
    assert data["rows"]["HC"]["ours"][0]["mean"] < 1e-7  # the initial condition is built in
    assert all(len(row["ours"]) == 8 for row in data["rows"].values())

    def never(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr(comparisons, "compare", never)
    for name in ("table5", "table6", "fig7"):
        reproduce(name, work)
    data, text = files(work, "table5")
    assert "(0.0219 ± 0.0007)" in text and data["rows"]["HC"]["ours"][3]["mean"] > 0
    data, _ = files(work, "fig7")
    assert data["curves"]["HC"]["step"][-1] == 4 and (work.folder / "fig7.png").stat().st_size > 10_000


def rod(field="T", **more):
    return Problem(
        name="rod", domain=Interval(0, 1, left="cold", right="hot"), fields=field, gradients={"slope": field},
        time=(0.0, 1.0), residual=lambda x, q, dq: dt(dq[field]) - div(dq.slope),
        conditions=[robin("cold", field, 1.0, 1.0, 0.0), robin("hot", field, 1.0, 1.0, 5.0), initial(field, 0.1)],
        **more)


def channel():
    """A flow that nothing disturbs, with a trivial prediction beside its reference."""
    x = np.linspace(0, 1, 6)[:, None] * np.ones(2)
    known = Reference(x, {"u": np.ones((6, 1)) * [1.0, 0.0], "p": 1 - x[:, 0]},
                      baselines={"constant flow": {"u": np.array([1.0, 0.0]), "p": 1.0}})
    return Problem(
        name="channel", domain=Box((0, 0), (1, 1), name="wall"), fields={"u": 2, "p": ()}, gradients={"grad_u": "u"},
        residual=lambda x, q, dq: (grad(dq.p) - div(dq.grad_u), div(dq.u)), reference=lambda: known,
        conditions=[dirichlet("wall", "u", (1.0, 0.0)), dirichlet("wall", "p", lambda x: 1 - x[0])])


def heated():
    """A rod whose temperature is known at three times."""
    x = np.linspace(0, 1, 6)[:, None]
    return rod("u", reference=lambda: Reference(x, {"u": np.ones((3, 6))}, np.array([0.0, 0.5, 1.0])))


@pytest.mark.parametrize(("name", "rows", "printed"), [
    ("table2", {"HC", "exact", "constant flow"}, "(0.2689)"), ("table3", {"PINN", "HC", "exact"}, "(0.0026)")])
def test_the_other_tables_of_one_run(work, monkeypatch, name, rows, printed):
    """Small problems stand for those of the paper."""
    monkeypatch.setattr(comparisons, "stated", lambda name, _: heated() if name == "heat-ball" else channel())
    reproduce(name, work)
    data, text = files(work, name)
    assert rows <= set(data["rows"]) and printed in text
    assert data["rows"]["exact"]["boundary_violation"]["mean"] < 1e-12


def test_table_4_trains_all_cells_at_once(work):
    reproduce("table4", work)
    data, text = files(work, "table4")
    assert [(cell["beta_s"], cell["beta_t"]) for cell in data["cells"]] == CELLS
    assert len({cell["mae"] for cell in data["cells"]}) == 16 and "(0.0221 / 5.10%)" in text
    assert (work.folder / "table4.png").exists()


def test_a_cell_is_the_papers_method_with_that_hardness():
    problem = rod()
    options = {"main": [6, 6], "sub": [6], "points": 64, "dtype": "float64"}
    settings = make_settings(problem, "hc", "paper", 0, options, [4, 0])
    cells, x = [(2.0, 10.0), (5.0, 1.0)], np.linspace(0, 1, 5)[:, None]
    formulation, trainings = train_cells(problem, settings, cells)
    predict = predictor(formulation, x, np.array([0.5]))
    for (beta_s, beta_t), training in zip(cells, trainings):
        alone = solve(problem, "hc", "paper", options={**options, "beta_s": beta_s, "beta_t": beta_t}, steps=[4, 0])
        assert training.model.betas.tolist() == [beta_s, beta_t]
        for one, other in zip(*(map(jax.tree.leaves, (training.model.networks, alone.training.model)))):
            np.testing.assert_allclose(one, other, atol=1e-9)
        held = [each.history[-1]["held_out"] for each in (training, alone.training)]
        assert held[0] == pytest.approx(held[1], rel=1e-8)
        np.testing.assert_allclose(predict(training.model)[0], alone(x, 0.5)["T"], atol=1e-9)


def record(method, values):
    """A record whose MAE is given for every seed."""
    def metrics(value):
        return {"mae": value, "mape": 10 * value, "wmape": value, "relative_l2": value, "max": value}

    def errors(value):
        return {"u": {**metrics(value), "by_time": [{"time": t, **metrics(value + t)} for t in (0.0, 0.5, 1.0)]}}

    runs = [{"seed": k, "errors": errors(v), "boundary_violation": 1e-3, "endings": []} for k, v in enumerate(values)]
    return {"method": method, "settings": {"preset": "paper"}, "parameters": 7, "seconds": 1.0,
            "seconds_first_step": 0.1, "step_ms": {}, "provenance": {"device": "GPU", "command": "x"}, "runs": runs}


def test_a_table_holds_means_intervals_and_the_published_values():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    outcome = table_outcome("table9", {"PINN": record("pinn", values), "exact": record("exact", values)}, {})
    average = outcome.data["rows"]["PINN"]["ours"][3]
    half = 2.776 * np.std(values, ddof=1) / 5**0.5  # Student's t with four degrees of freedom
    assert average["mean"] == 3 and average["half_width"] == pytest.approx(half, 1e-3)
    assert outcome.data["rows"]["PINN"]["paper"] == PUBLISHED["table9"]["PINN"]
    assert outcome.data["rows"]["exact"]["paper"] == [None] * 4
    assert outcome.data["rows"]["PINN"]["ours"][1]["mean"] == pytest.approx(3.5)
    line = next(line for line in outcome.text.splitlines() if line.startswith("| PINN |"))
    assert line.count("(") == 4 and "(0.0525 ± 0.0173)" in line
    assert next(line for line in outcome.text.splitlines() if line.startswith("| HC |")).count("(0.00") == 4


def test_percentages_are_percentages():
    outcome = table_outcome("table10", {"HC": record("hc", [0.5, 0.5])}, {})
    assert "500 ± 0 %" in outcome.text


def test_every_table_has_the_rows_and_columns_of_the_paper():
    for name, asked in TABLES.items():
        assert set(PUBLISHED[name]) <= set(NAMES)
        assert {len(cells) for cells in PUBLISHED[name].values()} == {len(asked.columns)}
    assert set(EXPERIMENTS) == {*(f"table{n}" for n in range(1, 11)), *(f"fig{n}" for n in (4, 5, 6, 7)), "theory"}


def test_trainings_of_other_settings_are_not_taken(work, monkeypatch):
    trainings(work, BALL, ["PINN"], 1, [1, 0])
    path = work.folder / "runs" / "heat-ball-1-1-0" / "pinn.json"
    changed = json.loads(path.read_text())
    changed["settings"]["method"]["points"] = 7
    path.write_text(json.dumps(changed))
    asked = []
    monkeypatch.setattr(comparisons, "compare", lambda *a, done, **_: (asked.append(done), ([changed], []))[1])
    trainings(work, BALL, ["PINN"], 1, [1, 0])
    assert asked == [{}]


def test_what_is_asked_for_must_exist(tmp_path, capsys):
    assert chosen(["table2", "table1", "table2"]) == ["table2", "table1"] and chosen(["all"]) == list(EXPERIMENTS)
    assert main(["reproduce", "table11", "--out", str(tmp_path / "new")]) == 2
    assert "there is no experiment 'table11'" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_quick_and_full_results_do_not_mix_with_each_other_or_with_anything_else(tmp_path):
    folder = results_folder(str(tmp_path / "r"), True)
    (folder / "x").touch()
    assert results_folder(str(folder), True) == folder  # to go on
    with pytest.raises(ValueError, match="holds quick runs"):
        results_folder(str(folder), False)
    with pytest.raises(ValueError, match="holds full runs"):
        results_folder(str(results_folder(str(tmp_path / "s"), False)), True)
    with pytest.raises(ValueError, match="is a file"):
        results_folder(str(folder / "x"), True)
    with pytest.raises(ValueError, match="not of `hardpde reproduce`"):
        results_folder(str(tmp_path), False)


def test_a_damaged_training_is_answered_by_a_sentence(work):
    path = work.folder / "runs" / "battery-pack-1-2-0" / "pinn.json"
    path.parent.mkdir(parents=True)
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"is damaged .* delete it"):
        trainings(work, PACK, ["PINN"], 1, [2, 0])


def test_figures_show_every_curve():
    curves = {name: {"step": [1, 2], "loss": [1.0, 0.5], "stage": ["adam", "lbfgs"]} for name in ("PINN", "HC")}
    left, right = loss_curves(curves, "HC").axes
    assert [line.get_label() for line in right.get_lines()] == ["HC"] and left.get_lines()[0].get_label() == "PINN"
    cells = [{"beta_s": s, "beta_t": t, "mae": 0.1} for s, t in CELLS]
    assert len(errors_over_hardness(cells, dict.fromkeys(CELLS, 0.2)).axes[0].get_lines()) == 9


def test_pieces_that_several_experiments_need_are_made_once():
    pieces = side_by_side._pieces(["table1", "table5", "table4", "fig4", "fig6", "table4"], False)
    assert next(iter(pieces)) == "table4"  # in one piece, and first
    assert len(pieces) == 1 + 9 + 16
    assert set(side_by_side._pieces(["fig7", "table5"], False)) - set(side_by_side._pieces(["table5"], False)) == {
        f"battery-pack by {row}, 1 seed, 5000 + 15000 steps" for row in ("PINN", "PINN-LA", "PINN-LA-2", "HC")}


def test_trainings_side_by_side_are_kept_as_others_are(tmp_path, monkeypatch):
    settings = [extra_fields.training_settings("poisson", (3, 8), extra, True) for extra in (False, True)]
    parts = {str(k): functools.partial(extra_fields.trained, settings=one) for k, one in enumerate(settings)}
    monkeypatch.setattr(side_by_side, "_pieces", lambda names, quick: parts)
    said = []
    assert side_by_side.train_side_by_side([], Work(tmp_path, True, said.append), 2, False) == {}
    assert sorted(line.split(": ")[1] for line in said) == ["0", "1"]
    monkeypatch.setattr(extra_fields, "train", None)  # nothing is trained again
    for one in settings:
        assert extra_fields.trained(Work(tmp_path, True), one)[0].loss.shape == (1, 60)


def test_a_number_of_jobs_is_checked(tmp_path, capsys):
    assert main(["reproduce", "fig5", "--quick", "--jobs", "0", "--out", str(tmp_path / "new")]) == 2
    assert "--jobs is 0" in capsys.readouterr().err and not (tmp_path / "new").exists()
