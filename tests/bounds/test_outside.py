"""Evaluation outside the domain: NaN and a warning, while its boundary, rounded or not, is inside."""

import jax
import numpy as np
import pytest

import hardpde as hp
from hardpde.solving.outside import known_at
from helpers import poisson

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def holed():
    domain = hp.Box((0, 0), (1, 1), name="wall") - hp.Ball((0.5, 0.5), 0.25, name="hole")
    return poisson(domain, [hp.dirichlet("wall", "u", 0), hp.dirichlet("hole", "u", 1)])


def test_outside_the_domain_there_is_no_number(holed):
    solution = hp.solve(holed, steps=[1, 1], options={"points": 64})
    with pytest.warns(UserWarning, match=r"2 of 3 points lie outside the domain, the first at \(0.5, 0.5\)"):
        found = solution([[0.5, 0.5], [0.1, 0.1], [1.5, 0.5]])
    assert np.isnan(found["u"]).tolist() == [True, False, True]
    assert np.isnan(found["grad_u"][[0, 2]]).all() and np.isfinite(found["grad_u"][1]).all()
    assert np.isfinite(solution.anywhere([[0.5, 0.5]])["u"]).all()


def test_points_of_the_boundary_are_inside(holed):
    for boundary in holed.domain.boundaries.values():
        x = np.asarray(boundary.sample(jax.random.key(0), 500))
        assert known_at(holed, x).all() and known_at(holed, np.float32(x).astype(float)).all()
