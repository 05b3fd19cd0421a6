"""The PDE loss of −u″ = a² sin(ax) before and after the reformulation with extra fields, and the bounds of its gradient
in the proof of Theorem 4.1 (A.7.1, A.7.2)."""

import math
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

BLOCKS = {"before": ("c", "w", "b"), "after": ("c", "w", "b", "c_p")}
FINE = 1000  # panels of the quadrature: steps of tanh of width 1/MOST
A = 2.0  # of −a² sin(ax), where one value stands for all
# The constants in the proof of Theorem 4.1 (A.7.2) by form and block.
CONSTANTS = {"before": (8.0, 16 * math.pi, 8.0), "after": (2.0, 40 * math.pi, 12.0, 4.0)}


class Weights(NamedTuple):
    """A layer of K tanh units with outputs û = c·g and p̂ = c_p·g, g = tanh(w x + b); each (K,)."""

    c: Array
    w: Array
    b: Array
    c_p: Array


@cache
def quadrature(panels: int, order: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre points of (0, 2π) in panels, with weights that sum to one."""
    x, weights = np.polynomial.legendre.leggauss(order)
    starts = np.arange(panels)[:, None]
    return (2 * np.pi * (starts + (x + 1) / 2) / panels).ravel(), np.tile(weights / (2 * panels), panels)


def pde_loss(form: str, theta: Weights, a: Array | float, panels: int = FINE) -> Array:
    """L_F before the reformulation, L̃_F after it (A.7.1), of −u″ = a² sin(ax) on (0, 2π)."""
    x, weights = map(jnp.asarray, quadrature(panels))
    g = jnp.tanh(x[:, None] * theta.w + theta.b)
    slope, source = (1 - g**2) * theta.w, a**2 * jnp.sin(a * x)
    if form == "before":
        return weights @ (-2 * (g * slope * theta.w) @ theta.c + source) ** 2
    return weights @ ((slope @ theta.c_p + source) ** 2 + (g @ theta.c_p - slope @ theta.c) ** 2)


def bounds(form: str, theta: Weights, a: Array | float) -> dict[str, Array]:
    """The explicit bounds of |∇L| by block in the proof of Theorem 4.1, with the paper's constants; each (K,)."""
    c, w, _, c_p = map(jnp.abs, theta)
    most, one = jnp.maximum(c, c_p), jnp.maximum(w, 1.0)
    if form == "before":
        size = c @ w**2 + a**2
        parts = [size * w**2, size * c * w * (w + 1), size * c * w**2]
    else:
        size = c_p.sum() + most @ w + a**2
        parts = [(c_p.sum() + c @ w) * w, size * most * one, size * most * one, size * one]
    return {block: k * part for block, k, part in zip(BLOCKS[form], CONSTANTS[form], parts)}


def gradient(form: str, theta: Weights, a: Array | float, panels: int = FINE) -> dict[str, Array]:
    """∇L by block."""
    found = jax.grad(pde_loss, argnums=1)(form, theta, a, panels)
    return {block: getattr(found, block) for block in BLOCKS[form]}


def random_weights(key: Array, width: int) -> Weights:
    return Weights(*jax.random.normal(key, (4, width)))
