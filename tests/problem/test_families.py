"""Families of problems, shapes that depend on parameters, and what is found from measurements."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde import methods
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.evaluation.errors import family_errors
from hardpde.problem.parameters import append, middle
from hardpde.runs.finish import finish
from hardpde.solving.settings import make_formulation, make_settings
from hardpde.training import Training

pytestmark = pytest.mark.usefixtures("quick_compilation")

H, K = hp.parameters(h=(0.5, 2.0), k=(1.0, 3.0))
SMALL = {"width": 8, "depth": 2, "points": 128}


def u(x):
    return jnp.sin(K(x) * x[0] / 2) * jnp.cos(x[1]) + H(x) * x[0] * x[1]


def gradient(x):
    return jax.grad(u)(x)[:2]


def source(x):
    return jnp.trace(jax.hessian(u)(x)[:2, :2])


def rim(centre, a, b):
    """The data of a condition a u + b n·∇u on the rim of a hole; the centre may depend on the point."""
    def data(x):
        away = jnp.stack([jnp.asarray(c(x) if callable(c) else c, float) for c in centre]) - x[:2]
        return a(x) * u(x) + b(x) * gradient(x) @ away / jnp.linalg.norm(away)

    return data


def make(**changes):
    stated = {
        "domain": hp.Box((-1, -1), (1, 1), name="wall") - hp.Ball((0.2, 0.1), 0.35, name="hole"), "fields": "u",
        "gradients": {"p": "u"}, "parameters": (H, K), "residual": lambda x, q, dq: hp.div(dq.p) - source(x),
        "conditions": [hp.dirichlet("wall", "u", u), hp.robin("hole", "u", H, K, rim((0.2, 0.1), H, K))],
        "exact": lambda x: {"u": u(x), "p": gradient(x)}, "name": "family"}
    return hp.Problem(**{**stated, **changes})


@pytest.fixture(scope="module")
def family():
    return make()


@pytest.fixture(scope="module")
def timed():
    """Heat in a rod whose conductivity and cooling are open, stated with the time where it is: after space."""
    def rod(x):
        return jnp.exp(-K(x) * x[1]) * jnp.cos(x[0]) + H(x)

    def slope(x):
        return jax.grad(rod)(x)[:1]

    return hp.Problem(
        hp.Interval(0, 1, left="left", right="right"), "u", lambda x, q, dq: hp.dt(dq.u) - K(x) * hp.div(dq.p),
        [hp.dirichlet("left", "u", rod), hp.robin("right", "u", H, K, lambda x: H(x) * rod(x) + K(x) * slope(x)[0]),
         hp.initial("u", rod)], {"p": "u"}, (0.0, 1.0), parameters=(H, K),
        exact=lambda x: {"u": rod(x), "p": slope(x)}, name="rod")


def untrained(problem, method="exact", **options):
    """A solution with random weights: conditions hold before any training."""
    settings = make_settings(problem, method, "quick", 0, {**SMALL, **options})
    formulation = make_formulation(problem, settings)
    return hp.Solution(problem, formulation, settings, Training(random_models(formulation, 1)[0]))


def test_conditions_hold_for_every_value_of_the_parameters(family, timed):
    for problem in (family, timed):
        formulation = methods.make(methods.exact, problem, SMALL)
        assert violation(certify(formulation, random_models(formulation))) < 1e-12


def test_the_known_solution_of_every_member_has_no_residual(family):
    x = np.asarray(append(family.parameters, family.domain.sample(jax.random.key(0), 50), jax.random.key(1)))

    def residuals(x):
        state = jnp.concatenate([u(x)[None], gradient(x)])
        slopes = jax.jacfwd(lambda y: jnp.concatenate([u(y)[None], gradient(y)]))(x)[:, :2]
        return family.residuals(x, state, slopes.T)

    assert np.abs(jax.vmap(residuals)(x)).max() < 1e-12


@pytest.mark.parametrize("method", ["pinn", "hc", "xpinn"])
def test_other_methods_take_families_too(family, method):
    formulation = methods.make(methods.METHODS[method], family, {"points": 64})
    model = formulation.init(jax.random.key(0))
    loss, slopes = formulation.value_and_grad(model, formulation.draw(jax.random.key(1), model))
    assert np.isfinite(loss) and all(np.isfinite(a).all() for a in jax.tree.leaves(slopes))
    x = np.asarray(family.everywhen(family.domain.sample(jax.random.key(2), 4)))
    assert np.ptp(formulation.predict(model, np.repeat(x[:1], 4, 0) + [[0, 0, d, 0] for d in (0, 0.1, 0.2, 0.3)]),
                  axis=0).max() > 0  # it sees them


def test_a_member_is_the_family_at_one_value(family, timed):
    for problem, x, t in ((family, [[0.7, 0.7], [-0.5, 0.5]], None), (timed, [[0.1], [0.9]], 0.3)):
        solution = untrained(problem)
        member = solution.at(h=1.2, k=2.5)
        for name, value in solution(x, t, h=1.2, k=2.5).items():
            assert np.array_equal(member(x, t)[name], value)
        assert not np.allclose(solution(x, t, h=1.3, k=2.5)["u"], member(x, t)["u"])
        each = solution(x, t, h=[1.2, 0.6], k=2.5)["u"]
        assert each[0] == member(x, t)["u"][0] and each[1] == solution(x, t, h=0.6, k=2.5)["u"][1]
        assert violation(certify(member.formulation, [member.training.model])) < 1e-12


def test_training_a_family_brings_all_members_closer(family):
    solution = hp.solve(family, options={**SMALL, "points": 256}, stages=[
        {"optimiser": "ssbroyden", "steps": 200, "redraw": 50}])
    rows = family_errors(solution, [{"h": 0.5, "k": 1.0}, {"h": 2.0, "k": 3.0}, {"h": 1.0, "k": 2.5}])
    before = family_errors(untrained(family), [row["at"] for row in rows])
    for after, start in zip(rows, before):
        assert after["errors"]["u"]["relative_l2"] < 0.3 < start["errors"]["u"]["relative_l2"]


def test_a_run_of_a_family_tells_of_its_members(family, tmp_path):
    solution = untrained(family)
    row = {"stage": "adam", "step": 1, "steps": 1, "loss": 1.0, "held_out": 1.0, "seconds": 0.1}
    solution = hp.Solution(family, solution.formulation, solution.settings,
                           Training(solution.training.model, [row], [{"stage": "adam", "steps": 1, "why": "done"}]))
    found = finish(solution, tmp_path, {})
    assert found["at"] == middle(family.parameters) and len(found["family"]) == 8
    assert found["errors"]["u"]["mae"] == family_errors(solution, [found["at"]])[0]["errors"]["u"]["mae"]
    loaded = hp.Solution.load(tmp_path / "model.eqx", family)
    assert loaded([[0.5, 0.5]], h=1, k=2)["u"] == solution([[0.5, 0.5]], h=1, k=2)["u"]
    with pytest.raises(ValueError, match="another problem"):
        hp.Solution.load(tmp_path / "model.eqx", make(parameters=hp.parameters(h=(0.5, 2.0), k=(1.0, 2.0))))


@pytest.mark.parametrize(("stated", "says"), [
    ({}, "give h=…, k=…"), ({"h": 1.0}, "give k=…"), ({"h": 1.0, "k": 2.0, "q": 1.0}, "no parameter 'q'"),
    ({"h": "high", "k": 2.0}, "h must be numbers"), ({"h": [1, 1, 1], "k": 2.0}, "h has the shape")])
def test_values_of_parameters_are_checked(family, stated, says):
    with pytest.raises(ValueError, match=says):
        untrained(family)([[0.5, 0.5], [0.6, 0.6]], **stated)


def test_nothing_is_said_outside_the_ranges_of_parameters_and_time(family, timed):
    solution = untrained(family)
    with pytest.raises(ValueError, match=r"h = 9 is outside its range, 0\.5 to 2"):
        solution.at(h=9.0, k=2.0)
    with pytest.warns(UserWarning, match="2 of 3 points lie outside the domain and the ranges of the parameters"):
        found = solution([[0.7, 0.7]] * 3, h=[9.0, 1.0, np.nan], k=2.0)
    assert np.isnan(found["u"]).tolist() == [True, False, True]
    with pytest.warns(UserWarning, match="1 of 2 points lie outside the domain and its"):
        assert np.isnan(untrained(timed)([[0.5], [0.5]], [timed.time[1], timed.time[1] + 0.1], h=1.0, k=2.0)["u"][1])


def test_points_and_times_are_checked(family, timed):
    for problem, points, t, says in [
            (family, "here", None, "x must be numbers"), (family, np.zeros((2, 2, 2)), None, "x has the shape"),
            (family, [[0.5, 0.5]], 0.3, "has no time"), (timed, [[0.5], [0.6]], [0.1, 0.2, 0.3], "the 2 points"),
            (timed, [[0.5]], "noon", "t must be numbers"), (timed, [[0.5, 0.1]], 0.3, "where t is given")]:
        with pytest.raises(ValueError, match=says):
            untrained(problem)(points, t, h=1.0, k=2.0)


def test_one_problem_of_a_family_has_one_number_for_each_parameter(family):
    for stated, says in [({"h": [1.0, 2.0], "k": 2.0}, "one number"), ({"h": "high", "k": 2.0}, "must be numbers")]:
        for whole in (family, untrained(family)):
            with pytest.raises(ValueError, match=says):
                whole.at(**stated)
    member = untrained(family).at(h=1.0, k=2.0)
    assert member.at() is member and member.problem.at() is member.problem
    with pytest.raises(ValueError, match="the problem has none"):
        member.problem.at(h=1.0)


def test_a_parameter_may_have_any_name():
    (own,) = hp.parameters(self=(1.0, 2.0))
    rod = hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u", gradients={"p": "u"},
                     parameters=(own,), residual=lambda x, q, dq: hp.div(dq.p) - own(x),
                     conditions=[hp.dirichlet("left", "u", own), hp.dirichlet("right", "u", 0)])
    solution = untrained(rod)
    for values in (solution([[0.0]], self=1.5), solution.at(self=1.5)([[0.0]])):
        assert np.allclose(values["u"], 1.5, atol=1e-12)
    assert not rod.at(self=1.5).parameters


def test_parameters_may_be_read_at_points_that_a_user_makes(family):
    """A problem of its own may use the functions of a family, with numbers in place of its parameters."""
    member = make(parameters=(), residual=lambda x, q, dq: hp.div(dq.p) - source(jnp.append(x, jnp.array([1.0, 2.0]))),
                  conditions=[hp.dirichlet(on, "u", lambda x: u(jnp.append(x, jnp.array([1.0, 2.0]))))
                              for on in ("wall", "hole")], exact=None)
    x, q, dq = jnp.array([0.7, 0.7]), jnp.ones(3), jnp.ones((2, 3))
    assert np.allclose(member.residuals(x, q, dq), family.residuals(jnp.array([0.7, 0.7, 1.0, 2.0]), q, dq))


@pytest.mark.parametrize(("ranges", "says"), [
    ({}, "no parameter is named"), ({"h": 1.0}, r"it is \(low, high\)"), ({"h": (2.0, 1.0)}, "low < high"),
    ({"h": (0.0, np.inf)}, "low < high"), ({"t": (0.0, 1.0)}, "cannot be named 't'")])
def test_ranges_are_checked(ranges, says):
    with pytest.raises(ValueError, match=says):
        hp.parameters(**ranges)


def test_a_family_is_checked_as_a_whole():
    with pytest.raises(ValueError, match="not in its place"):
        make(parameters=(K, H))
    with pytest.raises(ValueError, match="not a parameter"):
        make(parameters=("h",))
    with pytest.raises(ValueError, match="function of its parameters"):
        make(reference=hp.Reference(np.zeros((1, 2)), {"u": np.zeros(1)}))
    with pytest.raises(ValueError, match="disagree"):  # at a corner, for some values alone
        sides = ("left", "right", "bottom", "top")
        make(domain=hp.Box((-1, -1), (1, 1), sides=dict(zip(sides, sides))), residual=lambda x, q, dq: hp.div(dq.p),
             conditions=[hp.dirichlet(side, "u", H if side == "left" else 1.0) for side in sides])


# ---------------------------------------------------------------- shapes that depend on parameters


RADIUS, CENTRE = hp.parameters(radius=(0.2, 0.45), centre=(-0.2, 0.2))
BALL = hp.Ball((0.0, 0.0), 0.3, name="hole")


def v(x):
    return jnp.sin(x[0]) * jnp.cos(x[1]) + RADIUS(x) * x[0] * x[1]


def moved(**changes):
    def data(x):
        away = jnp.stack([CENTRE(x), 0.0 * CENTRE(x)]) - x[:2]
        return v(x) + jax.grad(v)(x)[:2] @ away / jnp.linalg.norm(away)

    stated = {
        "domain": hp.Box((-1, -1), (1, 1), name="wall") - BALL, "fields": "u", "gradients": {"p": "u"},
        "parameters": (RADIUS, CENTRE), "mapping": hp.moving(BALL, 0.95, by=(CENTRE, 0.0), radius=RADIUS),
        "residual": lambda x, q, dq: hp.div(dq.p) - jnp.trace(jax.hessian(v)(x)[:2, :2]),
        "conditions": [hp.dirichlet("wall", "u", v), hp.robin("hole", "u", 1, 1, data)],
        "exact": lambda x: {"u": v(x), "p": jax.grad(v)(x)[:2]}, "name": "moved"}
    return hp.Problem(**{**stated, **changes})


def test_a_mapping_takes_the_rim_of_a_ball_where_it_shall_be():
    problem = moved()
    x = np.asarray(append(problem.parameters, BALL.boundaries["hole"].sample(jax.random.key(0), 40), jax.random.key(1)))
    there = np.asarray(jax.vmap(problem.place)(x))
    centre = np.stack([there[:, 3], np.zeros(40)], axis=1)
    assert np.allclose(np.linalg.norm(there[:, :2] - centre, axis=1), there[:, 2], atol=1e-14)
    wall = np.asarray(append(problem.parameters, problem.domain.boundaries["wall"].sample(jax.random.key(0), 40)))
    assert np.array_equal(jax.vmap(problem.place)(wall), wall)
    assert np.allclose(problem.back(there), x, atol=1e-10)


def test_a_copy_of_a_moved_problem_has_its_conditions_where_they_were():
    problem = moved()
    copy = replace(problem, name="copy")
    x, n = jnp.array([0.5, 0.0, 0.4, 0.15]), jnp.array([-1.0, 0.0])
    for one, same in zip(problem.pointwise, copy.pointwise, strict=True):
        for a, b in zip(one.matrix(problem.schema, x, n), same.matrix(copy.schema, x, n)):
            assert np.array_equal(a, b)


def test_conditions_hold_on_the_moved_rim_with_its_own_normals():
    problem = moved()
    solution = untrained(problem)
    assert violation(certify(solution.formulation, [solution.training.model])) < 1e-12
    angle = np.linspace(0, 6, 30)
    n = -np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.array([0.15, 0.0]) - 0.4 * n  # the rim for centre 0.15 and radius 0.4, in the real plane
    q = solution(x, radius=0.4, centre=0.15)
    full = np.concatenate([x, np.full((30, 1), 0.4), np.full((30, 1), 0.15)], axis=1)
    wanted = np.asarray(jax.vmap(lambda x, n: v(x) + jax.grad(v)(x)[:2] @ n)(full, n))
    assert np.abs(q["u"] + (q["p"] * n).sum(1) - wanted).max() < 1e-10


def test_the_known_solution_has_no_residual_after_mapping():
    problem = moved()
    x = np.asarray(append(problem.parameters, problem.domain.sample(jax.random.key(0), 50), jax.random.key(1)))

    def state(y):
        there = problem.place(y)
        return jnp.concatenate([v(there)[None], jax.grad(v)(there)[:2]])

    residuals = jax.vmap(lambda y: problem.residuals(y, state(y), jax.jacfwd(state)(y)[:, :2].T))(x)
    assert np.abs(residuals).max() < 1e-11


def test_a_shape_that_depends_on_parameters_may_have_time():
    """Where things are does not depend on it; conditions hold on the rim, and at the start, of every member."""
    def heat(x):
        return jnp.exp(-x[2]) * jnp.sin(x[0]) + RADIUS(x) * x[1]

    problem = moved(residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p), time=(0.0, 1.0), exact=None, conditions=[
        hp.dirichlet("wall", "u", heat), hp.dirichlet("hole", "u", heat), hp.initial("u", heat)])
    solution = untrained(problem)
    assert violation(certify(solution.formulation, [solution.training.model])) < 1e-12
    angle = np.linspace(0, 6, 20)
    x = np.array([0.15, 0.0]) + 0.4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    t = np.linspace(0, 1, 20)
    wanted = np.exp(-t) * np.sin(x[:, 0]) + 0.4 * x[:, 1]
    assert np.abs(solution(x, t, radius=0.4, centre=0.15)["u"] - wanted).max() < 1e-10
    assert np.abs(solution.at(radius=0.4, centre=0.15)(x, t)["u"] - wanted).max() < 1e-10
    with pytest.raises(ValueError, match="depends on time"):
        moved(time=(0.0, 1.0), conditions=[*problem.conditions[:2], hp.initial("u")],
              mapping=hp.moving(BALL, 0.95, by=(lambda x: 0.1 * x[2], 0.0)))
    with pytest.raises(ValueError, match="--set gradients=fields"):
        methods.METHODS["pinn"](problem)
    with pytest.raises(ValueError, match="a mapping does not give"):
        methods.METHODS["pfnn"](problem)


def test_mappings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="squeezes the domain"):
        moved(mapping=hp.moving(BALL, 0.4, by=(CENTRE, 0.0)))
    with pytest.raises(ValueError, match="within must be larger"):
        hp.moving(BALL, 0.2)
    with pytest.raises(ValueError, match="components"):
        hp.moving(BALL, 0.9, by=(1.0,))
    with pytest.raises(ValueError, match="keeps its gradient fields"):
        methods.make(methods.exact, moved(), {**SMALL, "gradients": "derivatives"})
    with pytest.raises(ValueError, match="not where the mapping takes"):
        moved().back(np.array([[np.nan, 0.0, 0.3, 0.0]]))
    both = hp.moving_all(hp.moving(BALL, 0.9, by=(0.1, 0.0)), hp.moving(hp.Ball((5.0, 5.0), 0.1), 0.5, by=(0.3, 0.0)))
    assert np.allclose(both(jnp.array([0.3, 0.0])), [0.4, 0.0]) and np.allclose(both(jnp.array([5.1, 5.0])), [5.4, 5.0])


# ---------------------------------------------------------------- measurements


class Known:
    """A family that is solved exactly: what is measured of it is inverted without any error of a network."""

    def __init__(self, problem):
        self.problem = problem
        self.exact = jax.jit(jax.vmap(problem.exact))

    def __call__(self, x, t=None, **stated):
        x = np.concatenate([x, np.broadcast_to(list(stated.values()), (len(x), len(stated)))], axis=1)
        return {name: np.array(value) for name, value in self.exact(x).items()}

    anywhere = __call__


def test_parameters_are_found_from_noisy_measurements(family):
    """To a percent from one percent of noise; and the intervals hold the truth as often as they say."""
    known, x = Known(family), np.asarray(family.domain.sample(jax.random.key(0), 400))
    true = {"h": 1.3, "k": 2.2}
    clean = known(x, **true)["u"]
    size, rng, inside = 0.01 * np.abs(clean).max(), np.random.default_rng(0), 0
    for _ in range(40):
        found = hp.infer(known, "u", x, clean + size * rng.normal(size=400))
        assert abs(found.values["h"] / 1.3 - 1) < 0.01 and abs(found.values["k"] / 2.2 - 1) < 0.01
        assert found.noise == pytest.approx(size, rel=0.2) and not found.at_end
        inside += sum(low <= true[name] <= high for name, (low, high) in found.interval.items())
    assert 66 <= inside <= 80  # of 80, at 95 %


def test_measurements_at_the_end_of_a_range_and_with_gaps(family):
    x = np.asarray(family.domain.sample(jax.random.key(0), 50))
    clean = Known(family)(x, h=2.0, k=2.0)["u"]
    clean[::3] = np.nan
    with pytest.warns(UserWarning, match="the true value may lie beyond"):
        found = hp.infer(Known(family), "u", x, clean, noise=0.01)
    assert found.at_end == ("h",) and found.noise == 0.01 and "at the end" in str(found)
    assert found.values["k"] == pytest.approx(2.0, abs=1e-6)
    found = hp.infer(Known(family), "u", x, Known(family)(x, h=1.2, k=2.0)["u"], noise=0.01, fixed={"k": 2.0})
    assert set(found.values) == {"h"} and found.values["h"] == pytest.approx(1.2, abs=1e-6)


def test_measurements_beyond_what_the_family_can_be_are_told(family):
    x = np.asarray(family.domain.sample(jax.random.key(0), 50))
    with pytest.warns(UserWarning) as told:
        found = hp.infer(Known(family), "u", x, 1e3 + 0 * x[:, 0])
    assert found.at_end or found.undetermined
    assert str(told[0].message) == found.remarks[0] and found.remarks[0] in str(found)


def test_what_infer_is_given_is_checked(family):
    x, known = np.zeros((5, 2)), Known(family)
    for arguments, says in [(("w", x, np.zeros(5)), "no field 'w'"), (("u", x, np.zeros(4)), "shape"),
                            (("u", x, np.full(5, np.nan)), "do not determine"), (("u", "here", 1.0), "x must be"),
                            (("u", x, "warm"), "measured must be"), ((["u"], x, np.zeros(5)), "no field")]:
        with pytest.raises(ValueError, match=says):
            hp.infer(known, *arguments)
    for stated in ({"noise": "little"}, {"noise": -1.0}, {"confidence": "high"}, {"confidence": 95}):
        with pytest.raises(ValueError, match=f"the {next(iter(stated))} is"):
            hp.infer(known, "u", x, np.zeros(5), **stated)
    for fixed, says in [({"w": 1.0}, "no parameter 'w'"), ({"h": 1.0, "k": 2.0}, "leave one open"),
                        ({"h": 9.0}, "range"), ({"h": "one"}, "h must be numbers")]:
        with pytest.raises(ValueError, match=says):
            hp.infer(known, "u", x, np.zeros(5), fixed=fixed)
    with pytest.raises(ValueError, match="has no time"):
        hp.infer(untrained(family), "u", x + 0.7, np.zeros(5), 0.3)
    with pytest.raises(ValueError, match="no parameters to find"):
        hp.infer(Known(make(parameters=(), conditions=[hp.dirichlet("wall", "u"), hp.dirichlet("hole", "u")],
                            residual=lambda x, q, dq: hp.div(dq.p), exact=lambda x: {"u": 0.0})), "u", x, np.zeros(5))


def test_a_measurement_pulls_the_field_to_its_values_and_no_condition_gives_way():
    """A field without an equation is what was measured of it."""
    domain = hp.Box((0, 0), (1, 1), name="wall")
    x = np.asarray(domain.sample(jax.random.key(0), 37))
    problem = hp.Problem(
        domain, ("u", "a"), lambda x, q, dq: 1e-3 * hp.grad(dq.a), [hp.dirichlet("wall", "u", 2.0)], equations=2,
        measurements=[hp.Measurement("a", x, x[:, 0]), hp.Measurement("u", x, np.full(37, 2.0), weight=0.5)])
    solution = hp.solve(problem, options=SMALL, stages=[{"optimiser": "ssbroyden", "steps": 150, "redraw": 50}])
    assert np.abs(solution(x)["a"] - x[:, 0]).max() < 0.03 and np.abs(solution(x)["u"] - 2).max() < 0.1
    assert violation(certify(solution.formulation, [solution.training.model])) < 1e-12


@pytest.mark.parametrize(("measurement", "says"), [
    (("w", [[0.5, 0.5]], [1.0]), "no field"), (("u", [[0.5]], [1.0]), "points of shape"),
    (("u", [[0.5, 0.5]], [[1.0]]), "values of shape"), (("u", [[0.5, np.nan]], [1.0]), "not finite"),
    (("u", [[5.0, 0.5]], [1.0]), "outside the domain"), (("u", [[0.5, 0.5]], [1.0], 0.3), "the problem none"),
    (("u", [[0.5, 0.5]], [1.0], None, -1.0), "must be positive")])
def test_measurements_are_checked(measurement, says):
    with pytest.raises(ValueError, match=says):
        make(parameters=(), residual=lambda x, q, dq: hp.div(dq.p), conditions=[
            hp.dirichlet("wall", "u"), hp.dirichlet("hole", "u")], exact=None,
            measurements=[hp.Measurement(*measurement)])
