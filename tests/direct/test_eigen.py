"""Eigenpairs: values that are known, errors that hold them, modes that satisfy equations and conditions."""

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import jv, yv

import hardpde as hp

RING = hp.Problem(hp.Ball((0, 0), 1.0, name="rim") - hp.Ball((0, 0), 0.4, name="hole"), "u",
                  lambda x, q, dq: -hp.laplacian(dq.u), [hp.dirichlet("rim", "u", 0), hp.dirichlet("hole", "u", 0)])


def ring_values(count):
    """Squares of the zeros of J_m(k) Y_m(0.4 k) − J_m(0.4 k) Y_m(k); those of m > 0 are double."""
    found = []
    for m in range(8):
        def cross(k, m=m):
            return jv(m, k) * yv(m, 0.4 * k) - jv(m, 0.4 * k) * yv(m, k)
        grid = np.linspace(1.0, 14.0, 400)
        values = cross(grid)
        roots = [brentq(cross, a, b) for a, b, u, v in zip(grid, grid[1:], values, values[1:]) if u * v < 0]
        found += [k * k for k in roots for _ in range(1 + (m > 0))]
    return np.sort(found)[:count]


@pytest.fixture(scope="module")
def ring():
    return hp.eigenpairs(RING, 5, tolerance=1e-6)


def test_values_of_a_ring_are_zeros_of_bessel_functions_within_their_errors(ring):
    found, errors = np.array([(pair.value, pair.error) for pair in ring]).T
    known = ring_values(5)
    assert np.all(np.abs(found - known) <= errors)
    assert np.all(errors <= 1e-6 * known)


def test_modes_satisfy_their_conditions_and_are_apart(ring):
    angles = np.linspace(0, 2 * np.pi, 50)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    x = np.asarray(RING.domain.sample(jax.random.key(3), 4000))
    values = np.stack([pair.mode(x)["u"] for pair in ring])
    for pair in ring:
        for radius in (0.4, 1.0):
            assert np.abs(pair.mode.anywhere(radius * circle)["u"]).max() < 1e-12
    assert np.allclose(values @ values.T / len(x), np.eye(5), atol=0.15)


def test_a_rod_with_free_ends_has_a_constant_mode():
    rod = hp.Problem(hp.Interval(0, 2, name="ends"), "u", lambda x, q, dq: -hp.div(dq.p), [hp.neumann("ends", "u", 0)],
                     gradients={"p": "u"})
    pairs = hp.eigenpairs(rod, 3, tolerance=1e-7)
    assert np.allclose([pair.value for pair in pairs], (np.arange(3) * np.pi / 2) ** 2, atol=1e-6)
    assert np.ptp(pairs[0].mode(np.linspace(0, 2, 9)[:, None])["u"]) < 1e-6


def test_a_plate_is_two_fields_of_which_one_is_multiplied():
    """Δ²u = λu on a simply supported beam: λ = (kπ)⁴."""
    beam = hp.Problem(hp.Interval(0, 1, name="ends"), ("u", "m"),
                      lambda x, q, dq: (hp.laplacian(dq.u) - q.m, hp.laplacian(dq.m)),
                      [hp.dirichlet("ends", "u", 0), hp.dirichlet("ends", "m", 0)])
    pairs = hp.eigenpairs(beam, 2, weight=lambda x, q: (0.0 * q.u, q.u), tolerance=1e-6)
    assert np.allclose([pair.value for pair in pairs], (np.pi * np.arange(1, 3)) ** 4, rtol=1e-6)


@pytest.mark.parametrize("changes, words", [
    ({"residual": lambda x, q, dq: -hp.laplacian(dq.u) - 1}, "has no data"),
    ({"residual": lambda x, q, dq: -hp.laplacian(dq.u) + q.u**2}, "not linear"),
    ({"time": (0, 1), "conditions": [hp.dirichlet("rim", "u", 0), hp.dirichlet("hole", "u", 0), hp.initial("u", 0)],
      "residual": lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u)}, "neither time nor parameters"),
])
def test_what_has_no_eigenpairs_is_refused(changes, words):
    stated = {"domain": RING.domain, "fields": "u", "residual": RING.residual, "conditions": RING.conditions}
    with pytest.raises(ValueError, match=words):
        hp.eigenpairs(hp.Problem(**{**stated, **changes}), 2)


def test_a_clamped_beam_is_stated_as_it_is_written():
    """Δ²u = λu with u = u′ = 0 at the ends: cos k cosh k = 1, λ = k⁴. λ multiplies the stated equation alone."""
    beam = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.bilaplacian(dq.u),
                      [hp.dirichlet("ends", "u", 0), hp.neumann("ends", "u", 0)])
    pairs = hp.eigenpairs(beam, 2, tolerance=1e-5)
    known = [brentq(lambda k: np.cos(k) * np.cosh(k) - 1, a, a + 1) ** 4 for a in (4, 7)]
    assert np.allclose([pair.value for pair in pairs], known, rtol=1e-6)
    assert set(pairs[0].mode(np.zeros((1, 1)))) == {"u"}


def test_a_weight_has_an_entry_for_each_equation():
    with pytest.raises(ValueError, match="λ multiplies 2 numbers in 1 equations"):
        hp.eigenpairs(RING, 2, weight=lambda x, q: (q.u, q.u))
