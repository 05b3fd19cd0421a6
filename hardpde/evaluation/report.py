"""One page about a run: report.html, a single file that opens in any browser, without server or network."""

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import features

from hardpde.evaluation.plots import Frame, history_plot, total_steps
from hardpde.files import replacing

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
    fields: Mapping[str, Sequence[Frame]] | None = None,
    figures: Mapping[str, Figure] | None = None,
    endings: Sequence[Mapping[str, Any]] = (),
    baselines: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
) -> None:
    """Write the report of a run to `path`.

    settings:    plain data; a value that is a mapping becomes a table of its own ("provenance", "method", …)
    metrics:     {field: what `metrics.errors` returned}, empty without a reference; "parts" holds more of them
    certificate: [{"name", "boundary", "violation"}], max |A q - g| of every condition
    history:     lists "step", "loss", "held_out", "stage", "seconds" of equal length, as for `history_plot`
    fields:      {field: frames of `plots.field_frames`}, each shown with a slider over its frames
    figures:     {caption: figure}, shown at the end
    endings:     [{"stage", "steps", "why"}], why each stage of the training ended
    baselines:   {name: metrics}, the errors of trivial predictions, told beside those of the run
    """
    body = [
        f"<header><h1>{escape(title)}</h1>{tags(settings)}</header>",
        _headline(metrics, certificate, history, baselines or {}),
        section("Fields", *(_slider(name, frames) for name, frames in (fields or {}).items())),
        section("Errors against the reference", _errors(metrics, baselines or {})),
        section("Conditions", _certificate(certificate)),
        section("Training", _training(history, endings)),
        section("Figures", *(captioned(caption, figure) for caption, figure in (figures or {}).items())),
        section("Settings and provenance", settings_tables(settings)),
    ]
    write_page(path, title, body)


def write_page(path: str | Path, title: str, body: Iterable[str]) -> None:
    """Write one page of HTML parts, those that are empty left out."""
    page = PAGE.format(title=escape(title), style=STYLE, script=SCRIPT, body="\n".join(filter(None, body)))
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


class Strong(str):
    """Text of a cell that stands out in its table."""


def section(title: str, *parts: str) -> str:
    content = "\n".join(filter(None, parts))
    return f"<section><h2>{escape(title)}</h2>\n{content}\n</section>" if content else ""


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
        f"<div class='number'>{escape(number)}</div><div class='note'>{escape(note)}</div></div>"
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
    return table(["condition", "boundary", "max |A q − g|", ""], rows) + note


def _training(history: Mapping[str, Sequence], endings: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if len(history.get("step", [])):
        parts.append(_image(history_plot(history), "training loss and held-out loss over the steps"))
    if endings:
        rows = (([row["stage"], f"{row['steps']:,}", row["why"]], "") for row in endings)
        parts.append(table(["stage", "steps", "why it ended"], rows, words=("why it ended",)))
    return "\n".join(parts)


def _slider(name: str, frames: Sequence[Frame]) -> str:
    """All frames inline, one visible; a range input switches between them."""
    if not frames:
        return ""
    last = len(frames) - 1
    images = "".join(
        _image(figure, f"{name}, {label}", "" if i == last else " hidden")
        for i, (label, figure) in enumerate(frames)
    )
    labels = "".join(f"<li>{escape(label)}</li>" for label, _ in frames)
    control = (
        f"<div class='control'><button type='button' aria-label='play'>▶</button>"
        f"<input type='range' min='0' max='{last}' step='1' value='{last}' "
        f"aria-label='time of {escape(name)}'>"
        f"<output>{escape(frames[-1][0])}</output></div>"
    )
    return (
        f"<div class='slider'><h3>{escape(name)}</h3>{control if last else ''}"
        f"<div class='frames'>{images}</div><ul hidden>{labels}</ul></div>"
    )


def captioned(caption: str, figure: Figure) -> str:
    return f"<figure>{_image(figure, caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def _image(figure: Figure, text: str, attribute: str = "") -> str:
    kind = "webp" if features.check("webp") else "png"
    buffer = io.BytesIO()
    options: dict[str, Any] = {"pil_kwargs": {"quality": 90, "method": 4}} if kind == "webp" else {}
    figure.savefig(buffer, format=kind, dpi=130, **options)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f"<img src='data:image/{kind};base64,{data}' alt='{escape(text)}'{attribute}>"


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
<main>
{body}
</main>
<footer>Written by hardpde. This page is one file and needs no network.</footer>
<script>{script}</script>
</body>
</html>
"""

STYLE = """
:root { color-scheme: light;
  --ink: #1f2933; --grey: #5c6773; --line: #e3e7ec; --blue: #0b5c94; --back: #f4f6f8; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 8px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 10px; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; margin: 0 0 14px; }
h3 { font-size: 0.95rem; margin: 0 0 8px; color: var(--grey); }
.tags { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 0 0 24px; color: var(--grey);
  font-size: 0.9rem; }
.tags b { color: var(--ink); font-weight: 600; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px;
  margin: 0 0 18px; }
.card, section { background: #fff; border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 16px 18px; }
.label { color: var(--grey); font-size: 0.85rem; }
.number { font-size: 1.75rem; font-weight: 650; color: var(--blue); font-variant-numeric: tabular-nums; }
.lead { font-size: 1.1rem; margin: 0 0 20px; }
details { margin: 0 0 8px; }
summary { cursor: pointer; font-weight: 600; margin: 0 0 8px; }
.note, .small { color: var(--grey); font-size: 0.82rem; overflow-wrap: anywhere; }
.small + .small { margin-top: -8px; }
section { padding: 20px 22px; margin: 0 0 18px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--grey); border-bottom: 2px solid var(--line); }
td { text-align: right; border-bottom: 1px solid var(--line); }
th, td { padding: 6px 12px; white-space: pre; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
.left2 :is(th, td):nth-child(2), .left3 :is(th, td):nth-child(-n+3) { text-align: left; }
.words td { white-space: normal; overflow-wrap: anywhere; }
.words thead + tbody td:first-child { white-space: nowrap; }
.scroll + h3 { margin-top: 22px; }
tr:last-child td { border-bottom: 0; }
tr.total td { font-weight: 650; background: #f7f9fb; }
tr.trivial td { color: var(--grey); }
td.best { font-weight: 700; color: var(--blue); }
tr.good td:last-child { color: #14733c; font-weight: 600; }
tr.weak td:last-child { color: #a8480b; font-weight: 600; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
img[hidden] { display: none; }
figure { margin: 0 0 20px; }
figcaption { text-align: center; color: var(--grey); font-size: 0.9rem; }
.slider + .slider { margin-top: 26px; border-top: 1px solid var(--line); padding-top: 18px; }
.control { display: flex; align-items: center; gap: 14px; margin: 0 0 12px; }
.control input { flex: 1; accent-color: var(--blue); }
.control output { min-width: 6.5em; font-weight: 600; font-variant-numeric: tabular-nums; }
.control button { border: 1px solid var(--line); background: #fff; border-radius: 6px;
  width: 36px; height: 32px; color: var(--blue); cursor: pointer; }
.groups { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr));
  gap: 20px 28px; }
.groups td:first-child { color: var(--grey); width: 45%; }
.groups td { padding: 4px 8px 4px 0; }
footer { max-width: 1080px; margin: 0 auto; padding: 0 20px 32px; color: var(--grey); font-size: 0.82rem; }
@media print { body { background: #fff; } .control { display: none; } section { break-inside: avoid; } }
"""

SCRIPT = """
for (const slider of document.querySelectorAll(".slider")) {
  const input = slider.querySelector("input"), button = slider.querySelector("button");
  if (!input) continue;
  const images = slider.querySelectorAll("img"), labels = slider.querySelectorAll("li");
  const show = () => {
    images.forEach((image, i) => { image.hidden = i !== Number(input.value); });
    slider.querySelector("output").textContent = labels[input.value].textContent;
  };
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "\\u25b6"; };
  input.addEventListener("input", () => { stop(); show(); });
  button.addEventListener("click", () => {
    if (timer) return stop();
    button.textContent = "\\u275a\\u275a";
    timer = setInterval(() => { input.value = (Number(input.value) + 1) % images.length; show(); }, 500);
  });
  show();
}
"""
