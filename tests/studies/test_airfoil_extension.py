"""Figure 5: what is told of the extension off the airfoil."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.problems.airfoil import flow_domain
from hardpde.studies.reproduction import airfoil_extension
from hardpde.studies.reproduction.airfoil_extension import angle_errors, distance_errors, figure5
from hardpde.studies.reproduction.base import Work

pytestmark = pytest.mark.usefixtures("quick_compilation")
WALL = flow_domain().boundaries["airfoil"]


@pytest.fixture(scope="module")
def places():
    return WALL.sample(jax.random.key(0), 500)


def test_the_angle_of_a_turned_normal_is_by_how_much_it_was_turned(places):
    turn = np.radians(7.0)
    matrix = jnp.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    found = angle_errors(lambda x: matrix @ WALL.normal(x), WALL, places)
    for key in ("mean", "max", "mean_away", "max_away"):
        assert found[key] == pytest.approx(7.0, abs=1e-6)
    assert angle_errors(lambda x: -WALL.normal(x), WALL, places)["mean"] == pytest.approx(180.0, abs=1e-6)
    assert angle_errors(WALL.normal, WALL, places)["max"] == pytest.approx(0.0, abs=1e-6)


def test_a_shifted_distance_has_that_error_everywhere(places):
    inside = flow_domain().sample(jax.random.key(1), 500)
    found = distance_errors(lambda x: WALL.distance(x) - 0.01, WALL, inside, places)
    for key in ("mean", "max", "wall_mean", "wall_max"):
        assert found[key] == pytest.approx(0.01, abs=1e-7)
    assert found["wall_lowest"] < 0 and found["wall_highest"] < 0


def test_a_quick_figure_tells_all_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(airfoil_extension, "QUICK_STEPS", 20)
    said = []
    outcome = figure5(Work(tmp_path, quick=True, say=said.append))
    json.dumps(outcome.data, allow_nan=False)
    normals, distance = outcome.data["normals"], outcome.data["distance"]
    assert normals["interpolation, one point"]["max_away"] < 0.01
    assert normals["interpolation, two points"]["max_away"] < 0.01
    assert normals["network"]["mean"] > normals["interpolation, two points"]["mean"]
    assert 0 < distance["wall_mean"] < distance["wall_max"] < 0.1
    front, rear = outcome.data["references"]
    assert 0 < front[0] < 0.5 < rear[0] < 1
    assert "| network |" in outcome.text and said
    outcome.figures[""].savefig(tmp_path / "figure.png")
