"""One page about a run: report.html, a single file that opens in any browser, without server or network."""

import base64
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import features

from hardpde.evaluation.figures.history import total_steps
from hardpde.evaluation.report.browser import curve, packed
from hardpde.support.files import replacing

EXACT = 1e-10  # below it a condition is called exact
METRIC_NAMES = {
    "mae": "MAE",
    "mape": "MAPE",
    "wmape": "WMAPE",
    "relative_l2": "relative L²",
    "max": "max |error|",
}
PERCENT = ("mape", "wmape", "relative_l2")


def write_report(
    path: str | Path,
    title: str,
    settings: Mapping[str, Any],
    metrics: Mapping[str, Mapping[str, Any]],
    certificate: Sequence[Mapping[str, Any]],
    history: Mapping[str, Sequence],
    fields: Mapping[str, tuple] | None = None,
    figures: Mapping[str, Figure] | None = None,
    endings: Sequence[Mapping[str, Any]] = (),
    baselines: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    profiles: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the report of a run to `path`.

    settings:    plain data; a value that is a mapping becomes a table of its own ("provenance", "method", …)
    metrics:     {field: what `metrics.errors` returned}, empty without a reference; "parts" holds more of them
    certificate: [{"name", "boundary", "violation"}], max |A q - g| of every condition
    history:     lists "step", "loss", "held_out", "stage", "seconds" of equal length, as for `history_plot`
    fields:      {field: (x, cells, times, prediction, known values or None)}, shapes as in `figures.maps.field_grid`;
                 one slider moves all that depend on time, and the errors at that time with them
    figures:     {caption: figure}, shown at the end
    endings:     [{"stage", "steps", "why"}], why each stage of the training ended
    baselines:   {name: metrics}, the errors of trivial predictions, told beside those of the run
    profiles:    what `certificate.profiles` returned, drawn along each boundary
    """
    page = packed(fields or {})
    page["now"] = _now(metrics, page["times"])
    page["charts"] = {f"condition {k}": _along(row) for k, row in enumerate(profiles)}
    if len(history.get("step", [])):
        page["charts"]["history"] = _losses(history)
    body = [
        f"<header><h1>{escape(title)}</h1>{tags(settings)}</header>",
        _headline(metrics, certificate, history, baselines or {}),
        section("Fields", *_fields(page, metrics)),
        section("Errors against the reference", _errors(metrics, baselines or {})),
        section("Conditions", _certificate(certificate), _courses(profiles)),
        section("Training", _training(history, endings)),
        section("Figures", *(captioned(caption, figure) for caption, figure in (figures or {}).items())),
        section("Settings and provenance", settings_tables(settings)),
    ]
    write_page(path, title, body, page)


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


class Strong(str):
    """Text of a cell that stands out in its table."""


def section(title: str, *parts: str) -> str:
    content = "\n".join(filter(None, parts))
    name = re.sub(r"\W+", "-", title.lower()).strip("-")
    return f"<section id='{name}'><h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


def tags(settings: Mapping[str, Any]) -> str:
    """The plain settings in one line, under the title."""
    plain = [(k, v) for k, v in settings.items() if not isinstance(v, (Mapping, list, tuple))]
    return "<p class='tags'>" + "".join(
        f"<span>{escape(str(k).replace('_', ' '))} <b>{escape(value_text(v))}</b></span>" for k, v in plain
    ) + "</p>"  # fmt: skip


def _headline(
    metrics: Mapping, certificate: Sequence[Mapping], history: Mapping[str, Sequence], baselines: Mapping
) -> str:
    """The numbers a reader came for: errors of the first components, violation, held-out loss, time."""
    rows = []
    for name, errors in list(metrics.items())[:4]:
        notes = [
            f"{METRIC_NAMES[key]} {_metric(key, errors[key])}"
            for key in ("mape" if (errors.get("mape") or 2) <= 1 else "wmape", "relative_l2")
            if errors.get(key) is not None
        ]
        for other, found in baselines.items():
            notes += [f"{other} {_metric('mae', found[name]['mae'])}"] if name in found else []
        rows.append((f"MAE of {name}", _metric("mae", errors.get("mae")), " · ".join(notes)))
    if certificate:
        worst = max(_float(row["violation"]) for row in certificate)
        note = f"largest |A q − g| of {count_text(len(certificate), 'condition')}"
        rows.append(("Violation of conditions", _metric("", worst), note))
    if len(history.get("held_out", [])):
        rows.append(("Held-out loss", _metric("", history["held_out"][-1]), "on points never trained on"))
    if len(history.get("seconds", [])):
        steps = int(total_steps(history)[0][-1])
        rows.append(("Training time", f"{_float(history['seconds'][-1]):.4g} s", count_text(steps, "step")))
    return cards(rows)


def cards(rows: Iterable[tuple[str, str, str]]) -> str:
    """Large numbers side by side, each with a label above and a note below."""
    return "<div class='cards'>" + "".join(
        f"<div class='card'><div class='label'>{escape(label)}</div>"
        f"<div class='number'>{escape(number)}</div>"
        f"<div class='note'>{escape(note).replace(' %', '&nbsp;%')}</div></div>"
        for label, number, note in rows
    ) + "</div>"  # fmt: skip


def _errors(metrics: Mapping[str, Mapping[str, Any]], baselines: Mapping[str, Mapping]) -> str:
    if not metrics:
        return (
            "<p>No reference is known for this problem: the held-out loss is what measures the solution.</p>"
        )
    tables = {"this run": metrics, **baselines}
    timed = any("by_time" in errors for errors in metrics.values())
    parted = any("parts" in errors for errors in metrics.values())
    head = ["field"] + ["prediction"] * bool(baselines) + ["nodes"] * parted + ["t"] * timed
    lines = []
    for name in metrics:
        for who, found in tables.items():
            if name not in found:
                continue
            own, errors = found is metrics, found[name]
            rows = [("all", "average", errors)]
            rows += [("", f"{row['time']:g}", row) for row in errors.get("by_time", [])]
            rows += [(part, "average", row) for part, row in errors.get("parts", {}).items()]
            for i, (part, when, row) in enumerate(rows):
                cells = [name if own and not i else ""] + ["" if i else who] * bool(baselines)
                cells += [part] * parted + [when] * timed
                style = ("" if i else "total") if own else "trivial"
                lines.append(([*cells, *(_metric(key, row.get(key)) for key in METRIC_NAMES)], style))
    notes = []
    if timed:
        notes.append("An average is the mean over the times of the metric at each time; max is over all times.")
    if any("area-weighted" in errors.get("parts", {}) for errors in metrics.values()):
        notes.append("Area-weighted: every node counts by the area of the cells round it.")
    return table([*head, *METRIC_NAMES.values()], lines, left=len(head) - timed) + "".join(
        f"<p class='small'>{note}</p>" for note in notes)  # fmt: skip


def _certificate(certificate: Sequence[Mapping[str, Any]]) -> str:
    if not certificate:
        return ""
    rows = []
    for row in certificate:
        exact = _float(row["violation"]) <= EXACT
        rows.append(
            (
                [
                    row["name"],
                    row["boundary"],
                    _metric("", row["violation"]),
                    "exact" if exact else "approximate",
                ],
                "good" if exact else "weak",
            )
        )
    note = (
        f"<p class='small'>Exact: max |A q − g| on the boundary is at most {EXACT:g}, that is, rounding.</p>"
    )
    return table(["condition", "boundary", "max |A q − g|", ""], rows, left=2) + note


def _along(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The curve of one profile; what is zero to the last bit is drawn at the smallest rounding."""
    values = [max(v, 1e-17) if math.isfinite(v) else None for v in map(_float, profile["violation"])]
    largest = max(map(_float, profile["violation"]), default=0.0)
    said = f"largest {_metric('', largest)} at {profile['where']}" if largest > 0 else "zero everywhere"
    return curve(f"violation of {profile['name']} along {profile['boundary']}", profile["along"],
                 [("|A q − g|", profile["at"], values)], said=said, breaks=profile["breaks"], height=170)


def _courses(profiles: Sequence[Mapping[str, Any]]) -> str:
    """A curve for every condition, with the largest value in words."""
    if not profiles:
        return ""
    charts = "".join(
        f"<div><h3><b>{escape(row['name'])}</b> on {escape(row['boundary'])}, |A q − g| over {row['along']}</h3>"
        f"<div class='chart' data-chart='condition {k}'></div><p class='said'></p></div>"
        for k, row in enumerate(profiles))  # fmt: skip
    return f"<div class='charts'>{charts}</div>"


def _losses(history: Mapping[str, Sequence]) -> dict[str, Any]:
    steps, borders = total_steps(history)
    lines = [(label, steps, history[key]) for key, label in (("loss", "training"), ("held_out", "held-out"))
             if len(history.get(key, []))]
    said = f"{count_text(int(steps[-1]), 'step')}"
    if len(history.get("seconds", [])):
        said += f" in {_float(history['seconds'][-1]):.4g} s"
    return curve("training loss and held-out loss over the steps", "step", lines, said=said, marks=borders, height=300)


def _training(history: Mapping[str, Sequence], endings: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if len(history.get("step", [])):
        parts.append("<p class='legend'><span>training loss</span><span>held-out loss</span></p>"
                     "<div><div class='chart' data-chart='history'></div><p class='said'></p></div>")
    if endings:
        rows = (([row["stage"], f"{row['steps']:,}", row["why"]], "") for row in endings)
        parts.append(table(["stage", "steps", "why it ended"], rows, words=("why it ended",)))
    return "\n".join(parts)


def _now(metrics: Mapping[str, Mapping[str, Any]], times: Sequence[float] | None) -> dict[str, list[str]]:
    """The errors at the time of each frame as text, by component and metric; a dash where they are not known."""
    found = {}
    for name, errors in metrics.items():
        for key in METRIC_NAMES if times and "by_time" in errors else ():
            rows = {round(row["time"], 9): row.get(key) for row in errors["by_time"]}
            found[f"{name} {key}"] = [_metric(key, rows.get(round(t, 9))) for t in times or ()]
    return found


def _fields(page: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """The slider, the errors at its time, and a place for every picture."""
    last = len(page["labels"]) - 1
    if page["views"] and page["times"] and last:
        yield (f"<div class='control'><button type='button' aria-label='play'>▶</button>"
               f"<input type='range' min='0' max='{last}' step='1' value='{last}' id='time' aria-label='time' "
               f"aria-valuetext='{escape(page['labels'][-1])}'><output for='time'>{escape(page['labels'][-1])}</output>"
               f"</div>")
        names = [name for name in metrics if f"{name} mae" in page["now"]]
        if names:
            head = "".join(f"<th>{escape(name)}</th>" for name in ("error at this time", *METRIC_NAMES.values()))
            lines = "".join(f"<tr><td>{escape(name)}</td>" + "".join(
                f"<td data-now='{escape(f'{name} {key}', quote=True)}'>{page['now'][f'{name} {key}'][-1]}</td>"
                for key in METRIC_NAMES) + "</tr>" for name in names)
            yield (f"<div class='scroll now'><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>")
    for k, view in enumerate(page["views"]):
        alone = " alone" if len(view["panels"]) == 1 else ""
        yield (f"<div class='view' data-view='{k}'><h3>{escape(view['title'])}</h3><div class='panels{alone}'></div>"
               f"<p class='under'>{escape(view['note'])}</p></div>")
    if page["views"]:
        yield "<noscript><p>The fields are drawn by a script; the folder figures has them as pictures.</p></noscript>"


def captioned(caption: str, figure: Figure) -> str:
    return f"<figure>{_image(figure, caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def _image(figure: Figure, text: str) -> str:
    kind = "webp" if features.check("webp") else "png"
    buffer = io.BytesIO()
    options: dict[str, Any] = {"pil_kwargs": {"quality": 90, "method": 4}} if kind == "webp" else {}
    figure.savefig(buffer, format=kind, dpi=130, **options)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f"<img src='data:image/{kind};base64,{data}' alt='{escape(text)}'>"


def settings_tables(settings: Mapping[str, Any]) -> str:
    """Plain settings first, then a table for each group."""
    groups = {"run": {k: v for k, v in settings.items() if not isinstance(v, Mapping)}}
    groups |= {str(k): dict(v) for k, v in settings.items() if isinstance(v, Mapping)}
    return "<div class='groups'>" + "".join(
        f"<div><h3>{escape(name)}</h3>"
        + table([], (([key, value], "") for key, value in _flat(group)), words=("", ""))
        + "</div>"
        for name, group in groups.items()
        if group
    ) + "</div>"  # fmt: skip


def _flat(group: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
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


def table(
    head: Sequence[str], rows: Iterable[tuple[Sequence[str], str]], words: Sequence[str] = (), left: int = 1
) -> str:
    """A table of escaped text; a row comes with its style; the first `left` columns are text."""
    first = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join(
        f"<tr class='{style}'>" + "".join(map(_cell, cells)) + "</tr>\n"
        for cells, style in rows
    )
    kind = " class='words'" if words else f" class='left{left}'" if left > 1 else ""
    opening = f"<thead><tr>{first}</tr></thead>" if head else ""
    return f"<div class='scroll'><table{kind}>{opening}<tbody>\n{lines}</tbody></table></div>"


def _cell(cell: Any) -> str:
    style = " class='best'" if isinstance(cell, Strong) else ""
    return f"<td{style}>{escape(str(cell))}</td>"


def _metric(key: str, value: float | None) -> str:
    if value is None or value == 0 or not math.isfinite(value):
        return value_text(value)
    return f"{100 * value:#.3g} %" if key in PERCENT else f"{value:.2e}"


def value_text(value: Any) -> str:
    """Text of one value, not escaped: numbers short, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, int) or not hasattr(value, "__float__"):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return "not finite"
    return f"{number:.3g}" if number == 0 or 1e-2 <= abs(number) < 1e5 else f"{number:.2e}"


def _float(value: Any) -> float:
    return math.inf if value is None or not math.isfinite(value) else float(value)


def count_text(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
