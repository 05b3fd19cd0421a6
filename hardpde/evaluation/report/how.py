"""The part of a report that says how a problem was solved without training: the decision, the features, the sizes."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hardpde.evaluation.figures.base import Figure
from hardpde.evaluation.report.page import captioned, scroll_table
from hardpde.evaluation.untrained import features_in_words


def how_it_was_solved(settings: Mapping[str, Any], decision: str, sizes: Sequence[Mapping[str, Any]],
                      figures: Mapping[str, Figure]) -> str:
    """The decision in words, the features and the sizes that were tried as tables, then figures by their captions;
    nothing where all was trained."""
    if not sizes:
        return ""
    parts = [f"<p>{escape(decision)}</p>"]
    if rows := features_in_words(settings):
        parts.append(scroll_table(["features", ""], rows, words=True))
    lines = [[row["stage"], f"{row['step']:,}", f"{row['loss'] ** 0.5:.2e}", f"{row['held_out'] ** 0.5:.2e}",
              f"{row['seconds']:.2f}"] for row in sizes]
    parts.append(scroll_table(["solved", "unknowns", "residual at points fitted to", "held-out residual",
                               "seconds so far"], lines))
    return "\n".join([*parts, *(captioned(caption, figure) for caption, figure in figures.items())])
