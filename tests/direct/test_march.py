"""Marching: known solutions are found, conditions hold between steps, a saved solution is the same, errors are told."""

from argparse import Namespace

import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.cli import commands
from hardpde.cli.parser import main
from hardpde.cli.words import Underway
from hardpde.direct import levels, march
from hardpde.direct.instants import Unsuited, in_space
from hardpde.direct.kept import KEPT, Kept
from hardpde.direct.levels import drawn_for
from hardpde.direct.march import Knot, step
from hardpde.direct.recipe import Recipe
from hardpde.direct.stages import Sizes, System
from hardpde.evaluation.certificate import certify, violation
from hardpde.runs.folder import settle
from hardpde.solving.marching import run_march
from hardpde.solving.solution import Solution
from helpers import last_json

RECIPE = Recipe(np.array([2.0, 0.0]), "tanh")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def warmth(x):
    """What decays, and what a condition drives, at x in time."""
    return jnp.exp(-np.pi**2 * x[1] / 4) * jnp.sin(np.pi * x[0]) + jnp.sin(3 * x[1]) * x[0] ** 2


def rod(gradients=True, reaction=0.0):
    """u_t = u_xx / 4 − reaction u³ + f, with conditions that depend on time."""
    def source(x):
        return 3 * jnp.cos(3 * x[1]) * x[0] ** 2 - jnp.sin(3 * x[1]) / 2 + reaction * warmth(x) ** 3

    flux = {"gradients": {"p": "u"}} if gradients else {}
    return hp.Problem(hp.Interval(0, 1, name="ends"), "u", time=(0.0, 1.0), **flux,
                      residual=lambda x, q, dq: hp.dt(dq.u) + reaction * q.u**3 - source(x) - (
                          hp.div(dq.p) if gradients else hp.laplacian(dq.u)) / 4,
                      conditions=[hp.dirichlet("ends", "u", warmth),
                                  hp.initial("u", lambda x: jnp.sin(np.pi * x[0]))],
                      exact=lambda x: {"u": warmth(x)})


@pytest.fixture(scope="module")
def warm():
    return hp.solve(rod(), solver="march", tolerance=1e-4)


def test_a_known_solution_is_found(warm):
    assert warm.errors()["u"]["relative_l2"] < 1e-4 and "was not reached" not in warm.decision
    assert warm.settings["solver"] == "march" and "L-stable" in warm.decision


def test_conditions_hold_at_every_instant(warm):
    assert violation(certify(warm.formulation, [warm.training.model])) < 1e-12
    t = np.random.default_rng(0).uniform(0, 1, 50)
    for end in (0.0, 1.0):
        known = warmth(np.array([np.full(50, end), t]))
        np.testing.assert_allclose(warm(np.full((50, 1), end), t)["u"], known, atol=1e-12)


def test_a_marched_solution_is_saved_and_loaded(warm, tmp_path):
    warm.save(tmp_path / "model.eqx")
    again = Solution.load(tmp_path / "model.eqx", warm.problem)
    x = np.random.default_rng(0).uniform(0, 1, (20, 2))
    for name, values in warm(x).items():
        np.testing.assert_array_equal(again(x)[name], values)


def test_a_nonlinear_equation_with_a_laplacian():
    solution = hp.solve(rod(gradients=False, reaction=2.0), solver="march", tolerance=1e-3)
    assert "not linear" in solution.decision and solution.errors()["u"]["relative_l2"] < 1e-3


def string(time=2.0):
    """u_t = v, v_t = u_xx: a wave of two modes between fixed ends."""
    def wave(x):
        parts = [(1.0, np.pi), (0.3, 3 * np.pi)]
        return {"u": sum(a * jnp.sin(k * x[0]) * jnp.cos(k * x[1]) for a, k in parts),
                "v": sum(-a * k * jnp.sin(k * x[0]) * jnp.sin(k * x[1]) for a, k in parts)}

    return hp.Problem(hp.Interval(0, 1, name="ends"), ["u", "v"], time=(0.0, time),
                      residual=lambda x, q, dq: (hp.dt(dq.u) - q.v, hp.dt(dq.v) - hp.laplacian(dq.u)),
                      conditions=[hp.dirichlet("ends", "u", 0), hp.dirichlet("ends", "v", 0),
                                  hp.initial("u", lambda x: wave(x)["u"]), hp.initial("v", 0)], exact=wave)


def test_the_energy_of_a_wave_is_kept():
    solution = hp.solve(string(), solver="march", tolerance=1e-3)
    assert "errors of steps add up" in solution.decision and solution.errors()["u"]["relative_l2"] < 1e-3
    x = np.linspace(0, 1, 401)
    energies = []
    for t in np.linspace(0, 2, 5):
        found = solution(x[:, None], t)
        energies.append(np.trapezoid(found["v"] ** 2 + np.gradient(found["u"], x, edge_order=2) ** 2, x))
    np.testing.assert_allclose(energies, energies[0], rtol=2e-3)


FILE = """
import jax.numpy as jnp
import hardpde as hp
problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u),
                     [hp.dirichlet("ends", "u", 0), hp.initial("u", lambda x: jnp.sin(jnp.pi * x[0]))],
                     time=(0.0, 0.3), name="cooling",
                     exact=lambda x: {"u": jnp.exp(-jnp.pi**2 * x[1]) * jnp.sin(jnp.pi * x[0])})
"""


def test_the_command_marches_and_goes_on_with_a_run_that_was_stopped(tmp_path, capsys, monkeypatch):
    """Stopped in the middle of writing a step, it ends with the same bits, and looks for no scales again."""
    steps, begun = [], []

    def solved(*arguments, **more):
        begun.append((run / "run.json").read_bytes())
        return run_march(*arguments, **more)

    monkeypatch.setattr(commands, "run_march", solved)
    monkeypatch.setattr(commands, "settle", lambda folder: (steps.append((folder / KEPT).read_bytes()), settle(folder)))
    (tmp_path / "cooling.py").write_text(FILE)
    run = tmp_path / "run"
    words = ["solve", str(tmp_path / "cooling.py"), "--solver", "march", "--tolerance", "1e-3", "--out", str(run)]
    assert main([*words, "--json", "--report", "none"]) == 0
    found = last_json(capsys.readouterr().out)
    assert found["solver"] == "march" and found["errors"]["u"]["relative_l2"] < 1e-3 and found["steps"] > 3
    assert found["boundary_violation"] < 1e-12 and found["unknowns"] > 0 and "marched" in found["decision"]
    (run / "run.json").write_bytes(begun[0])
    model = (run / "model.eqx").read_bytes()
    assert not (run / KEPT).exists()
    (run / KEPT).write_bytes(steps[0][: 2 * len(steps[0]) // 3])
    monkeypatch.setattr(levels, "recipe_of", None)
    assert main(["resume", str(run), "--json", "--report", "none"]) == 0
    assert (run / "model.eqx").read_bytes() == model and steps[1] == steps[0]


@pytest.mark.parametrize("stated, adding", [("reaction", False), ("string", True)])
def test_steps_that_were_kept_are_gone_on_with(stated, adding, tmp_path, monkeypatch):
    """Newton's method with factorisations that grow old, and stages together, to the same bits."""
    monkeypatch.setattr(march, "FRESH", 3)
    problem = string() if adding else rod(gradients=False, reaction=2.0)
    space, file = in_space(problem, 0), tmp_path / "steps"

    def marched(resume):
        units = drawn_for(space, space.drawn(1).at(0.0).terms[0].inputs[:, 0], 40, RECIPE, 0)
        system = System(space, units, space.drawn(160), Sizes(np.ones(1 + adding), np.ones(1 + adding)))
        begin = Knot(0.0, system.start(), np.zeros(system.unknowns), 0.0)
        told = []
        path = march.integrate(system, 1e-4, begin, adding, report=told.append, kept=Kept(file, "it", resume))
        return path, len(told)

    whole, steps = marched(False)
    kept = file.read_bytes()
    for part in (0.2, 0.7):
        file.write_bytes(kept[: int(part * len(kept))])
        again, more = marched(True)
        assert 0 < more < steps and again.system.made == whole.system.made and again.refused == whole.refused
        for one, other in zip(again.knots, whole.knots, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other))
        assert file.read_bytes() == kept
    damaged = bytearray(kept)
    damaged[len(kept) // 2] ^= 1
    file.write_bytes(damaged)
    marched(True)
    assert file.read_bytes() == kept


def test_a_march_says_how_far_it_is(capsys):
    underway = Underway(Namespace(json=True), every=0.0)
    for unknowns, share in ((100, 0.1), (100, 0.5), (200, 0.01), (200, 1.0)):
        underway(unknowns, 2 * share, share)
    said = capsys.readouterr()
    assert said.err.startswith("100 unknowns: t = 1, 50.0% of the time, about 0 s left\n") and said.err.count("\n") == 1
    assert not said.out


def test_an_initial_state_that_contradicts_the_equations_is_refused():
    def stirred(x):
        return jnp.stack([jnp.sin(x[0]), x[1]])

    flow = hp.Problem(
        hp.Box((0, 0), (1, 1), name="wall"), {"u": 2, "p": 1}, time=(0.0, 1.0), free="wall",
        residual=lambda x, q, dq: (hp.dt(dq.u) + hp.grad(dq.p), jnp.trace(hp.grad(dq.u))), equations=3,
        conditions=[hp.initial("u", stirred)])
    with pytest.raises(ValueError, match=r"contradicts equation 3.* t = 0"):
        in_space(flow, 0)


def still(**changed):
    stated = {"fields": "u", "residual": lambda x, q, dq: hp.laplacian(dq.u), "time": (0.0, 1.0),
              "conditions": [hp.dirichlet("ends", "u", 0.0), hp.initial("u", 0.0)]} | changed
    return hp.Problem(hp.Interval(0, 1, name="ends"), **stated)


@pytest.mark.parametrize("changed, says", [
    ({"time": None, "conditions": [hp.dirichlet("ends", "u", 0.0)]}, "no time"),
    ({}, "derivative by time"),
])
def test_what_cannot_be_marched_is_said(changed, says):
    with pytest.raises(Unsuited, match=says):
        in_space(still(**changed), 0)


@pytest.mark.parametrize("stated, order", [("steady", 3.5), ("driven", 2.5)])
def test_the_order_that_is_left(stated, order):
    """Steps of equal lengths, at 60 features, against 32 times as many steps; with conditions that depend on time too.
    """
    ends = warmth if stated == "driven" else 0.0
    problem = rod(gradients=False) if stated == "driven" else hp.Problem(
        hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u) / 4, time=(0.0, 1.0),
        conditions=[hp.dirichlet("ends", "u", ends), hp.initial("u", lambda x: jnp.sin(np.pi * x[0]))])
    space = in_space(problem, 0)
    system = System(space, drawn_for(space, space.drawn(1).at(0.0).terms[0].inputs[:, 0], 60, RECIPE, 0),
                    space.drawn(240), Sizes(np.ones(1), np.ones(1)))

    def end(steps):
        knot = Knot(0.0, system.start(), np.zeros(system.unknowns), 0.0)
        for _ in range(steps):
            (knot,) = step(system, knot, 1 / steps, 1e-9)
        return knot.last

    fine = end(64)
    errors = [system.size_of(end(steps) - fine) for steps in (4, 8)]
    assert np.log2(errors[0] / errors[1]) > order


def test_a_kink_of_the_initial_state_is_forgotten_and_the_state_begins_with_it():
    """A hat whose second derivative is zero wherever it has one."""
    def hat(x):
        return 1 - jnp.abs(2 * x[0] - 1)

    def series(x, t):
        odd = np.arange(1, 40, 2)
        amplitudes = 8 / np.pi**2 * (-1.0) ** (odd // 2) / odd**2
        return np.sin(np.pi * x * odd) @ (amplitudes * np.exp(-((np.pi * odd) ** 2) * t))

    problem = hp.Problem(hp.Interval(0, 1, name="ends"), "u", lambda x, q, dq: hp.dt(dq.u) - hp.laplacian(dq.u),
                         [hp.dirichlet("ends", "u", 0), hp.initial("u", hat)], time=(0.0, 0.2))
    solution, x = hp.solve(problem, solver="march", tolerance=1e-3), np.linspace(0, 1, 41)[:, None]
    np.testing.assert_allclose(solution(x, 0.0)["u"], hat(x.T), atol=1e-12)
    for t in (0.02, 0.1, 0.2):
        np.testing.assert_allclose(solution(x, t)["u"], series(x, t), atol=2e-3)
