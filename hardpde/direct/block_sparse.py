"""Least squares with a matrix of dense blocks, each with its own columns, as features in windows give: sparse QR.

Columns of windows are eliminated in an order of nested dissection (George, SIAM J. Numer. Anal. 10, 1973). Each step is
QR of a dense matrix, the front, and rows that are left go to a later one (multifrontal QR: Davis, ACM Trans. Math.
Softw. 38, 2011). Products with the transpose are not formed, so nothing is lost where features almost depend on one
another.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from hardpde.direct.dissection import Step, dissected, rounds
from hardpde.direct.least_squares import strong_enough
from hardpde.direct.on_devices import SHORTEST
from hardpde.direct.tall import at_once, staircase
from hardpde.support.hardware import cores, one_thread_in_libraries


class Block(NamedTuple):
    """Entries `values` (r, c) of a matrix in the rows (r,) and in columns that no other block has."""

    rows: np.ndarray
    columns: slice
    values: np.ndarray


class Left(NamedTuple):
    """Rows without the columns that were eliminated: values (r, c + k) in those of the blocks `windows`, right sides
    last; lead (r,) is the first column of each row that is not zero."""

    windows: np.ndarray
    values: np.ndarray
    lead: np.ndarray


class Eliminated(NamedTuple):
    """The equations of a step for its own columns x (s, k) and those y (c, k) of later steps: R x + rest y = known."""

    windows: np.ndarray  # own ones first
    r: np.ndarray
    rest: np.ndarray
    known: np.ndarray


class System(NamedTuple):
    """Blocks and right sides (m, k), with the order of elimination."""

    blocks: Sequence[Block]
    right: np.ndarray
    steps: list[Step]
    rank: np.ndarray  # of each block, in the order of elimination
    rows: list[np.ndarray]  # of the matrix that each step is the first to use
    parts: list[dict[int, np.ndarray]]  # of each step: which rows of blocks these are
    lengths: list[np.ndarray]  # of the columns of each block


def least_squares_in_blocks(blocks: Sequence[Block], right: np.ndarray, largest: float = math.inf) -> np.ndarray:
    """The x (n,) or (n, k) of `least_squares` for the matrix (m, n) of these blocks, which stay as they are.

    Where `largest` asks for a stronger ridge, everything is factored again.
    """
    system = ordered(blocks, right.reshape(len(right), -1))
    with one_thread_in_libraries():
        return strong_enough(lambda ridge: solved(system, ridge), largest).reshape(-1, *right.shape[1:])


def ordered(blocks: Sequence[Block], right: np.ndarray) -> System:
    """The steps in which columns of blocks are eliminated, and the rows of each."""
    steps = dissected([block.rows for block in blocks], [block.values.shape[1] for block in blocks], len(right))
    order = np.concatenate([step.windows for step in steps])
    rank, step_of = np.empty(len(blocks), int), np.empty(len(blocks), int)
    rank[order] = np.arange(len(blocks))
    step_of[order] = np.repeat(np.arange(len(steps)), [len(step.windows) for step in steps])
    first = np.full(len(right), len(steps))
    for block, step in zip(blocks, step_of):
        first[block.rows] = np.minimum(first[block.rows], step)
    parts: list[dict[int, np.ndarray]] = [{} for _ in steps]
    for window, block in enumerate(blocks):
        used = first[block.rows]
        for k in np.unique(used):
            parts[k][window] = np.flatnonzero(used == k)
    ends = np.cumsum(np.bincount(first, minlength=len(steps)))[: len(steps)]
    by_step = np.split(np.argsort(first, kind="stable"), ends)
    lengths = [np.sqrt(np.einsum("ij,ij->j", block.values, block.values)) for block in blocks]
    return System(blocks, right, steps, rank, by_step, parts, lengths)


def solved(system: System, ridge: float) -> np.ndarray:
    """The solution (n, k) for a ridge, relative to the longest column."""
    longest = max(float(length.max(initial=0.0)) for length in system.lengths) or 1.0
    scales = [np.maximum(length, SHORTEST * longest) for length in system.lengths]
    done: dict[int, Eliminated] = {}
    left: dict[int, Left] = {}

    def take(steps: list[int]) -> None:
        for k in steps:
            earlier = [left.pop(b) for b in system.steps[k].before]
            done[k], left[k] = _eliminated(system, k, earlier, scales, ridge * longest)

    for together in rounds(system.steps, 2 * cores()):
        at_once(take, [(steps,) for steps in together], math.inf)
    return _substituted(system, [done[k] for k in range(len(system.steps))], scales)


def _eliminated(system: System, k: int, earlier: list[Left], scales: list[np.ndarray], ridge: float
                ) -> tuple[Eliminated, Left]:
    """Eliminate the columns of a step from its rows, from those that earlier steps left, and from the ridge."""
    involved = {*system.steps[k].windows, *system.parts[k]}.union(*(one.windows for one in earlier))
    windows = np.array(sorted(involved, key=lambda w: system.rank[w]))
    its_own = len(system.steps[k].windows)
    starts = dict(zip(windows.tolist(), np.cumsum([0, *(len(scales[w]) for w in windows)]).tolist()))
    own, columns = (sum(len(scales[w]) for w in part) for part in (windows[:its_own], windows))
    diagonal = ridge / np.concatenate([scales[w] for w in windows[:its_own]])
    front, lead = _front(system, k, earlier, scales, starts, diagonal, columns)
    lead = staircase(front, lead, own, columns)
    rest = front[own : len(lead), own:].copy(order="F")
    rest[np.arange(rest.shape[1]) < (lead[own:] - own)[:, None]] = 0  # reflectors
    r, beside, known = np.split(front[:own], [own, columns], axis=1)
    return Eliminated(windows, np.triu(r), beside.copy(), known.copy()), Left(windows[its_own:], rest, lead[own:] - own)


def _front(system: System, k: int, earlier: list[Left], scales: list[np.ndarray], starts: dict[int, int],
           diagonal: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a step, sorted by their first columns that are not zero, and these columns."""
    rows, right = system.rows[k], np.arange(columns, columns + system.right.shape[1])
    lead = np.full(len(rows), columns)
    at = {w: np.searchsorted(rows, system.blocks[w].rows[chosen]) for w, chosen in system.parts[k].items()}
    for w, own in at.items():
        lead[own] = np.minimum(lead[own], starts[w])
    places = [np.concatenate([np.zeros(0, int), *(starts[w] + np.arange(len(scales[w])) for w in one.windows)])
              for one in earlier]
    leads = [lead, *(place[one.lead] for place, one in zip(places, earlier)), np.arange(len(diagonal))]
    order = np.argsort(np.concatenate(leads), kind="stable")
    place_of = np.empty(len(order), int)
    place_of[order] = np.arange(len(order))
    mine, *others, last = np.split(place_of, np.cumsum([len(part) for part in leads])[:-1])
    front = np.zeros((len(order), columns + len(right)), order="F")
    for w, own in at.items():
        block = system.blocks[w].values[system.parts[k][w]]
        front[mine[own], starts[w] : starts[w] + len(scales[w])] = block / scales[w]
    front[mine[:, None], right] = system.right[rows]
    for to, place, one in zip(others, places, earlier):
        front[to[:, None], np.concatenate([place, right])] = one.values
    front[last, np.arange(len(diagonal))] = diagonal
    return front, np.concatenate(leads)[order]


def _substituted(system: System, equations: list[Eliminated], scales: list[np.ndarray]) -> np.ndarray:
    """Solve the equations of all steps, the last first."""
    found: dict[int, np.ndarray] = {}
    for one in reversed(equations):
        its_own = int(np.searchsorted(np.cumsum([len(scales[w]) for w in one.windows]), len(one.r))) + 1
        later = [found[w] for w in one.windows[its_own:]]
        known = one.known - one.rest @ np.concatenate(later) if later else one.known
        x = solve_triangular(one.r, known, check_finite=False)
        ends = np.cumsum([len(scales[w]) for w in one.windows[:its_own]])
        found.update(zip(one.windows[:its_own].tolist(), np.split(x, ends[:-1])))
    out = np.zeros((max(block.columns.stop for block in system.blocks), system.right.shape[1]))
    for w, block in enumerate(system.blocks):
        out[block.columns] = found[w] / scales[w][:, None]
    return out
