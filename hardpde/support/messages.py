"""What is said of an error that somebody else raised."""

from collections.abc import Iterator
from contextlib import contextmanager


def first_line(error: BaseException) -> str:
    """The first line of an error's words; its kind where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def evaluating(what: str) -> Iterator[None]:
    """What a user's function raises in here is a ValueError of one sentence about it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {first_line(error)}") from None
    except Exception as error:
        raise ValueError(f"{what} cannot be evaluated: {type(error).__name__}: {first_line(error)}") from None
