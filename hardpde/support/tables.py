"""Tables of text, in Markdown and in HTML: a head and rows of cells, the first column with names."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import chain, repeat
from typing import Any


class Strong(str):
    """Text of a cell that stands out in its table."""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], aligned: bool = False) -> str:
    """A table in Markdown. aligned: all columns but the first to the right, and padded for readers of the source."""
    lines = [list(map(_marked, cells)) for cells in (head, *rows)]
    widths = [max(4, *map(len, column)) if aligned else 0 for column in zip(*lines)]
    rule = ["-" * (width or 3) for width in widths]
    rule[1:] = [line[:-1] + ":" for line in rule[1:]] if aligned else rule[1:]
    padded = [[cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]
              for cells in lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (padded[0], rule, *padded[1:]))


def _marked(cell: Any) -> str:
    text = str(cell).replace("|", r"\|")
    return f"**{text}**" if isinstance(cell, Strong) else text


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], styles: Iterable[str] = (), table: str = "",
               cell: str = "") -> str:
    """A table in HTML, its text escaped. styles: a class for each row; table, cell: attributes of these tags."""
    names = "".join(f"<th{cell}>{escape(name)}</th>" for name in head)
    opening = f"<thead><tr>{names}</tr></thead>" if head else ""
    lines = "".join(_row(cells, style, cell) for cells, style in zip(rows, chain(styles, repeat(""))))
    return f"<table{table}>{opening}<tbody>\n{lines}</tbody></table>"


def _row(cells: Sequence[Any], style: str, attributes: str) -> str:
    marks = [" class='best'" if isinstance(cell, Strong) else "" for cell in cells]
    content = "".join(f"<td{attributes}{mark}>{escape(str(cell))}</td>" for cell, mark in zip(cells, marks))
    return (f"<tr class='{style}'>" if style else "<tr>") + content + "</tr>\n"
