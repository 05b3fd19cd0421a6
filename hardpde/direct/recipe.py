"""Features drawn at scales that are searched on small systems, by the residual on held-out points."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from hardpde.ansatz.corners import INPUTS
from hardpde.networks.features import Layer, Units

FIRST = 1.5
LEAST, MOST = 0.2, 64.0
HIGHEST = 5.0  # exponent of a power about a corner
SHARE_OF_CORNERS = 0.5  # of the features, where that helps
BLOCK = 64  # features that are drawn together, so that more features begin with those of fewer


class Recipe(NamedTuple):
    """How features are drawn: the scale of each input (f,), "tanh" or "sine", and which share are powers about corners.

    exponents: the least one of each corner, whose inputs are the last ones; slopes: powers are of slopes too.
    """

    scales: np.ndarray
    kind: str
    share: float = 0.0
    exponents: tuple[float, ...] = ()
    slopes: bool = False


def draw(seed: int, inputs: np.ndarray, many: int, recipe: Recipe) -> Units:
    """Features whose planes pass through random points of the domain, given the inputs (f, n) there.

    Weights are uniform in ± scale over half the range of each input. The first of many are those of few.
    """
    powers = round(recipe.share * many)
    units: Units = ()
    if many > powers:
        units += (Layer(recipe.kind, *_in_blocks(many - powers, lambda k: _planes(np.random.default_rng((seed, 0, k)),
                                                                                  inputs, recipe))),)
    if powers:
        units += (Layer("power", *_in_blocks(powers, lambda k: _powers((seed, 1, k), len(inputs), recipe))),)
    return units


def _in_blocks(many: int, block: Callable[[int], tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    found = [block(k) for k in range(-(-many // BLOCK))]
    return [np.concatenate(part, axis=-1)[..., :many] for part in zip(*found)]


def _planes(random: np.random.Generator, inputs: np.ndarray, recipe: Recipe) -> tuple[np.ndarray, ...]:
    half = np.maximum(np.ptp(inputs, axis=1) / 2, 1e-9)
    weights = random.uniform(-1, 1, (len(inputs), BLOCK)) * (recipe.scales / half)[:, None]
    through = inputs[:, random.integers(0, inputs.shape[1], BLOCK)]
    shift = random.uniform(0, 2 * np.pi, BLOCK) if recipe.kind == "sine" else 0.0
    return weights, -(weights * through).sum(0) + shift


def _powers(seed: tuple[int, int, int], inputs: int, recipe: Recipe) -> tuple[np.ndarray, ...]:
    """Pairs of r^a sin(bθ + c), a quarter of a turn apart, in the window of one corner after the other: in turn those
    of the expansion of a solution there, and with random a and b."""
    random, corners = np.random.default_rng(seed), len(recipe.exponents)
    weights, growth, biases = np.zeros((inputs, BLOCK)), np.zeros((inputs, BLOCK)), np.zeros(BLOCK)
    for pair in range(BLOCK // 2):
        k, which = divmod(pair + seed[-1] * BLOCK // 2, corners)
        known = _expansion(recipe.exponents[which], recipe.slopes)
        least = recipe.exponents[which] - recipe.slopes
        a, b, turn = random.uniform(least, HIGHEST), random.uniform(0, HIGHEST), random.uniform(0, 2 * np.pi)
        if k % 2 == 0 and k // 2 < len(known):
            (a, b), turn = known[k // 2], 0.0
        first, both = inputs - INPUTS * (corners - which), slice(2 * pair, 2 * pair + 2)
        growth[first, both], growth[first + 2, both] = a, 1.0
        weights[first + 1, both], biases[both] = b, (turn, turn + np.pi / 2)
    return weights, biases, growth


@cache
def _expansion(exponent: float, slopes: bool) -> list[tuple[float, float]]:
    """Exponents a and frequencies b of harmonic functions at a corner, of what follows from them, r^m later, and of the
    slopes of all these, the first of each kind first."""
    found = [(m, k * exponent + m - down, abs(k * exponent + m - down - 2 * j))
             for k in range(1, int(HIGHEST / exponent) + 1) for m in range(3) for j in range(m + 1)
             for down in range(1 + slopes)]
    order = sorted({(m, round(a, 9), round(b, 9)) for m, a, b in found if a <= HIGHEST})
    return list(dict.fromkeys((a, b) for _, a, b in order))


def kinds(inputs: np.ndarray, dim: int, corners: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A number for each input, (f,), from jets (f, slots, n): coordinates of space, time, parameters, other functions
    of the place, other functions of time have a number of their own, and the inputs of corners −1; and which of these
    numbers are coordinates."""
    inputs = inputs[: len(inputs) - INPUTS * corners]
    slopes = inputs[:, 1:]
    moves = np.abs(slopes).max(axis=2) > 0
    straight = (np.ptp(slopes, axis=2) <= 1e-9 * (1 + np.abs(slopes).max(axis=2))).all(axis=1)
    space, time = moves[:, :dim].any(axis=1), moves[:, dim:].any(axis=1)
    kind = np.select([space & straight, time & straight, ~(space | time), space], [0, 1, 2, 3], 4)
    found, group = np.unique(kind, return_inverse=True)
    return np.concatenate([group, np.full(INPUTS * corners, -1)]), found < 3


class Search(NamedTuple):
    """A score of recipes that is to be least, one that is low enough, and which inputs (f,) share a scale."""

    score: Callable[[Recipe], float]
    group: np.ndarray
    known: dict[tuple, float]
    sure: float

    def made(self, recipe: Recipe, scales: np.ndarray) -> Recipe:
        """The recipe with a scale for each group of inputs."""
        return recipe._replace(scales=np.append(scales, 0.0)[self.group])

    def of(self, recipe: Recipe, scales: np.ndarray) -> float:
        key = (*scales, recipe.kind, recipe.share)
        if key not in self.known:
            self.known[key] = self.score(self.made(recipe, scales))
        return self.known[key]

    @property
    def done(self) -> bool:
        return min(self.known.values(), default=np.inf) <= self.sure

    def with_scale(self, recipe: Recipe, scales: np.ndarray, which: np.ndarray, factor: float) -> np.ndarray:
        """The scales of some groups, all times a factor as often as that lowers the score."""
        while True:
            new = np.where(which, scales * factor, scales)
            outside = (new[which] < LEAST).any() or (new[which] > MOST).any()
            if self.done or outside or not self.of(recipe, new) < self.of(recipe, scales):
                return scales
            scales = new

    def with_or_without(self, recipe: Recipe, scales: np.ndarray, g: int, at: float = FIRST) -> np.ndarray:
        """A group of inputs left out, or taken in at a scale, if that lowers the score."""
        if self.done:
            return scales
        new = scales.copy()
        new[g] = 0.0 if scales[g] else at
        return new if self.of(recipe, new) < self.of(recipe, scales) else scales


def searched(score: Callable[[Recipe], float], first: Recipe, group: np.ndarray,
             coordinate: np.ndarray, sure: float = -np.inf, coarse: Callable[[Recipe], float] | None = None) -> Recipe:
    """The recipe of the least score that is found, or of the first that is below `sure`. coarse: a score that is
    cheaper, by which is found about where that is; groups are taken in at the scale of the flattest one then.

    Scales are doubled and halved, first of all coordinates together, with tanh and with sines, and where there are
    corners with and without powers about them; then of one group of inputs at a time. A group that is no coordinate may
    be left out, scale 0.
    """
    search = Search(score if coarse is None else coarse, group, {}, sure)
    found = []
    for kind in ("tanh", "sine"):
        if search.done:
            break
        recipe, scales = first._replace(kind=kind), np.where(coordinate, FIRST, 0.0)
        for factor in (2.0, 0.5):
            scales = search.with_scale(recipe, scales, coordinate, factor)
        found.append((search.of(recipe, scales), recipe, scales))
    _, recipe, scales = min(found, key=lambda one: one[0])
    if recipe.exponents and not search.done:
        powers = recipe._replace(share=SHARE_OF_CORNERS)
        recipe = powers if search.of(powers, scales) < search.of(recipe, scales) else recipe
    for factors in ((2.0, 0.5), (2.0**0.5, 0.5**0.5)):
        if coarse is not None and factors[0] < 2.0:
            search = Search(score, group, {}, sure)
        for g in range(len(scales)):
            if not coordinate[g]:
                flattest = np.min(scales[~coordinate & (scales > 0)], initial=FIRST)
                scales = search.with_or_without(recipe, scales, g, FIRST if coarse is None else flattest)
            for factor in factors if scales[g] else ():
                scales = search.with_scale(recipe, scales, np.arange(len(scales)) == g, factor)
    return search.made(recipe, scales)
