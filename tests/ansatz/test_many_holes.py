"""Many boundaries: only those near a point cost anything, and conditions hold on all of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.ansatz.inputs import TAIL, hole_decays
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.geometry import Difference, Nearby, distances
from hardpde.geometry.algorithms.nearby import FEW
from hardpde.solving.settings import make_formulation, make_settings
from hardpde.studies.bench import compile_steps, evaluations, xla_counts
from helpers import load

pytestmark = pytest.mark.usefixtures("quick_compilation")

make = load("thousand_holes").problem


def cube(n):
    """A cube with n³ balls."""
    centres = np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * 3), -1).reshape(-1, 3)
    return Difference(hp.Box((0, 0, 0), (1, 1, 1)), *[hp.Ball(tuple(c), 0.3 / n, name="balls") for c in centres])


@pytest.mark.parametrize("domain, cells", [(lambda: make(60).domain, True), (lambda: make(9).domain, False),
                                           (lambda: cube(4), True)])
def test_nearby_finds_every_piece_within_its_range(domain, cells):
    shape = domain()
    pieces = shape.pieces
    assert (len(pieces) > FEW) == cells
    ranges = np.random.default_rng(1).uniform(0.02, 0.1, len(pieces))
    nearby = Nearby(pieces, ranges, shape.bounds)
    lo, hi = map(np.array, shape.bounds)
    x = lo + (hi - lo) * np.random.default_rng(2).uniform(size=(500, shape.dim))
    numbers, feet = map(np.asarray, jax.jit(jax.vmap(nearby.feet))(x))
    away = np.asarray(jax.jit(jax.vmap(lambda y: distances(pieces, y)))(x))
    for point, found, foot, far in zip(x, numbers, feet, away):
        chosen = found[found >= 0]
        assert len(set(chosen)) == len(chosen)
        assert set(np.flatnonzero(far <= ranges)) <= set(chosen)
        np.testing.assert_allclose(np.linalg.norm(foot - point, axis=1)[found >= 0], far[chosen], atol=1e-14)
    assert not cells or numbers.shape[1] < 0.6 * len(pieces)


def test_the_shared_decay_of_many_holes_is_the_sum_over_all():
    problem = make(60)
    layout = problem.layout
    holes = [k for k, piece in enumerate(layout.pieces) if piece.flip]
    pieces, width = tuple(layout.pieces[k] for k in holes), layout.collar[holes]
    x = np.asarray(problem.domain.sample(jax.random.key(0), 300))

    def everywhere(x):
        return (2 * jnp.maximum(1 - distances(pieces, x) / width / TAIL, 0.0) ** TAIL).sum()[None]

    for take in (lambda f: f, jax.jacfwd):
        found, expected = (np.asarray(jax.jit(jax.vmap(take(f)))(x)) for f in (hole_decays(problem), everywhere))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_conditions_hold_on_two_hundred_holes():
    problem = make(200)
    formulation = make_formulation(problem, make_settings(problem, "exact", "quick", 0, {"points": 512}))
    rows = certify(formulation, random_models(formulation, count=1))
    assert {row["boundary"] for row in rows} == {"sides", "holes"}
    assert violation(rows) <= 1e-12


def test_a_step_costs_the_same_with_ten_and_with_a_thousand_holes():
    shares = []
    for holes in (10, 1000):
        problem = make(holes)
        formulation = make_formulation(problem, make_settings(problem, "exact", "quick", 0, {"points": 512}))
        model = jax.eval_shape(formulation.init, jax.random.key(0))
        batch = jax.eval_shape(lambda key, f=formulation: f.draw(key, None), jax.random.key(1))
        found = list(evaluations(model, batch))
        # A network at a point, and at one foot where a collar holds it, whatever the number of holes.
        assert sum(evaluation.rows for evaluation in found) < 2.1 * 3 * formulation.points
        counted = xla_counts(compile_steps(formulation, model, batch), formulation.chunks)["flops"]
        shares.append(counted / sum(evaluation.flops for evaluation in found))
    assert shares[1] == pytest.approx(shares[0], rel=0.1)  # and nothing beside the networks grows
