"""Lists: sub-networks at the points where they count give what all of them at all points do, up to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.ansatz.base import Term
from hardpde.formulation.batch import cast, split_batch, untiled
from hardpde.formulation.engine import Engine
from hardpde.methods import make
from hardpde.methods.hc import hc
from hardpde.networks.mlp import mlp
from hardpde.networks.tiles import TILE, Tiled, cut, glue, plan
from hardpde.problems.poisson import poisson
from helpers import built_in

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def pack():
    return built_in("battery-pack")


@pytest.fixture(scope="module")
def two_parts(pack):
    return hc(pack, main=(8,), sub=(6, 5), engine=Engine(1024, "float32", chunk=512))


def all_of(formulation, batch):
    """The same points with all sub-networks at all of them."""
    return cast(formulation.at(np.asarray(batch.x, float), 2), "float32")


def apart(one, two):
    """The largest difference of two trees, against the largest number of each array."""
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two)))


def test_what_is_left_out_is_below_rounding(two_parts):
    """Of the largest coefficient there is, for values and for each derivative; for points that were not sampled."""
    for seed in range(3):
        batch = two_parts.draw(jax.random.key(seed))
        tiled, true = batch.terms[1], all_of(two_parts, batch).terms[1].matrix
        kept = np.asarray(tiled.everywhere())
        assert isinstance(tiled, Tiled) and tiled.place.size < 0.75 * 18 * 1024
        largest = np.abs(true).max((0, 1, 2, 4))[:, None]
        missing = np.abs(np.where(kept == 0, true, 0)) / largest
        assert missing.max() < 2 * np.finfo("float32").eps
        assert (np.abs(np.where(kept == 0, 0, true - kept)) / largest).max() < 1e-5  # points are rounded


def test_loss_and_gradient_are_those_of_all_networks_at_all_points(two_parts):
    model, batch = two_parts.init(jax.random.key(0)), two_parts.draw(jax.random.key(7))
    tiled = jax.jit(two_parts.value_and_grad)(model, batch)
    assert apart(tiled, jax.jit(two_parts.value_and_grad)(model, all_of(two_parts, batch))) < 1e-5
    assert apart(tiled, jax.jit(two_parts.value_and_grad)(model, untiled(batch))) < 1e-5


def test_a_batch_is_the_same_whole_and_in_parts(two_parts):
    model, batch = two_parts.init(jax.random.key(0)), two_parts.draw(jax.random.key(7))
    whole = two_parts.residuals(model, batch)
    parts = jax.vmap(lambda part: two_parts.residuals(model, part))(split_batch(batch, 2))
    assert np.abs(glue(parts) - whole).max() < 1e-5 * np.abs(whole).max()


def test_rows_of_the_jacobian_add_up_to_the_gradient(two_parts):
    model, batch = two_parts.init(jax.random.key(0)), two_parts.draw(jax.random.key(7))
    rows, r = two_parts.jacobian(model, batch), two_parts.residual_vector(model, batch)
    _, gradient = two_parts.value_and_grad(model, batch)
    assert apart(jax.tree.map(lambda a: 2 * jnp.tensordot(r, a, 1), rows), gradient) < 1e-4


def test_parts_come_back_to_their_points():
    """A list by hand: what is added up, and its gradient, against a loop over the parts."""
    k, n = 3, 2 * TILE
    random = np.random.default_rng(0)
    reach = np.array([0.2, 0.9, 0.4])
    x = random.uniform(size=(4096, 1))

    def matrices(x):  # network i counts below reach[i]
        size = jnp.where(x[:, 0] < reach[:, None], 2.0 - x[:, 0], 1e-12)
        return jnp.broadcast_to(size[:, None, None, None], (k, 1, 1, 2, len(x)))

    lists = plan(matrices, jnp.asarray(x), jnp.asarray(x[:64]), n, "float32")
    assert lists.owners == (0, 1, 1, 2) and lists.most == 3
    points = random.uniform(size=(n, 1))
    points[:, 0] *= np.where(np.arange(n) % 8 == 0, 1.0, 0.5)  # more points near 0 than the sample has
    inputs = jnp.asarray(random.normal(size=(1, 2, n)))
    tiled = lists.tiled(inputs, matrices(jnp.asarray(points)))
    parts = random.normal(size=(4, 1, 2, TILE))
    expected = np.zeros((1, 2, n))
    for tile in range(4):
        for column in range(TILE):
            point = int(tiled.place[tile, column])
            if point < n:
                expected[..., point] += parts[tile, ..., column]
                assert (tiled.inputs[tile, ..., column] == inputs[..., point]).all()
    assert np.abs(tiled.collected(parts) - expected).max() < 1e-14
    probe = random.normal(size=expected.shape)
    gradient = jax.grad(lambda p: (probe * tiled.collected(p)).sum())(parts)
    direction = random.normal(size=parts.shape)
    assert abs((gradient * direction).sum() - (probe * tiled.collected(direction)).sum()) < 1e-10
    # A full list has the points where the network counts most, each once.
    own = np.asarray(tiled.place[3])
    counted = np.sort(points[own[own < n], 0])
    assert (counted == np.sort(points[:, 0])[: len(counted)]).all() and len(set(own[own < n])) == len(counted) > 100


def test_a_tile_has_the_network_of_its_owner():
    stack = mlp(jax.random.key(0), [2, 5, 1], stack=3)
    tiled = Tiled(*[jnp.zeros(())] * 4, owners=(0, 1, 1, 2))
    assert all((a[j] == b[i]).all() for a, b in zip(jax.tree.leaves(tiled.networks(stack)), jax.tree.leaves(stack))
               for j, i in enumerate(tiled.owners))


def test_parts_of_an_array_interleave_and_come_back():
    array = np.random.default_rng(0).normal(size=(2, 3, 12))
    parts = cut(array, 4)
    assert (parts[1] == array[..., 1::4]).all() and (glue(parts) == array).all()


def test_no_tiles_where_nothing_can_be_left_out(pack):
    """One boundary, twice the precision, or few points: all networks at all points."""
    for problem, options in ((poisson(), {"points": 512}), (pack, {"points": 512, "dtype": "float64"}),
                             (pack, {"points": 128})):
        formulation = make(hc, problem, {"main": (4,), "sub": (4,), **options})
        batch = formulation.draw(jax.random.key(0))
        assert all(isinstance(term, Term) for term in batch.terms)
