"""What every experiment is given, and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Work:
    """How an experiment is to run: quick (about a minute on two cores, to see that it works) or in full.

    folder: where runs that several experiments share are kept. say: words for people while it runs.
    """

    folder: Path
    quick: bool = False
    say: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class Outcome:
    """What came out: a title, Markdown with the paper's values beside ours, plain data, figures by name.

    A figure is a matplotlib figure (drawn in `evaluation`); the name "" is that of the experiment itself.
    """

    title: str
    text: str
    data: dict[str, Any]
    figures: dict[str, Any] = field(default_factory=dict)
