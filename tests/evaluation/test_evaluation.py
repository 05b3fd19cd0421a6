"""Metrics by hand, files read back by another library, pictures with empty holes, a report in one file."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import hardpde
import hardpde as hp
from hardpde.evaluation import metrics
from hardpde.evaluation.errors import checked_reference, measure_baselines, measure_errors
from hardpde.evaluation.export import write_series, write_vtu
from hardpde.evaluation.figures.domain import domain_plot
from hardpde.evaluation.figures.history import history_plot
from hardpde.evaluation.figures.maps import field_grid, hole_window
from hardpde.evaluation.figures.pictures import pictures
from hardpde.evaluation.figures.views import view_of
from hardpde.evaluation.nodes import nodes as nodes_of
from hardpde.evaluation.nodes import plane
from hardpde.evaluation.report.browser import packed
from hardpde.evaluation.report.report import write_report
from hardpde.problem.fields import make_schema
from hardpde.problem.reference import Reference, node_weights
from hardpde.problems.airfoil import airfoil_solution
from hardpde.problems.airfoil_printed import _reference as printed_reference
from hardpde.problems.heat_ball import heat_ball

pytestmark = pytest.mark.usefixtures("quick_compilation")

HOLE = (0.5, 0.5, 0.25)
HALF = np.linspace(0, 1, 25)  # coordinates of the nodes of the square
HISTORY = {
    "step": [10, 20, 5, 10],
    "loss": [1.0, 0.1, 0.05, float("nan")],
    "held_out": [1.1, 0.2, 0.06, 0.04],
    "stage": ["adam", "adam", "lbfgs", "lbfgs"],
    "seconds": [1.0, 2.0, 2.5, 3.0],
}


@pytest.fixture(scope="module")
def holed():
    """A unit square of 24 x 24 squares without those in a disc: nodes (n, 2), triangles (c, 3)."""
    n = 24
    x = np.stack(np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, n + 1), indexing="ij"), -1).reshape(
        -1, 2
    )
    corner = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    lower = np.stack([corner, corner + n + 1, corner + n + 2], 1)
    upper = np.stack([corner, corner + n + 2, corner + 1], 1)
    cells = np.concatenate([lower, upper])
    cells = cells[np.all(np.hypot(*(x[cells] - HOLE[:2]).transpose(2, 0, 1)) > HOLE[2], axis=1)]
    return x, cells


def test_metrics_by_hand():
    p, r = [1.0, 2.0, 5.0], [2.0, 2.0, 4.0]
    assert metrics.mae(p, r) == pytest.approx(2 / 3)
    assert metrics.mape(p, r) == pytest.approx((0.5 + 0 + 0.25) / 3)
    assert metrics.wmape(p, r) == pytest.approx(2 / 8)
    assert metrics.relative_l2(p, r) == pytest.approx(np.sqrt(2 / 24))
    assert metrics.largest(p, r) == 1.0


def test_averages_are_means_over_the_times():
    p, r = np.array([[1.0, 1.0], [3.0, 5.0]]), np.array([[1.0, 2.0], [4.0, 4.0]])
    found = metrics.field_errors(p, r, [0.0, 0.5])
    assert found["mae"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["mape"] == pytest.approx((0.25 + 0.25) / 2)
    assert found["wmape"] == pytest.approx((1 / 3 + 2 / 8) / 2)
    assert found["max"] == 1.0
    assert [row["time"] for row in found["by_time"]] == [0.0, 0.5]
    assert found["by_time"][1]["mae"] == 1.0


def test_what_is_not_defined_is_none():
    zero_somewhere = metrics.field_errors([1.0, 1.0], [0.0, 1.0])
    assert zero_somewhere["mape"] is None and zero_somewhere["wmape"] == 1.0
    zero = metrics.field_errors([[1.0], [1.0]], [[0.0], [2.0]], [0.0, 1.0])
    assert zero["mape"] is None and zero["wmape"] == 1.0  # of all times together
    assert zero["relative_l2"] == pytest.approx(np.sqrt(2) / 2)
    assert zero["mae"] == 1.0 and zero["by_time"][1]["mape"] == 0.5
    assert set(metrics.field_errors([float("nan")], [1.0]).values()) == {None}


def test_metrics_name_what_does_not_fit():
    with pytest.raises(ValueError, match="prediction has shape"):
        metrics.mae([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="one row of values per time"):
        metrics.field_errors([[1.0]], [[1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="no values"):
        metrics.mae([], [])


def test_weights_count_values():
    p, r, w = [1.0, 2.0, 5.0], [2.0, 2.0, 4.0], [3.0, 1.0, 0.0]
    found = metrics.field_errors(p, r, weights=w)
    assert found["mae"] == pytest.approx(3 / 4)
    assert found["mape"] == pytest.approx(1.5 / 4)
    assert found["wmape"] == pytest.approx(3 / 8)
    assert found["relative_l2"] == pytest.approx(np.sqrt(3 / 16))
    assert found["max"] == 1.0
    twice = metrics.field_errors([p, p], [r, r], [0.0, 1.0], w)
    assert twice["mae"] == found["mae"] == twice["by_time"][1]["mae"]
    assert metrics.mae(np.transpose([p, p]), np.transpose([r, r]), w) == found["mae"]
    for wrong in ([1.0, 1.0], [0.0, 0.0, 0.0], [1.0, -1.0, 1.0]):
        with pytest.raises(ValueError, match="one weight, not negative, per value"):
            metrics.mae(p, r, wrong)


# --- Parts and baselines ---------------------------------------------------------------------------------------


def test_node_weights_share_out_the_area(holed):
    square = Reference(np.array([[0.0, 0], [2, 0], [2, 1], [0, 1], [9, 9]]), {}, cells=np.array([[0, 1, 2], [0, 3, 2]]))
    assert node_weights(square) == pytest.approx(np.array([2, 1, 2, 1, 0]) / 3)
    solid = Reference(TETRAHEDRA[0], {}, cells=TETRAHEDRA[1])
    assert node_weights(solid).sum() == pytest.approx(1 / 6 + 2 / 6)
    assert node_weights(Reference(SEGMENTS[0], {}, cells=SEGMENTS[1])) == pytest.approx([1 / 8] + [1 / 4] * 3 + [1 / 8])
    x, cells = holed
    assert node_weights(Reference(x, {}, cells=cells)).sum() == pytest.approx(len(cells) / 2 / 24**2)
    with pytest.raises(ValueError, match="no cells"):
        node_weights(Reference(x, {}))


@pytest.fixture
def parted(holed):
    """A vector and a scalar known on the square, with a part, weights and a trivial prediction; all at one time."""
    x, cells = holed
    values = {"u": np.stack([1 + x[:, 0], 0.5 * x[:, 1]], 1), "p": 2 - x[:, 0]}
    return Reference(x, values, None, cells, {"kind": "test"}, {"x < 1/2": x[:, 0] < 0.5},
                     {"constant": {"u": np.array([1.0, 0.0]), "p": 1.0}}, True)


def around(x):
    """A box about points."""
    return hardpde.Box(x.min(axis=0) - 1, x.max(axis=0) + 1)


def stub(reference, predict=None, **fields):
    """What has a problem's fields and predicts by a function; no network."""
    fields = fields or {"u": 2, "p": ()}
    timed = reference.times is not None
    problem = SimpleNamespace(schema=make_schema(fields, {}, reference.x.shape[1], timed), exact=None,
                              parameters=(), mapping=None, domain=around(reference.x),
                              time=(0.0, 1.0) if timed else None, make_reference=lambda: reference,
                              lives=lambda name, x: np.full(len(x), True), masked=lambda values, x: dict(values))

    class Solution:
        def __call__(self, x, t=None):
            return predict(x) if t is None else predict(x, t)

        anywhere = __call__

    solution = Solution()
    solution.problem = problem
    return solution


def test_parts_and_baselines_by_hand(parted):
    def predict(x):
        return {"u": parted.values["u"] + np.stack([x[:, 0], 0 * x[:, 0]], 1), "p": parted.values["p"] - 0.25}

    solution = stub(parted, predict)
    reference = checked_reference(solution.problem)
    found, x = measure_errors(solution, reference), parted.x
    assert list(found) == ["u[0]", "u[1]", "p"]
    assert list(found["p"]) == [*metrics.METRICS, "parts"]
    assert found["u[0]"]["mae"] == pytest.approx(x[:, 0].mean())
    assert list(found["u[0]"]["parts"]) == ["x < 1/2", "area-weighted"]
    assert found["u[0]"]["parts"]["x < 1/2"]["mae"] == pytest.approx(x[x[:, 0] < 0.5, 0].mean())
    assert found["u[0]"]["parts"]["x < 1/2"]["max"] == pytest.approx(11 / 24)
    weights = node_weights(parted)
    assert found["u[0]"]["parts"]["area-weighted"]["mae"] == pytest.approx(weights @ x[:, 0] / weights.sum())
    assert found["p"]["parts"]["area-weighted"]["mae"] == pytest.approx(0.25)
    trivial = measure_baselines(solution.problem, reference)
    assert list(trivial) == ["constant"] and list(trivial["constant"]) == list(found)
    assert trivial["constant"]["u[0]"]["relative_l2"] == metrics.relative_l2(0 * x[:, 0] + 1, 1 + x[:, 0])
    assert trivial["constant"]["p"]["parts"]["x < 1/2"]["mae"] == pytest.approx((1 - x[x[:, 0] < 0.5, 0]).mean())
    assert trivial["constant"]["u[1]"]["wmape"] == 1.0
    plain = replace(parted, masks={}, baselines={}, weighted=False)
    assert measure_errors(solution, plain)["p"] == {k: v for k, v in found["p"].items() if k != "parts"}
    assert measure_baselines(solution.problem, plain) == measure_baselines(solution.problem, None) == {}


def test_parts_over_times_are_averages(holed):
    x, cells = holed
    times = np.array([0.0, 1.0])
    reference = Reference(x, {"T": np.outer(times, x[:, 0]) + 1}, times, cells, masks={"right": x[:, 0] > 0.5},
                          baselines={"one": {"T": 1.0}})
    solution = stub(reference, lambda x, t: {"T": np.ones(len(x)) + t}, T=())
    found = measure_errors(solution, checked_reference(solution.problem))["T"]
    assert found["parts"]["right"]["mae"] == pytest.approx((1 - x[x[:, 0] > 0.5, 0]).mean() / 2)
    assert "by_time" in found and "by_time" not in found["parts"]["right"]
    trivial = measure_baselines(solution.problem, reference)["one"]["T"]
    assert trivial["by_time"][0]["mae"] == 0 and trivial["parts"]["right"]["max"] == 1.0


@pytest.mark.parametrize("change, says", [
    ({"masks": {"m": np.ones(3, bool)}}, "mask 'm' must be"),
    ({"masks": {"m": np.zeros(625, bool)}}, "mask 'm' must be 625 truth values, one for each node, some true"),
    ({"masks": {"m": np.ones(625)}}, "mask 'm' must be"),
    ({"baselines": {"b": {"T": 1.0}}}, "baseline 'b' has a field 'T'; the known fields are u, p"),
    ({"baselines": {"b": {"u": np.ones(3)}}}, r"baseline 'b' gives 'u' the shape \(3,\)"),
    ({"cells": None}, "weighted by area but has no cells"),
])
def test_references_that_cannot_be_compared_with(parted, change, says):
    with pytest.raises(ValueError, match=says):
        checked_reference(stub(replace(parted, **change)).problem)


def test_references_are_read_back(parted, tmp_path):
    parted.save(tmp_path / "a.npz")
    again = Reference.load(tmp_path / "a.npz")
    assert again.about == parted.about and again.weighted is True and again.times is None
    assert list(again.masks) == ["x < 1/2"] and np.array_equal(again.masks["x < 1/2"], parted.masks["x < 1/2"])
    assert again.masks["x < 1/2"].dtype == bool
    assert list(again.baselines) == ["constant"] and list(again.baselines["constant"]) == ["u", "p"]
    assert np.array_equal(again.baselines["constant"]["u"], [1.0, 0.0]) and again.baselines["constant"]["p"] == 1.0
    with np.load(tmp_path / "a.npz") as file:  # as files were written before
        old = {name: file[name] for name in file.files if name.startswith(("x", "cells", "about", "value:"))}
    np.savez_compressed(tmp_path / "old.npz", **old)
    before = Reference.load(tmp_path / "old.npz")
    assert (before.masks, before.baselines, before.weighted) == ({}, {}, False)
    assert np.array_equal(before.values["u"], parted.values["u"])


def test_the_airfoil_is_measured_away_from_its_trailing_edge():
    reference = airfoil_solution()
    assert list(reference.masks) == ["r > 0.05", "r > 0.005"]
    near = ~reference.masks["r > 0.05"]
    assert 0 < near.sum() < len(near) / 2 and np.all(np.abs(reference.x[near] - [1, 0]) <= 0.05)
    trivial = measure_baselines(stub(reference, u=2, w=(), p=()).problem, reference)["constant flow"]
    assert list(trivial) == ["u[0]", "u[1]", "p"]
    assert trivial["u[1]"]["wmape"] == 1.0
    p = trivial["p"]
    assert p["parts"]["area-weighted"]["mae"] < p["parts"]["r > 0.05"]["mae"] < p["mae"]
    assert set(printed_reference().values) == {"u", "p"}  # the fields of the problem as printed
    assert node_weights(reference).sum() == pytest.approx(8 * 4 - 0.1, abs=0.03)  # the box without the airfoil


def test_the_report_tells_parts_and_baselines(parted, tmp_path):
    solution = stub(parted, lambda x: {"u": parted.values["u"] + 1e-3, "p": parted.values["p"] + 1e-3})
    write_report(tmp_path / "r.html", "parts", {}, measure_errors(solution, parted), [], {},
                 baselines=measure_baselines(solution.problem, parted))
    page = (tmp_path / "r.html").read_text()
    assert page.count("<tr") == 1 + 3 * 2 * 3 and page.count("class='trivial'") == 9
    assert page.count("<td>constant</td>") == 3 == page.count("<td>this run</td>")
    assert page.count("<td>x &lt; 1/2</td>") == 6 == page.count("<td>area-weighted</td>")
    assert "<th>t</th>" not in page and "constant 5.0" in page  # on the card


TETRAHEDRA = (np.vstack([np.zeros(3), np.eye(3), np.ones(3)]), np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))
CLOUD = (np.random.default_rng(0).random((7, 3)), None)
SEGMENTS = (np.linspace(0, 1, 5)[:, None], np.array([[0, 1], [1, 2], [2, 3], [3, 4]]))


@pytest.mark.parametrize("case", ["triangle", "tetra", "vertex", "line"])
def test_vtu_read_back(case, holed, tmp_path):
    meshio = pytest.importorskip("meshio")
    x, cells = {"triangle": holed, "tetra": TETRAHEDRA, "vertex": CLOUD, "line": SEGMENTS}[case]
    rng = np.random.default_rng(1)
    flow, small = rng.standard_normal((len(x), 2)), rng.random(len(x)).astype(np.float32)
    data = {"T & <b>": rng.random(len(x)), "flow": flow, "small": small, "stress": rng.random((len(x), 2, 2))}
    write_vtu(tmp_path / "a.vtu", x, cells, data)
    mesh = meshio.read(tmp_path / "a.vtu")
    assert np.array_equal(mesh.points[:, : x.shape[1]], x) and not mesh.points[:, x.shape[1] :].any()
    assert [block.type for block in mesh.cells] == [case]
    assert np.array_equal(mesh.cells[0].data, np.arange(len(x))[:, None] if cells is None else cells)
    assert np.array_equal(mesh.point_data["T & <b>"], data["T & <b>"])
    assert np.array_equal(mesh.point_data["flow"], np.pad(flow, [(0, 0), (0, 1)]))
    assert mesh.point_data["small"].dtype == np.float32 and np.array_equal(mesh.point_data["small"], small)
    assert np.array_equal(mesh.point_data["stress"], data["stress"].reshape(len(x), 4))


def test_vtu_is_compact(holed, tmp_path):
    x, cells = holed
    write_vtu(tmp_path / "a.vtu", x, cells, {"T": np.zeros(len(x))})
    assert (tmp_path / "a.vtu").stat().st_size < x.nbytes + cells.nbytes


def test_pvd_lists_every_file(holed, tmp_path):
    x, cells = holed
    times = [0.0, 0.1, 0.30000000000000004]
    path = write_series(tmp_path / "run", x, times, cells, [{"T": np.full(len(x), t)} for t in times])
    rows = ElementTree.parse(path).getroot().findall("Collection/DataSet")
    assert [float(row.attrib["timestep"]) for row in rows] == times
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.pvd", *(row.attrib["file"] for row in rows)]


def test_export_names_what_does_not_fit(tmp_path):
    x = np.zeros((3, 2))
    with pytest.raises(ValueError, match="d = 1, 2 or 3"):
        write_vtu(tmp_path / "a.vtu", np.zeros((3, 4)), None, {})
    with pytest.raises(ValueError, match="simplices"):
        write_vtu(tmp_path / "a.vtu", x, [0, 1, 2], {})
    with pytest.raises(ValueError, match="'T' has shape"):
        write_vtu(tmp_path / "a.vtu", x, None, {"T": np.zeros(2)})
    with pytest.raises(ValueError, match="2 times and 1 sets"):
        write_series(tmp_path / "a", x, [0, 1], None, [{}])
    assert not list(tmp_path.iterdir())


def drawn_triangles(figure):
    """Centroids of all triangles drawn in a figure, holes and masks applied."""
    centroids = []
    for axis in figure.axes:
        for collection in axis.collections:
            mesh = getattr(collection, "_triangulation", None)
            if mesh is not None:
                kept = mesh.get_masked_triangles()
                centroids.append(np.stack([mesh.x[kept].mean(1), mesh.y[kept].mean(1)], 1))
    return np.concatenate(centroids)


def test_holes_are_left_empty(holed):
    x, cells = holed
    figures = [
        field_grid(x, cells, None, x[:, 0], name="T"),
        field_grid(x, cells, [0, 1], np.stack([x[:, 0]] * 2), np.stack([x[:, 1]] * 2), "T"),
    ]
    for figure in figures:
        centroids = drawn_triangles(figure)
        assert len(centroids) % len(cells) == 0
        assert np.min(np.hypot(*(centroids - HOLE[:2]).T)) > HOLE[2]


def pixels(figure):
    """The picture as an array (height, width, 4), drawn without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_the_middle_of_the_hole_is_white(holed):
    x, cells = holed
    figure = field_grid(x, cells, None, np.ones(len(x)))
    image = pixels(figure)
    column, up = figure.axes[0].transData.transform(HOLE[:2])
    assert np.all(image[image.shape[0] - int(up), int(column), :3] == 255)
    column, up = figure.axes[0].transData.transform((0.1, 0.1))
    assert np.any(image[image.shape[0] - int(up), int(column), :3] < 255)


def test_values_that_are_not_finite_are_left_out(holed):
    x, cells = holed
    values = np.where(x[:, 0] > 0.5, np.nan, 1.0)
    assert pixels(field_grid(x, cells, None, values)).std() > 0


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
def test_every_dimension_has_a_picture(dim):
    x = np.random.default_rng(dim).random((200, dim))
    values = np.sin(x.sum(1))
    series, times = np.stack([values, 2 * values]), [0.0, 1.0]
    figures = [field_grid(x, None, times, series, 1.01 * series, "u")]
    figures += [field_grid(x, None, None, values)]
    normals = np.ones((200, dim)) / np.sqrt(dim)
    figures += [
        domain_plot({"wall": x}, {"wall": normals}, {"wall": 0.1}),
        domain_plot({"wall": x}),
    ]
    for figure in figures:
        assert pixels(figure)[..., :3].std() > 1


def stored(page, view, frame):
    """Prediction and error of a view of a page at one frame, as the page's script reads them."""
    found = []
    for name in ("prediction", "error"):
        low, high, text = page["values"][view["values"]][name][frame]
        codes = np.frombuffer(base64.b64decode(text.removeprefix("base64,")), "<u2")
        found.append(np.where(codes == 65535, np.nan, low + codes / 65534 * (high - low)))
    return found


def test_a_page_holds_fields_with_their_digits(holed):
    x, cells = holed
    r = np.outer([1.0, 2, 3], x[:, 0])
    p = r + np.outer([1e-9, 1e-4, 1e-2], x[:, 1])
    p[0, 5] = r[0, 5] = np.nan
    page = packed({"u": (x, cells, np.array([0.0, 1, 2]), p, r), "v": (x, cells, np.array([0.0, 1, 2]), r, None)})
    assert page["labels"] == ["t = 0", "t = 1", "t = 2"] and len(page["meshes"]) == 1
    view, other = page["views"]
    assert [panel["what"] for panel in view["panels"]] == ["reference", "prediction", "error"]
    assert [panel["label"] for panel in other["panels"]] == ["v"]
    assert [panel["limits"] for panel in view["panels"][:2]] == [[0.0, 3.0]] * 2  # one scale for all times
    for k, size in enumerate((1e-9, 1e-4, 1e-2)):
        prediction, error = stored(page, view, k)
        np.testing.assert_allclose(prediction, p[k], atol=1e-4)
        np.testing.assert_allclose(error, (p - r)[k], atol=1e-4 * size)  # small errors beside large ones
    triangles = np.frombuffer(base64.b64decode(page["meshes"][0]["cells"].removeprefix("base64,")), "<u2")
    assert np.array_equal(triangles.reshape(-1, 3), cells)


def test_a_page_thins_large_meshes_and_leaves_holes_empty(holed, monkeypatch):
    monkeypatch.setattr("hardpde.evaluation.report.browser.MOST_NODES", 200)
    x, cells = holed
    page = packed({"u": (x, cells, None, x[:, 0], None)})
    nodes = np.frombuffer(base64.b64decode(page["meshes"][0]["x"].removeprefix("base64,")), "<f4").reshape(-1, 2)
    triangles = np.frombuffer(base64.b64decode(page["meshes"][0]["cells"].removeprefix("base64,")), "<u2")
    triangles = triangles.reshape(-1, 3)
    assert len(nodes) == 200 < len(x)
    assert np.min(np.hypot(*(nodes[triangles].mean(axis=1) - HOLE[:2]).T)) > HOLE[2] - 1 / 24
    assert np.abs(np.linalg.det(np.diff(nodes[triangles], axis=1))).sum() == pytest.approx(len(cells) / 24**2, rel=0.02)
    low, high, text = page["values"][0]["prediction"][0]
    codes = np.frombuffer(base64.b64decode(text.removeprefix("base64,")), "<u2")
    np.testing.assert_allclose(low + codes / 65534 * (high - low), nodes[:, 0], atol=1e-4)


@pytest.mark.parametrize("dim, kind", [(1, "line"), (2, "points"), (3, "points"), (10, "scatter")])
def test_a_page_draws_every_dimension(dim, kind):
    x = np.random.default_rng(dim).random((400, dim))
    page = packed({"u": (x, None, None, x[:, 0], x[:, 0] + 0.1)})
    nodes = np.frombuffer(base64.b64decode(page["meshes"][0]["x"].removeprefix("base64,")), "<f4").reshape(-1, 2)
    prediction, error = stored(page, page["views"][0], 0)
    assert page["views"][0]["kind"] == kind and len(nodes) == len(prediction) >= 300
    np.testing.assert_allclose(error, -0.1, atol=1e-9)
    if dim < 4:
        np.testing.assert_allclose(prediction, nodes[:, 0], atol=1e-4)
    if dim == 1:
        assert np.all(np.diff(nodes[:, 0]) >= 0)


def test_colours_do_not_follow_a_singularity(holed):
    x, cells = holed
    steep = x[:, 0] + 1e-3 / (1e-5 + np.hypot(x[:, 0], x[:, 1]))
    figure = field_grid(x, cells, None, steep + 1e-3, steep, "p")
    reference, error = figure.axes[0].collections[0], figure.axes[2].collections[0]
    assert steep.max() > 50 and reference.get_clim()[1] < 1.2
    assert error.get_clim() == pytest.approx((0, 1e-3))
    bars = [axis for axis in figure.axes if axis.get_label() == "<colorbar>"]
    assert [bar.get_ylabel() for bar in bars] == ["up to 100", "up to 100", ""]
    assert reference.colorbar.extend == "max" and error.colorbar.extend == "neither"
    line = field_grid(x[:, :1], None, None, steep)
    assert line.axes[0].get_ylim()[1] > 100  # a line shows everything


def test_scales_count_area_and_not_nodes(holed):
    x, cells = holed
    crowded = np.concatenate([x, np.full((5000, 2), 0.01)])  # nodes of no area
    values = np.concatenate([x[:, 0], np.full(5000, 100.0)])
    assert field_grid(crowded, cells, None, values).axes[0].collections[0].get_clim()[1] < 1.1


def test_known_values_at_scattered_nodes_get_triangles_in_the_domain():
    """They cover the domain, without its hole, whatever the nodes are; a few nodes make no picture."""
    domain = hp.Box((0, 0), (2, 1), name="box") - hp.Ball((1.2, 0.5), 0.3, name="hole")
    problem = hp.Problem(domain, "u", lambda x, q, dq: hp.laplacian(dq.u),
                         [hp.dirichlet("box", "u", 0), hp.dirichlet("hole", "u", 1)])
    rng = np.random.default_rng(0)
    x = rng.uniform((0, 0), (2, 1), (4000, 2))
    x = x[np.linalg.norm(x - (1.2, 0.5), axis=1) > 0.3]
    scattered = Reference(x, {"u": x[:, 0]})
    grid = nodes_of(problem, scattered)
    assert grid.x is x and grid.values is scattered.values
    corners = x[grid.cells]
    areas = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 2
    assert areas.sum() == pytest.approx(2 - 0.09 * np.pi, rel=0.03)
    assert (np.linalg.norm(corners.mean(axis=1) - (1.2, 0.5), axis=1) > 0.27).all()
    few = nodes_of(problem, Reference(x[:20], {"u": x[:20, 0]}))
    assert len(few.x) > 1000 and not few.values


def test_small_holes_that_lie_together_have_a_window_of_their_own(monkeypatch):
    n = 60
    grid = np.meshgrid(np.linspace(-2, 6, 2 * n + 1), np.linspace(-2, 2, n + 1), indexing="ij")
    x = np.stack(grid, -1).reshape(-1, 2)
    corner = (np.arange(2 * n)[:, None] * (n + 1) + np.arange(n)).ravel()
    cells = np.concatenate([np.stack([corner, corner + n + 1, corner + n + 2], 1),
                            np.stack([corner, corner + n + 2, corner + 1], 1)])

    def without(*discs):
        kept = [np.all(np.hypot(*(x[cells] - centre).transpose(2, 0, 1)) > radius, axis=1) for *centre, radius in discs]
        return cells[np.all(kept, axis=0)]

    one = without((0.5, 0.0, 0.5))
    (left, bottom), (right, top) = hole_window(x, one)
    assert -0.6 < left < -0.2 and 1.2 < right < 1.6 and -1.1 < bottom < -0.7 and 0.7 < top < 1.1
    assert hole_window(x, cells) is None
    assert hole_window(x, without((-1.0, 0, 0.3), (5.0, 0, 0.3))) is None  # far apart
    assert hole_window(x, without((0.5, 0.0, 1.2))) is None  # large
    apart = cells[np.all(np.abs(x[cells][..., 0] - 5.5) > 0.2, axis=1)]  # two bodies, no hole
    assert hole_window(x, apart) is None and hole_window(x, None) is None
    figure = field_grid(x, one, None, x[:, 0], 1.01 * x[:, 0], "u", window=hole_window(x, one))
    axis = figure.axes[0]
    assert axis.get_xlim() == (left, right) and axis.get_ylim() == (bottom, top)
    assert axis.collections[0].get_clim()[1] < 2 < 6  # a scale of its own
    assert np.min(np.hypot(*(drawn_triangles(figure) - [0.5, 0]).T)) > 0.5
    with pytest.raises(ValueError, match="shows nothing"):
        field_grid(x, one, None, x[:, 0], window=[(10, 10), (11, 11)])

    reference = Reference(x, {"u": x[:, 0]}, None, one)
    solution = stub(reference, lambda x: {"u": 1.01 * x[:, 0]}, u=())
    solution.training = SimpleNamespace(history=[])
    monkeypatch.setattr("hardpde.evaluation.figures.pictures.draw_domain", lambda problem: None)
    drawn, figures = pictures(solution, reference)
    assert set(figures) == {"history", "u", "u, close-up", "domain"}
    whole, near = packed(drawn)["views"]
    assert near["title"] == "u, close-up" and near["values"] == whole["values"]
    assert near["frame"] == [[left, bottom], [right, top]] and near["panels"][1]["limits"][1] < 2


def test_many_dimensions_are_drawn_in_a_plane_and_against_known_values(monkeypatch):
    problem = heat_ball(5)
    reference = checked_reference(problem)
    assert reference.x.shape == (10_000, 5)
    assert np.all((reference.x**2).sum(1) <= 1)
    grid = plane(problem)
    assert grid.x.shape[1] == 5 and grid.cells.shape[1] == 3 and not grid.x[:, 2:].any()
    assert np.linalg.norm(grid.x, axis=1).max() == pytest.approx(1, abs=1e-8)
    flat = Reference(grid.x[:, :2], {}, cells=grid.cells)
    assert node_weights(flat).sum() == pytest.approx(np.pi, rel=2e-3)
    assert grid.values["u"][0] == pytest.approx(np.exp(0.5 * (grid.x**2).sum(1)))

    solution = stub(reference, lambda x, t: {"u": 1.01 * np.exp(0.5 * (x**2).sum(1) + t)}, u=())
    solution.problem = problem
    solution.training = SimpleNamespace(history=[])
    monkeypatch.setattr("hardpde.evaluation.figures.pictures.draw_domain", lambda problem: None)
    drawn, figures = pictures(solution, reference)
    assert set(figures) == {"history", "u", "u, prediction against known values", "domain"}
    page = packed(drawn)
    assert len(page["labels"]) == 11 and page["views"][0]["kind"] == "mesh" and "plane" in page["views"][0]["note"]
    assert len(drawn_triangles(figures["u"])) == 3 * 4 * len(grid.cells)
    above, below = figures["u, prediction against known values"].axes[::4]
    known, predicted = np.asarray(above.collections[0].get_offsets()).T
    assert len(known) == 10_000 and predicted == pytest.approx(1.01 * known)
    assert np.asarray(below.collections[0].get_offsets())[:, 1] == pytest.approx(0.01 * known)


def test_history_has_a_curve_for_each_loss_and_a_line_between_stages():
    axis = history_plot(HISTORY).axes[0]
    assert axis.get_yscale() == "log" and len(axis.lines) == 3
    assert pixels(history_plot({"step": [], "loss": []})).size


def test_plots_name_what_does_not_fit(holed):
    x, cells = holed
    with pytest.raises(ValueError, match="one value per node"):
        field_grid(x, cells, None, x)
    with pytest.raises(ValueError, match="points have shape"):
        field_grid([0.0, 1.0], None, None, [1.0, 1.0])
    with pytest.raises(ValueError, match="the field has shape"):
        field_grid(x, cells, [0.0, 1.0], x[:, 0])
    with pytest.raises(ValueError, match="at least one name"):
        domain_plot({})


@pytest.fixture(scope="module")
def report(holed, tmp_path_factory):
    x, cells = holed
    times = np.array([0.0, 0.5, 1.0])
    r = 1 + np.outer(times, x[:, 0])
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(
        path,
        "A <i>title</i> {style}",
        {"seed": 7, "note": "<script>alert(1)</script>",
         "provenance": {"commit": "abc123", "versions": {"jax": "1"}}},
        {"<b>": metrics.field_errors(1.01 * r, r, times)},
        [{"name": "robin <u>", "boundary": "cell", "violation": 3.25e-15},
         {"name": "soft", "boundary": "pipe", "violation": float("inf")}],
        HISTORY,
        {"<b>": (x, cells, times, 1.01 * r, r)},
        {"the & domain": domain_plot({"wall": x})},
        [{"stage": "lbfgs", "steps": 10, "why": "no decrease < 1e-9"}],
        profiles=[{"name": "robin <u>", "boundary": "</script>cell", "along": "arc length", "at": [0.0, 1.0],
                   "violation": [1e-15, float("inf")], "breaks": [], "where": "(1, 2)"}],
    )  # fmt: skip
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def test_report_needs_nothing_else(report):
    without_images = re.sub(r"base64,[A-Za-z0-9+/=]+", "", report)
    assert not re.search(r"https?://|<link|@import|url\(|src='(?!data:)", without_images)


def test_report_contains_the_numbers(report):
    for text in (
        "1.00 %",
        "3.25e-15",
        "not finite",
        "abc123",
        "30 steps",
        "4.00e-02",
        "no decrease &lt; 1e-9",
    ):
        assert text in report
    # now, errors, conditions, endings, settings
    assert report.count("<tr") == 1 + 1 + 1 + 4 + 1 + 2 + 1 + 1 + 2 + 2


def test_report_escapes_text(report):
    for raw in ("<b>:", "<i>title", "<script>alert", "<u>", "of <b>", "the & domain", "</script>cell"):
        assert raw not in report
    for text in ("&lt;b&gt;", "A &lt;i&gt;title&lt;/i&gt; {style}", "robin &lt;u&gt;", "the &amp; domain"):
        assert text in report


def test_slider_has_a_step_for_every_time(report):
    assert re.findall(r"type='range' min='0' max='(\d+)'", report) == ["2"]
    data = json.loads(re.search(r"id='data'>(.*?)</script>", report).group(1))
    assert data["labels"] == ["t = 0", "t = 0.5", "t = 1"]
    assert data["now"]["<b> mae"] == [f"{0.01 * np.mean(1 + t * HALF):.2e}" for t in (0, 0.5, 1)]
    assert data["now"]["<b> relative_l2"] == ["1.00 %"] * 3
    assert data["charts"]["history"]["marks"] == [{"x": 0.0, "label": "adam"}, {"x": 20.0, "label": "lbfgs"}]
    assert data["charts"]["history"]["lines"][0]["y"] == [1.0, 0.1, 0.05, None]
    assert data["charts"]["condition 0"]["lines"][0]["y"] == [1e-15, None]


def test_contents_lead_to_every_section(report):
    links = re.findall(r"<a href='#([^']+)'>", report)
    assert links == re.findall(r"<section id='([^']+)'>", report) and len(set(links)) == len(links) == 6


def test_a_run_without_reference_has_a_report(tmp_path):
    write_report(tmp_path / "r.html", "bare", {}, {}, [], {})
    assert "No reference is known" in (tmp_path / "r.html").read_text()


def test_solids_are_looked_at_on_a_mesh_that_fills_them_and_in_a_slice():
    box = hp.Box((0, 0, 0), (1, 1, 1), name="wall") - hp.Ball((0.5, 0.5, 0.5), 0.3, name="hole")
    problem = hp.Problem(domain=box, fields="u", gradients={"p": "u"}, residual=lambda x, q, dq: hp.div(dq.p) + 1,
                         conditions=[hp.dirichlet("wall", "u"), hp.dirichlet("hole", "u")],
                         exact=lambda x: {"u": x[0]})
    grid = nodes_of(problem, None)
    corners = grid.x[grid.cells]
    volume = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 6
    assert grid.cells.shape[1] == 4 and volume == pytest.approx(1 - 4 / 3 * np.pi * 0.3**3, rel=0.02)
    assert (np.linalg.norm(corners.mean(axis=1) - 0.5, axis=1) > 0.3 - 1e-9).all()
    cut = plane(problem)
    view = view_of(cut.x, cut.cells)
    assert view.x.shape[1] == 2 and "z = 0.5" in view.note and (cut.x[:, 2] == 0.5).all()
