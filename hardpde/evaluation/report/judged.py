"""The part of a report that says what the answer is worth: the verdict, and what flows in and out."""

from collections.abc import Mapping
from html import escape
from typing import Any

from hardpde.evaluation.report.page import scroll_table


def judgement(result: Mapping[str, Any]) -> str:
    """The verdict, because of what, and the balance of every equation with a divergence; nothing where none is known.
    """
    if not result.get("verdict"):
        return ""
    head = f"<p><b>{escape(result['verdict'])}</b>: {escape(result['because'])}</p>"
    return head + _balances(result.get("conservation") or [])


def _balances(rows: list[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row["through"]))
    lines = [[row["equation"], "" if row["time"] is None else f"{row['time']:.4g}",
              *(f"{row['through'].get(name, 0.0):.4g}" for name in names), f"{row['source']:.4g}",
              f"{row['sum']:.2g}", f"{100 * row['imbalance']:.2g} %", row["where"]] for row in rows]
    head = ["equation", "t", *(f"out through {name}" for name in names), "made inside", "difference", "missing",
            "where"]
    styles = ["good" if row["imbalance"] <= 0.02 else "weak" for row in rows]
    note = ("<p class='small'>What flows out through all boundaries is what the sources make; missing is the most that "
            "is not so in a part of the domain between two cuts, in units of all that flows or is made.</p>")
    return scroll_table(head, lines, styles, left=2) + note
