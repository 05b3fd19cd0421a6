"""Meshes and lists of pairs as graphs: sides of cells, those on the rim, connected parts."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def sides(cells: np.ndarray) -> np.ndarray:
    """Vertices (k c, 2) at both ends of the sides of polygons (c, k), cell after cell, in the order in which they run.
    """
    return np.stack([cells, np.roll(cells, -1, axis=1)], axis=2).reshape(-1, 2)


def rim(sides: np.ndarray) -> np.ndarray:
    """Those of the sides (n, k) of cells, given by their vertices in any order, that belong to one cell only."""
    _, first, counts = np.unique(np.sort(sides, axis=1), axis=0, return_index=True, return_counts=True)
    return sides[first[counts == 1]]


def connected_parts(count: int, pairs: np.ndarray) -> np.ndarray:
    """For each of `count` things the number of its part (count,), where pairs (k, 2) hang together."""
    ones = np.ones(len(pairs))
    return connected_components(coo_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(count, count)), directed=False)[1]
