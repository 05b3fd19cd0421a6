"""The exact ansatz on any network: which points are chosen, in which order, and how they are prepared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hardpde as hp
from hardpde.ansatz.exact import Exact
from hardpde.ansatz.inputs import standard_inputs
from hardpde.formulation import built_in
from hardpde.formulation.batch import Shard
from hardpde.formulation.engine import Engine
from hardpde.formulation.points import uniform
from hardpde.methods import exact

pytestmark = pytest.mark.usefixtures("quick_compilation")


def rod():
    return hp.Problem(domain=hp.Interval(0, 1, left="left", right="right"), fields="u",
                      residual=lambda x, q, dq: hp.laplacian(dq.u) + 1, hints=hp.Hints(collar=0.2),
                      conditions=[hp.dirichlet("left", "u", 0), hp.robin("right", "u", a=1, b=1, g=1)])


@pytest.mark.parametrize("chunks", [1, 4, 8])
def test_chunks_keep_the_proportions_of_the_classes(chunks):
    counts = np.repeat([0, 1, 2], [500, 400, 100])
    classes = built_in.class_sizes(counts, 1600, chunks)
    assert all(size % chunks == 0 for size in classes) and abs(sum(classes) - 1600) <= chunks
    np.testing.assert_allclose(np.array(classes) / 1600, [0.5, 0.4, 0.1], atol=chunks / 1600)


def test_classes_too_rare_to_be_found_are_left_to_the_next():
    assert built_in.class_sizes(np.repeat([0, 1, 2], [20, 880, 100]), 100, 1) == (0, 90, 10)
    assert built_in.class_sizes(np.repeat([0, 1, 2], [900, 99, 1]), 100, 4) == (88, 8, 4)  # in each chunk


def test_a_point_in_too_many_collars_is_refused():
    with pytest.raises(ValueError, match="collars of 17 pieces and 16 is the most"):
        built_in.class_sizes(np.array([0, 17]), 100, 1)


def test_points_with_most_corrections_are_picked_first():
    counts = jnp.array([0, 2, 1, 0, 1, 2, 0])
    x, ids = jnp.arange(7.0)[:, None], jnp.arange(21).reshape(7, 3)
    chosen, pieces = built_in.pick(x, ids, counts, (2, 2, 1))
    assert chosen[:, 0].tolist() == [1, 2, 4, 0, 3]
    assert pieces.tolist() == ids[np.array([1, 2, 4, 0, 3]), :2].tolist()


def test_a_class_with_too_few_points_takes_from_below():
    chosen, _ = built_in.pick(jnp.arange(4.0)[:, None], jnp.zeros((4, 2), int), jnp.array([0, 1, 0, 2]), (1, 1, 2))
    assert chosen[:2, 0].tolist() == [3, 0]


def test_a_batch_has_the_corrections_of_its_first_points_only():
    formulation = exact(rod(), width=4, depth=1, engine=Engine(64, chunk=16))
    batch = formulation.draw(jax.random.key(0))
    corrected = {term.inputs.shape[-1] for term in batch.terms[1:]}
    assert len(batch.x) == formulation.points and max(corrected) < formulation.points
    parts = [formulation.draw(jax.random.key(0), None, Shard(number, 2)) for number in range(2)]
    for number, part in enumerate(parts):
        np.testing.assert_allclose(part.x, batch.x[number::2])
        assert {2 * term.inputs.shape[-1] for term in part.terms[1:]} == corrected


def test_slots_are_the_most_collars_that_hold_a_point():
    problem = rod()
    collars = built_in.Collars(Exact(problem, standard_inputs(problem)), problem, uniform, 100)
    assert collars.slots(jnp.array([[0.5]])) == 1  # no fewer, where there are conditions
    assert collars.slots(jnp.array([[0.001], [0.5]])) == 1
    counts = collars.counts()
    assert len(counts) >= built_in.ENOUGH and set(counts) <= {0, 1, 2}


@pytest.mark.parametrize("n", [7, 8, 9, 30])
def test_many_points_are_done_in_blocks(n, monkeypatch):
    monkeypatch.setattr(built_in, "BLOCK", 8)
    x, ids = jnp.arange(3.0 * n).reshape(n, 3), jnp.arange(n)

    def one(x, i):
        return x[:2, None] * jnp.ones(4), {"number": i, "none": None}

    found, expected = built_in.over_points(one, x, ids), jax.vmap(one, out_axes=-1)(x, ids)
    assert found[0].shape == (2, 4, n)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
