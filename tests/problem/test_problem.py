"""What a user states: every mistake is answered by one sentence that names it; a correct problem is accepted."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde import (
    Ball,
    Box,
    Condition,
    Hints,
    Interval,
    Polygon,
    Problem,
    curl,
    dirichlet,
    div,
    dt,
    grad,
    initial,
    neumann,
    robin,
    slip,
    traction,
)
from helpers import heat

ENDS = Interval(0, 1, left="l", right="r")
SIDES = {"left": "left", "right": "right", "bottom": "bottom", "top": "top"}
SQUARE = Box((0, 0), (1, 1), sides=SIDES)
DISC = Ball((0, 0), 1.0, name="rim")
GOOD = [dirichlet("l", "u"), robin("r", "u", a=1.0, b=1.0)]


pytestmark = pytest.mark.usefixtures("quick_compilation")


def laplace(x, q, dq):
    return div(dq.grad_u)


def state(domain=ENDS, conditions=GOOD, residual=laplace, fields="u", gradients=None, **more):
    gradients = {"grad_u": "u"} if gradients is None else gradients
    return Problem(domain=domain, fields=fields, residual=residual, conditions=conditions, gradients=gradients, **more)


def square(left, bottom, **more):
    """Conditions on two sides that meet; the others free."""
    return state(SQUARE, [left, bottom], free=["right", "top"], **more)


def bare(residual=laplace, **more):
    """No conditions: nothing else to evaluate."""
    return state(conditions=[], residual=residual, free=["l", "r"], **more)


def one(condition, **more):
    """One condition, at the left end."""
    return state(conditions=[condition], free=["r"], **more)


def own(lhs, rhs=0.0):
    """A user's own condition."""
    return one(Condition("l", lhs, rhs, "own"))


MISTAKES = {
    # names
    "unknown field in the residual":
        (lambda: bare(lambda x, q, dq: div(dq.grad_v)), "residual: there is no field 'grad_v'.*u, grad_u"),
    "unknown field in a condition":
        (lambda: one(dirichlet("l", "v")), "'dirichlet v' on 'l'.*no field 'v'.*u, grad_u"),
    "unknown boundary": (lambda: state(conditions=[dirichlet("left", "u"), *GOOD]), "no boundary 'left'.*l, r"),
    "unknown free boundary": (lambda: state(free=["top"]), "'top' is declared free.*no such boundary.*l, r"),
    "boundary without a condition": (lambda: state(conditions=GOOD[:1]), r"'r' has no condition.*free=\['r'\]"),
    "boundary named initial":
        (lambda: state(Interval(0, 1, "initial"), []), "named 'initial', the name of the start of time"),
    "not a condition": (lambda: state(conditions=["u = 0", *GOOD]), "'u = 0' is not a condition"),
    "gradient of no field": (lambda: state(gradients={"grad_v": "v"}), "gradient of 'v', which is not a field"),
    "gradient stated twice":
        (lambda: state(fields=["u", "grad_u"]), "'grad_u' is stated twice"),
    "two gradients of one field":
        (lambda: state(gradients={"a": "u", "b": "u"}), "gradient of the same field"),
    "field that is no name": (lambda: state(fields="2u", gradients={}), "'2u' cannot name a field"),
    "field of no shape": (lambda: state(fields={"u": 0}, gradients={}), "'u' has shape.*positive whole numbers"),
    "no field": (lambda: state(fields=[], gradients={}), "at least one field"),
    # conditions
    "affine condition":
        (lambda: own(lambda q, x, n: q.u + 1), "'own' on 'l' is not linear.*right side"),
    "quadratic condition": (lambda: own(lambda q, x, n: q.u**2), "'own' on 'l' is not linear"),
    "condition that fails":
        (lambda: own(lambda q, x, n: q.u @ n), "condition 'own' on 'l': matmul"),
    "a = b = 0, numbers": (lambda: robin("l", "u", a=0, b=0.0), "'l' for 'u' has a = b = 0"),
    "a = b = 0, functions":
        (lambda: one(robin("l", "u", a=lambda x: 0 * x[0], b=lambda x: 0.0)),
         r"on 'l' \(robin u\) has all coefficients zero \(a = b = 0\)"),
    "dependent rows on a boundary":
        (lambda: state(conditions=[*GOOD, Condition("r", lambda q, x, n: 2 * q.u + 2 * q.grad_u @ n, 3.0, "twice")]),
         r"on 'r' \(robin u, twice\) are linearly dependent"),
    "data of a wrong length":
        (lambda: own(lambda q, x, n: (q.u, q.grad_u @ n), (1.0, 2.0, 3.0)),
         "data of condition 'own' on 'l'.*2 rows"),
    "data that fail":
        (lambda: own(lambda q, x, n: q.u, lambda x: x[0] + "a"), "data of condition 'own' on 'l'"),
    "NaN in the data": (lambda: one(dirichlet("l", "u", float("nan"))), "'l'.*NaN.*check rhs"),
    "NaN in the data, a function":
        (lambda: one(dirichlet("l", "u", lambda x: jnp.sqrt(x[0] - 1))), "'l'.*NaN.*check rhs"),
    "NaN in a coefficient":
        (lambda: one(robin("l", "u", a=float("nan"), b=1.0)),
         "'l'.*not a finite number.*coefficients"),
    # corners
    "partly dependent rows with other data at a corner":
        (lambda: square(dirichlet("left", "u"), Condition("bottom", lambda q, x, n: (q.u, q.grad_u @ n), (2.0, 0.0))),
         r"'left' and 'bottom' disagree by 2.* at their corner \(0, 0\)"),
    "incompatible data at a corner":
        (lambda: square(dirichlet("left", "u", 0.0), dirichlet("bottom", "u", 1.0), time=(0, 1)),
         r"'left' and 'bottom' disagree by 1.* at their corner \(0, 0, 0\)"),
    "data at a corner that agree to some digits":
        (lambda: square(dirichlet("left", "u", 0.0), dirichlet("bottom", "u", 1e-6)),
         r"'left' and 'bottom' disagree by .* at their corner \(0, 0\)"),
    "a sharp corner that is none":
        (lambda: square(dirichlet("left", "u"), dirichlet("bottom", "u"), hints=Hints(sharp=[(0.5, 0.5)])),
         r"\(0.5, 0.5\) is stated as a sharp corner, and no two pieces"),
    "outputs of a wrong shape":
        (lambda: square(dirichlet("left", "u"), dirichlet("bottom", "u"),
                        hints=Hints(outputs=lambda x: jnp.ones((2, 3)))),
         r"outputs returns an array of shape \(2, 3\).*3 rows"),
    # time
    "time reversed": (lambda: state(time=(1.0, 0.0)), r"time is \(1.0, 0.0\).*start < end"),
    "time of one number": (lambda: state(time=(1.0,)), "time is .*start < end"),
    "time not finite": (lambda: state(time=(0.0, float("inf"))), "time is .*start < end"),
    "initial without time": (lambda: state(conditions=[*GOOD, initial("u")]), "initial condition needs time"),
    "dt without time": (lambda: bare(lambda x, q, dq: dt(dq.u)), "residual: dt needs a problem with time"),
    "incompatible with the initial condition":
        (lambda: heat(ENDS, [dirichlet("l", "u", 1.0), GOOD[1], initial("u", 0.0)]),
         r"data on 'l' and the initial condition disagree by 1 at \(0, 0\)"),
    "initial condition stated twice":
        (lambda: heat(ENDS, [*GOOD, initial("u"), initial("u")]), "at the start of time .*linearly dependent"),
    # residuals
    "too few residuals":
        (lambda: bare(fields=["u", "v"]), "residual returns 1 equations and 2 are expected.*equations=1"),
    "too many residuals":
        (lambda: bare(lambda x, q, dq: (q.u, q.u)), "residual returns 2 equations and 1 are expected"),
    "residual of a wrong shape":
        (lambda: bare(lambda x, q, dq: dq.grad_u.space @ jnp.ones(3)), "residual cannot be evaluated"),
    "divergence of a scalar":
        (lambda: bare(lambda x, q, dq: div(dq.u)), "residual: div needs a vector field"),
    "curl of a scalar": (lambda: bare(lambda x, q, dq: curl(dq.u)), "residual: curl needs a vector field"),
    "NaN in the residual":
        (lambda: bare(lambda x, q, dq: jnp.sqrt(x[0] - 2) * q.u), "residual is not a finite number.*NaN"),
    # hints
    "collar of zero": (lambda: one(GOOD[0], hints=Hints(collar=0.0)), "collar of 'l' is 0; it must be positive"),
    "collar too wide": (lambda: state(hints=Hints(collar={"r": 2.0})), "collar of 'r' is 2.*at most 1,"),
    "collar past the centre": (lambda: state(DISC, [neumann("rim", "u")], hints=Hints(collar=1.5)), "at most 1,"),
    "collar of no boundary": (lambda: state(hints=Hints(collar={"top": 0.1})), "collar is stated for 'top'.*l, r"),
    "ramp": (lambda: Hints(ramp="cubic"), "ramp is 'cubic'.*'linear' or 'root'"),
    "near": (lambda: Hints(near=1.2), "hint near is 1.2.*between 0 and 1"),
    "early": (lambda: Hints(early=-0.1), "hint early is -0.1.*between 0 and 1"),
    "inputs not finite":
        (lambda: bare(hints=Hints(inputs=lambda x: jnp.log(-x))), "inputs or outputs are not finite"),
    # geometry
    "holes that overlap":
        (lambda: state(SQUARE - Ball((0.3, 0.5), 0.15, "a") - Ball((0.5, 0.5), 0.15, "b"), [], free=[*SIDES, "a", "b"]),
         "ball 'a' .*and ball 'b' .*overlap or touch"),
    "holes that touch":
        (lambda: state(SQUARE - Ball((0.3, 0.5), 0.1, "a") - Ball((0.5, 0.5), 0.1, "b"), [], free=[*SIDES, "a", "b"]),
         "overlap or touch"),
    "hole that leaves the box":
        (lambda: state(SQUARE - Ball((0.9, 0.5), 0.2, "a"), [], free=[*SIDES, "a"]),
         "ball 'a' .*touches or leaves box"),
    "hole that touches the box":
        (lambda: state(SQUARE - Ball((0.8, 0.5), 0.2, "a"), [], free=[*SIDES, "a"]),
         "ball 'a' .*touches or leaves box"),
    "polygon that crosses itself":
        (lambda: Polygon([(0, 0), (1, 1), (1, 0), (0, 1)], name="bow"), "Polygon 'bow' cross or touch"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError) as caught:
        make()
    answer = str(caught.value)
    assert re.search(message, answer), answer
    assert "\n" not in answer and len(answer) < 300


def test_a_free_boundary_is_accepted():
    problem = state(conditions=GOOD[:1], free=["r"])
    assert [piece.name for piece in problem.layout.pieces] == ["l"]


def test_another_number_of_equations_is_accepted_where_stated():
    problem = bare(lambda x, q, dq: (q.u, q.u, q.u), equations=3)
    assert problem.residuals(jnp.zeros(1), jnp.zeros(2), jnp.zeros((1, 2))).shape == (4,)


def test_compatible_data_are_accepted():
    heat(ENDS, [dirichlet("l", "u", lambda x: 2.0 + x[1]), GOOD[1], initial("u", lambda x: 2.0 + x[0])])


def jet(problem, solution, x):
    """The state and its derivatives at one point, of a solution given as {field: value}."""
    def vector(x):
        values = solution(x)
        return jnp.concatenate([jnp.ravel(jnp.asarray(values[name], float)) for name in problem.schema.names])

    return vector(x), jax.jacfwd(vector)(x).T


def check_solution(problem, solution):
    """Equations inside and conditions on the boundary hold for a known solution."""
    key = jax.random.key(0)
    x = problem.sample(key, 64)
    residuals = jax.jit(jax.vmap(lambda x: problem.residuals(x, *jet(problem, solution, x))))(x)
    assert np.abs(residuals).max() < 1e-12
    assert residuals.shape[1] == problem.residuals(x[0], *jet(problem, solution, x[0])).size
    for condition in problem.conditions:
        boundary = problem.boundaries[condition.on]
        at = boundary.sample(key, 16)
        n = jax.vmap(boundary.normal)(at)[:, : problem.schema.dim]
        if problem.time is not None and condition.on != "initial":
            at = jnp.concatenate([at, jnp.linspace(*problem.time, 16)[:, None]], axis=1)
        a, g = jax.vmap(lambda x, n, c=condition: c.matrix(problem.schema, x, n))(at, n)
        q = jax.vmap(lambda x: jet(problem, solution, x)[0])(at)
        assert np.abs(np.einsum("krm,km->kr", a, q) - g).max() < 1e-12, condition.name


def test_a_known_solution_of_the_heat_equation_has_no_residual():
    def solution(x):
        decay = jnp.exp(-2 * x[2])
        sine, cosine = jnp.sin(x[:2]), jnp.cos(x[:2])
        return {"u": decay * sine[0] * sine[1], "grad_u": decay * jnp.array([cosine[0] * sine[1], sine[0] * cosine[1]])}

    problem = heat(DISC, [robin("rim", "u", a=2.0, b=3.0,
                                g=lambda x: 2 * solution(x)["u"] + 3 * x[:2] @ solution(x)["grad_u"]),
                          initial("u", lambda x: solution(x)["u"])], exact=solution)
    check_solution(problem, solution)
    reference = problem.make_reference()
    assert np.abs(reference.values["u"][3] - np.exp(-2 * reference.times[3]) * np.sin(
        reference.x).prod(1)).max() < 1e-14


def test_a_known_flow_has_no_residual():
    """Rigid rotation with its pressure: slip on the rim, and a traction that is −p n."""
    def solution(x):
        return {"u": jnp.array([-x[1], x[0]]), "p": x @ x / 2, "grad_u": jnp.array([[0.0, -1.0], [1.0, 0.0]])}

    def residual(x, q, dq):
        convection = q.grad_u @ q.u
        return convection - div(dq.grad_u) + grad(dq.p), div(dq.u)

    def make(condition):
        return Problem(domain=DISC, fields={"u": 2, "p": 1}, gradients={"grad_u": "u"}, residual=residual,
                       conditions=[condition])

    check_solution(make(slip("rim", "u")), solution)
    check_solution(make(traction("rim", "u", lambda x: -(x @ x) / 2 * x, pressure="p", viscosity=0.1)), solution)


def test_a_problem_is_renamed_without_being_checked_again(monkeypatch):
    problem = state(exact=lambda x: {"u": x[0], "grad_u": jnp.ones(1)})
    monkeypatch.setattr("hardpde.problem.problem.check_statement", None)
    other = problem.renamed("other")
    assert (other.name, problem.name) == ("other", "problem") and other.layout is problem.layout
    reference = problem.make_reference()
    assert problem.with_reference(reference).make_reference() is reference and problem.reference is None


def test_a_copy_with_changes_is_checked():
    with pytest.raises(ValueError, match="no boundary 'q'"):
        replace(state(), conditions=[dirichlet("q", "u")])


@pytest.mark.parametrize("dim", [1, 2])
def test_times_and_parameters_of_points_do_not_follow_their_places(dim):
    box = hp.Box((0,) * dim, (1,) * dim, name="rim")
    problem = hp.Problem(domain=box, fields="u", gradients={"p": "u"}, time=(0, 2), parameters=hp.parameters(k=(1, 2)),
                         residual=lambda x, q, dq: hp.dt(dq.u) - hp.div(dq.p),
                         conditions=[hp.dirichlet("rim", "u"), hp.initial("u")])
    x = np.asarray(problem.sample(jax.random.key(3), 1000))
    related = np.corrcoef(x.T) - np.eye(x.shape[1])
    assert x.shape[1] == dim + 2 and np.abs(related).max() < 0.15
