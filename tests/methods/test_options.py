"""Options of methods are plain data, whether a method takes them one by one or some of them as an engine."""

import pytest

import hardpde as hp
from hardpde.formulation.engine import Engine
from hardpde.methods import METHODS, exact, known_options, make, xpinn
from hardpde.problems import poisson

pytestmark = pytest.mark.usefixtures("quick_compilation")


def plain(problem: hp.Problem, *, width: int = 4, points: int = 32) -> hp.Formulation:
    """A method without an engine."""
    return exact(problem, width=width, depth=1, engine=Engine(points))


def shared(problem: hp.Problem, *, width: int = 4, engine: Engine = Engine(32, "float32")) -> hp.Formulation:
    """A method with an engine."""
    return exact(problem, width=width, depth=1, engine=engine)


def test_the_options_of_an_engine_stand_among_those_of_a_method():
    assert known_options(plain) == {"width": 4, "points": 32}
    assert known_options(shared) == {"width": 4, "points": 32, "dtype": "float32", "chunk": None, "devices": 1}
    assert known_options(lambda problem: problem) == {}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_its_points_and_its_precision(method):
    known = known_options(METHODS[method])
    assert known["points"] >= 4096 and known["dtype"] in ("float32", "float64") and known["devices"] == 1
    assert ("chunk" in known) == (method != "xpinn") and "engine" not in known


def test_what_is_not_stated_stays_as_the_method_has_it():
    formulation = make(shared, poisson(), {"points": 48})
    assert formulation.points == 48 and formulation.dtype == "float32"
    assert make(shared, poisson(), {"dtype": "float64", "chunk": 8}).chunks == 4


@pytest.mark.parametrize("method", [plain, shared])
def test_a_method_of_ones_own_takes_its_options_with_or_without_an_engine(method, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", method)
    solution = hp.solve(poisson(), "mine", options={"points": 40, "width": 3}, devices=1,
                        stages=[{"optimiser": "adam", "steps": 2}])
    assert solution.settings["method"] == {"points": 40, "width": 3} and solution.formulation.points == 40
    with pytest.raises(ValueError, match="'mine' has no option 'engine'; its options are width, points"):
        hp.solve(poisson(), "mine", options={"engine": Engine(8)})


def test_networks_of_blocks_take_all_points_at_once():
    with pytest.raises(ValueError, match="leave chunk out"):
        xpinn(poisson(), engine=Engine(64, chunk=8))
