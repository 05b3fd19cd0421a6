"""Least squares: what libraries find, whatever the lengths of columns, their rank, the cores and the devices.

Two devices are simulated on the CPU, in a process of its own: this file is also the program that it runs.
"""

import json
import os
import subprocess
import sys
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hardpde.direct.block_sparse import Block, least_squares_in_blocks
from hardpde.direct.dissection import dissected, rounds
from hardpde.direct.least_squares import factored, least_squares, least_squares_by_rows
from hardpde.direct.memory import check_memory, largest_system, memory_needed
from hardpde.direct.on_devices import shared_rows
from hardpde.direct.tall import ridged, tall_qr
from hardpde.support.hardware import available_memory


def smooth(rows, columns, scale=1.5, seed=0):
    """Laplacians of random tanh features at random points of a square: columns that almost depend on each other."""
    rng = np.random.default_rng(seed)
    x, w = rng.uniform(-1, 1, (rows, 2)), rng.uniform(-scale, scale, (2, columns))
    h = np.tanh(x @ w + rng.uniform(-scale, scale, columns))
    return np.asfortranarray(2 * h * (1 - h * h) * (w * w).sum(0)), np.exp(x[:, 0]) * np.sin(3 * x[:, 1])


def uneven(rows=90, columns=7, right=(), seed=0):
    """Columns of very different length, that do not depend on each other."""
    rng = np.random.default_rng(seed)
    return (np.asfortranarray(rng.standard_normal((rows, columns)) * 10.0 ** np.linspace(-3, 3, columns)),
            rng.standard_normal((rows, *right)))


def left(a, x, b):
    return np.linalg.norm(a @ np.asarray(x) - b)


def by_numpy(matrix, right):
    return least_squares(matrix.copy(order="F"), right)


def by_jax(matrix, right):
    return least_squares(jnp.asarray(matrix), jnp.asarray(right))


def by_numpy_factored(matrix, right):
    return factored(matrix.copy(order="F")).solve(right)


def by_jax_factored(matrix, right):
    return factored(jnp.asarray(matrix)).solve(jnp.asarray(right))


WAYS = [by_numpy, by_jax, by_numpy_factored, by_jax_factored]
each_way = pytest.mark.parametrize("solve", WAYS)


@each_way
@pytest.mark.parametrize("right", [(), (1,), (3,)])
def test_it_is_what_a_library_finds_whatever_the_lengths_of_columns(solve, right):
    a, b = uneven(right=right)
    expected = np.linalg.lstsq(a, b, rcond=1e-20)[0]
    found = solve(a, b)
    assert isinstance(found, jax.Array if "jax" in solve.__name__ else np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@each_way
def test_the_residual_of_smooth_features_is_as_small_as_a_singular_value_decomposition_makes_it(solve):
    a, b = smooth(800, 200)
    singular = np.linalg.svd(a, compute_uv=False)
    assert singular[-1] < 1e-11 * singular[0]
    assert left(a, solve(a, b), b) < 1.1 * left(a, np.linalg.lstsq(a, b, rcond=1e-13)[0], b) + 1e-13


@each_way
def test_columns_that_depend_on_each_other_and_zero_columns_do_no_harm(solve):
    a, _ = uneven(40, 3)
    a = np.asfortranarray(np.column_stack([a, a[:, 0], np.zeros(40)]))
    b = a @ np.arange(1.0, 6.0)
    x = solve(a, b)
    assert np.abs(x).max() < 100 and left(a, x, b) < 1e-12 * np.linalg.norm(b)


@each_way
def test_a_matrix_times_a_number_has_the_solution_over_it(solve):
    a, b = smooth(300, 60)
    np.testing.assert_allclose(1e6 * np.asarray(solve(1e6 * a, b)), solve(a, b), rtol=1e-3, atol=1e-6)
    assert abs(left(1e6 * a, solve(1e6 * a, b), b) - left(a, solve(a, b), b)) < 1e-12


@each_way
def test_fewer_rows_than_columns_are_met(solve):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 8)), rng.standard_normal(5)
    assert left(a, solve(a, b), b) < 1e-12


@each_way
def test_a_matrix_of_zeros_is_solved_by_zeros(solve):
    np.testing.assert_array_equal(solve(np.zeros((9, 3)), np.ones(9)), np.zeros(3))


@pytest.mark.parametrize("solve", WAYS[:2])
def test_what_is_not_finite_gives_what_is_not_a_number(solve):
    a, b = uneven()
    a[3, 2] = np.nan
    assert np.isnan(solve(a, b)).all()


@pytest.mark.parametrize("array", [np.asfortranarray, jnp.asarray])
@pytest.mark.parametrize("largest", [30.0, 3.0, 1e-2])
def test_no_weight_is_larger_than_asked_for_and_not_all_are_much_smaller(array, largest):
    a, b = smooth(600, 150)
    assert np.abs(least_squares(array(a.copy()), array(b))).max() > 30
    found = least_squares(array(a.copy()), array(b), largest)
    assert 0.1 * largest < np.abs(found).max() <= largest


def test_a_larger_limit_leaves_a_smaller_residual():
    a, b = smooth(600, 150)
    lefts = [left(a, least_squares(a.copy(order="F"), b, largest), b) for largest in (0.1, 1.0, 10.0, 100.0)]
    assert lefts == sorted(lefts, reverse=True) and lefts[-1] < 0.1 * lefts[0]


def test_a_matrix_in_rows_or_of_whole_numbers_is_left_as_it_is():
    whole = np.random.default_rng(0).integers(-9, 9, (30, 4))
    for a in (whole, np.ascontiguousarray(whole, dtype=float)):
        before = a.copy()
        np.testing.assert_allclose(least_squares(a, np.ones(30)), np.linalg.lstsq(a, np.ones(30))[0], atol=1e-14)
        np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("columns", [1, 20, 140])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_triangles_of_parts_are_those_of_the_whole(parts, columns):
    a = np.asfortranarray(np.random.default_rng(0).standard_normal((5 * columns + 3, columns)))
    b = np.random.default_rng(1).standard_normal((len(a), 2))
    q = tall_qr(a.copy(order="F"), parts)
    assert len(q.blocks) == parts
    expected = np.linalg.qr(a, mode="r")
    signs = np.sign(np.diag(expected)) * np.sign(np.diag(q.r))
    np.testing.assert_allclose(signs[:, None] * q.r, expected, atol=1e-12)
    np.testing.assert_allclose(np.linalg.solve(q.r, q.project(b)), np.linalg.lstsq(a, b)[0], atol=1e-12)
    d = np.linspace(1, 2, columns)
    below = np.linalg.lstsq(np.vstack([a, np.diag(d)]), np.vstack([b, np.zeros((columns, 2))]))[0]
    np.testing.assert_allclose(ridged(q.r, d).solve(q.project(b)), below, atol=1e-12)


def test_threads_find_what_one_finds(monkeypatch):
    a, b = smooth(900, 150)
    many = least_squares(a.copy(order="F"), b)
    monkeypatch.setattr("hardpde.direct.tall.cores_for_rows", lambda: 1)
    one = least_squares(a.copy(order="F"), b)
    assert abs(left(a, many, b) - left(a, one, b)) < 1e-11
    monkeypatch.setattr("hardpde.direct.tall.cores_for_rows", lambda: 3)
    monkeypatch.setattr("hardpde.direct.tall.SMALL", 0)
    three = least_squares(a.copy(order="F"), b)
    assert abs(left(a, three, b) - left(a, one, b)) < 1e-11


@pytest.mark.parametrize("right", [1, 3])
@pytest.mark.parametrize("size", [1, 40, 1000])
def test_rows_that_come_in_parts_give_what_the_whole_matrix_gives(size, right):
    a, b = uneven(right=(right,))
    parts = ((a[i : i + size], b[i : i + size]) for i in range(0, len(a), size))
    np.testing.assert_allclose(least_squares_by_rows(parts), np.linalg.lstsq(a, b, rcond=1e-20)[0], rtol=1e-9)


def test_no_weight_is_larger_than_asked_for_where_rows_come_in_parts():
    a, b = smooth(600, 150)
    parts = [(a[i : i + 100], b[i : i + 100, None]) for i in range(0, 600, 100)]
    assert np.abs(least_squares_by_rows(parts)).max() > 3
    assert np.abs(least_squares_by_rows(parts, largest=3.0)).max() <= 3


# --- Blocks ----------------------------------------------------------------------------------------------------


def windows(across, each, ratio=4, dim=2, seed=0):
    """Features in overlapping windows on a grid of a square, or of a line, and smooth right sides."""
    rng = np.random.default_rng(seed)
    rows, blocks = ratio * each * across**dim, []
    x = rng.uniform(0, across, (rows, dim))
    for k, place in enumerate(np.ndindex(*[across] * dim)):
        near = x - np.array(place) - 0.5
        inside = rng.permutation(np.flatnonzero((np.abs(near) < 1).all(1)))
        z = near[inside]
        features = np.tanh(z @ rng.uniform(-2, 2, (dim, each)) + rng.uniform(-2, 2, each))
        values = (np.cos(np.pi * z / 2) ** 2).prod(1)[:, None] * features * 10.0 ** rng.integers(-2, 3, each)
        blocks.append(Block(inside, slice(k * each, (k + 1) * each), values))
    return blocks, np.stack([np.sin(x[:, 0]), np.exp(-x[:, -1])], axis=1)


def dense(blocks, rows):
    a = np.zeros((rows, max(block.columns.stop for block in blocks)), order="F")
    for block in blocks:
        a[block.rows, block.columns] = block.values
    return a


@pytest.mark.parametrize("across, each, ratio, dim", [
    (1, 5, 4, 2), (2, 7, 4, 2), (5, 8, 4, 2), (6, 9, 2, 2), (40, 6, 4, 1), (4, 60, 2, 2), (3, 140, 2, 1), (3, 4, 6, 3)])
def test_blocks_give_what_the_dense_matrix_gives(across, each, ratio, dim):
    blocks, b = windows(across, each, ratio, dim)
    a = dense(blocks, len(b))
    whole, found = least_squares(a.copy(order="F"), b), least_squares_in_blocks(blocks, b)
    assert found.shape == whole.shape
    for k in range(2):
        assert abs(left(a, found[:, k], b[:, k]) - left(a, whole[:, k], b[:, k])) < 1e-10 * np.linalg.norm(b)
    one = least_squares_in_blocks(blocks, b[:, 0])
    assert one.shape == found[:, 0].shape and abs(left(a, one, b[:, 0]) - left(a, whole[:, 0], b[:, 0])) < 1e-10


def test_blocks_that_do_not_depend_on_each_other_give_the_same_weights():
    rng = np.random.default_rng(0)
    blocks = [Block(np.arange(20 * k, min(20 * k + 40, 200)), slice(5 * k, 5 * k + 5),
                    rng.standard_normal((40 if k < 9 else 20, 5))) for k in range(10)]
    b = rng.standard_normal(200)
    expected = np.linalg.lstsq(dense(blocks, 200), b)[0]
    np.testing.assert_allclose(least_squares_in_blocks(blocks, b), expected, atol=1e-11)


def test_blocks_that_share_no_rows_and_rows_without_blocks_do_no_harm():
    rng = np.random.default_rng(0)
    blocks = [Block(np.arange(30 * k, 30 * k + 20), slice(4 * k, 4 * k + 4), rng.standard_normal((20, 4)))
              for k in (1, 0, 2)]
    b = rng.standard_normal(100)
    expected = np.linalg.lstsq(dense(blocks, 100), b)[0]
    np.testing.assert_allclose(least_squares_in_blocks(blocks, b), expected, atol=1e-11)


def test_no_weight_of_blocks_is_larger_than_asked_for():
    blocks, b = windows(4, 10)
    free = np.abs(least_squares_in_blocks(blocks, b)).max()
    assert np.abs(least_squares_in_blocks(blocks, b, free / 20)).max() <= free / 20


@pytest.mark.parametrize("across, each", [(1, 5), (9, 100), (2, 300)])
def test_every_window_is_eliminated_once_after_those_it_waits_for_and_neighbours_are_never_apart(across, each):
    blocks, b = windows(across, 2)
    steps = dissected([block.rows for block in blocks], [each] * len(blocks), len(b))
    assert sorted(np.concatenate([step.windows for step in steps])) == list(range(across**2))
    follows = {before: k for k, step in enumerate(steps) for before in step.before}
    assert all(before < k for before, k in follows.items())
    step_of = {w: k for k, step in enumerate(steps) for w in step.windows}
    for one, other in product(range(len(blocks)), repeat=2):
        if np.intersect1d(blocks[one].rows, blocks[other].rows).size:
            k, last = sorted((step_of[one], step_of[other]))
            while k < last:
                k = follows[k]
            assert k == last
    taken = [together for together in rounds(steps, 4)]
    assert sorted(k for together in taken for ks in together for k in ks) == list(range(len(steps)))


# --- Memory ----------------------------------------------------------------------------------------------------

USER = """
import re, sys
from pathlib import Path
import numpy as np
from hardpde.direct.least_squares import least_squares, least_squares_by_rows

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

rows, unknowns, kept = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
least_squares(rng.standard_normal((90, 30)).T.copy().T, np.ones(90))  # what libraries take once
before = peak()
if kept:
    matrix = np.empty((rows, unknowns), order="F")
    for j in range(unknowns):
        matrix[:, j] = rng.standard_normal(rows)
    least_squares(matrix, np.ones(rows), largest=1e-4)
else:
    least_squares_by_rows(((rng.standard_normal((200, unknowns)), np.ones((200, 1))) for _ in range(rows // 200)))
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read as Linux tells it")
@pytest.mark.parametrize("kept", [True, False])
def test_the_memory_that_is_stated_is_enough_and_not_much_more_than_is_taken(kept):
    rows, unknowns = 4000, 1000
    done = subprocess.run([sys.executable, "-c", USER, str(rows), str(unknowns), str(int(kept))], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    stated = memory_needed(rows, unknowns, kept)
    assert 0.4 * stated < int(done.stdout) <= stated


@pytest.mark.parametrize("kept", [True, False])
def test_what_fits_is_the_largest_that_does(kept):
    unknowns = largest_system(4, kept, 1e9)
    assert memory_needed(4 * unknowns, unknowns, kept) <= 1e9 < memory_needed(4 * unknowns + 4, unknowns + 1, kept)


def test_a_system_that_does_not_fit_is_refused_with_what_would(monkeypatch):
    monkeypatch.setattr("hardpde.direct.memory.available_memory", lambda: 10**9)
    check_memory(4000, 1000)
    with pytest.raises(ValueError, match=r"need 25\.\d GB of memory and 1\.0 GB are available; \d+ unknowns fit"):
        check_memory(80_000, 20_000)
    fits = largest_system(4)
    check_memory(4 * fits, fits)


def test_available_memory_is_part_of_what_the_machine_has():
    assert 2**24 < available_memory() < 2**50


# --- Two devices -----------------------------------------------------------------------------------------------


def work():
    """Solutions by two devices beside those by one; the second problem has an odd number of rows."""
    found = {"devices": len(jax.devices()), "apart": [], "residuals": []}
    for a, b in (uneven(right=(2,)), uneven(91, 9, seed=1)):
        shared = shared_rows(a, 2), shared_rows(b, 2)
        found["shares"] = sorted(held.data.shape[0] for held in shared[0].addressable_shards)
        for x in (least_squares(*shared), factored(shared[0]).solve(shared[1])):
            one = np.asarray(by_jax(a, b))
            found["apart"].append(float(np.abs(np.asarray(x) / one - 1).max()))
            found["on"] = len(x.devices())
    a, b = smooth(501, 120)
    for largest in (np.inf, 3.0):
        x = least_squares(shared_rows(a, 2), shared_rows(b, 2), largest)
        one = least_squares(jnp.asarray(a), jnp.asarray(b), largest)
        found["residuals"].append([left(a, x, b), left(a, one, b)])
    print(json.dumps(found))


@pytest.fixture(scope="module")
def two_devices():
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_devices_find_what_one_finds(two_devices):
    assert two_devices["devices"] == 2 and two_devices["shares"] == [46, 46] and two_devices["on"] == 1
    assert max(two_devices["apart"]) < 1e-9
    for two, one in two_devices["residuals"]:
        assert abs(two - one) < 1e-2 * one + 1e-12


if __name__ == "__main__":
    work()
