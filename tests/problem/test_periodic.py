"""Periodic conditions: built into the inputs, or penalised; and the problems that use them."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import (
    Ball,
    Box,
    Hints,
    Polygon,
    Problem,
    dirichlet,
    dt,
    initial,
    laplacian,
    neumann,
    periodic,
    solve,
)
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.formulation.batch import split_batch
from hardpde.formulation.engine import Engine
from hardpde.methods import exact, hc
from hardpde.problems.schroedinger import END, HALF, schroedinger, spectral
from helpers import poisson

SIDES = {"left": "left", "right": "right", "bottom": "bottom", "top": "top"}
SQUARE = Box((0, 0), (2, 1), sides=SIDES)


pytestmark = pytest.mark.usefixtures("quick_compilation")


def wave(x):
    return jnp.sin(jnp.pi * x[0])


def channel():
    """Two walls and a hole between the periodic sides."""
    domain = SQUARE - Ball((0.5, 0.5), 0.2, name="hole")
    return poisson(domain, [periodic("left", "right"), dirichlet("bottom", "u", wave), neumann("top", "u"),
                            dirichlet("hole", "u", lambda x: x[0])])


def torus():
    """Both axes, a Laplacian and time."""
    return Problem(domain=SQUARE, fields="u", time=(0.0, 1.0), residual=lambda x, q, dq: dt(dq.u) - laplacian(dq.u),
                   conditions=[periodic("left", "right"), periodic("bottom", "top"), initial("u", wave)])


@cache
def solved(make, method=exact, **options):
    options |= {"main": (8, 8), "sub": (6,)} if method is hc else {"width": 8, "depth": 2}
    return method(make(), engine=Engine(64, chunk=16), **options)


def printed():
    return schroedinger(extra=True)


def bare():
    return schroedinger(extra=False)


def soft():
    return schroedinger(extra=False, soft=3.0)


@pytest.mark.parametrize("make", [channel, torus, printed, bare], ids=lambda make: make.__name__)
def test_periodicity_holds_for_any_weights(make):
    formulation = solved(make)
    rows = certify(formulation, random_models(formulation, 2), points=300)
    assert len(rows) == len(formulation.problem.conditions)
    assert violation(rows) < 1e-12, rows


def test_every_derivative_is_periodic():
    """The Laplacian too, though nobody asked for more than the slope."""
    formulation = solved(torus)
    x = np.array([[0.0, 0.3, 0.5], [2.0, 0.3, 0.5], [1.1, 0.0, 0.9], [1.1, 1.0, 0.9]])
    jets = formulation.jet(random_models(formulation, 1)[0], x)
    assert np.abs(jets[0] - jets[1]).max() < 1e-12 and np.abs(jets[2] - jets[3]).max() < 1e-12


def test_collars_keep_away_from_periodic_sides():
    layout = solved(channel).problem.layout
    widths = {piece.name: width for piece, width in zip(layout.pieces, layout.collar)}
    assert set(widths) == {"bottom", "top", "hole"} and widths["hole"] <= 0.3 + 1e-12


def test_a_stated_collar_leaves_the_others_to_the_layout():
    """The automatic collar of the second hole would reach the side; nobody stated it, so it is cut."""
    problem = Problem(
        domain=Box((0, 0), (2, 1), name="box", sides={"left": "left", "right": "right"})
        - Ball((0.6, 0.5), 0.1, name="a") - Ball((1.8, 0.5), 0.1, name="b"),
        fields="u", hints=Hints(collar={"a": 0.05}), residual=lambda x, q, dq: laplacian(dq.u), free=["box"],
        conditions=[periodic("left", "right"), dirichlet("a", "u"), dirichlet("b", "u", 1)])
    widths = {piece.name: width for piece, width in zip(problem.layout.pieces, problem.layout.collar)}
    assert widths["a"] == 0.05 and widths["b"] <= 0.1 + 1e-12


@pytest.mark.parametrize("make, method", [(soft, exact), (bare, hc), (printed, hc)],
                         ids=["exact", "hc", "hc-extra"])
def test_soft_periodicity_is_in_the_loss(make, method):
    formulation = solved(make, method)
    model = random_models(formulation, 1)[0]
    batch = formulation.draw(jax.random.key(0), None)

    @jax.jit
    def everything(m, batch):
        rows = formulation.terms.penalty_rows(m, formulation.penalties[0], batch.penalised[0])
        plain = (formulation.residuals(m, batch) ** 2).sum(0).mean()
        return (rows, plain, formulation.loss(m, batch), formulation.value_and_grad(m, batch)[0],
                formulation.residual_vector(m, batch), formulation.state(m, batch.penalised[0]),
                formulation.jacobian(m, batch), jax.jacfwd(lambda m: formulation.residual_vector(m, batch))(m))

    rows, plain, loss, again, vector, jets, jacobian, expected = everything(model, batch)
    assert rows.shape[0] == 4  # u, v and their slopes, as gradient fields or not
    certificate = certify(formulation, [model], points=100)
    assert certificate[-1]["boundary"] == "left = right" and certificate[-1]["violation"] > 1e-3
    weight = 3.0 if make is soft else 1.0
    one, two = np.split(np.moveaxis(np.asarray(jets), -1, 0), 2)
    difference = one - two
    slopes = difference[:, :, 1] if make is not printed else np.zeros(1)
    asked = weight * ((difference[:, :, 0] ** 2).sum() + (slopes**2).sum()) / len(difference)
    assert float(loss - plain) == pytest.approx(asked, rel=1e-9)
    assert float((vector**2).sum()) == pytest.approx(float(loss), rel=1e-12)
    assert float(again) == pytest.approx(float(loss), rel=1e-12)
    assert split_batch(batch, 4).penalised[0].x.shape[:2] == (4, len(batch.penalised[0].x) // 4)
    for one, two in zip(jax.tree.leaves(jacobian), jax.tree.leaves(expected)):
        assert one.shape == two.shape and np.abs(one - two).max() < 1e-12 * max(1.0, np.abs(two).max())


def test_a_penalised_problem_trains():
    """In double precision by Levenberg–Marquardt, in single precision by Adam, in parts."""
    second = [{"optimiser": "levenberg_marquardt", "steps": 2}]
    solution = solve(soft(), options={"width": 6, "depth": 1, "points": 32}, stages=second)
    assert np.isfinite(solution.training.history[-1]["held_out"])
    options = {"main": [6], "sub": [6], "points": 32, "chunk": 16}
    solution = solve(bare(), "hc", options=options, stages=[{"optimiser": "adam", "steps": 4, "redraw": 2}])
    assert np.isfinite(solution.training.history[-1]["held_out"])


def state(conditions, domain=SQUARE, **more):
    return Problem(domain=domain, fields=["u", "v"], residual=lambda x, q, dq: (laplacian(dq.u), q.v),
                   conditions=conditions, **more)


REST = {"free": ["bottom", "top"]}
MISTAKES = {
    "unknown boundary": (lambda: state([periodic("left", "east")], **REST), "no boundary 'east'.*left, right"),
    "unknown field": (lambda: state([periodic("left", "right", "w")], **REST), "no field 'w'; the fields are u, v"),
    "one boundary": (lambda: periodic("left", "left"), "'left' twice"),
    "negative weight": (lambda: periodic("left", "right", soft=-1.0), "soft=-1.0; it must be positive"),
    "sides that meet": (lambda: state([periodic("left", "top")], free=["bottom", "right"]),
                        "'left' and 'top' are not opposite faces"),
    "both ends in one name": (lambda: state([periodic("left", "side")], Box((0, 0), (2, 1), "side", {"left": "left"})),
                              "two whole faces of a Box, and 'side' is not one"),
    "a polygon": (lambda: state([periodic("a", "c")], Polygon([(0, 0), (1, 0), (1, 1), (0, 1)], names=list("abcd")),
                                free=["b", "d"]), "two whole faces of a Box, and 'a' is not one"),
    "faces of two boxes": (
        lambda: state([periodic("left", "right")], free=["one", "two"],
                      domain=Box((0, 0), (2, 1), "one", {"left": "left"}) | Box((1, -1), (3, 1), "two",
                                                                               {"right": "right"})),
        "have different extents|two whole faces"),
    "another condition": (lambda: state([periodic("left", "right"), dirichlet("right", "u")], **REST),
                          "'right' is periodic and has another condition, 'dirichlet u'"),
    "twice periodic": (lambda: state([periodic("left", "right"), periodic("right", "left")], **REST),
                       "is periodic and has another condition, 'periodic'"),
    "initial data": (
        lambda: state([periodic("left", "right"), initial("u", lambda x: x[0])], time=(0.0, 1.0), **REST),
        "data of 'initial u' on 'initial' or their slopes differ by .*soft=WEIGHT"),
    "slope of initial data": (
        lambda: state([periodic("left", "right"), initial("u", lambda x: (x[0] - 1) ** 2)], time=(0.0, 1.0), **REST),
        "data of 'initial u' on 'initial' or their slopes differ by"),
    "data of a wall": (
        lambda: state([periodic("left", "right"), dirichlet("top", "u", lambda x: x[0])], free=["bottom"]),
        "data of 'dirichlet u' on 'top'"),
    "inputs": (lambda: state([periodic("left", "right")], hints=Hints(inputs=lambda x: x[:1]), **REST),
               "extra inputs or their slopes differ"),
    "decay": (lambda: state([periodic("left", "right")], hints=Hints(decay=True), **REST), "decay=True"),
    "harmonics": (lambda: Hints(harmonics=0), "harmonics is 0"),
    "a wide collar": (
        lambda: Problem(domain=SQUARE - Ball((0.5, 0.5), 0.2, name="hole"), fields="u", hints=Hints(collar=0.4),
                        residual=lambda x, q, dq: laplacian(dq.u), free=["bottom", "top"],
                        conditions=[periodic("left", "right"), dirichlet("hole", "u")]),
        "collar of 'hole' is 0.4 and reaches a periodic boundary; it must be at most 0.3"),
    "some of the fields": (lambda: exact(state([periodic("left", "right", "u")], **REST)),
                           "'periodic u' on 'left' into the inputs of all fields.*soft=WEIGHT"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(mistake):
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError) as caught:
        make()
    answer = str(caught.value)
    assert re.search(message, answer), answer
    assert "\n" not in answer and len(answer) < 300


# ---------------------------------------------------------------- Schrödinger's equation


def test_the_spectral_solution_solves_the_equation():
    """On fewer nodes and steps than the reference; the time derivative by differences of order 6."""
    x, h, slope = spectral(intervals=600, modes=256, steps=600)
    mass = (np.abs(h) ** 2).mean(axis=1) * 2 * HALF
    assert np.abs(mass - mass[0]).max() < 1e-8
    k = np.pi / HALF * np.fft.fftfreq(len(x), 1 / len(x))
    second = np.fft.ifft(-(k**2) * np.fft.fft(h, axis=1), axis=1)
    at, step = np.arange(3, 598, 45), END / 600
    rate = (45 * (h[at + 1] - h[at - 1]) - 9 * (h[at + 2] - h[at - 2]) + h[at + 3] - h[at - 3]) / (60 * step)
    problem = schroedinger(extra=False)

    def residual(x, t, h, rate, slope, second):
        parts = [jnp.array([part.real, part.imag]) for part in (h, slope, rate, second)]
        return problem.residuals(jnp.array([x, t]), parts[0], jnp.stack(parts[1:]))

    values = jax.vmap(jax.vmap(residual, (0, None, 0, 0, 0, 0)), (None, 0, 0, 0, 0, 0))(
        jnp.asarray(x), jnp.asarray(at * step), h[at], rate, slope[at], second[at])
    assert np.abs(values).max() < 2e-3
    assert np.abs(h[300]).max() > 3.5  # it focuses


def test_the_reference_is_periodic_and_fits_the_problem(monkeypatch):
    from hardpde.evaluation.errors import checked_reference

    monkeypatch.setattr(spectral, "__defaults__", (10, 512, 100))
    reference = checked_reference(schroedinger(extra=True))
    assert reference.values["u"].shape == (10, 257) and reference.values["grad_v"].shape == (10, 257, 1)
    assert reference.times[-1] == pytest.approx(END) and len(reference.times) == 10
    assert np.array_equal(reference.values["u"][:, 0], reference.values["u"][:, -1])
    assert set(schroedinger(extra=False).make_reference().values) == {"u", "v"}
