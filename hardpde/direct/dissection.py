"""The order in which columns of windows are eliminated: nested dissection of the graph of windows that share rows."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, shortest_path

FEW = 200  # columns that are eliminated at once without another cut
STARTS = 200  # windows from which distances are found, to choose a cut
BALANCE = 0.2  # at least that share of columns lies on each side of a cut


class Step(NamedTuple):
    """Windows that are eliminated together, after the steps `before`, what these leave goes into it."""

    windows: np.ndarray
    before: list[int]


def dissected(rows: Sequence[np.ndarray], widths: Sequence[int], number: int) -> list[Step]:
    """Steps for windows that have entries in these rows of `number`, and so many columns; later ones come later."""
    windows = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    has = csr_matrix((np.ones(len(windows)), (windows, np.concatenate(rows))), (len(rows), number))
    graph = csr_matrix(has @ has.T)
    steps: list[Step] = []
    _dissect(graph, np.asarray(widths, float), np.arange(len(rows)), steps)
    return steps


def _dissect(graph: csr_matrix, widths: np.ndarray, windows: np.ndarray, steps: list[Step]) -> list[int]:
    """Add the steps of some windows; returns those that no other of them follows."""
    if len(windows) == 0:
        return []
    own = graph[windows][:, windows]
    number, label = connected_components(own, directed=False)
    if number > 1:
        return [last for k in range(number) for last in _dissect(graph, widths, windows[label == k], steps)]
    sides = _cut(own, widths[windows]) if widths[windows].sum() > FEW else None
    before: list[int] = []
    if sides is not None:
        before = [last for side in (-1, 1) for last in _dissect(graph, widths, windows[sides == side], steps)]
        windows = windows[sides == 0]
    steps.append(Step(windows, before))
    return [len(steps) - 1]


def _cut(graph: csr_matrix, widths: np.ndarray) -> np.ndarray | None:
    """-1, 0 or 1 for the windows on one side, of the cut and on the other side; None if there is no cut in two.

    Windows as far from a start are a cut; of all starts and distances the narrowest that leaves sides alike is taken.
    """
    starts = np.random.default_rng(0).permutation(len(widths))[:STARTS]
    best, sides = np.inf, None
    for distance in shortest_path(graph, unweighted=True, directed=False, indices=starts):
        by = np.bincount(distance.astype(int), widths)
        nearer = np.cumsum(by) - by
        smaller = np.minimum(nearer, widths.sum() - nearer - by)
        cost = np.where(smaller > BALANCE * widths.sum(), by / np.sqrt(np.maximum(smaller, 1.0)), np.inf)
        if cost.min() < best:
            best, sides = cost.min(), np.sign(distance - cost.argmin())
    return sides


def rounds(steps: Sequence[Step], most: int) -> Iterator[list[list[int]]]:
    """Lists of steps that need nothing of one another, to be taken at once: first about `most` trees of steps, each in
    order, and then the steps that follow them."""
    size = [1] * len(steps)
    for k, step in enumerate(steps):
        size[k] += sum(size[b] for b in step.before)
    followed = {b for step in steps for b in step.before}
    trees, later = [k for k in range(len(steps)) if k not in followed], []
    while len(trees) < most and any(steps[k].before for k in trees):
        largest = max((k for k in trees if steps[k].before), key=lambda k: size[k])
        trees.remove(largest)
        trees += steps[largest].before
        later.append(largest)
    yield [_tree(steps, k) for k in sorted(trees, key=lambda k: -size[k])]
    while later:
        ready = [k for k in later if not set(steps[k].before) & set(later)]
        yield [[k] for k in ready]
        later = [k for k in later if k not in ready]


def _tree(steps: Sequence[Step], k: int) -> list[int]:
    """A step with all that it comes after, in order."""
    return [*(other for b in steps[k].before for other in _tree(steps, b)), k]
