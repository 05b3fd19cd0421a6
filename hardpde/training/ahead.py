"""What a line search knows of the next step: the loss and its gradient where the last one ended."""

from typing import Any, NamedTuple

import jax
from jax import Array


class Ahead(NamedTuple):
    """The loss and its gradient at the end of a step."""

    value: Array
    gradient: Any


def ahead(state: Any) -> Ahead | None:
    """What the line search of the last step has found at its end; None for an optimiser without one."""
    found = [leaf for leaf in jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, Ahead))
             if isinstance(leaf, Ahead)]
    return found[0] if found else None


def looking_ahead(state: Any, known: tuple[Array, Any]) -> Any:
    """The state that knows this loss and gradient."""
    def put(node: Any) -> Any:
        if not isinstance(node, Ahead):
            return node
        return jax.tree.map(lambda new, old: new.astype(old.dtype), Ahead(*known), node)

    return jax.tree.map(put, state, is_leaf=lambda node: isinstance(node, Ahead))
