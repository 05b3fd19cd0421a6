"""The equations of a formulation at points, and the last layer that solves them: one least-squares problem where they
are linear, damped Gauss–Newton steps where they are not."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hardpde.direct.block_sparse import least_squares_in_blocks
from hardpde.direct.groups import Group
from hardpde.direct.least_squares import least_squares
from hardpde.direct.system import Rows, contracted, matrix, state
from hardpde.direct.window_rows import blocks, is_local, last_of_blocks, together
from hardpde.networks.features import Units, number

STEPS = 15  # at most
DENSE = 5000  # unknowns: with more of them, a matrix of features in windows is factored as a sparse one
# Weights so large that rounding leaves 1e-12 of conditions; where they are on normal derivatives, that comes sooner.
LARGEST, LARGEST_FOR_SLOPES = 2e3, 1e2
SHARES = (1.0, 0.5, 0.2, 0.05, 0.01)  # of a step, until the residuals fall
ENDED = 0.7  # a whole step that leaves more than this of the residuals is the last one

Jets = list[np.ndarray]  # of the state, (m, slots, points), one for each group


class Balance(NamedTuple):
    """What is divided by: the size of the terms of each equation (e,), and that of what each column of the last layer
    makes (c,)."""

    equations: np.ndarray
    columns: np.ndarray


class Equations(NamedTuple):
    """Groups of values that should be zero, for states that features add to the offset at their points."""

    groups: tuple[Group, ...]
    second: int  # coordinates that the Laplacian sums over; 0: there is none

    @property
    def columns(self) -> int:
        """How many columns the last layer has."""
        return self.groups[0].points.columns

    @property
    def offsets(self) -> Jets:
        return [group.points.offset for group in self.groups]

    def added(self, units: Units, last: np.ndarray) -> Jets:
        """What features with this last layer (h, c) add to the offsets."""
        return [state(group.points, units, last, self.second) for group in self.groups]

    def jets(self, units: Units, last: np.ndarray) -> Jets:
        """The state with this last layer."""
        return moved(self.offsets, self.added(units, last))

    def factors(self, group: Group, balance: Balance) -> np.ndarray:
        """The factors of the values of a group, (e, places) or (1, places)."""
        if group is self.groups[0]:
            return group.points.scale / balance.equations[:, None]
        return np.full((1, group.places), np.sqrt(group.weight * self.groups[0].places / group.places))

    def residual(self, jets: Jets, balance: Balance) -> float:
        """The root of the mean over the places of the sum of all scaled values squared."""
        return self.size(self.residuals(jets, balance))

    def size(self, residuals: np.ndarray) -> float:
        with np.errstate(over="ignore"):  # a step that is much too long
            return float(np.sqrt((residuals**2).sum() / self.groups[0].places))

    def residuals(self, jets: Jets, balance: Balance) -> np.ndarray:
        """All scaled values in a row."""
        return np.concatenate([(group.linearised(jet)[0] * self.factors(group, balance)).ravel()
                               for group, jet in zip(self.groups, jets)])

    def about(self, jets: Jets, balance: Balance) -> list[Rows]:
        """The equations linearised about a state, as rows for all that features add to the offset."""
        found = []
        for group, jet in zip(self.groups, jets):
            value, slope = group.linearised(jet)
            change = np.einsum("emsn,msn->en", slope, jet - group.points.offset)
            value = value - change.reshape(len(change), group.at_once, -1).sum(1)
            factors = self.factors(group, balance)
            slope = slope * np.tile(factors, group.at_once)[:, None, None]
            found.append(contracted(group.points, value * factors, slope, balance.columns, self.second, group.at_once))
        return found

    def ahead(self, jets: Jets, step: Jets, balance: Balance) -> float:
        """The residual after a step if the equations were linear."""
        found = []
        for group, jet, change in zip(self.groups, jets, step):
            value, slope = group.linearised(jet)
            moved = np.einsum("emsn,msn->en", slope, change).reshape(len(value), group.at_once, -1).sum(1)
            found.append(((value + moved) * self.factors(group, balance)).ravel())
        return self.size(np.concatenate(found))

    def sizes(self, jets: Jets) -> np.ndarray:
        """The rms over the points of the sum of the terms of each equation, without their signs, (e,)."""
        group, jet = self.groups[0], jets[0]
        value, slope = group.linearised(jet)
        parts = slope * jet
        rest = value - parts.sum((1, 2))
        return rms((np.abs(parts).sum((1, 2)) + np.abs(rest)) * group.points.scale, axis=1)

    def linear(self) -> bool:
        """Whether the derivatives of all values are the same at two states."""
        random = np.random.default_rng(0)
        for group in self.groups:
            jet = group.points.offset
            size = np.maximum(rms(jet, axis=-1)[..., None], 1e-3)
            one, two = (group.linearised(jet + c * size * random.standard_normal(jet.shape))[1] for c in (0, 1))
            if np.abs(one - two).max() > 1e-9 * np.abs(one).max():
                return False
        return True


def moved(jets: Sequence[np.ndarray], change: Sequence[np.ndarray], share: float = 1.0) -> Jets:
    """States changed by a share of something."""
    return [jet + share * part for jet, part in zip(jets, change)]


def rms(values: np.ndarray, axis: Any = None, where: Any = True) -> Any:
    return np.sqrt(np.mean(values**2, axis=axis, where=where))


class Fitted(NamedTuple):
    """Features with the last layer (h, c); the balanced residual on the points they were fitted to; converged: whether
    another Newton step would not lower it."""

    units: Units
    last: np.ndarray
    residual: float
    steps: int
    rows: int
    converged: bool = True


def right_side(rows: list[Rows]) -> np.ndarray:
    """What is known of all rows, one after the other."""
    return np.concatenate([part.right for part in rows])


def last_layer(rows: list[Rows], units: Units, balance: Balance) -> np.ndarray:
    """The last layer (h, c) with the least residuals of linearised equations."""
    sloping = any(term.dual is not None for part in rows for term in part.terms)
    known = right_side(rows)
    if is_local(units):
        made = blocks(rows, units)
        largest = LARGEST_FOR_SLOPES if sloping else LARGEST
        if rows[0].columns * number(units) > DENSE:
            found = least_squares_in_blocks(made, -known, largest)
        else:
            found = least_squares(together(made, len(known), rows[0].columns * number(units)), -known, largest)
        return last_of_blocks(found, units, rows[0].columns) * balance.columns
    found = least_squares(matrix(rows, units), -known, LARGEST_FOR_SLOPES if sloping else LARGEST)
    return found.reshape(rows[0].columns, -1).T * balance.columns


def fitted(train: Equations, units: Units, balance: Balance, linear: bool, near: Jets | None = None) -> Fitted:
    """The last layer on these features; where the equations are not linear, from a state `near` the solution, or from
    none."""
    last, jets, steps = np.zeros((number(units), train.columns)), train.offsets, 0
    if near is not None and not linear:
        last = last_layer(train.about(near, balance), units, balance)
        jets, steps = train.jets(units, last), 1
    rows: list[Rows] = []
    now, converged = train.residual(jets, balance), linear
    while steps < (1 if linear else STEPS) and not (converged and steps):
        steps += 1
        rows = train.about(jets, balance)
        change = last_layer(rows, units, balance) - last
        step = train.added(units, change)
        before, share = now, 1.0
        for share in SHARES:
            now = train.residual(moved(jets, step, share), balance)
            if linear or now < before:
                break
        if not now < before:
            now, steps, converged = before, steps - 1, linear or train.ahead(jets, step, balance) > ENDED * before
            break
        jets, last = moved(jets, step, share), last + share * change
        converged = linear or (now > ENDED * before and share == 1.0)
    return Fitted(units, last, now, steps, len(right_side(rows)), converged)
