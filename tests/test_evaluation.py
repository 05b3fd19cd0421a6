"""Metrics by hand, files read back by another library, pictures with empty holes, a report in one file."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import hardpde  # noqa: F401  (float64)
from hardpde.evaluation import metrics, plots
from hardpde.evaluation.export import write_series, write_vtu
from hardpde.evaluation.report import write_report

HOLE = (0.5, 0.5, 0.25)
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
    found = metrics.errors(p, r, [0.0, 0.5])
    assert found["mae"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["mape"] == pytest.approx((0.25 + 0.25) / 2)
    assert found["wmape"] == pytest.approx((1 / 3 + 2 / 8) / 2)
    assert found["max"] == 1.0
    assert [row["time"] for row in found["by_time"]] == [0.0, 0.5]
    assert found["by_time"][1]["mae"] == 1.0


def test_what_is_not_defined_is_none():
    zero_somewhere = metrics.errors([1.0, 1.0], [0.0, 1.0])
    assert zero_somewhere["mape"] is None and zero_somewhere["wmape"] == 1.0
    zero = metrics.errors([[1.0], [1.0]], [[0.0], [2.0]], [0.0, 1.0])
    assert zero["mape"] is None and zero["wmape"] is None and zero["relative_l2"] is None
    assert zero["mae"] == 1.0 and zero["by_time"][1]["mape"] == 0.5
    assert set(metrics.errors([float("nan")], [1.0]).values()) == {None}


def test_metrics_name_what_does_not_fit():
    with pytest.raises(ValueError, match="prediction has shape"):
        metrics.mae([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="one row of values per time"):
        metrics.errors([[1.0]], [[1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="no values"):
        metrics.mae([], [])


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
        plots.field_map(x, cells, x[:, 0], "T", "T"),
        plots.error_map(x, cells, x[:, 0], x[:, 1]),
        plots.field_grid(x, cells, [0, 1], np.stack([x[:, 0]] * 2), np.stack([x[:, 1]] * 2), "T"),
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
    figure = plots.field_map(x, cells, np.ones(len(x)))
    image = pixels(figure)
    column, up = figure.axes[0].transData.transform(HOLE[:2])
    assert np.all(image[image.shape[0] - int(up), int(column), :3] == 255)
    column, up = figure.axes[0].transData.transform((0.1, 0.1))
    assert np.any(image[image.shape[0] - int(up), int(column), :3] < 255)


def test_values_that_are_not_finite_are_left_out(holed):
    x, cells = holed
    values = np.where(x[:, 0] > 0.5, np.nan, 1.0)
    assert pixels(plots.field_map(x, cells, values)).std() > 0


@pytest.mark.parametrize("dim", [1, 2, 3, 10])
def test_every_dimension_has_a_picture(dim):
    x = np.random.default_rng(dim).random((200, dim))
    values = np.sin(x.sum(1))
    series, times = np.stack([values, 2 * values]), [0.0, 1.0]
    figures = [plots.field_map(x, None, values, "u"), plots.error_map(x, None, values, 0 * values)]
    figures += [plots.field_grid(x, None, times, series, 1.01 * series, "u")]
    figures += [plots.field_grid(x, None, None, values)]
    figures += [figure for _, figure in plots.field_frames(x, None, times, series)]
    normals = np.ones((200, dim)) / np.sqrt(dim)
    figures += [
        plots.domain_plot({"wall": x}, {"wall": normals}, {"wall": 0.1}),
        plots.domain_plot({"wall": x}),
    ]
    for figure in figures:
        assert pixels(figure)[..., :3].std() > 1


def test_frames_have_one_scale(holed):
    x, cells = holed
    frames = plots.field_frames(
        x, cells, [0, 1, 2], np.outer([1, 2, 3], x[:, 0]), np.outer([1, 2, 3], x[:, 1])
    )
    assert [label for label, _ in frames] == ["t = 0", "t = 1", "t = 2"]
    limits = {figure.axes[0].collections[0].get_clim() for _, figure in frames}
    assert limits == {(0.0, 3.0)}


def test_history_counts_through_the_stages():
    steps, borders = plots.total_steps(HISTORY)
    assert steps.tolist() == [10, 20, 25, 30]
    assert borders == [(0, "adam"), (20, "lbfgs")]
    same_name = plots.total_steps({"step": [10, 20, 10], "stage": ["a", "a", "a"]})
    assert same_name[0].tolist() == [10, 20, 30] and same_name[1] == [(0, "a"), (20, "a")]
    axis = plots.history_plot(HISTORY).axes[0]
    assert axis.get_yscale() == "log" and len(axis.lines) == 3
    assert pixels(plots.history_plot({"step": [], "loss": []})).size


def test_plots_name_what_does_not_fit(holed):
    x, cells = holed
    with pytest.raises(ValueError, match="one per node"):
        plots.field_map(x, cells, x)
    with pytest.raises(ValueError, match="points have shape"):
        plots.field_map([0.0, 1.0], None, [1.0, 1.0])
    with pytest.raises(ValueError, match="the field has shape"):
        plots.field_grid(x, cells, [0.0, 1.0], x[:, 0])
    with pytest.raises(ValueError, match="at least one name"):
        plots.domain_plot({})


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
        {"<b>": metrics.errors(1.01 * r, r, times)},
        [{"name": "robin <u>", "boundary": "cell", "violation": 3.25e-15},
         {"name": "soft", "boundary": "pipe", "violation": float("inf")}],
        HISTORY,
        {"<b>": plots.field_frames(x, cells, times, 1.01 * r, r, "<b>")},
        {"the & domain": plots.domain_plot({"wall": x})},
        [{"stage": "lbfgs", "steps": 10, "why": "no decrease < 1e-9"}],
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
    assert report.count("<tr") == 1 + 4 + 1 + 2 + 1 + 1 + 2 + 2  # errors, conditions, endings, settings


def test_report_escapes_text(report):
    for raw in ("<b>:", "<i>title", "<script>alert", "<u>", "of <b>", "the & domain"):
        assert raw not in report
    for text in ("&lt;b&gt;", "A &lt;i&gt;title&lt;/i&gt; {style}", "robin &lt;u&gt;", "the &amp; domain"):
        assert text in report


def test_slider_has_a_step_for_every_time(report):
    assert re.findall(r"type='range' min='0' max='(\d+)'", report) == ["2"]
    frames = re.search(r"<div class='frames'>(.*?)</div>", report, re.S).group(1)
    assert frames.count("<img") == 3 and frames.count(" hidden>") == 2


def test_a_run_without_reference_has_a_report(tmp_path):
    write_report(tmp_path / "r.html", "bare", {}, {}, [], {})
    assert "No reference is known" in (tmp_path / "r.html").read_text()
