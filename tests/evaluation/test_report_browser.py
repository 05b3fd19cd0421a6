"""The report in a real browser: it opens from a file, the slider moves pictures and numbers, nothing goes wrong."""

import json

import numpy as np
import pytest
from scipy.spatial import Delaunay

from hardpde.cli.parser import main
from hardpde.evaluation.report.report import write_report

pytestmark = pytest.mark.usefixtures("quick_compilation")

# A plate with a hole that is heated, with its known solution; and a line that does not change, without one.
PLATE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Box((0, 0), (1, 0.5), name="sides") - hp.Ball((0.5, 0.25), 0.1, name="hole"), fields="u", time=(0, 1),
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u) - x[0],
    conditions=[*(hp.dirichlet(name, "u", lambda x: x[0] * x[2]) for name in ("sides", "hole")), hp.initial("u")],
    exact=lambda x: {"u": x[0] * x[2]},
)
"""
LINE = """
import hardpde as hp

problem = hp.Problem(
    domain=hp.Interval(0, 1, left="<b>", right="right"), fields="u", residual=lambda x, q, dq: hp.laplacian(dq.u),
    conditions=[hp.dirichlet("<b>", "u"), hp.dirichlet("right", "u", 1)],
)
"""
# A rod whose source and end are open, heated in proportion to time.
FAMILY = """
import hardpde as hp

h, k = known = hp.parameters(h=(0, 2), k=(1, 3))
problem = hp.Problem(
    domain=hp.Interval(0, 1, name="ends"), fields="u", time=(0, 1), parameters=known,
    residual=lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u) - h(x) - k(x) * x[0],
    conditions=[hp.dirichlet("ends", "u", lambda x: (h(x) + k(x) * x[0]) * x[1]), hp.initial("u")],
    exact=lambda x: {"u": (h(x) + k(x) * x[0]) * x[1]},
)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Finished runs of a problem with time and of one without: barely trained, so that there are errors to see."""
    folder = tmp_path_factory.mktemp("runs")
    for name, text in (("plate", PLATE), ("line", LINE), ("family", FAMILY)):
        (folder / f"{name}.py").write_text(text)
        method = "pinn" if name == "plate" else "exact"
        words = ["solve", folder / f"{name}.py", "--method", method, "--set", "points=32", "--stages",
                 json.dumps([{"optimiser": "adam", "steps": 4, "block": 2}] * 2), "--out", folder / name]
        assert main([str(word) for word in words]) == 0
    return folder


NOW = "Object.fromEntries([...document.querySelectorAll('td[data-now]')].map((c) => [c.dataset.now, c.textContent]))"
COLOURS = """[...document.querySelectorAll('.panels canvas')].map((c) => {
    const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(c, 0, 0);
    const data = copy.getImageData(0, 0, c.width, c.height).data;
    let sum = 0, seen = 0;
    for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]) { sum += data[i] + 3 * data[i + 1] + 7 * data[i + 2]; seen++; }
    }
    return [sum, seen / (data.length / 4)];
})"""


def point(page, selector):
    """Move the pointer into the left upper part of the first such element."""
    element = page.locator(selector).first
    box = element.bounding_box()
    element.hover(position={"x": 0.3 * box["width"], "y": 0.2 * box["height"]})


def test_the_slider_moves_pictures_and_numbers(runs, page):
    known = json.loads((runs / "plate" / "metrics.json").read_text())["errors"]
    rows = known["u"]["by_time"]
    page.goto((runs / "plate" / "report.html").as_uri())
    assert page.locator(".panels figcaption").all_text_contents() == [
        "reference u", "prediction u", "|error|"]
    assert page.locator("input[type=range]").count() == 1
    shown = {}
    page.locator(".control input").focus()
    for k in range(len(rows) - 1, len(rows) - 4, -1):
        assert page.locator(".control output").text_content() == f"t = {rows[k]['time']:g}"
        numbers = page.evaluate(NOW)
        assert set(numbers) == {f"{name} {key}" for name in known for key in rows[k] if key != "time"}
        for name, found in known.items():
            assert numbers[f"{name} mae"] == f"{found['by_time'][k]['mae']:.2e}"
            assert numbers[f"{name} max"] == f"{found['by_time'][k]['max']:.2e}"
        assert numbers["u relative_l2"] == f"{100 * rows[k]['relative_l2']:#.3g} %"
        shown[k] = (numbers["u mae"], page.evaluate(COLOURS))
        page.keyboard.press("ArrowLeft")
    assert len({mae for mae, _ in shown.values()}) == 3
    for panel in range(3):  # reference, prediction and error all change, and all are drawn
        assert len({colours[panel][0] for _, colours in shown.values()}) == 3
        assert all(0.4 < colours[panel][1] < 0.95 for _, colours in shown.values())
    page.keyboard.press("Home")
    assert page.locator(".control output").text_content() == "t = 0"
    assert page.locator("input").get_attribute("aria-valuetext") == "t = 0"


def test_sliders_move_through_a_family(runs, page):
    """What is known of each member is drawn: its values are where the sliders stand, and errors are told in the middle.
    """
    page.goto((runs / "family" / "report.html").as_uri())
    sliders = page.locator("[data-slider]")
    assert [sliders.nth(k).get_attribute("aria-label") for k in range(3)] == ["h", "k", "time"]
    assert "–" not in page.evaluate(NOW).values()
    for h, k, t in ((0, 0, 0), (0, 4, 1), (4, 0, 3), (3, 1, 2)):
        for slider, value in enumerate((h, k, t)):
            sliders.nth(slider).fill(str(value))
        times = int(sliders.nth(2).get_attribute("max"))
        assert page.locator(".control output").all_text_contents() == [
            f"h = {h / 2:g}", f"k = {1 + k / 2:g}", f"t = {t / times:g}"]
        assert set(page.evaluate(NOW).values()) == {"–"}
        place = page.locator(".panels canvas").first
        box = place.bounding_box()
        place.hover(position={"x": 0.6 * box["width"], "y": 0.5 * box["height"]})
        words = page.locator(".under").first.text_content()
        x, known = (float(part.split(" ")[-1].strip("():")) for part in words.split(",")[0].split(": reference u"))
        assert known == pytest.approx((h / 2 + (1 + k / 2) * x) * t / times, abs=2e-3)


def test_a_surface_inside_a_body_is_where_its_field_has_a_value_and_can_be_turned(tmp_path, page):
    """Of x₁ a plane, of the distance from the middle a ball: their areas are known whatever the tetrahedra are."""
    line = np.linspace(0, 2, 11)
    x = np.stack(np.meshgrid(line, line, line), axis=-1).reshape(-1, 3)
    x[:, 1:] += 0.01 * np.sin(7 * x[:, :2])  # no four points of a face on a circle, and no plane through nodes
    cells = Delaunay(x).simplices
    fields = {"plane": x[:, 0], "ball": np.linalg.norm(x - 1, axis=1)}
    inside = {name: (x, cells, None, values, None) for name, values in fields.items()}
    write_report(tmp_path / "report.html", "body", {}, {}, [], {}, inside=inside)
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator(".solid canvas").count() == 2
    levels = page.locator("[data-slider]")
    for k, (low, high) in enumerate((min(v), max(v)) for v in fields.values()):
        for step, near in ((11, 0.02), (20, 0.03)):
            levels.nth(k).fill(str(step))
            level = low + (step + 0.5) / 41 * (high - low)
            said = levels.nth(k).get_attribute("aria-valuetext").split(" = ")[1]
            assert float(said) == pytest.approx(level, rel=1e-3)
            area = float(page.locator(".solid canvas").nth(k).get_attribute("data-area"))
            assert area == pytest.approx(4.0 if k == 0 else 4 * np.pi * level**2, rel=near if k == 0 else 4 * near)
    before = page.evaluate(COLOURS.replace(".panels", ".solid"))
    page.locator(".solid canvas").first.hover(position={"x": 200, "y": 200})
    page.mouse.down()
    page.locator(".solid canvas").first.hover(position={"x": 300, "y": 230})
    page.mouse.up()
    after = page.evaluate(COLOURS.replace(".panels", ".solid"))
    assert before[0][1] > 0.02 and before[0] != after[0] and before[1] == after[1]


def test_the_button_plays(runs, page):
    page.goto((runs / "plate" / "report.html").as_uri())
    page.locator(".control button").click()
    page.wait_for_function("document.querySelector('.control output').textContent !== 't = 1'")
    page.locator(".control button").click()
    assert page.locator(".control button").get_attribute("aria-label") == "play"


def test_the_pointer_reads_values(runs, page):
    page.goto((runs / "plate" / "report.html").as_uri())
    point(page, ".panels canvas")
    page.wait_for_function("document.querySelector('.under').textContent.startsWith('at (')")
    said = page.locator(".under").text_content()
    place, values = said.removeprefix("at (").split("): ")
    x, y = map(float, place.split(", "))
    reference, prediction, error = (float(part.rsplit(" ", 1)[1]) for part in values.split(", "))
    assert 0 < x < 1 and 0 < y < 0.5
    assert reference == pytest.approx(x, abs=0.01)  # the known solution is x t, at t = 1
    assert error == pytest.approx(abs(prediction - reference), abs=1e-3)
    point(page, ".chart svg")
    page.wait_for_function("document.querySelector('.said').textContent.startsWith('arc length')")


def test_violations_and_losses_are_drawn(runs, page):
    metrics = json.loads((runs / "plate" / "metrics.json").read_text())
    page.goto((runs / "plate" / "report.html").as_uri())
    assert page.locator(".chart svg path").count() == len(metrics["certificate"]) + 2
    assert page.locator(".chart .stage").all_text_contents() == ["adam", "adam"]
    text = page.locator("body").inner_text()
    for row in metrics["certificate"]:
        assert f"{row['violation']:.2e}" in text or row["violation"] == 0
    for ending in metrics["endings"]:
        assert ending["why"] in text
    assert metrics["commit"] in text and metrics["versions"]["jax"] in text


def test_a_problem_without_time_has_no_slider(runs, page):
    page.goto((runs / "line" / "report.html").as_uri())
    assert page.locator("input, .control, .control button").count() == 0
    assert page.locator(".panels figcaption").all_text_contents() == ["u"]
    assert page.evaluate(COLOURS)[0][1] > 0
    assert "dirichlet u on <b>" in page.locator(".charts").inner_text()


def test_it_fits_a_phone_and_the_dark(runs, page):
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    page.goto((runs / "plate" / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    back, ink = (np.array(page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).map(Number)"))
                 for name in ("backgroundColor", "color"))
    assert back.mean() < 64 and ink.mean() > 190
    wide = [canvas.bounding_box()["width"] for canvas in page.locator(".panels canvas").all()]
    assert len(wide) == 3 and min(wide) > 250  # one below the other
