"""The page of a report: one file of HTML that opens in any browser, and its parts."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import features

from hardpde.evaluation.figures.base import Figure, data_uri
from hardpde.evaluation.statistics import value_text
from hardpde.support.files import replacing
from hardpde.support.tables import html_table


def write_page(path: str | Path, title: str, body: Iterable[str], data: Mapping[str, Any] | None = None) -> None:
    """Write one page of HTML parts, those that are empty left out; `data` is what its script draws."""
    content = "\n".join(filter(None, body))
    links = "".join(f"<a href='#{name}'>{text}</a>"
                    for name, text in re.findall(r"<section id='([^']*)'><h2>(.*?)</h2>", content))
    if data is not None:  # no text of a user may end the script
        text = json.dumps(data, allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
        content += f"\n<script type='application/json' id='data'>{text}</script>"
    style, script = ((Path(__file__).parent / "page" / name).read_text("utf-8") for name in ("page.css", "page.js"))
    page = PAGE.format(title=escape(title), style=style, script=script, body=content, links=links)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def section(title: str, *parts: str) -> str:
    """A part of the page with a title that the bar on top links to; nothing where all parts are empty."""
    content = "\n".join(filter(None, parts))
    name = re.sub(r"\W+", "-", title.lower()).strip("-")
    return f"<section id='{name}'><h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def tags(settings: Mapping[str, Any]) -> str:
    """The plain settings in one line, under the title."""
    plain = [(k, v) for k, v in settings.items() if not isinstance(v, (Mapping, list, tuple))]
    return "<p class='tags'>" + "".join(
        f"<span>{escape(str(k).replace('_', ' '))} <b>{escape(value_text(v))}</b></span>" for k, v in plain
    ) + "</p>"  # fmt: skip


def cards(rows: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers side by side, each with a label above and a note below."""
    return "<div class='cards'>" + "".join(
        f"<div class='card'><div class='label'>{escape(label)}</div>"
        f"<div class='number'>{escape(number)}</div>"
        f"<div class='note'>{escape(note).replace(' %', '&nbsp;%')}</div></div>"
        for label, number, note in rows
    ) + "</div>"  # fmt: skip


def captioned(caption: str, figure: Figure) -> str:
    """A figure with what it shows below it."""
    webp = features.check("webp")
    options: dict[str, Any] = {"pil_kwargs": {"quality": 90, "method": 4}} if webp else {}
    source = data_uri(figure, "webp" if webp else "png", 130, **options)
    return f"<figure><img src='{source}' alt='{escape(caption)}'><figcaption>{escape(caption)}</figcaption></figure>"


def settings_tables(settings: Mapping[str, Any]) -> str:
    """Plain settings first, then a table for each group."""
    groups = {"run": {k: v for k, v in settings.items() if not isinstance(v, Mapping)}}
    groups |= {str(k): dict(v) for k, v in settings.items() if isinstance(v, Mapping)}
    return "<div class='groups'>" + "".join(
        f"<div><h3>{escape(name)}</h3>"
        + scroll_table([], _flat(group), words=True)
        + "</div>"
        for name, group in groups.items()
        if group
    ) + "</div>"  # fmt: skip


def _flat(group: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in group.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key} ")
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
            for i, item in enumerate(value, 1):
                yield from _flat({str(i): item}, f"{prefix}{key} ")
        elif isinstance(value, (list, tuple)):
            yield prefix + str(key), ", ".join(map(value_text, value))
        else:
            yield prefix + str(key), value_text(value)


def scroll_table(head: Sequence[str], rows: Iterable[Sequence[Any]], styles: Iterable[str] = (), left: int = 1,
          words: bool = False) -> str:
    """A table of escaped text, a class for each row; the first `left` columns are text, or with `words` all."""
    kind = " class='words'" if words else f" class='left{left}'" if left > 1 else ""
    return f"<div class='scroll'>{html_table(head, rows, styles, kind)}</div>"


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<nav aria-label="sections"><div>{links}</div></nav>
<main>
{body}
</main>
<footer>Written by hardpde. This page is one file and needs no network.</footer>
<script>{script}</script>
</body>
</html>
"""
