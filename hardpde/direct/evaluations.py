"""The points of a direct solve, with all that the ansatz needs there, as NumPy arrays."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hardpde.formulation.batch import Batch
from hardpde.networks.features import Source, with_slopes_apart
from hardpde.problem.problem import Problem


class Evaluations(NamedTuple):
    """Evaluations of the network, as jets: inputs (f, slots, n) and the matrix (m, o, slots, n) of its outputs.

    With `dual`, derivatives of the inputs along a normal, the matrix acts on their normal derivatives too (2 o). slopes
    (d, f, slots, n): derivatives of the inputs by each coordinate, where some outputs are slopes of others.
    """

    inputs: np.ndarray
    matrix: np.ndarray
    dual: np.ndarray | None
    slopes: np.ndarray | None = None

    def chosen(self, which: Any) -> "Evaluations":
        """Those at some of the points."""
        return Evaluations(self.inputs[..., which], self.matrix[..., which], *(
            None if array is None else array[..., which] for array in (self.dual, self.slopes)))


class Points(NamedTuple):
    """Points x (n, c); q = offset (m, slots, n) + the sum of the terms; scale (e, n), the factors of the residuals.

    Terms after the first belong to the first points only. sources: what each output of the network is made of.
    """

    x: np.ndarray
    offset: np.ndarray
    terms: tuple[Evaluations, ...]
    scale: np.ndarray
    sources: tuple[Source, ...]

    @property
    def columns(self) -> int:
        """How many columns the last layer has."""
        return 1 + max(source.column for source in self.sources)

    def chosen(self, which: np.ndarray) -> "Points":
        """Some of the points, by their numbers in ascending order."""
        terms = tuple(term.chosen(which[which < term.inputs.shape[-1]]) for term in self.terms)
        return Points(self.x[which], self.offset[..., which], terms, self.scale[..., which], self.sources)

    @property
    def finite(self) -> np.ndarray:
        """At which points all of this is finite, (n,)."""
        good = np.isfinite(self.offset).all((0, 1)) & np.isfinite(self.scale).all(0)
        for term in self.terms:
            n = term.inputs.shape[-1]
            good[:n] &= np.isfinite(term.inputs).all((0, 1)) & np.isfinite(term.matrix).all((0, 1, 2))
            for more in (term.dual, term.slopes):
                if more is not None:
                    good[:n] &= np.isfinite(more).reshape(-1, n).all(0)
        return good


def potentials(problem: Problem, marched: bool = False) -> tuple[Source, ...]:
    """Outputs of which those that stand for a gradient are the slopes of the others; () where there are none such, or
    where what they are multiplied with or added to is not. marched: as in `exact`."""
    schema, hints = problem.schema, problem.hints
    others = schema.traces or hints.outputs is not None or problem.mapping is not None
    if not schema.gradients or others or (not marched and (problem.layout.initial or hints.guess is not None)):
        return ()
    base_of, columns, found = dict(schema.gradients), dict[str, int](), list[Source]()
    for name, where in schema.slices.items():
        if name not in base_of:
            columns[name] = 1 + max((source.column for source in found), default=-1)
            found += [Source(columns[name] + k) for k in range(where.stop - where.start)]
        else:
            found += [Source(columns[base_of[name]] + k, 1 + axis)
                      for k, axis in np.ndindex((where.stop - where.start) // schema.dim, schema.dim)]
    return tuple(found)


def as_numpy(batch: Batch, sources: tuple[Source, ...], sloped: int = 0) -> Points:
    """sloped: by how many coordinates the inputs are followed by their derivatives."""
    terms = []
    for term in batch.terms:
        inputs, slopes = _double(term.inputs), None
        if sloped:
            inputs, slopes = with_slopes_apart(inputs, len(inputs) // (1 + sloped))
        terms.append(Evaluations(inputs, _double(term.matrix), None if term.dual is None else _double(term.dual),
                                 slopes))
    return Points(_double(batch.x), _double(batch.offset), tuple(terms), _double(batch.scale), sources)


def _double(array: Any) -> np.ndarray:
    return np.asarray(array, float)


def put_together(draws: list[Points]) -> Points:
    """Draws as one; the points with more corrections come first, as in each of them."""
    most = max(len(draw.terms) for draw in draws)
    lengths = [[term.inputs.shape[-1] for term in draw.terms] + [0] * (most - len(draw.terms)) for draw in draws]
    # Part k of a draw: the points that lie in exactly k of its terms; those with the most come first.
    borders = [[0, *sorted(own)] for own in lengths]
    parts = [[slice(a, b) for a, b in pairwise(own)] for own in borders]

    def joined(arrays: list[np.ndarray], depth: int) -> np.ndarray:
        return np.concatenate([array[..., own[k]] for k in range(most - depth) for array, own in zip(arrays, parts)],
                              axis=-1)

    terms = []
    for depth in range(most):
        own = [draw.terms[depth] if depth < len(draw.terms) else _none(draw, draws) for draw in draws]
        terms.append(Evaluations(*(joined(list(arrays), depth) if arrays[0] is not None else None  # type: ignore[arg-type]
                                   for arrays in zip(*own))))
    x = joined([draw.x.T for draw in draws], 0).T
    return Points(x, joined([draw.offset for draw in draws], 0), tuple(terms),
                  joined([draw.scale for draw in draws], 0), draws[0].sources)


def _none(draw: Points, draws: list[Points]) -> Evaluations:
    """A term of no points, of the same shapes as those of the other draws."""
    return next(other.terms[-1] for other in draws if len(other.terms) > len(draw.terms)).chosen(slice(0))
