"""The check of types and shapes that `conftest.py` puts round the functions of networks and of ansatz/base.py."""

from collections.abc import Callable

from beartype import BeartypeConf, beartype


def checked(function: Callable) -> Callable:
    """A function whose arguments and result are what it states; constructors take anything, as pytrees hold anything.
    """
    constructs = function.__qualname__.endswith("__init__")
    return function if constructs else beartype(conf=BeartypeConf(is_pep484_tower=True))(function)
