"""One page about a run: report.html, a single file that opens in any browser, without server or network."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hardpde.evaluation.base import is_size
from hardpde.evaluation.certificate import EXACT
from hardpde.evaluation.figures.base import Figure
from hardpde.evaluation.metrics import METRIC_NAMES, PERCENT
from hardpde.evaluation.report.browser import chart, packed, solids
from hardpde.evaluation.report.judged import judgement
from hardpde.evaluation.report.page import captioned, cards, scroll_table, section, settings_tables, tags, write_page
from hardpde.evaluation.statistics import count_text, value_text
from hardpde.support.progress import total_steps

LEVELS = 40  # at which surfaces are drawn


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
    judged: Mapping[str, Any] | None = None,
    bar: Mapping[str, Any] | None = None,
    how: str = "",
    parameters: Mapping[str, Any] | None = None,
    inside: Mapping[str, tuple] | None = None,
) -> None:
    """Write the report of a run to `path`.

    settings:    plain data; a value that is a mapping becomes a table of its own ("provenance", "method", …)
    metrics:     {field: what `metrics.field_errors` returned}, empty without a reference; "parts" holds more of them
    certificate: [{"name", "boundary", "violation"}], max |A q - g| of every condition
    history:     lists "step", "loss", "held_out", "stage", "seconds" of equal length, as for `history_plot`
    fields:      {field: (x, cells, times, prediction, known values or None)}, shapes as in `figures.maps.field_grid`;
                 one slider moves all that depend on time, and the errors at that time with them
    figures:     {caption: figure}, shown at the end
    endings:     [{"stage", "steps", "why"}], why each stage of the training ended
    baselines:   {name: metrics}, the errors of trivial predictions, told beside those of the run
    profiles:    what `certificate.profiles` returned, drawn along each boundary
    judged:      {"verdict", "because", "conservation"}, what the answer is worth
    bar:         the error bar as plain data
    how:         HTML that says how it was solved without training
    parameters:  {name: values} of a family, with a slider each: predictions and known values then have rows for every
                 combination, each at all times, the last parameter's values one after the other
    inside:      as `fields`, at nodes of tetrahedra, for surfaces that can be turned
    """
    page = packed(fields or {}, parameters)
    page["solids"] = solids(inside or {}, page["times"])
    page["now"] = _now(metrics, page["times"])
    page["charts"] = {f"condition {k}": _along(row) for k, row in enumerate(profiles)}
    trained = {key: [value for value, stage in zip(history[key], history["stage"]) if not is_size(stage)]
               for key in history}
    if len(trained.get("step", [])):
        page["charts"]["history"] = _losses(trained)
    body = [
        f"<header><h1>{escape(title)}</h1>{tags(settings)}</header>",
        _headline(metrics, certificate, history, baselines or {}),
        section("Is it right?", judgement(judged or {})),
        section("Fields", *_fields(page, metrics)),
        section("Error bar", _bar(bar, metrics) if bar else ""),
        section("Errors against the reference", _errors(metrics, baselines or {})),
        section("Conditions", _certificate(certificate), _courses(profiles)),
        section("How it was solved", how),
        section("Training", _training(trained, endings) if trained.get("step") or not how else ""),
        section("Figures", *(captioned(caption, figure) for caption, figure in (figures or {}).items())),
        section("Settings and provenance", settings_tables(settings)),
    ]
    write_page(path, title, body, page)










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
    return cards([*rows, *_cost(history)])


def _cost(history: Mapping[str, Sequence]) -> list[tuple[str, str, str]]:
    """Held-out loss or residual, and time."""
    rows, direct = [], any(map(is_size, history.get("stage", [])))
    trained = not all(map(is_size, history.get("stage", [])))
    if len(history.get("held_out", [])):
        last = history["held_out"][-1]
        rows.append(("Held-out residual", _metric("", last**0.5 if last > 0 else last), "on points never fitted to")
                    if is_size(history["stage"][-1]) else
                    ("Held-out loss", _metric("", last), "on points never trained on"))
    if len(history.get("seconds", [])):
        seconds = f"{_float(history['seconds'][-1]):.4g} s"
        if not trained:
            rows.append(("Time of solving", seconds, f"{history['step'][-1]:,} unknowns"))
        elif not direct:
            rows.append(("Training time", seconds, count_text(int(total_steps(history)[0][-1]), "step")))
    return rows




def _errors(metrics: Mapping[str, Mapping[str, Any]], baselines: Mapping[str, Mapping]) -> str:
    if not metrics:
        return (
            "<p>No reference is known for this problem: the held-out loss is what measures the solution.</p>"
        )
    tables = {"this run": metrics, **baselines}
    timed = any("by_time" in errors for errors in metrics.values())
    parted = any("parts" in errors for errors in metrics.values())
    head = ["field"] + ["prediction"] * bool(baselines) + ["nodes"] * parted + ["t"] * timed
    lines, styles = [], []
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
                lines.append([*cells, *(_metric(key, row.get(key)) for key in METRIC_NAMES)])
                styles.append(("" if i else "total") if own else "trivial")
    notes = []
    if timed:
        notes.append("An average is the mean over the times of the metric at each time; max is over all times.")
    if any("area-weighted" in errors.get("parts", {}) for errors in metrics.values()):
        notes.append("Area-weighted: every node counts by the area of the cells round it.")
    return scroll_table([*head, *METRIC_NAMES.values()], lines, styles, left=len(head) - timed) + "".join(
        f"<p class='small'>{note}</p>" for note in notes)  # fmt: skip


def _bar(bar: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """How far each field may be from the solution, and the error against the reference beside it."""
    rows = []
    for name, field in bar.get("fields", {}).items():
        bound, known = field["relative_l2"], metrics.get(name, {}).get("relative_l2")
        ratio = value_text(bound / known) if bound is not None and known else ""
        rows.append([name, field["word"], _metric("", field["l2"]), _metric("relative_l2", bound),
                     "" if known is None else _metric("relative_l2", known), ratio])
    head = ["field", "bar", "L² norm of the error ≤", "relative ≤", "against the reference", "bar / error"]
    notes = "".join(f"<p class='small'>{escape(text)}</p>" for text in (bar["sentence"], bar.get("level")) if text)
    return (scroll_table(head, rows, left=2) if rows else "") + notes


def _certificate(certificate: Sequence[Mapping[str, Any]]) -> str:
    if not certificate:
        return ""
    exact = [_float(row["violation"]) <= EXACT for row in certificate]
    rows = [[row["name"], row["boundary"], _metric("", row["violation"]), "exact" if holds else "approximate"]
            for row, holds in zip(certificate, exact)]
    note = f"<p class='small'>Exact: max |A q − g| on the boundary is at most {EXACT:g}, that is, rounding.</p>"
    styles = ["good" if holds else "weak" for holds in exact]
    return scroll_table(["condition", "boundary", "max |A q − g|", ""], rows, styles, left=2) + note


def _along(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The curve of one profile; what is zero to the last bit is drawn at the smallest rounding."""
    values = [max(v, 1e-17) if math.isfinite(v) else None for v in map(_float, profile["violation"])]
    largest = max(map(_float, profile["violation"]), default=0.0)
    said = f"largest {_metric('', largest)} at {profile['where']}" if largest > 0 else "zero everywhere"
    return chart(f"violation of {profile['name']} along {profile['boundary']}", profile["along"],
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
    return chart("training loss and held-out loss over the steps", "step", lines, said=said, marks=borders, height=300)


def _training(history: Mapping[str, Sequence], endings: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if len(history.get("step", [])):
        parts.append("<p class='legend'><span>training loss</span><span>held-out loss</span></p>"
                     "<div><div class='chart' data-chart='history'></div><p class='said'></p></div>")
    if endings:
        rows = ([row["stage"], f"{row['steps']:,}", row["why"]] for row in endings)
        parts.append(scroll_table(["stage", "steps", "why it ended"], rows, words=True))
    return "\n".join(parts)


def _now(metrics: Mapping[str, Mapping[str, Any]], times: Sequence[float] | None) -> dict[str, list[str]]:
    """The errors at the time of each frame as text, by component and metric; a dash where they are not known."""
    found = {}
    for name, errors in metrics.items():
        for key in METRIC_NAMES if times and "by_time" in errors else ():
            rows = {round(row["time"], 9): row.get(key) for row in errors["by_time"]}
            found[f"{name} {key}"] = [_metric(key, rows.get(round(t, 9))) for t in times or ()]
    return found


def _slider(kind: str, name: str, labels: Sequence[str], at: int, button: str = "") -> str:
    """A slider that says where it stands."""
    said = escape(labels[at], quote=True)
    return (f"<div class='control'>{button}<input type='range' min='0' max='{len(labels) - 1}' step='1' value='{at}' "
            f"id='{kind.replace(' ', '-')}' data-slider='{kind}' aria-label='{escape(name, quote=True)}' "
            f"aria-valuetext='{said}'><output for='{kind.replace(' ', '-')}'>{said}</output></div>")


def _fields(page: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """The sliders, the errors at their time, and a place for every picture."""
    last = len(page["labels"]) - 1
    timed, play = page["times"] and last, "<button type='button' aria-label='play'>▶</button>"
    sliders = [_slider(f"parameter {k}", parameter["name"], parameter["labels"], len(parameter["labels"]) // 2)
               for k, parameter in enumerate(page["parameters"])]
    sliders += [_slider("time", "time", page["labels"], last, play)] if timed else []
    if page["views"] and sliders:
        yield f"<div class='controls'>{''.join(sliders)}</div>"
    if page["views"] and timed:
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
    for k, field in enumerate(page["solids"].get("fields", [])):
        yield (f"<div class='view'><h3>{escape(field['label'])} on a surface: drag to turn it</h3>"
               f"<figure class='solid' data-solid='{k}'><canvas role='img' tabindex='0' aria-label='a surface on which "
               f"{escape(field['label'], quote=True)} is constant'></canvas></figure>"
               f"{_slider(f'level {k}', field['label'], [''] * (LEVELS + 1), LEVELS // 2)}</div>")
    if page["views"]:
        yield "<noscript><p>The fields are drawn by a script; the folder figures has them as pictures.</p></noscript>"














def _metric(key: str, value: float | None) -> str:
    if value is None or value == 0 or not math.isfinite(value):
        return value_text(value)
    return f"{100 * value:#.3g} %" if key in PERCENT else f"{value:.2e}"




def _float(value: Any) -> float:
    return math.inf if value is None or not math.isfinite(value) else float(value)
