"""Goals: what they lie between holds the truth, and is narrow where the adjoint is known."""

import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.bounds.error_bar import ESTIMATED, GUARANTEED
from hardpde.solving import direct
from hardpde.solving.settings import make_settings

pytestmark = pytest.mark.usefixtures("quick_compilation")
SIDES = {side: side for side in ("left", "right", "bottom", "top")}


def few(problem):
    """A solution with few features, so that there is an error."""
    settings = direct.direct_settings(make_settings(problem, "exact", "quick", 0), {}, 1.0, None)
    return direct.run_directly(problem, settings, most=60)[0]


@pytest.fixture(scope="module")
def solution():
    """−Δu = 2 sin x sin y on (0, π/2) × (0, π), u = 0 on three sides and no flux on the fourth: u = sin x sin y."""
    return few(hp.Problem(
        domain=hp.Box((0, 0), (np.pi / 2, np.pi), sides=SIDES), fields="u", gradients={"p": "u"},
        residual=lambda x, q, dq: hp.div(dq.p) + 2 * jnp.sin(x[0]) * jnp.sin(x[1]),
        conditions=[hp.neumann("right", "u"), *(hp.dirichlet(side, "u") for side in ("left", "bottom", "top"))]))


def test_an_enclosure_holds_the_truth_and_is_narrower_than_the_error_bar(solution):
    truth, found = np.pi**2 / 8, solution.goal(hp.integral("u", weight=lambda x: jnp.sin(x[0]) * jnp.sin(x[1])))
    assert found.word == GUARANTEED, found.why
    assert found.low <= truth <= found.high and "guaranteed within" in found.sentence
    assert found.high - found.low < solution.error_bar().energy / 3


def test_a_flux_is_enclosed_too():
    """3 u″ = 3 eˣ with u = eˣ at the ends: n·∇u is −1 at 0."""
    rod = few(hp.Problem(
        domain=hp.Interval(0, 1, left="left", right="right"), fields="u", gradients={"p": "u"},
        residual=lambda x, q, dq: 3 * hp.div(dq.p) - 3 * jnp.exp(x[0]),
        conditions=[hp.dirichlet(end, "u", lambda x: jnp.exp(x[0])) for end in ("left", "right")]))
    found = rod.goal(hp.flux("u", on="left"))
    assert found.word == GUARANTEED, found.why
    assert found.low <= -1 <= found.high and found.high - found.low < 1e-6


def test_where_no_adjoint_is_known_it_is_estimated(solution):
    found = solution.goal(hp.integral(lambda q, x, n: q.u**2, on="right"))
    assert found.word == ESTIMATED and "adjoint" in found.why and found.low <= np.pi / 2 <= found.high


def test_wrong_goals_are_refused(solution):
    for wrong, words in ((hp.integral("w"), "no field"), (hp.integral("p"), "no field that is a number"),
                         (hp.flux("u", on="hole"), "no boundary 'hole'"), (hp.pin("u", at=(1, 1)), "no goal")):
        with pytest.raises(ValueError, match=words):
            solution.goal(wrong)


def test_a_solve_goes_on_where_its_bar_is_above_the_tolerance(solution, monkeypatch):
    asked = []
    bars = iter([1e-2, 1e-7])

    def again(problem, settings, report):
        asked.append(settings["tolerance"])
        return solution, None

    settings = {**solution.settings, "tolerance": 1e-3, "found": {
        "held_out": 1e-4, "estimated_error": 1e-4, "unknowns": 60}}
    first = hp.Solution(solution.problem, solution.formulation, settings, solution.training)
    monkeypatch.setattr(direct, "_largest_bar", lambda one: next(bars))
    monkeypatch.setattr(direct, "run_directly", again)
    found = direct.brought_within(first)
    assert asked == [pytest.approx(5e-5)] and found.training is not solution.training
    assert "the error bar, 1.0e-02, did not" in found.decision and "stays above" not in found.decision


def test_a_solve_does_not_go_on_where_its_bar_falls_too_slowly(solution, monkeypatch):
    """Residuals that fall as n⁻² are a hundredth with ten times as many unknowns."""
    history = [{"step": n, "held_out": n**-4.0} for n in (100, 200)]
    assert direct.unknowns_wanted(history, 100.0) == pytest.approx(2000)
    assert direct.unknowns_wanted(history[:1], 100.0) == 0
    assert direct.unknowns_wanted([history[1], history[0] | {"step": 400}], 100.0) == np.inf
    monkeypatch.setattr(direct, "_largest_bar", lambda one: 1e-2)
    monkeypatch.setattr(direct, "unknowns_wanted", lambda history, factor: 2.0 * direct.MOST)
    settings = {**solution.settings, "tolerance": 1e-3, "found": {
        "held_out": 1e-4, "estimated_error": 1e-4, "unknowns": 60}}
    first = hp.Solution(solution.problem, solution.formulation, settings, solution.training)
    found = direct.brought_within(first)
    assert found.training.model is solution.training.model and "falls too slowly" in found.decision
