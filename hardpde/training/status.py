"""Why an optimiser ends: status codes and their sentences."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

RUNNING, CONVERGED, STALLED = 0, 1, 2
_SENTENCES = {
    RUNNING: "the optimiser is still making progress",
    CONVERGED: "the gradient is below the tolerance",
    STALLED: "the line search found no lower loss along the steepest descent",
}


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
