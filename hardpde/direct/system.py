"""Linearised equations as rows that are linear in the last layer.

The state of the exact ansatz is q = c + Σ_s M_s N(y_s) with N = Σ_j W_j φ_j, and a linearised equation is
F·(jet of q) + r. Contracting F with the matrices M_s leaves for each term a small array G, with which a row is
Σ_s Σ_slots G φ_j; features enter only there.
"""

from typing import NamedTuple

import numpy as np

from hardpde.direct.evaluations import Points
from hardpde.networks.features import (
    BLOCK,
    Layer,
    Source,
    Units,
    in_turn,
    number,
    outputs,
    outputs_of,
    parts,
    real,
    used,
    waves,
)
from hardpde.support.threads import in_threads

ROUNDING = 1e-12  # of the largest coefficient: smaller ones are zero


class Contracted(NamedTuple):
    """One term of linearised equations at its points: inputs (f, slots, n) and g (e, o, slots, n).

    dual (f, slots, n): derivatives of the inputs along a normal, with g_dual (e, o, slots, n). slopes (d, f, slots, n):
    derivatives of the inputs by each coordinate.
    """

    inputs: np.ndarray
    g: np.ndarray
    dual: np.ndarray | None = None
    g_dual: np.ndarray | None = None
    slopes: np.ndarray | None = None


class Rows(NamedTuple):
    """Linearised equations: for weights w of the last layer, in `units` of each column, they are known + matrix · w.

    Points of one place, `at_once`, are added up to its rows.
    """

    terms: tuple[Contracted, ...]
    known: np.ndarray  # (e, places)
    second: int  # coordinates that the Laplacian in the last slot sums over; 0: there is none
    sources: tuple[Source, ...]
    at_once: int = 1
    kept: np.ndarray | None = None  # (e, places) those that are not zero whatever the weights are; None: all

    @property
    def columns(self) -> int:
        return 1 + max(source.column for source in self.sources)

    @property
    def right(self) -> np.ndarray:
        """What is known, row by row."""
        return self.known.ravel() if self.kept is None else self.known[self.kept]


def product(matrix: np.ndarray, out: np.ndarray, second: int) -> np.ndarray:
    """The jet (m, slots, n) of M N, from the jets of M (m, o, slots, n) and N (o, slots, n)."""
    jet = np.einsum("mosn,on->msn", matrix, out[:, 0])
    jet[:, 1:] += np.einsum("mon,osn->msn", matrix[:, :, 0], out[:, 1:])
    if second:
        space = slice(1, 1 + second)
        jet[:, -1] += 2 * np.einsum("mosn,osn->mn", matrix[:, :, space], out[:, space])
    return jet


def contract(matrix: np.ndarray, f: np.ndarray, second: int) -> np.ndarray:
    """G (e, o, slots, n) of F (e, m, slots, n) and a matrix (m, o, slots, n): F·jet(M φ) = Σ_slots G φ."""
    g = np.empty((f.shape[0], matrix.shape[1], *f.shape[2:]))
    g[:, :, 0] = np.einsum("emsn,mosn->eon", f, matrix)
    g[:, :, 1:] = np.einsum("emsn,mon->eosn", f[:, :, 1:], matrix[:, :, 0])
    if second:
        g[:, :, 1 : 1 + second] += 2 * np.einsum("emn,mosn->eosn", f[:, :, -1], matrix[:, :, 1 : 1 + second])
    return g


def contracted(points: Points, value: np.ndarray, slope: np.ndarray, units: np.ndarray, second: int,
               at_once: int = 1) -> Rows:
    """Rows of scaled values (e, places) and their derivatives (e, m, slots, points); units (c,) of the columns."""
    terms = []
    units = units[[source.column for source in points.sources]]
    for term in points.terms:
        n = term.inputs.shape[-1]
        g = contract(term.matrix, slope[..., :n], second)
        g *= np.tile(units, g.shape[1] // len(units))[:, None, None]
        if term.dual is None:
            terms.append(Contracted(term.inputs, g, slopes=term.slopes))
        else:
            terms.append(Contracted(term.inputs, g[:, : len(units)], term.dual, g[:, len(units) :]))
    made = Rows(tuple(terms), value, second, points.sources, at_once)
    shared = any(source.axis for source in points.sources) and at_once == 1 and not second
    return made._replace(kept=_not_zero(made)) if shared else made


def _not_zero(rows: Rows) -> np.ndarray:
    """Which rows are more than rounding: where outputs are slopes of others, equations that say so often hold."""
    size = np.abs(rows.known)
    for term in rows.terms:
        y, slopes, n = term.inputs, term.slopes, term.inputs.shape[-1]
        assert slopes is not None
        for column in range(rows.columns):
            value, first = 0.0, 0.0
            for o, source in enumerate(rows.sources):
                if source.column == column and source.axis:
                    bent = np.einsum("esn,fsn->efn", term.g[:, o, 1:], y[:, 1:])
                    size[:, :n] = np.maximum(size[:, :n], np.abs(bent).max(1))
                    first = first + np.einsum("esn,fsn->efn", term.g[:, o], slopes[source.axis - 1])
                elif source.column == column:
                    value = value + np.abs(term.g[:, o, 0])
                    first = first + np.einsum("esn,fsn->efn", term.g[:, o, 1:], y[:, 1:])
            size[:, :n] = np.maximum(size[:, :n], np.maximum(value, np.abs(first).max(1, initial=0.0)))
    return size > ROUNDING * size.max()


def matrix(rows: list[Rows], units: Units) -> np.ndarray:
    """The matrix of all rows, one after the other, in Fortran order: its columns are the features of the first column
    of the last layer, then those of the next."""
    heights = [len(part.right) for part in rows]
    whole = np.zeros((rows[0].columns * number(units), sum(heights)))
    for part, stop, height in zip(rows, np.cumsum(heights), heights):
        e, places = part.known.shape
        own = whole[:, stop - height : stop].reshape(part.columns, number(units), height)
        if part.kept is not None:
            _fill_kept(own, part, units)
            continue
        into = own.reshape(*own.shape[:2], e, places)
        if part.at_once == 1:
            _fill(into, part, units)
        else:
            apart = np.zeros((part.columns, number(units), e, places * part.at_once))
            _fill(apart, part, units)
            into += apart.reshape(*into.shape[:3], part.at_once, places).sum(-2)
    return whole.T


def _fill(into: np.ndarray, rows: Rows, units: Units) -> None:
    """Add all terms to rows (c, h, e, n), block by block, each core its own blocks."""
    n = into.shape[-1]

    def block(start: int) -> None:
        for term in rows.terms:
            part = slice(start, min(start + BLOCK, term.inputs.shape[-1]))
            if part.stop > part.start:
                for where, layer in parts(units):
                    _add(into[:, where, :, part], _at(term, part), layer, rows)

    in_threads(block, range(0, n, BLOCK))


def _fill_kept(into: np.ndarray, rows: Rows, units: Units) -> None:
    """As `_fill`, for rows that are kept alone: (c, h, rows)."""
    assert rows.kept is not None
    kept = rows.kept
    place = (np.cumsum(kept.ravel()) - 1).reshape(kept.shape)

    def block(start: int) -> None:
        part = slice(start, min(start + BLOCK, kept.shape[1]))
        every = np.zeros((*into.shape[:2], len(kept), part.stop - part.start))
        for term in rows.terms:
            own = slice(start, min(part.stop, term.inputs.shape[-1]))
            if own.stop > own.start:
                for where, layer in parts(units):
                    _add(every[:, where, :, : own.stop - own.start], _at(term, own), layer, rows)
        into[:, :, place[:, part][kept[:, part]]] = every[:, :, kept[:, part]]

    in_threads(block, range(0, kept.shape[1], BLOCK))


def rows_at(rows: Rows, layer: Layer, points: int) -> np.ndarray:
    """The rows (c, h, e, points) of units that are not in windows, as they are."""
    found = np.zeros((rows.columns, layer.number, len(rows.known), points))
    for term in rows.terms:
        if term.inputs.shape[-1]:
            _add(found[..., : term.inputs.shape[-1]], term, layer, rows)
    return found


def _at(term: Contracted, block: slice) -> Contracted:
    return Contracted(term.inputs[..., block], term.g[..., block], *(
        None if array is None else array[..., block] for array in (term.dual, term.g_dual, term.slopes)))


def _add(out: np.ndarray, term: Contracted, layer: Layer, rows: Rows) -> None:
    """Add a term at some points to the rows (c, h, e, n) there."""
    layer, which = used(layer)
    y, second = term.inputs[which], rows.second
    directions = {} if term.slopes is None else dict(enumerate(term.slopes[:, which], 1))
    if term.dual is not None:
        directions[0] = term.dual[which]
    phi = waves(layer, y[:, 0], 1 + bool(second) + bool(directions))
    w = phi.along
    along = [w @ y[:, k] for k in range(1, 1 + second)]
    spread = sum(z * z for z in along)
    steep = {k: w @ direction[:, 0] for k, direction in directions.items()}
    mixed = {k: sum(z * (w @ direction[:, s]) for s, z in enumerate(along, 1)) for k, direction in directions.items()}

    def value(g: np.ndarray) -> np.ndarray:
        part = phi.first * _along(w, g[1:], y[:, 1:])
        if g[0].any():
            part += phi.value * g[0]
        if second and g[-1].any():
            part += phi.second * (spread * g[-1])
        return part

    def slope(g: np.ndarray, k: int) -> np.ndarray:
        part = phi.first * _along(w, g, directions[k])
        if g[1:].any():
            part += phi.second * steep[k] * _along(w, g[1:], y[:, 1:])
        if second and g[-1].any():
            part += (phi.third * spread * steep[k] + 2 * phi.second * mixed[k]) * g[-1]
        return part

    for o, (column, axis) in enumerate(rows.sources):
        for i in range(len(term.g)):
            if (g := term.g[i, o]).any():
                out[column, :, i] += real(layer, slope(g, axis) if axis else value(g))
            if term.g_dual is not None and (g := term.g_dual[i, o]).any():
                out[column, :, i] += real(layer, slope(g, 0))


def _along(w: np.ndarray, g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sum over the slots of g (s, n) and w·y (f, s, n)."""
    return w @ np.einsum("sn,fsn->fn", g, y)


def state(points: Points, units: Units, last: np.ndarray, second: int) -> np.ndarray:
    """What features with a last layer (h, c) add to the jet of the state, (m, slots, n)."""
    jet = np.zeros(points.offset.shape)
    for some, weights, size in in_turn(units, last, points.offset.shape[-1]):

        def block(start: int, some: Units = some, weights: np.ndarray = weights, size: int = size) -> None:
            for term in points.terms:
                part = slice(start, min(start + size, term.inputs.shape[-1]))
                if part.stop > part.start:
                    own = term.chosen(part)
                    if own.slopes is None:
                        out = outputs(some, weights, own.inputs, own.dual, second)
                    else:
                        out = outputs_of(points.sources, some, weights, own.inputs, own.slopes, second)
                    jet[..., part] += product(term.matrix[..., part], out, second)

        in_threads(block, range(0, points.offset.shape[-1], size))
    return jet
