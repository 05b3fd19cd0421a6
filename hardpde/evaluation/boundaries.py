"""Boundaries in order: the curves of a plane domain from end to end, and how wide the collars are along them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import Piece
from hardpde.geometry.algorithms.sampling import check_survival, unit_points
from hardpde.geometry.algorithms.stacking import concrete, place
from hardpde.problem.problem import Problem
from hardpde.support.compiling import jit_simply


class Stretch(NamedTuple):
    """A smooth stretch of a boundary: points (n, d) from end to end, the outward normals there, of which piece."""

    x: np.ndarray
    normal: np.ndarray
    piece: Piece


def stretches(problem: Problem, name: str, points: int = 400, least: int = 2) -> list[Stretch]:
    """The stretches of a named boundary, each after the one it touches; about `points` in all, some on every piece.

    In one dimension a stretch is a point. In three or more there is no order: it is a piece with points spread over it.
    """
    shape = problem.domain
    pieces = shape.boundaries[name].pieces
    measure = np.array([piece.measure for piece in pieces])
    counts = np.maximum(least, np.round(points * measure / measure.sum()).astype(int))
    if shape.dim == 1:
        steps = [np.array([[0.25], [0.75]])] * len(pieces)  # a sphere on a line is two points
    elif shape.dim == 2:
        steps = [np.repeat(np.linspace(0, 1, n)[:, None], 2, axis=1) for n in counts]
    else:
        steps = [unit_points(int(n), shape.dim) for n in counts]
    which = np.repeat(np.arange(len(pieces)), list(map(len, steps)))
    body = np.array([piece.body for piece in pieces])[which]
    entire = dict(zip(shape.pieces, shape.whole))

    @jit_simply
    def placed(u: Array) -> tuple[Array, Array, Array]:
        x, n = place(pieces, jnp.asarray(which), u)
        uncut = all(entire.get(piece, False) for piece in pieces)
        return x, n, jnp.ones(len(x), bool) if uncut else check_survival(shape, x, n, jnp.asarray(body))

    x, n, kept = concrete(placed, np.concatenate(steps))
    found = []
    for k in range(len(pieces)):
        mine = np.flatnonzero(which == k)
        for part in _stretches(mine, kept[mine]) if shape.dim == 2 else [mine[kept[mine]]]:
            if shape.dim == 1:
                part = part[np.unique(x[part, 0], return_index=True)[1]]
            if len(part):
                found.append(Stretch(x[part], n[part], pieces[k]))
    if shape.dim != 2:
        return found
    return [_turned(found[k], back) for chain in chains([run.x for run in found]) for k, back in chain]


def _stretches(numbers: np.ndarray, kept: np.ndarray) -> list[np.ndarray]:
    """What is kept of a row of points, where it is cut; single points are no stretch."""
    cuts = np.flatnonzero(np.diff(kept.astype(int))) + 1
    return [part for part, keep in zip(np.split(numbers, cuts), np.split(kept, cuts)) if keep[0] and len(part) > 1]


def _turned(run: Stretch, back: bool) -> Stretch:
    return Stretch(run.x[::-1], run.normal[::-1], run.piece) if back else run


def chains(curves: list[np.ndarray]) -> list[list[tuple[int, bool]]]:
    """Curves (n, 2) that follow each other, as lists of (number, whether it is turned round).

    Two curves meet where their ends are not farther apart than two of their points.
    """
    if not curves:
        return []
    reach = np.array([2 * np.linalg.norm(np.diff(curve, axis=0), axis=1).max(initial=0.0) for curve in curves])
    ends = np.array([[curve[0], curve[-1]] for curve in curves])
    closed = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) <= 1e-6 * reach
    left = dict.fromkeys(map(int, np.flatnonzero(~closed)))
    found = [[(int(k), False)] for k in np.flatnonzero(closed)]
    while left:
        k = next(iter(left))
        del left[k]
        chain = [(k, False)]
        while left:
            at, others = ends[chain[-1][0], 0 if chain[-1][1] else 1], np.array(list(left))
            off = np.linalg.norm(ends[others] - at, axis=2)
            i, side = np.unravel_index(off.argmin(), off.shape)
            if off[i, side] > max(reach[others[i]], reach[chain[-1][0]]):
                break
            chain.append((int(others[i]), bool(side)))
            del left[chain[-1][0]]
        found.append(chain)
    return sorted(found)


def collars(problem: Problem, found: list[Stretch]) -> list[np.ndarray | None]:
    """How wide the collar is at the points of each stretch, (n,): it shrinks towards sharp corners. None: no collar."""
    layout = problem.stated.completed.layout
    number = {piece: k for k, piece in enumerate(layout.pieces)}
    with_one = [run for run in found if run.piece in number]
    if not with_one:
        return [None] * len(found)
    which = np.repeat([number[run.piece] for run in with_one], [len(run.x) for run in with_one])
    widths = concrete(jit_simply(layout.widths), which, np.concatenate([run.x for run in with_one]))
    parts = iter(np.split(widths, np.cumsum([len(run.x) for run in with_one])[:-1]))
    return [next(parts) if run.piece in number else None for run in found]
