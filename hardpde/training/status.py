"""Why an optimiser ends: status codes and their sentences."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

RUNNING, CONVERGED, STALLED = 0, 1, 2
FAILURES_BEFORE_STALL = 3  # the first failure restarts from steepest descent, the others are that descent
_SENTENCES = {
    RUNNING: "the optimiser is still making progress",
    CONVERGED: "the gradient is below the tolerance",
    STALLED: "the line search found no lower loss along the steepest descent",
}


def status_after(gradient: Array, moved: Array, failures: Array, tolerance: float) -> tuple[Array, Array]:
    """The number of failures in a row and the status code, from the gradient before a step and whether it moved."""
    converged = jnp.max(jnp.abs(gradient)) <= tolerance
    failures = jnp.where(moved | converged, 0, failures + 1).astype(jnp.int32)
    stalled = jnp.where(failures >= FAILURES_BEFORE_STALL, STALLED, RUNNING)
    return failures, jnp.where(converged, CONVERGED, stalled).astype(jnp.int32)


def status(state: Any) -> Array:
    """The status code (int32) found anywhere in an optimiser state: 0 running, 1 converged, 2 stalled.

    States without such a field, e.g. Adam's, report 0.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    codes = [leaf for path, leaf in leaves if path and getattr(path[-1], "name", None) == "status"]
    code = jnp.asarray(RUNNING, jnp.int32)
    for other in codes:
        code = jnp.maximum(code, other)
    return code


def describe_status(code: int | Array) -> str:
    """The meaning of a status code in one sentence."""
    try:
        return _SENTENCES[int(code)]
    except KeyError:
        raise ValueError(f"code must be one of {sorted(_SENTENCES)}, got {int(code)}") from None
