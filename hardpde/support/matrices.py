"""Small matrices at every point: products, inverses, right inverses, systems."""

import jax.numpy as jnp
from jax import Array


def times(a: Array, b: Array) -> Array:
    """Product of small matrices (or with a vector) as a sum: it fuses, where a call to a library would not."""
    if b.ndim == 1:
        return (a * b).sum(-1)
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


def inverse(matrix: Array) -> Array:
    """Inverse of a small symmetric matrix; closed forms where they are exact and fast."""
    size = matrix.shape[0]
    if size == 1:
        return 1 / matrix
    if size == 2:
        (a, b), (c, d) = matrix
        return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)
    return jnp.linalg.inv(matrix)


def right_inverse(a: Array, projector: Array, present: Array) -> Array:
    """D (m, r) with A D = I on the rows present and D in the range of the projector; absent rows give 0."""
    a = a * present[:, None]
    image = times(projector, a.T)
    gram = times(a, image) + jnp.diag(1 - present)
    return times(image, inverse(gram))


def solve_small(a: Array, b: Array) -> Array:
    """a⁻¹ b of a small matrix; in the plane by a formula, which fuses, where a call to a library would not."""
    if len(a) == 1:
        return b / a[0, 0]
    if len(a) == 2:
        (p, q), (r, s) = a
        return jnp.stack([s * b[0] - q * b[1], p * b[1] - r * b[0]]) / (p * s - q * r)
    return jnp.linalg.solve(a, b)
