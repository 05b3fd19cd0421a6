"""Rows of linearised equations for features in windows: a dense block for each window, at the points that it holds."""

import numpy as np

from hardpde.direct.block_sparse import Block
from hardpde.direct.system import Contracted, Rows, contract, matrix, rows_at
from hardpde.networks.features import Layer, Local, Units, number
from hardpde.networks.windows import Window, held_by, window_jets
from hardpde.support.threads import in_threads


def is_local(units: Units) -> bool:
    """Whether some units are in windows."""
    return any(isinstance(layer, Local) for layer in units)


def blocks(rows: list[Rows], units: Units) -> list[Block]:
    """The matrix of all rows by windows; the columns of a block are its units for the first column of the last layer,
    then those for the next. Units without a window, if there are some, are one block more."""
    found: list[Block] = []
    starts = np.cumsum([0, *(len(part.right) for part in rows)])
    columns = 0
    for layer in units:
        if not isinstance(layer, Local):
            width = rows[0].columns * layer.number
            found.append(Block(np.arange(starts[-1]), slice(columns, columns + width), matrix(rows, (layer,))))
            columns += width
            continue
        width = rows[0].columns * layer.biases.shape[1]
        held = [_points_of(part, layer) for part in rows]
        made: list[Block | None] = [None] * len(layer.biases)

        def one(k: int, layer: Local = layer, first: int = columns, width: int = width,
                held: list[list[np.ndarray]] = held, made: list[Block | None] = made) -> None:
            window, own = layer.one(k)
            parts = [_of_window(part, window, own, which[k]) for part, which in zip(rows, held)]
            numbers = np.concatenate([start + number for start, (number, _) in zip(starts, parts)])
            values = np.concatenate([value for _, value in parts])
            made[k] = Block(numbers, slice(first + k * width, first + (k + 1) * width), values)

        in_threads(one, range(len(made)))
        found += [block for block in made if block is not None]  # in the order of the windows
        columns += width * len(made)
    return found


def together(parts: list[Block], rows: int, columns: int) -> np.ndarray:
    """The matrix of blocks, in Fortran order."""
    found = np.zeros((rows, columns), order="F")
    for block in parts:
        found[block.rows, block.columns] = block.values
    return found


def last_of_blocks(found: np.ndarray, units: Units, columns: int) -> np.ndarray:
    """The last layer (h, c) from the entries (n,) for the columns of the blocks."""
    parts, start = [], 0
    for layer in units:
        each = layer.biases.shape[1] if isinstance(layer, Local) else layer.number
        many = layer.number // each
        own = found[start : start + many * each * columns].reshape(many, columns, each)
        parts.append(np.moveaxis(own, 1, 2).reshape(-1, columns))
        start += own.size
    assert sum(map(len, parts)) == number(units)
    return np.concatenate(parts)


def _points_of(part: Rows, local: Local) -> list[np.ndarray]:
    """The numbers of the points that each window holds, at the point itself or at one of its feet."""
    every: list[list[np.ndarray]] = [[] for _ in range(len(local.biases))]
    for term in part.terms:
        for k, which in held_by(local.centres, local.halves, term.inputs[:, 0]):
            every[k].append(which)
    none = np.zeros(0, int)
    places = part.known.shape[1]
    found = []
    for own in every:
        which = np.unique(np.concatenate(own)) if own else none
        if part.at_once > 1:  # all points of a place
            at = np.unique(which % places)
            which = (np.arange(part.at_once)[:, None] * places + at).ravel()
        found.append(which)
    return found


def _of_window(part: Rows, window: Window, layer: Layer, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows of some points, and their entries (rows, c h)."""
    e, places = part.known.shape
    at = which[: len(which) // part.at_once] if part.at_once > 1 else which
    numbers = np.arange(e)[:, None] * places + at
    terms = tuple(_seen_through(term, window, part, which) for term in part.terms
                  if (which < term.inputs.shape[-1]).any())
    values = rows_at(part._replace(terms=terms), layer, len(which))  # (c, h, e, points)
    if part.at_once > 1:
        values = values.reshape(*values.shape[:3], part.at_once, -1).sum(-2)
    values = values.reshape(part.columns * layer.number, e, len(at))
    if part.kept is None:
        return numbers.ravel(), values.reshape(len(values), -1).T
    kept = part.kept[:, at]
    place = (np.cumsum(part.kept.ravel()) - 1).reshape(part.kept.shape)[:, at]
    return place[kept], values[:, kept].T


def _seen_through(term: Contracted, window: Window, rows: Rows, which: np.ndarray) -> Contracted:
    """A term at some points for units times a window: F·(B φ) = (F B)·φ, so that the factors G change alone."""
    own, second, sources = which[which < term.inputs.shape[-1]], rows.second, rows.sources
    y, g = term.inputs[..., own], term.g[..., own]
    dual = None if term.dual is None else term.dual[..., own]
    slopes = None if term.slopes is None else term.slopes[..., own]
    directions = () if dual is None and slopes is None else (dual,) if slopes is None else tuple(slopes)
    bump, *falls = window_jets(window, y, directions, second)  # type: ignore[arg-type]

    def through(jet: np.ndarray, g: np.ndarray) -> np.ndarray:
        return contract(jet[None, None], g.reshape(-1, 1, *g.shape[2:]), second).reshape(g.shape)

    made = through(bump, g)
    g_dual = None
    if dual is not None:
        assert term.g_dual is not None
        steep = term.g_dual[..., own]
        made, g_dual = made + through(falls[0], steep), through(bump, steep)
    elif slopes is not None:
        for o, source in enumerate(sources):
            if source.axis:
                base = next(k for k, other in enumerate(sources) if other.column == source.column and not other.axis)
                made[:, base] += through(falls[source.axis - 1], g[:, [o]])[:, 0]
    return Contracted(y, made, dual, g_dual, slopes)
