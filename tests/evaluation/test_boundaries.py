"""Boundaries in order, the drawing of a domain, and violations along a boundary."""

import jax
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import hardpde as hp
from hardpde.evaluation.boundaries import chains, collars, stretches
from hardpde.evaluation.certificate import certify, profiles
from hardpde.evaluation.figures.domain import domain_plot
from hardpde.evaluation.figures.pictures import draw_domain
from hardpde.solving.settings import make_formulation, make_settings

pytestmark = pytest.mark.usefixtures("quick_compilation")
CENTRE, RADIUS = np.array([1.2, 0.5]), 0.2


def stated(domain, **more):
    names = list(domain.boundaries)
    given = {"fields": "u", "residual": lambda x, q, dq: hp.laplacian(dq.u) - 1,
             "conditions": [hp.dirichlet(name, "u", lambda x: x[0]) for name in names]}
    return hp.Problem(domain=domain, **{**given, **more})


@pytest.fixture(scope="module")
def holed():
    """A rectangle with a round hole."""
    shape = hp.Box((0, 0), (2, 1), name="sides") - hp.Ball(tuple(CENTRE), RADIUS, name="hole")
    return stated(shape, hints=hp.Hints(collar=0.1), name="holed")


@pytest.fixture(scope="module")
def cut():
    """A disc cut by a straight line: an arc and a chord are left."""
    return stated(hp.Ball((0, 0), 1, name="disc") & hp.Box((-2, -2), (0.5, 2), name="cut"))


def length(x):
    return np.linalg.norm(np.diff(x, axis=0), axis=1).sum()


def test_runs_follow_the_boundary_from_end_to_end(holed):
    sides, hole = (stretches(holed, name, 600) for name in ("sides", "hole"))
    assert len(sides) == 4 and len(hole) == 1
    assert sum(length(run.x) for run in sides) == pytest.approx(6, abs=0.05)
    for one, two in zip(sides, [*sides[1:], sides[0]]):
        assert np.linalg.norm(one.x[-1] - two.x[0]) < 0.03  # each begins where the one before ends
    assert length(hole[0].x) == pytest.approx(2 * np.pi * RADIUS, rel=1e-3)
    np.testing.assert_allclose(hole[0].normal, (CENTRE - hole[0].x) / RADIUS, atol=1e-12)  # out of the domain


def test_runs_leave_out_what_is_cut_away(cut):
    arc, [chord] = (stretches(cut, name, 600) for name in ("disc", "cut"))
    assert sum(length(run.x) for run in arc) == pytest.approx(2 * np.pi * 2 / 3, rel=0.02)
    assert length(chord.x) == pytest.approx(np.sqrt(3), rel=0.02) and np.allclose(chord.x[:, 0], 0.5)
    assert max(run.x[:, 0].max() for run in arc) <= 0.5 + 1e-9
    inside, beyond = colours(draw_domain(cut), [(-0.45, 0.0), (0.54, 0.96)])
    assert inside.max() < 255 and beyond.min() == 255


def test_curves_are_chained_by_their_ends():
    up, over, back = (np.linspace(a, b, 9) for a, b in (((0, 0), (0, 1)), ((1, 1), (0, 1)), ((1, 1), (0, 0))))
    angle = np.linspace(0, 2 * np.pi, 30)
    ring = 5 + np.stack([np.cos(angle), np.sin(angle)], 1)
    assert chains([up, ring, over, back]) == [[(0, False), (2, True), (3, False)], [(1, False)]]
    assert chains([up, up + 7]) == [[(0, False)], [(1, False)]] and chains([]) == []


def test_collars_have_their_width(holed):
    for width in collars(holed, stretches(holed, "hole", 50)):
        np.testing.assert_allclose(width, 0.1)
    free = stated(hp.Interval(0, 1, left="left", right="right"), conditions=[hp.dirichlet("left", "u")], free=["right"])
    assert collars(free, stretches(free, "right")) == [None]
    assert [run.x.tolist() for run in stretches(free, "right")] == [[[1.0]]]


def colours(figure, points, axis=0):
    """Colours (n, 3) at places of a drawing."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())
    where = figure.axes[axis].transData.transform(points)
    return np.array([image[image.shape[0] - 1 - int(up), int(across), :3] for across, up in where]).astype(int)


def test_a_drawing_has_empty_holes_shaded_collars_and_arrows(holed):
    figure = draw_domain(holed)
    hole, domain, near_hole, near_side, outside = colours(
        figure, [CENTRE, (0.5, 0.5), (1.45, 0.5), (0.5, 0.05), (-0.11, 0.017)])
    assert np.all(hole == 255) and np.all(outside == 255)
    assert np.ptp(domain) < 10 and domain.max() < 255  # grey
    assert near_side[2] > near_side[0] + 15 and near_hole[0] > near_hole[2] + 15  # blue and orange
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["sides: dirichlet u, collar 0.1", "hole: dirichlet u, collar 0.1"]
    arrows = [c for c in figure.axes[0].collections if hasattr(c, "U")]
    assert len(arrows) == 2 and all(np.allclose(np.hypot(a.U, a.V), 1) for a in arrows)
    feet = np.stack([arrows[1].X, arrows[1].Y], 1)
    np.testing.assert_allclose(np.stack([arrows[1].U, arrows[1].V], 1), (CENTRE - feet) / RADIUS, atol=1e-9)


def test_small_bodies_are_drawn_larger_beside():
    far = stated(hp.Box((0, 0), (8, 4), name="sides") - hp.Ball((2, 2), 0.2, name="hole"))
    figure = draw_domain(far)
    whole, near = figure.axes
    assert np.diff(whole.get_xlim()) > 8 and np.diff(near.get_xlim()) < 1
    assert np.all(colours(figure, [(2, 2)], axis=1) == 255)


def test_an_inlay_is_shaded_on_both_sides():
    disc = hp.Ball((0, 0), 0.5, name="rim")
    problem = stated(hp.Inlay(hp.Box((-1, -1), (1, 1), name="sides"), disc))
    inner, outer, middle = colours(draw_domain(problem), [(0.45, 0.02), (0.55, 0.02), (0.1, 0.0)])
    assert inner[0] > inner[2] + 15 and outer[0] > outer[2] + 15 and np.ptp(middle) < 10


def test_solids_show_the_walls_behind_and_many_dimensions_have_words():
    rng = np.random.default_rng(0)
    n = rng.standard_normal((500, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    figure = domain_plot({"ball": n}, {"ball": n}, {"ball": 0.1}, "a ball")
    shown = next(c for c in figure.axes[0].collections if hasattr(c, "_offsets3d") and len(c._offsets3d[0]))
    points = np.stack(shown._offsets3d, 1)
    assert 200 < len(points) < 320 and points[:, 2].mean() < -0.1  # seen from above: the lower half stays
    words = domain_plot({"sphere": np.eye(10)}, None, {"sphere": 0.9}, "ten", {"sphere": "sphere: neumann u"})
    said = words.axes[0].get_title(loc="left") + " ".join(text.get_text() for text in words.axes[0].texts)
    assert "10 dimensions" in said and "sphere: neumann u, collar 0.9" in said


def trained(problem, method):
    formulation = make_formulation(problem, make_settings(problem, method, "quick", 0, {"points": 32}))
    return formulation, formulation.init(jax.random.key(0))


def test_violations_along_a_boundary_are_those_of_the_model(holed):
    formulation, model = trained(holed, "pinn")
    sides, hole = profiles(formulation, model, 200)
    assert (hole["name"], hole["boundary"], hole["along"]) == ("dirichlet u", "hole", "arc length")
    angle = np.array(hole["at"]) / RADIUS
    assert hole["at"][0] == 0 and hole["at"][-1] == pytest.approx(2 * np.pi * RADIUS, rel=1e-3)
    x = CENTRE + RADIUS * np.stack([np.cos(angle), np.sin(angle)], 1)
    u = np.asarray(formulation.predict(model, x))[:, 0]
    off = np.abs(u - x[:, 0]) / np.maximum(np.maximum(np.abs(u), np.abs(x[:, 0])), 1)
    np.testing.assert_allclose(hole["violation"], off, rtol=1e-2, atol=1e-3)
    assert sides["at"][-1] == pytest.approx(6, abs=0.2) and np.all(np.diff(sides["at"]) >= 0)
    assert not sides["breaks"]  # one loop
    for row, known in zip((sides, hole), certify(formulation, [model])):
        assert max(row["violation"]) == pytest.approx(known["violation"], rel=0.05)


def test_built_in_conditions_hold_all_along():
    line = stated(hp.Interval(0, 1, left="left", right="right"))
    for row, at in zip(profiles(*trained(line, "exact")), (0.0, 1.0)):
        assert max(row["violation"]) <= 1e-12 and (row["along"], row["at"]) == ("x", [at])


def test_violations_over_time_and_of_periodic_faces():
    rod = hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u", time=(0, 2),
                     residual=lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u),
                     conditions=[hp.dirichlet("left", "u"), hp.dirichlet("right", "u", lambda x: x[1]),
                                 hp.initial("u")])
    formulation, model = trained(rod, "pinn")
    left, right, start = profiles(formulation, model, 50)
    assert right["along"] == "t" and right["at"][-1] == 2 and start["along"] == "x"
    t = np.array(right["at"])
    u = np.asarray(formulation.predict(model, np.stack([np.ones_like(t), t], 1)))[:, 0]
    np.testing.assert_allclose(right["violation"], np.abs(u - t) / np.maximum(np.maximum(np.abs(u), t), 1), atol=1e-12)
    assert "t = " in left["where"]
    ring = stated(hp.Interval(0, 1, left="left", right="right"), conditions=[hp.periodic("left", "right")])
    [row] = profiles(*trained(ring, "exact"), 50)
    assert row["boundary"] == "left = right" and len(row["violation"]) == 50 and max(row["violation"]) < 1e-10
