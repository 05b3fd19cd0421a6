"""Whether what a user states is of its kind: a number, a whole number, a word, one of a few choices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_KINDS: dict[type, tuple[Any, str]] = {  # of a default: what is as good, in words
    bool: (bool, "true or false"), int: (int, "a whole number"), float: (int | float, "a number"),
    str: (str, "a word")}


def is_number(value: Any) -> bool:
    """Whether it is a number, and no truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Whether it is text, which stands for no number, or has some in it."""
    if isinstance(value, list | tuple):
        return any(map(is_text, value))
    return isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and value.dtype.kind in "SU")


def is_positive(value: Any) -> bool:
    """Whether it is a positive, finite number."""
    return is_number(value) and 0 < value < float("inf")


def is_fraction(value: Any) -> bool:
    """Whether it is a number from 0 to 1."""
    return is_number(value) and 0 <= value <= 1


def is_whole(value: Any, least: float = -float("inf")) -> bool:
    """Whether it is a whole number, and at least so large."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")


def check_at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in tuple(choices):
        raise ValueError(f"{name} is '{value}'; it is " + " or ".join(f"'{choice}'" for choice in choices))


def check_word(name: Any, what: str) -> None:
    """Names of boundaries are words."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of {what} is {name!r}; a name is a word like 'wall'")


def numbers(values: object, what: str) -> np.ndarray:
    """What a user states for something, as an array."""
    try:
        if is_text(values):
            raise ValueError
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be numbers, got {values!r}") from None


def finite_numbers(values: object, what: str) -> np.ndarray:
    """Finite numbers that a user states for something, as an array."""
    array = numbers(values, what)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be finite numbers, got {array.tolist()}")
    return array


def one_number(value: object, what: str) -> float:
    """One finite number that a user states for something."""
    array = finite_numbers(value, what)
    if array.ndim:
        raise ValueError(f"{what} is one number, got {value!r}")
    return float(array)


def unlike_default(default: Any, value: Any) -> str:
    """What an option with this default must be, in words, where the value is not; otherwise nothing."""
    if type(default) not in _KINDS:
        return ""
    kind, words = _KINDS[type(default)]
    return "" if isinstance(value, kind) and isinstance(value, bool) == isinstance(default, bool) else words


def wished_kind(name: str, default: Any, value: Any) -> str:
    """What an option of a method or an optimiser must be, in words, where the value is not; otherwise nothing.

    Whole numbers are counts, so positive, or 0 where that is the default; without a default they may be left out.
    """
    if name == "dtype":
        return "" if value in ("float32", "float64") else "float32 or float64"
    if isinstance(default, tuple):
        listed = isinstance(value, list | tuple) and all(is_whole(n, 1) for n in value)
        return "" if listed else "a list of positive whole numbers like [50,50]"
    if default == 0 and is_whole(default):
        return "" if is_whole(value, 0) else "a whole number, 0 or more"
    if default is None or is_whole(default):
        return "" if is_whole(value, 1) or (default is None and value is None) else "a positive whole number"
    if isinstance(value, float) and not np.isfinite(value):
        return "a number"
    return unlike_default(default, value)
