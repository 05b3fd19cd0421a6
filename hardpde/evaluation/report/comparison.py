"""Several methods on one problem, each trained with several seeds: tables, figures and a page to look at."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hardpde.evaluation.certificate import EXACT
from hardpde.evaluation.figures.base import Figure, save_figure
from hardpde.evaluation.figures.convergence import convergence_plot
from hardpde.evaluation.figures.error_bars import error_bars
from hardpde.evaluation.report.comparison_tables import (
    NumberTable,
    endings,
    error_tables,
    headline,
    markdown,
    notes,
    refusals,
    seeds_text,
    thousands,
)
from hardpde.evaluation.report.page import captioned, cards, scroll_table, section, settings_tables, tags, write_page
from hardpde.evaluation.statistics import (
    CONFIDENCE,
    SHOWN,
    Baselines,
    Record,
    Statistic,
    Summary,
    components_compared,
    count_text,
    number_text,
    ranking,
    statistic_text,
    summarise,
    union,
    value_text,
)
from hardpde.support.files import replacing, write_json


def write_comparison(
    folder: str | Path,
    problem: str,
    records: Sequence[Record],
    refused: Sequence[Mapping[str, str]] = (),
    baselines: Baselines | None = None,
    provenance: Mapping[str, Any] | None = None,
    gradients: Sequence[str] = (),
) -> dict[str, dict[str, Any]]:
    """Write comparison.json, table.md, report.html and figures/ into a folder; returns the summary.

    refused:   [{"method", "why"}], methods that do not apply
    baselines: {name: {component: metrics}}, the errors of trivial predictions
    gradients: names of gradient fields, which the tables and figures leave out
    """
    folder = Path(folder)
    summary = summarise(records)
    title = f"{problem}: {count_text(len(records), 'method')} compared"
    figures = {"errors": error_bars(summary, baselines, gradients), "convergence": convergence_plot(records)}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    write_json(folder / "comparison.json", {
        "problem": problem, "summary": summary, "refused": list(refused), "baselines": dict(baselines or {}),
        "records": list(records), "provenance": dict(provenance or {})})
    with replacing(folder / "table.md") as temporary:
        temporary.write_text(markdown(summary, refused, baselines, gradients, title), encoding="utf-8")
    for name, figure in figures.items():
        save_figure(figure, folder / "figures" / f"{name}.png")
    _write_report(folder / "report.html", title, records, summary, refused, baselines or {}, provenance or {},
                  gradients, figures)
    return summary


def _write_report(path: Path, title: str, records: Sequence[Record], summary: Summary,
                  refused: Sequence[Mapping[str, str]], baselines: Baselines, provenance: Mapping[str, Any],
                  gradients: Sequence[str], figures: Mapping[str, Figure]) -> None:
    seeds = {seed for found in summary.values() for seed in found["seeds"]}
    presets = dict.fromkeys(str(record["settings"].get("preset")) for record in records)
    schedules = dict.fromkeys(str(record["settings"].get("schedule", "fair")) for record in records)
    about = {"seeds": len(seeds), "preset": ", ".join(presets), "schedule": ", ".join(schedules)}
    about |= {key: provenance[key] for key in ("device", "commit") if provenance.get(key)}
    caption = "The loss of each method on points it was not trained on"
    caption += ": median of the seeds, and a band from the smallest to the largest" * (len(seeds) > 1)
    caption += ". Losses of different methods measure different things: compare how they fall, not their heights."
    body = [f"<header><h1>{escape(title)}</h1>{tags(about)}</header>"]
    if summary:
        body += [
            _headline_cards(summary, baselines, gradients),
            section("Errors against the reference", *_error_parts(summary, baselines, gradients, figures["errors"])),
            section("Convergence", captioned(caption, figures["convergence"])),
            section("Conditions and residuals", _conditions(summary)),
            section("Cost", _cost(summary)),
            section("How each stage ended", _endings(records)),
        ]
    body += [section("Methods that do not apply", _refused(refused)), section("Settings", *map(_settings, records))]
    if provenance:
        body.append(section("Provenance", settings_tables({"of this comparison": provenance})))
    write_page(path, title, body)


def _error_parts(summary: Summary, baselines: Baselines, gradients: Sequence[str],
                 chart: Figure) -> list[str]:
    """Tables, notes and the chart; or a sentence why there are none."""
    tables, names = error_tables(summary, baselines, gradients), components_compared(summary, gradients)
    if not names:
        return ["<p>No reference is known for this problem: residuals are what can be compared.</p>"]
    if not tables:
        return ["<p>No method has a finite error.</p>"]
    caption = "MAE" + f" of the first {SHOWN} components" * (len(names) > SHOWN)
    if any(len(found["seeds"]) > 1 for found in summary.values()):
        caption += f": mean, {100 * CONFIDENCE:.0f} % confidence interval and, below, each seed"
    parts = [f"<h3>{escape(each.title)}</h3>{_html(each)}" for each in tables]
    parts += [f"<p class='small'>{escape(note)}</p>" for note in notes(summary, baselines)]
    return [*parts, captioned(caption, chart)]


def _html(each: NumberTable) -> str:
    rows = ([name, *map(_broken, cells)] for name, _, cells in each.rows)
    return scroll_table(["method", *each.columns], rows, ["trivial" if trivial else "" for _, trivial, _ in each.rows])


def _broken(text: str) -> str:
    """How many seeds on a line of its own; what is strong remains so."""
    return type(text)(text.replace(" (", "\n("))


def _headline_cards(summary: Summary, baselines: Baselines, gradients: Sequence[str]) -> str:
    rows = []
    for name in components_compared(summary, gradients)[:2]:
        found = {method: each["errors"].get(name, {}).get("mae") for method, each in summary.items()}
        for best in ranking(found)[:1]:
            mean, plus_minus, rest = statistic_text(found[best]).partition(" ± ")
            rows.append((f"Smallest MAE of {name}", mean, f"{plus_minus}{rest} by {best}".strip()))
    exact = [method for method, found in summary.items() if _exact(found["boundary_violation"])]
    note = f"by {', '.join(exact)}" if exact else "by no method"
    rows.append(("Conditions hold exactly", f"{len(exact)} of {len(summary)}", note))
    seconds = sum(found["seconds"] or 0.0 for found in summary.values())
    runs = sum(len(found["seeds"]) for found in summary.values())
    rows.append(("Training time", f"{seconds:.4g} s", f"{count_text(runs, 'run')} together"))
    sentence = headline(summary, baselines, gradients).replace(" ± ", "\u00a0±\u00a0")
    return f"<p class='lead'>{escape(sentence)}</p>{cards(rows)}"


def _worst(found: Statistic) -> float | None:
    """The largest value; None if a seed has none."""
    return None if None in found["values"] else max(found["values"], default=None)


def _exact(found: Statistic) -> bool:
    worst = _worst(found)
    return worst is not None and worst <= EXACT


def _conditions(summary: Summary) -> str:
    rows, styles = [], []
    for method, found in summary.items():
        worst, exact = _worst(found["boundary_violation"]), _exact(found["boundary_violation"])
        cells = [_broken(statistic_text(found["boundary_violation"])),
                 "not finite" if worst is None else number_text(worst), _broken(statistic_text(found["residual"]))]
        rows.append([method, *cells, "exact" if exact else "approximate"])
        styles.append("good" if exact else "weak")
    note = (f"<p class='small'>Exact: max |A q − g| on the boundary is at most {EXACT:g} for every seed, that is, "
            "rounding.</p>")
    head = ["method", "max |A q − g|, mean", "worst seed", "residual of the equations", "conditions"]
    return scroll_table(head, rows, styles) + note


def _cost(summary: Summary) -> str:
    stages = union(found["step_ms"] for found in summary.values())
    rows = []
    for method, found in summary.items():
        times = [found["seconds"], found["seconds_first_step"], *(found["step_ms"].get(stage) for stage in stages)]
        rows.append([method, thousands(found["parameters"]), *map(value_text, times)])
    note = ("<p class='small'>Seconds are those of all seeds together, compilation included; a step is one of all "
            "seeds at once.</p>")
    head = ["method", "weights", "seconds", "until the first step, s", *(f"{stage}, ms per step" for stage in stages)]
    return scroll_table(head, rows) + note


def _endings(records: Sequence[Record]) -> str:
    rows = [[record["method"] if not i else "", *found] for record in records
            for i, found in enumerate(endings(record))]
    return scroll_table(["method", "stage", "seeds", "steps", "why it ended"], rows, words=True) if rows else ""


def _refused(refused: Sequence[Mapping[str, str]]) -> str:
    rows = list(refusals(refused))
    return scroll_table(["method", "why it does not apply"], rows, words=True) if rows else ""


def _settings(record: Record) -> str:
    """The settings of a method, folded until asked for."""
    settings = {key: value for key, value in record["settings"].items() if key not in ("seed", "stages")}
    settings["seeds"] = seeds_text([run["seed"] for run in record["runs"]])
    stages = record["settings"].get("stages") or []
    settings |= {f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    return f"<details><summary>{escape(record['method'])}</summary>{settings_tables(settings)}</details>"
