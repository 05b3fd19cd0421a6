"""Grids of blocks, their faces, and points sorted by block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde import Ball, Box
from hardpde.networks.grid import Grid, default_counts, face_points, group, live_faces
from hardpde.networks.windowed import windowed

pytestmark = pytest.mark.usefixtures("quick_compilation")

GRIDS = [Grid((-1.0,), (2.0,), (5,)), Grid((-8.0, -12.0), (8.0, 12.0), (4, 6)),
         Grid((0.0, -1.0, 0.1), (1.0, 1.0, 0.4), (2, 3, 2))]
each_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.dim}-D")


def inside(grid, x, edge=0.0):
    """(n, number): whether points (n, d) lie in the closed boxes of the blocks."""
    lo, hi = grid.corners
    return ((x[:, None] >= lo - edge) & (x[:, None] <= hi + edge)).all(-1)


@each_grid
def test_every_point_is_in_one_block(grid):
    span = np.subtract(grid.upper, grid.lower)
    u = jax.random.uniform(jax.random.key(0), (500, grid.dim + 1))
    x = np.asarray(u).copy()
    x[:, :-1] = grid.lower + x[:, :-1] * span  # time comes last and is not looked at
    ids = np.asarray(jax.jit(jax.vmap(grid.block))(x))
    assert set(ids) == set(range(grid.number))
    holds = inside(grid, x[:, :-1])
    assert (holds.sum(1) == 1).all() and holds[np.arange(500), ids].all()
    assert np.abs(np.array(grid.corners).mean(0) - grid.centres).max() == 0
    assert np.abs(grid.corners[1] - grid.corners[0] - grid.widths).max() < 1e-14
    assert (jax.vmap(grid.block)(grid.centres) == np.arange(grid.number)).all()


@each_grid
def test_points_on_lines_and_beyond_belong_to_a_block_that_holds_them(grid):
    lo, hi = grid.corners
    for x in (lo, hi):
        ids = np.asarray(jax.vmap(grid.block)(x))
        assert inside(grid, x)[np.arange(grid.number), ids].all()
    assert grid.block(np.array(grid.lower) - 5) == grid.block(np.array(grid.lower)) == 0
    assert grid.block(np.array(grid.upper) + 5) == grid.block(np.array(grid.upper)) == grid.number - 1


def test_blocks_are_numbered_as_windows_are():
    grid = GRIDS[1]
    model = windowed(jax.random.key(0), [2, 3, 1], grid, 0.2)
    windows = jax.jit(lambda x: model.windows(x))(jnp.asarray(grid.centres.T)[:, None])
    assert (windows[:, 0].argmax(0) == np.arange(grid.number)).all()


def grouped(ids, number, capacity):
    order, mask = jax.jit(group, static_argnums=(1, 2))(jnp.asarray(ids), number, capacity)
    assert order.shape == mask.shape == (number, capacity) and mask.dtype == bool
    assert ((order >= 0) & (order < len(ids))).all()
    return np.asarray(order), np.asarray(mask)


def test_points_are_grouped_by_block():
    ids = np.random.default_rng(0).integers(0, 7, 200)
    ids[ids == 3] = 4  # an empty block
    capacity = np.bincount(ids).max()
    for room in (capacity, 300):
        order, mask = grouped(ids, 7, room)
        for k in range(7):
            assert (order[k, mask[k]] == np.nonzero(ids == k)[0]).all()
            assert mask[k].sum() == (ids == k).sum()


def test_a_full_block_keeps_its_first_points():
    ids = np.array([1, 0, 1, 1, 2, 1, -1, 3])  # −1 and 3 are of no block
    order, mask = grouped(ids, 3, 2)
    assert mask.tolist() == [[True, False], [True, True], [True, False]]
    assert order[1].tolist() == [0, 2] and order[0, 0] == 1 and order[2, 0] == 4


def test_batches_are_grouped_each_as_if_alone():
    ids = np.random.default_rng(1).integers(0, 4, (3, 30))
    order, mask = jax.jit(jax.vmap(partial(group, number=4, capacity=20)))(ids)
    for k in range(3):
        alone = grouped(ids[k], 4, 20)
        assert (order[k] == alone[0]).all() and (mask[k] == alone[1]).all()


@each_grid
def test_faces_join_neighbours(grid):
    faces = grid.faces
    index = np.array(np.unravel_index(np.arange(grid.number), grid.counts)).T
    step = index[faces.b] - index[faces.a]
    assert (step.sum(1) == 1).all() and (np.abs(step).sum(1) == 1).all()
    pairs = list(zip(faces.a.tolist(), faces.b.tolist()))
    number = sum((m - 1) * grid.number // m for m in grid.counts)
    assert len(set(pairs)) == len(pairs) == number
    assert ((faces.lo == faces.hi) == (step == 1)).all()


def test_how_many_faces():
    assert len(Grid((-8.0, -12.0), (8.0, 12.0), (4, 6)).faces.a) == 38
    single = Grid((0.0, 0.0), (1.0, 1.0), (1, 1))
    assert len(single.faces.a) == 0
    assert live_faces(single, Box((0, 0), (1, 1), name="box")).shape == (0,)


@each_grid
def test_points_of_a_face_are_in_both_its_blocks(grid):
    points = np.asarray(face_points(grid, jax.random.key(0), 10))
    assert points.shape == (len(grid.faces.a), 10, grid.dim)
    for block in (grid.faces.a, grid.faces.b):
        for k, x in zip(block, points):
            assert inside(grid, x, 1e-14)[:, k].all()
    spread = np.ptp(points, axis=1) > 0
    assert (spread == (grid.faces.lo < grid.faces.hi)).all()


def test_faces_in_holes_are_not_live():
    grid = Grid((0.0, 0.0), (4.0, 4.0), (4, 4))
    whole = Box((0, 0), (4, 4), name="box")
    assert live_faces(grid, whole).all()
    # The hole swallows blocks (1, 1) and (1, 2) and reaches into others; the ball stays within block (3, 0).
    holed = whole - Box((0.9, 0.9), (2.1, 3.1), name="hole") - Ball((3.5, 0.5), 0.3, name="ball")
    faces = live_faces(grid, holed)
    dead = {(int(a), int(b)) for a, b in zip(grid.faces.a[~faces], grid.faces.b[~faces])}
    assert dead == {(1, 5), (2, 6), (4, 5), (5, 6), (6, 7), (5, 9), (6, 10)}


@pytest.mark.parametrize("lower, upper, most, expected", [
    ((-8, -12), (8, 12), 24, (4, 6)), ((-2, -2), (6, 2), 24, (6, 3)), ((0, 0), (1, 1), 24, (4, 4)),
    ((0, 0), (30, 1), 24, (24, 1)), ((0, 0, 0), (1, 1, 1), 24, (2, 2, 2)), ((0, 0, 0), (2, 1, 1), 24, (4, 2, 2)),
    ((-1,), (3,), 24, (8,)), ((-1,), (3,), 5, (5,)), ((0, 0), (1, 1), 1, (1, 1))])
def test_blocks_are_as_near_to_squares_as_their_number_allows(lower, upper, most, expected):
    assert default_counts(lower, upper, most) == expected


def test_faults_are_sentences():
    with pytest.raises(ValueError, match="does not suit many dimensions, and the domain has 4"):
        default_counts((0,) * 4, (1,) * 4)
    with pytest.raises(ValueError, match="must be at least 1"):
        default_counts((0,), (1,), 0)
    with pytest.raises(ValueError, match="one of each for every dimension"):
        Grid((0.0, 0.0), (1.0, 1.0), (2,))
    with pytest.raises(ValueError, match="at least 1 along every axis"):
        Grid((0.0,), (1.0,), (0,))
    with pytest.raises(ValueError, match="is empty"):
        Grid((0.0,), (0.0,), (1,))
