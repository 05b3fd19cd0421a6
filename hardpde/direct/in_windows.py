"""A direct solve with features in windows: cells of a box around the domain, which are split where residuals are large.

Each cell has features of its own in a window over it and its neighbours, so the matrix is sparse, and small cells
resolve layers, peaks, corners and many holes, where features over the whole domain would need to be very many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from hardpde.direct.evaluations import Points
from hardpde.direct.groups import Asked, Drawn, Group
from hardpde.direct.grown import Grown, Look, looked_at
from hardpde.direct.newton import Balance, Equations, fitted
from hardpde.direct.recipe import Recipe, draw
from hardpde.formulation.formulation import Formulation
from hardpde.geometry import Shape
from hardpde.geometry.algorithms.sampling import inside
from hardpde.networks.features import LOCAL, Local
from hardpde.networks.windows import equal_cells, held_by
from hardpde.problem.problem import Problem

UNITS = {1: 12, 2: 40, 3: 80}  # of a window, for so many coordinates
MANY = 40  # pieces of the boundary: more are many holes
MOST, MOST_DENSE = 60_000, 5000  # unknowns, with windows everywhere and with features over the whole domain too
RATIO = 4.0  # rows for each unknown
HELD = 0.25  # points to look at alone, for each point to fit to
REACH = 1.0  # half a window, in widths of its cell
FIRST_CELLS = 4  # along each axis
LARGE = 0.7  # of the squares of the residuals: cells that hold that share together are split
ROUNDS = 6  # of candidates for points of a cell
FEWEST = 12  # candidates of a cell among which none is in the domain: the cell is left out
BLOCK = 8192  # points that are prepared at once
FLAT = 1e-6  # of its range: an input that changes by less in a window is not used there
STALL = 0.5  # what a step must lower the residual by, twice in a row
SCALES = ((1.5, 0.0), (1.5, 1.5), (3.0, 0.0), (3.0, 3.0))  # of coordinates and of other inputs
SEARCHED = 3000  # unknowns of systems on which the scale is searched


class Cells(NamedTuple):
    """Boxes (k, c) in the coordinates of points, and which share of each is in the domain."""

    centres: np.ndarray
    halves: np.ndarray
    share: np.ndarray

    def of(self, x: np.ndarray) -> np.ndarray:
        """The number of the cell of each point (n, c); −1 outside."""
        found = np.full(len(x), -1)
        for k, which in held_by(self.centres, self.halves * (1 + 1e-12), x.T):
            found[which] = k
        return found

    def split(self, which: np.ndarray) -> "Cells":
        """Halve some cells along each axis."""
        parts = [equal_cells(c - h, c + h, 2) for c, h in zip(self.centres[which], self.halves[which])]
        rest = np.delete(np.arange(len(self.centres)), which)
        new = np.repeat(self.share[which], 2 ** self.centres.shape[1])
        return Cells(np.concatenate([self.centres[rest], *(part[0] for part in parts)]),
                     np.concatenate([self.halves[rest], *(part[1] for part in parts)]),
                     np.concatenate([self.share[rest], new]))


@dataclass
class Pool:
    """Points that were prepared, to fit to and to look at alone; x (n, c) of each."""

    asked: Asked
    second: int
    random: np.random.Generator
    train: list[Drawn]
    held: list[Drawn]

    @property
    def formulation(self) -> Formulation:
        return self.asked.formulation

    def filled(self, cells: Cells, points: int) -> Cells:
        """Prepare as many points in every cell as are missing; returns the cells that have some."""
        known = np.concatenate([np.asarray(draw.batch.x)[draw.chosen] for draw in self.train]) if self.train else None
        count = np.zeros(len(cells.centres), int)
        if known is not None:
            own = cells.of(known)
            count = np.bincount(own[own >= 0], minlength=len(count))
        lack = np.maximum(points - count, 0)
        found, share = self._candidates(cells, np.ceil(lack * (1 + HELD)).astype(int))
        some = (share > 0) | (count > 0)
        x, of = found
        held = np.zeros(len(x), bool)
        for k in np.unique(of):
            mine = np.flatnonzero(of == k)
            held[mine[: round(len(mine) * HELD / (1 + HELD))]] = True
        for draws, part in ((self.train, x[~held]), (self.held, x[held])):
            draws += [self._prepared(part[start : start + BLOCK]) for start in range(0, len(part), BLOCK)]
        return Cells(cells.centres[some], cells.halves[some], np.where(share > 0, share, cells.share)[some])

    def _candidates(self, cells: Cells, lack: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Points inside the domain (n, c) with their cells (n,), about so many in each; and the share of each cell that
        is inside, 0 where none was found or asked for."""
        domain, dim = self.formulation.problem.domain, self.formulation.problem.schema.dim
        tried, good = np.zeros(len(lack)), np.zeros(len(lack))
        xs, ofs = [np.zeros((0, cells.centres.shape[1]))], [np.zeros(0, int)]
        for _ in range(ROUNDS):
            need = lack - good
            rate = np.where(tried > 0, np.maximum(good, 0.5) / np.maximum(tried, 1), 0.8)
            ask = np.where(need > 0, np.minimum(np.ceil(need / rate), 20 * lack), 0).astype(int)
            ask[(tried > FEWEST * lack) & (good == 0)] = 0
            if not ask.any():
                break
            of = np.repeat(np.arange(len(lack)), ask)
            x = cells.centres[of] + cells.halves[of] * self.random.uniform(-1, 1, (len(of), cells.centres.shape[1]))
            within = _inside(domain, x[:, :dim])
            tried += ask
            x, of = x[within], of[within]
            new = np.bincount(of, minlength=len(lack))
            order = np.argsort(of, kind="stable")
            rank = np.arange(len(of)) - np.repeat(np.cumsum(new) - new, new)
            keep = order[rank < np.repeat(np.maximum(need, 0), new)]
            xs.append(x[keep])
            ofs.append(of[keep])
            good += new
        share = np.where(tried > 0, good / np.maximum(tried, 1), 0.0)
        return (np.concatenate(xs), np.concatenate(ofs)), share

    def _prepared(self, x: np.ndarray) -> Drawn:
        filling = np.repeat(x[-1:], BLOCK - len(x), 0)
        return Drawn(self.formulation.at(np.concatenate([x, filling]), 2), np.arange(len(x)))

    def equations(self, held: bool, cells: Cells) -> Equations:
        """The equations at the points prepared, each counting by the part of the domain that it stands for."""
        main, *others = self.asked.groups(self.held if held else self.train)
        return Equations((_weighed(main._replace(points=trimmed(main.points)), cells), *others), self.second)


def _inside(domain: Shape, x: np.ndarray) -> np.ndarray:
    size = max(BLOCK, 1 << (max(len(x), 1) - 1).bit_length())
    padded = np.concatenate([x, np.repeat(x[-1:], size - len(x), 0)])
    return np.asarray(inside(domain, jnp.asarray(padded)))[: len(x)]


def _weighed(group: Group, cells: Cells) -> Group:
    """Points by the part of the domain for each, in the mean 1."""
    x = group.points.x
    of = cells.of(x)
    count = np.bincount(of[of >= 0], minlength=len(cells.centres))
    volume = cells.share * (2 * cells.halves).prod(1)
    part = np.where(of >= 0, (volume / np.maximum(count, 1))[of], 0.0)
    weight = np.sqrt(part / (part.mean() or 1.0))
    return group._replace(points=group.points._replace(scale=group.points.scale * weight))


def trimmed(points: Points) -> Points:
    """The points sorted by how many corrections they have, and corrections of none left out."""
    count = np.ones(len(points.x), int)
    for k, term in enumerate(points.terms[1:], 2):
        own = (term.matrix != 0).any((0, 1, 2))
        count[: len(own)][own] = k
    order = np.argsort(-count, kind="stable")
    terms = tuple(term.chosen(order[: int((count > k).sum())]) for k, term in enumerate(points.terms))
    return points._replace(x=points.x[order], offset=points.offset[..., order], terms=terms,
                           scale=points.scale[..., order])


def axes_of(points: Points, coordinates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """For each coordinate the number of the input that is that coordinate, scaled; its factor and its shift; None where
    some coordinate is no input."""
    jets = points.terms[0].inputs
    slopes = jets[:, 1 : 1 + coordinates]
    steady = (np.ptp(slopes, axis=2) <= 1e-9 * (1 + np.abs(slopes).max(2))).all(1)
    which = []
    for k in range(coordinates):
        others = np.abs(np.delete(slopes, k, 1)).max((1, 2), initial=0.0)
        alone = steady & (np.abs(slopes[:, k]).max(1) > 0) & (others == 0)
        if not alone.any():
            return None
        which.append(int(np.flatnonzero(alone)[0]))
    factor = np.array([slopes[i, k, 0] for k, i in enumerate(which)])
    shift = np.array([jets[i, 0, 0] for i in which]) - factor * points.x[0, :coordinates]
    return np.array(which), factor, shift


def local_units(cells: Cells, axes: tuple[np.ndarray, np.ndarray, np.ndarray], y: np.ndarray, many: int, recipe: Recipe,
                seed: int) -> Local:
    """So many features for each cell, in windows; y (f, n): inputs at points, through which planes pass."""
    which, factor, shift = axes
    k, f = len(cells.centres), len(y)
    centres, halves = np.zeros((k, f)), np.full((k, f), np.inf)
    centres[:, which] = cells.centres * factor + shift
    halves[:, which] = 2 * REACH * np.abs(cells.halves * factor)
    weights, biases = np.zeros((k, f, many)), np.zeros((k, many))
    least = FLAT * np.ptp(y, axis=1)
    order = np.argsort(y[which[0]], kind="stable")
    along = y[which[0]][order]
    for j in range(k):
        near = order[np.searchsorted(along, centres[j, which[0]] - halves[j, which[0]]) :
                     np.searchsorted(along, centres[j, which[0]] + halves[j, which[0]])]
        near = near[(np.abs(y[which][:, near] - centres[j, which][:, None]) < halves[j, which][:, None]).all(0)]
        if len(near) < 2:
            continue
        own = y[:, near]
        scales = np.where(np.ptp(own, axis=1) > least, recipe.scales, 0.0)
        (layer,) = draw(seed + 7919 * j, own, many, recipe._replace(scales=scales))
        weights[j], biases[j] = layer.weights, layer.biases
    return Local(LOCAL, weights, biases, centres, halves)


class Start(NamedTuple):
    """What is known before: the problem as it is asked, what is divided by, how many rows a point has, features over
    the whole domain (recipe, number), which inputs are straight (f,), where changes are measured."""

    asked: Asked
    second: int
    balance: Balance
    linear: bool
    per_point: float
    recipe: Recipe
    smooth: int
    straight: np.ndarray
    look: Look
    seed: int


def possible(asked: Asked, points: Points) -> bool:
    """Whether features in windows are made for such a problem."""
    schema = asked.formulation.problem.schema
    return (schema.point == schema.coordinates and schema.coordinates in UNITS
            and axes_of(points, schema.coordinates) is not None)


def many_holes(problem: Problem) -> bool:
    """Whether the geometry alone asks for windows everywhere."""
    return len(problem.domain.pieces) > MANY


def in_windows(start: Start, before: Grown, held_out: Equations, tolerance: float, left: Callable[[], float],
               began: float, report: Callable[[Grown], None]) -> list[Grown]:
    """Add features in windows where residuals are large, in smaller and smaller ones, until the tolerance is met or
    that helps no more. before: a solve without windows, and the equations on points it was not fitted to."""
    problem = start.asked.formulation.problem
    c, columns = problem.schema.coordinates, len(start.balance.columns)
    axes = axes_of(held_out.groups[0].points, c)
    assert axes is not None
    pool = Pool(start.asked, start.second, np.random.default_rng((start.seed, 5)), [], [])
    cells, tried = first_cells(problem), [before]
    everywhere = many_holes(problem)
    y = held_out.groups[0].points.terms[0].inputs[:, 0]
    smooth = () if everywhere else draw(start.seed, y, start.smooth, start.recipe)
    windows, scales = cells if everywhere else None, SCALES[0]
    if windows is None:
        cells, windows = marked(before, held_out, cells, None, start.balance)
    while True:
        since = left()
        number = len(windows.centres) * UNITS[c] + (0 if everywhere else start.smooth)
        if number * columns > (MOST if everywhere else MOST_DENSE):
            return tried[1:]
        # Rows for the features of a window, of which a cell is a part.
        rows = RATIO * columns * (number if not everywhere else len(cells.centres) * UNITS[c]) / start.per_point
        share = max(RATIO * UNITS[c] * columns / start.per_point, rows / len(cells.centres) / 2)
        cells = pool.filled(cells, round(share))
        if everywhere and len(tried) == 1:
            windows = cells
        train, held = pool.equations(False, cells), pool.equations(True, cells)
        y = train.groups[0].points.terms[0].inputs[:, 0]

        def solved(scales: tuple[float, float], train: Equations = train, held: Equations = held, y: np.ndarray = y,
                   windows: Cells = windows) -> Grown:
            recipe = Recipe(np.where(start.straight, *scales), "tanh")
            units = (*smooth, local_units(windows, axes, y, UNITS[c], recipe, start.seed))
            near = None if start.linear else train.jets(tried[-1].fitted.units, tried[-1].fitted.last)
            found = fitted(train, units, start.balance, start.linear, near)
            return looked_at(found, len(train.groups[0].points.x), held, start.look, start.balance, tried, began)

        if len(tried) == 1 and number * columns <= SEARCHED:
            choices = SCALES if not start.straight.all() else SCALES[::2]
            scales, now = min(((s, solved(s)) for s in choices), key=lambda one: one[1].held_out)
        else:
            now = solved(scales)
        tried.append(now)
        report(now)
        if now.error <= tolerance or (since - left()) * 4 > left() or _stalled(tried):
            return tried[1:]
        cells, windows = marked(now, held, cells, windows, start.balance)


def _stalled(tried: list[Grown]) -> bool:
    return len(tried) > 4 and tried[-1].held_out > STALL * tried[-3].held_out


def first_cells(problem: Problem) -> Cells:
    """Equal cells; with many holes about one for each."""
    pieces, dim = len(problem.domain.pieces), problem.schema.dim
    across = max(FIRST_CELLS, int(np.ceil(pieces ** (1 / dim)))) if many_holes(problem) else FIRST_CELLS
    low, high = (np.asarray(side, float) for side in problem.domain.bounds)
    if problem.time is not None:
        start, end = problem.time
        low, high = np.append(low, start), np.append(high, end)
    centres, halves = equal_cells(low, high, across)
    return Cells(centres, halves, np.ones(len(centres)))


def marked(now: Grown, held: Equations, cells: Cells, windows: Cells | None, balance: Balance) -> tuple[Cells, Cells]:
    """Cells split where the residual is large, and windows over what they are split into added to those there are."""
    group = held.groups[0]
    jets = held.jets(now.fitted.units, now.fitted.last)
    residuals = held.residuals(jets, balance)[: len(group.points.x) * len(balance.equations)]
    squares = (residuals.reshape(-1, len(group.points.x)) ** 2).sum(0)
    of = cells.of(group.points.x)
    each = np.bincount(of[of >= 0], squares[of >= 0], minlength=len(cells.centres))
    order = np.argsort(-each)
    which = np.sort(order[: 1 + int(np.searchsorted(np.cumsum(each[order]), LARGE * each.sum()))])
    split = cells.split(which)
    new = Cells(*(part[len(cells.centres) - len(which) :] for part in split))
    return split, new if windows is None else Cells(*(np.concatenate(pair) for pair in zip(windows, new)))
