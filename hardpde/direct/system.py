"""The equations at points as rows that are linear in the last layer.

The state of the exact ansatz is q = c + Σ_s M_s N(y_s) with N = Σ_j W_j φ_j, and a linearised equation is
F·(jet of q) + r. Contracting F with the matrices M_s leaves for each term a small array G, with which a row is
Σ_s Σ_slots G φ_j; features enter only there.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from hardpde.direct.evaluations import Points
from hardpde.direct.features import Features, slopes
from hardpde.problem.problem import Problem

BLOCK = 2048  # points whose rows are made at once: what that takes stays in the cache


class Contracted(NamedTuple):
    """One term of linearised equations at its points: inputs (f, slots, n) and g (e, o, slots, n).

    dual (f, slots, n): derivatives of the inputs along a normal, with g_dual (e, o, slots, n).
    """

    inputs: np.ndarray
    g: np.ndarray
    dual: np.ndarray | None = None
    g_dual: np.ndarray | None = None


class Rows(NamedTuple):
    """Linearised equations: for weights w of the last layer they are known + matrix · w, scaled."""

    terms: tuple[Contracted, ...]
    known: np.ndarray  # (e, n)
    second: int  # coordinates that the Laplacian in the last slot sums over; 0: there is none
    outputs: int


def linearisation(problem: Problem) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Residuals (e, n) and their derivatives (e, m, slots, n) by the jet of the state; from points (n, c) and jets
    (m, slots, n)."""

    def one(x: Array, jet: Array) -> tuple[Array, Array]:
        def residuals(jet: Array) -> tuple[Array, Array]:
            r = problem.residuals(x, jet[:, 0], jet[:, 1:].T)
            return r, r

        slope, value = jax.jacfwd(residuals, has_aux=True)(jet)
        return value, slope

    return jax.jit(jax.vmap(one, (0, -1), -1))


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


def contracted(problem: Problem, points: Points, value: np.ndarray, slope: np.ndarray) -> Rows:
    """The equations at points, linearised: residuals `value` (e, n) and their derivatives `slope` (e, m, slots, n)."""
    schema = problem.schema
    second = schema.dim if slope.shape[2] == schema.coordinates + 2 else 0
    scale = points.scale
    slope = slope * scale[:, None, None]
    terms = []
    for term in points.terms:
        n = term.inputs.shape[-1]
        g = contract(term.matrix, slope[..., :n], second)
        if term.dual is None:
            terms.append(Contracted(term.inputs, g))
        else:
            outputs = g.shape[1] // 2
            terms.append(Contracted(term.inputs, g[:, :outputs], term.dual, g[:, outputs:]))
    return Rows(tuple(terms), value * scale, second, terms[0].g.shape[1])


def matrix(rows: Rows, features: Features) -> np.ndarray:
    """The matrix of the rows, (e·n, o·h) in Fortran order: its columns are the features of the first output, then those
    of the next."""
    e, n = rows.known.shape
    out = np.zeros((rows.outputs, features.number, e, n))
    for term in rows.terms:
        for start in range(0, term.inputs.shape[-1], BLOCK):
            block = slice(start, start + BLOCK)
            _add(out[..., block], _at(term, block), features, rows.second)
    return out.reshape(rows.outputs * features.number, e * n).T


def _at(term: Contracted, block: slice) -> Contracted:
    if term.dual is None or term.g_dual is None:
        return Contracted(term.inputs[..., block], term.g[..., block])
    return Contracted(term.inputs[..., block], term.g[..., block], term.dual[..., block], term.g_dual[..., block])


def _add(out: np.ndarray, term: Contracted, features: Features, second: int) -> None:
    """Add a term at some points to the rows (o, h, e, n) there."""
    y, w = term.inputs, features.weights.T
    n = y.shape[-1]
    out = out[..., :n]
    phi = slopes(w @ y[:, 0] + features.biases[:, None], 1 + bool(second) + (term.dual is not None))
    spread = None
    if second:
        along = [w @ y[:, k] for k in range(1, 1 + second)]
        spread = sum(z * z for z in along)
    steep = None
    if term.dual is not None:
        steep = w @ term.dual[:, 0]
        if second:
            mixed = sum(z * (w @ term.dual[:, k]) for k, z in enumerate(along, 1))
    for i, o in np.ndindex(term.g.shape[:2]):
        g = term.g[i, o]
        if g.any():
            part = phi.first * (w @ np.einsum("sn,fsn->fn", g[1:], y[:, 1:]))
            part += phi.value * g[0]
            if second and g[-1].any():
                part += phi.second * spread * g[-1]
            out[o, :, i] += part
        if term.dual is not None and term.g_dual is not None and (g := term.g_dual[i, o]).any():
            part = phi.first * (w @ np.einsum("sn,fsn->fn", g, term.dual))
            part += phi.second * steep * (w @ np.einsum("sn,fsn->fn", g[1:], y[:, 1:]))
            if second and g[-1].any():
                part += (phi.third * spread * steep + 2 * phi.second * mixed) * g[-1]
            out[o, :, i] += part


def outputs(features: Features, weights: np.ndarray, y: np.ndarray, dual: np.ndarray | None, second: int) -> np.ndarray:
    """The jet (o, slots, n) of N = Wᵀ φ for inputs y (f, slots, n); with `dual` that of the derivative along it too,
    (2 o, slots, n). weights (h, o)."""
    w, last = features.weights.T, weights.T
    phi = slopes(w @ y[:, 0] + features.biases[:, None], 1 + bool(second) + (dual is not None))
    along = [w @ y[:, k] for k in range(1, y.shape[1])]
    spread = sum(z * z for z in along[:second])
    jet = [last @ phi.value, *(last @ (phi.first * z) for z in along)]
    if second:
        jet[-1] += last @ (phi.second * spread)
    if dual is None:
        return np.stack(jet, axis=1)
    steep = [w @ dual[:, k] for k in range(dual.shape[1])]
    slope = [last @ (phi.first * steep[0]),
             *(last @ (phi.second * steep[0] * z + phi.first * t) for z, t in zip(along, steep[1:]))]
    if second:
        mixed = sum(z * t for z, t in zip(along[:second], steep[1:]))
        slope[-1] += last @ (phi.third * spread * steep[0] + 2 * phi.second * mixed)
    return np.concatenate([np.stack(jet, axis=1), np.stack(slope, axis=1)])


def state(points: Points, features: Features, weights: np.ndarray, second: int) -> np.ndarray:
    """What the features add to the jet of the state, (m, slots, n)."""
    jet = np.zeros(points.offset.shape)
    for term in points.terms:
        n = term.inputs.shape[-1]
        for start in range(0, n, BLOCK):
            block = slice(start, min(start + BLOCK, n))
            dual = None if term.dual is None else term.dual[..., block]
            out = outputs(features, weights, term.inputs[..., block], dual, second)
            jet[..., block] += product(term.matrix[..., block], out, second)
    return jet
