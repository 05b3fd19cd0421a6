"""Work in NumPy shared by the cores."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hardpde.support.hardware import cores


def in_threads(function: Callable[[int], None], arguments: range) -> None:
    """Call a function that leaves Python's lock for most of its time, each core with its own arguments."""
    if len(arguments) < 2:
        for one in arguments:
            function(one)
        return
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(function, arguments))
