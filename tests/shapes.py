"""The check of shapes that `conftest.py` puts round the functions of networks and of ansatz/base.py."""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def checked(function: Callable) -> Callable:
    """A function whose arguments and result have the shapes that it states; constructors take anything, as pytrees do.
    """
    if function.__qualname__.endswith("__init__"):
        return function
    function.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if states_shape(kind)}
    return beartype(function)


def states_shape(kind: Any) -> bool:
    """Whether a type is that of an array of some shape, or made of such."""
    return (isinstance(kind, type) and issubclass(kind, AbstractArray)) or any(map(states_shape, get_args(kind)))
