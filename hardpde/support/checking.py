"""Whether what a user states is of its kind."""
from typing import Any

import numpy as np


def check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")


def is_number(value: Any) -> bool:
    """Whether it is a number, and no truth value."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
