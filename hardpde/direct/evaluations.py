"""The points of a direct solve, with all that the ansatz needs there, as NumPy arrays."""

from itertools import pairwise
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from hardpde.formulation.batch import Batch
from hardpde.formulation.formulation import Formulation


class Evaluations(NamedTuple):
    """Evaluations of the network, as jets: inputs (f, slots, n) and the matrix (m, o, slots, n) of its outputs.

    With `dual`, derivatives of the inputs along a normal, the matrix acts on their normal derivatives too (2 o).
    """

    inputs: np.ndarray
    matrix: np.ndarray
    dual: np.ndarray | None


class Points(NamedTuple):
    """Points x (n, c); q = offset (m, slots, n) + the sum of the terms; scale (e, n), the factors of the residuals.

    Terms after the first belong to the first points only.
    """

    x: np.ndarray
    offset: np.ndarray
    terms: tuple[Evaluations, ...]
    scale: np.ndarray

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        main = self.terms[0]
        return main.matrix.shape[1] // (1 if main.dual is None else 2)


def draw_points(formulation: Formulation, key: Array, number: int) -> Points:
    """At least `number` points, in draws of the size that the formulation has."""
    draws = max(1, -(-number // formulation.points))
    return put_together([as_numpy(formulation.draw(k)) for k in jax.random.split(key, draws)])


def as_numpy(batch: Batch) -> Points:
    terms = tuple(Evaluations(np.asarray(term.inputs), np.asarray(term.matrix),
                              None if term.dual is None else np.asarray(term.dual)) for term in batch.terms)
    return Points(np.asarray(batch.x), np.asarray(batch.offset), terms, np.asarray(batch.scale))


def put_together(draws: list[Points]) -> Points:
    """Draws alike as one; the points with more corrections come first, as in each of them."""
    lengths = [term.inputs.shape[-1] for term in draws[0].terms]
    parts = [slice(a, b) for a, b in pairwise(sorted({0, *lengths}))]

    def joined(arrays: list[np.ndarray]) -> np.ndarray:
        inside = [part for part in parts if part.stop <= arrays[0].shape[-1]]
        return np.concatenate([array[..., part] for part in inside for array in arrays], axis=-1)

    terms = []
    for own in zip(*(draw.terms for draw in draws)):
        duals = [term.dual for term in own if term.dual is not None]
        terms.append(Evaluations(joined([term.inputs for term in own]), joined([term.matrix for term in own]),
                                 joined(duals) if duals else None))
    x = np.concatenate([draw.x[part] for part in parts for draw in draws])
    return Points(x, joined([draw.offset for draw in draws]), tuple(terms), joined([draw.scale for draw in draws]))
