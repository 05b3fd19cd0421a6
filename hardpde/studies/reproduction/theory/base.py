"""A claim of the paper, and what the claims share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from hardpde.evaluation.figures.base import COLOURS

FORMS = ("before", "after")  # the reformulation with extra fields
SHADES = {"before": COLOURS[1], "after": COLOURS[0]}
LEAST, MOST = 1e-3, 1e2  # the scales of the weights
ROUNDING = 1e-11  # below it numbers of order one are only rounding

Found = Mapping[str, Any]  # what a claim measured, as plain data


class Finding(NamedTuple):
    """A statement of the paper, what was measured, and whether it holds in each case."""

    statement: str
    measured: str
    holds: Sequence[bool]


class Claim(NamedTuple):
    """What the paper states about one thing: its name in the data, how it is measured (quickly or in full), and from
    the data the findings, the panels of the picture by their titles, and more in words."""

    name: str
    measure: Callable[[bool], dict[str, Any]]
    findings: Callable[[Found], list[Finding]]
    panels: Mapping[str, Callable[[Axes, Found], None]]
    words: Callable[[Found], str] | None = None
