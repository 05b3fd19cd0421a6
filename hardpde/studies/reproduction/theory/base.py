"""What the claims share."""

from hardpde.evaluation.figures.base import COLOURS

FORMS = ("before", "after")  # the reformulation with extra fields
SHADES = {"before": COLOURS[1], "after": COLOURS[0]}
LEAST, MOST = 1e-3, 1e2  # the scales of the weights
ROUNDING = 1e-11  # below it numbers of order one are only rounding


def _yes(*holds: bool) -> str:
    """Whether something holds in all cases, in some, in none."""
    return "yes" if all(holds) else "in part" if any(holds) else "**no**"
