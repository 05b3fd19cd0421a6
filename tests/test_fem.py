"""Finite-element references: orders of convergence, and the shipped file of the battery pack."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hardpde
from hardpde.reference import Reference

ng = pytest.importorskip("ngsolve")

from hardpde.fem import battery_pack as pack  # noqa: E402
from hardpde.fem.heat import heat_robin, radau, triangulate  # noqa: E402

BOX = ((0.0, 0.0), (2.0, 1.5))
DISCS = [(0.9, 0.8, 0.5, "hole")]
SHIPPED = Path(hardpde.__file__).parent / "problems" / "data" / "battery_pack.npz"
K = 0.7


def wave(sin, cos, x, y, t):
    """A smooth temperature that solves no heat equation until `made_up` adds its source."""
    return sin(2 * x - y) * cos(3 * t) + 0.3 * x * y


def made_up(points, times, **settings):
    """Solve for `wave`, with source and Robin data computed from it, and return the error (m, n)."""

    def T(x, y, t):
        return wave(ng.sin, ng.cos, x, y, t)

    def flux(x, y, t, normal):
        return T(x, y, t).Diff(ng.x) * normal[0] + T(x, y, t).Diff(ng.y) * normal[1]

    def on_box(x, y, t):
        return 2.0 * T(x, y, t) + 0.5 * flux(x, y, t, ng.specialcf.normal(2))

    def on_hole(x, y, t):
        (cx, cy, radius, _) = DISCS[0]
        return T(x, y, t) + 3.0 * flux(x, y, t, ((cx - x) / radius, (cy - y) / radius))

    def source(x, y, t):
        laplacian = T(x, y, t).Diff(ng.x).Diff(ng.x) + T(x, y, t).Diff(ng.y).Diff(ng.y)
        return -3 * ng.sin(2 * x - y) * ng.sin(3 * t) - K * laplacian

    robin = {"box": (2.0, 0.5, on_box), "hole": (1.0, 3.0, on_hole)}
    found = heat_robin(
        BOX, DISCS, robin, points, times, k=K, initial=lambda x, y: T(x, y, 0.0), source=source, **settings
    )
    exact = wave(np.sin, np.cos, points[:, 0], points[:, 1], np.asarray(times)[:, None])
    return found - exact


def rate(sizes, errors):
    """The slope of log(error) over log(size)."""
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.fixture(scope="module")
def nodes():
    return triangulate(BOX, DISCS, 0.06)[0]


@pytest.mark.parametrize("order", [2, 3])
def test_converges_in_h_at_its_order(nodes, order):
    sizes = [0.2, 0.1, 0.05]
    errors = [
        np.sqrt(np.mean(made_up(nodes, [0.1], maxh=h, order=order, steps=3, halvings=0) ** 2)) for h in sizes
    ]
    assert rate(sizes, errors) > order + 0.8
    assert errors[-1] < 1e-5


@pytest.mark.parametrize("stages, order", [(1, 1), (2, 3), (3, 5)])
def test_radau_converges_at_its_order(stages, order):
    from scipy.sparse import csr_array

    mass, stiffness = csr_array(np.diag([1.0, 2.0])), csr_array(np.array([[2.0, -1.0], [-1.0, 3.0]]))

    def exact(t):
        return np.array([np.sin(t), np.cos(2 * t)])

    def load(t):
        return mass @ np.array([np.cos(t), -2 * np.sin(2 * t)]) + stiffness @ exact(t)

    errors = []
    for count in (4, 8, 16):
        step, u = radau(mass, stiffness, load, stages), exact(0.0)
        for i in range(count):
            u = step(u, i / count, 1 / count)
        errors.append(np.abs(u - exact(1.0)).max())
    assert rate([1 / 4, 1 / 8, 1 / 16], errors) > order - 0.25


def test_converges_in_time(nodes):
    """Two stages: order 3, and no less than stage order + 1 with time-dependent Robin data."""
    settings = {"maxh": 0.25, "order": 6, "stages": 2, "halvings": 0}
    counts = np.array([2, 4, 8])
    errors = [np.abs(made_up(nodes, [1.0], steps=count, **settings)).max() for count in counts]
    assert rate(1 / counts, errors) > 2.8


def test_times_are_hit_whatever_their_spacing(nodes):
    times = [0.0, 0.03, 0.05, 0.3, 0.31]
    error = made_up(nodes, times, maxh=0.25, order=6, steps=3, halvings=4)
    assert error.shape == (5, len(nodes))
    assert np.abs(error).max() < 2e-6


def test_shipped_pack_is_in_its_domain_and_starts_at_a_tenth():
    shipped = Reference.load(SHIPPED)
    x, T = shipped.x, shipped.values["T"]
    assert x.dtype == np.float64 and 12_000 < len(x) < 14_000 and T.shape == (11, len(x))
    assert np.allclose(shipped.times, np.linspace(0, 1, 11), atol=1e-15)
    assert np.abs(T[0] - 0.1).max() < 1e-8
    assert np.abs(x[:, 0]).max() <= 8 and np.abs(x[:, 1]).max() <= 12
    gaps = [np.hypot(x[:, 0] - cx, x[:, 1] - cy) - r for cx, cy, r, _ in pack.DISCS]
    assert len(gaps) == 17 and np.min(gaps) > -1e-14
    assert all(np.sum(np.abs(gap) < 1e-14) > 10 for gap in gaps)
    assert shipped.about["max_difference_to_level_below"] < 1e-6
    assert SHIPPED.stat().st_size < 1_000_000


def test_shipped_pack_has_the_area_of_the_pack():
    shipped = Reference.load(SHIPPED)
    a, b, c = (shipped.x[shipped.cells[:, i]] for i in range(3))
    area = np.sum(np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])) / 2
    assert area == pytest.approx(16 * 24 - np.pi * (11 + 6 * 0.16), rel=1e-3)


def test_shipped_pack_agrees_with_a_fresh_coarse_solve():
    shipped = Reference.load(SHIPPED)
    fresh = pack.temperature(shipped.x, level=0)
    error = np.abs(fresh - shipped.values["T"])
    assert error.max() < 1e-3 and error.mean() < 2e-5


@pytest.mark.parametrize(
    "change, message",
    [
        ({"robin": {"box": (1, 1, 0)}}, "the boundaries are"),
        ({"robin": {"box": (1, 1, 0), "hole": (1, 0, 0)}}, "b = 0"),
        ({"points": [[0.9, 0.8]]}, "outside the domain"),
        ({"points": [0.1, 0.1]}, "points have shape"),
        ({"times": [0.2, 0.1]}, "times must be increasing"),
        ({"k": -1.0}, "conductivity"),
        ({"stages": 7}, "Radau"),
        ({"order": 0}, "at least 1"),
        ({"discs": [(0.1, 0.1, 0.5, "hole")]}, "not inside the box"),
        ({"discs": [(0.9, 0.8, 0.3, "hole"), (1.2, 0.8, 0.3, "hole")]}, "overlap"),
    ],
)
def test_mistakes_are_answered_by_a_sentence(change, message):
    settings = {"discs": DISCS, "robin": {"box": (1, 1, 0), "hole": (1, 1, 0)}}
    settings |= {"points": [[0.1, 0.1]], "times": [0.1]}
    with pytest.raises(ValueError, match=message):
        heat_robin(BOX, **(settings | change))


@pytest.mark.parametrize("call", [lambda: pack.reference(0), lambda: pack.temperature(np.zeros((1, 2)), 9)])
def test_an_unknown_level_is_named(call):
    with pytest.raises(ValueError, match="level is"):
        call()


def test_nothing_imports_ngsolve_before_it_is_used():
    code = (
        "import sys, hardpde.fem.battery_pack; sys.exit('ngsolve' in sys.modules or 'netgen' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_ngsolve_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ngsolve", None)
    with pytest.raises(ImportError, match=r"pip install 'hardpde\[fem\]'"):
        triangulate(BOX, DISCS, 0.2)
