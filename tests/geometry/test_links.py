"""Meshes and pairs as graphs."""

import numpy as np

from hardpde.geometry.algorithms.links import connected_parts, rim, sides

SQUARE = np.array([[0, 1, 2], [0, 2, 3]])


def test_the_rim_of_two_triangles_is_a_square():
    assert sides(SQUARE).tolist() == [[0, 1], [1, 2], [2, 0], [0, 2], [2, 3], [3, 0]]
    assert sorted(rim(sides(SQUARE)).tolist()) == [[0, 1], [1, 2], [2, 3], [3, 0]]


def test_quadrilaterals_have_four_sides():
    assert sides(np.array([[4, 5, 6, 7]])).tolist() == [[4, 5], [5, 6], [6, 7], [7, 4]]


def test_the_rim_of_a_closed_surface_is_empty():
    tetrahedron = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])
    assert rim(sides(tetrahedron)).shape == (0, 2)


def test_what_hangs_together_has_one_number():
    parts = connected_parts(6, np.array([[0, 3], [3, 5], [1, 2]]))
    assert parts[0] == parts[3] == parts[5] and parts[1] == parts[2]
    assert len(set(parts[[0, 1, 4]].tolist())) == 3
