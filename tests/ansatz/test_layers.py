"""Layers along boundaries: widths are those of the equation's own exponentials, and inputs resolve them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.ansatz.layers import layers_of, with_points_in
from hardpde.evaluation.errors import checked_reference, measure_errors
from hardpde.formulation.points import graded

pytestmark = pytest.mark.usefixtures("quick_compilation")

LINE = hp.Interval(0, 1, left="a", right="b")
SQUARE = hp.Box((0, 0), (1, 1), sides={side: side for side in ("left", "right", "bottom", "top")})


def stated(residual, domain=LINE, gradients=True, **more):
    conditions = [hp.dirichlet(name, "u") for name in domain.boundaries]
    return hp.Problem(domain=domain, fields="u", gradients={"p": "u"} if gradients else {}, residual=residual,
                      **{"conditions": conditions, **more})


def widths(problem):
    return {layer.piece.name: layer.width for layer in layers_of(problem)}


def test_widths_are_those_of_the_equations_exponentials():
    e = 1e-3
    out = stated(lambda x, q, dq: q.p[0] - e * hp.div(dq.p) - 1)
    assert widths(out) == pytest.approx({"b": e})
    scaled = stated(lambda x, q, dq: 1e6 * (-2 * dq.u.space[0] - e * hp.laplacian(dq.u) - 1), gradients=False)
    assert widths(scaled) == pytest.approx({"a": e / 2})
    reaction = stated(lambda x, q, dq: e**2 * hp.div(dq.p) - 4 * q.u + 1)
    assert widths(reaction) == pytest.approx({"a": e / 2, "b": e / 2})
    both = widths(stated(lambda x, q, dq: q.p[0] + 0.5 * q.p[1] - e * hp.div(dq.p), SQUARE))
    assert both == pytest.approx({"right": e, "top": 2 * e})
    along = widths(stated(lambda x, q, dq: q.p[0] - e * hp.div(dq.p), SQUARE))
    assert set(along) == {"right", "bottom", "top"} and along["top"] == pytest.approx(np.sqrt(e * SQUARE.size))
    holed = widths(stated(lambda x, q, dq: q.u - e**2 * hp.div(dq.p), SQUARE - hp.Ball((0.5, 0.5), 0.2, name="hole")))
    assert set(holed) == {"left", "right", "bottom", "top", "hole"} and holed["hole"] == pytest.approx(e)


def test_what_is_not_linear_is_looked_at_in_the_state_that_is_stated_at_the_wall():
    e = 1e-2
    charged = stated(lambda x, q, dq: e**2 * hp.laplacian(dq.u) - jnp.sinh(q.u), gradients=False,
                     conditions=[hp.dirichlet("a", "u", 2), hp.robin("b", "u", 1, 0, lambda x: 3 * x[0])])
    assert widths(charged) == pytest.approx({"a": e / np.cosh(2) ** 0.5, "b": e / np.cosh(3) ** 0.5})
    carried = stated(lambda x, q, dq: q.u * q.p[0] - e * hp.div(dq.p), conditions=[
        hp.dirichlet("a", "u", 1), hp.dirichlet("b", "u", 0.5)])
    assert widths(carried) == pytest.approx({"b": 2 * e})


@pytest.mark.parametrize("residual", [lambda x, q, dq: hp.div(dq.p) + 1, lambda x, q, dq: hp.div(dq.p) + 1e4 * q.u,
                                      lambda x, q, dq: q.u * q.p[0] - 1e-3 * hp.div(dq.p),
                                      lambda x, q, dq: q.p[0] - 0.5 * hp.div(dq.p)])
def test_no_layers_where_nothing_decays_fast(residual):
    assert layers_of(stated(residual)) == []


def test_points_reach_into_the_thinnest_layer():
    thin = stated(lambda x, q, dq: q.p[0] - 1e-5 * hp.div(dq.p) - 1)
    with_layers = with_points_in(thin, layers_of(thin))
    x = np.asarray(graded(with_layers, jax.random.key(0), 2000))[:, 0]
    assert ((x > 1 - 1e-5) & (x < 1)).sum() > 20 and (x < 1).all()
    stays = replace(thin, hints=hp.Hints(thin=0.1))
    assert with_points_in(stays, layers_of(stays)) is stays


@pytest.mark.parametrize("e", [2e-3, 1e-5])
def test_a_thin_layer_is_solved_to_rounding(e):
    def known(x):
        return {"u": x[0] - (jnp.exp((x[0] - 1) / e) - np.exp(-1 / e)) / (1 - np.exp(-1 / e))}

    thin = stated(lambda x, q, dq: q.p[0] - e * hp.div(dq.p) - 1, exact=known)
    solution = hp.solve(thin, solver="direct")
    assert measure_errors(solution, checked_reference(thin))["u"]["relative_l2"] < 1e-9


def test_a_solution_with_layers_is_loaded_as_it_was(tmp_path):
    thin = stated(lambda x, q, dq: q.p[0] - 1e-3 * hp.div(dq.p) - 1)
    solution = hp.solve(thin, solver="direct", tolerance=1e-2)
    solution.save(tmp_path / "layer.eqx")
    x = np.linspace(0.9, 1, 7)[:, None]
    assert np.array_equal(hp.Solution.load(tmp_path / "layer.eqx", thin)(x)["u"], solution(x)["u"])
