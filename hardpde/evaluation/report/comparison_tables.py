"""What a comparison of methods says in words and numbers: its tables, the headline and the notes below."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hardpde.evaluation.metrics import METRIC_NAMES, PERCENT
from hardpde.evaluation.statistics import (
    CONFIDENCE,
    SHOWN,
    UNDEFINED,
    Baselines,
    Record,
    Statistic,
    Summary,
    components_compared,
    error_rows,
    known_seeds,
    number_text,
    ranking,
    statistic_text,
    summarise,
    union,
    value_text,
)
from hardpde.support.tables import Strong, markdown_table

Rows = list[tuple[str, bool, dict[str, Any]]]  # name, whether a trivial prediction, statistics by component


class NumberTable(NamedTuple):
    """A table of numbers: rows (name, whether a trivial prediction, cells); the best of a column is strong."""

    title: str
    columns: list[str]
    rows: list[tuple[str, bool, list[str]]]


def error_tables(summary: Summary, baselines: Baselines | None = None,
                 gradients: Sequence[str] = ()) -> list[NumberTable]:
    """Tables of errors, methods and trivial predictions in rows.

    With times: for each component MAE and MAPE at the first, middle and last of them and on average. Without: MAE
    and WMAPE, a column for each component. WMAPE stands in where MAPE is not defined. Errors over parts of the
    nodes come last. The best mean of a column is marked, among those with a finite value for every seed.
    """
    rows, names = error_rows(summary, baselines), components_compared(summary, gradients)
    found = [errors[name] for _, _, errors in rows for name in names if name in errors]
    times = sorted({row["time"] for errors in found for row in errors.get("by_time", [])})
    if times:
        made = [_time_table(rows, name, key, times) for name in names for key in ("mae", _relative(rows, name))]
    else:
        made = [_plain_table(rows, names, key) for key in ("mae", "wmape")]
    made += [_plain_table(rows, names, "mae", part) for part in union(errors.get("parts", {}) for errors in found)]
    return [each for each in made if any(text != UNDEFINED for *_, cells in each.rows for text in cells)]


def _time_table(rows: Rows, name: str, key: str, times: list[float]) -> NumberTable:
    middle = min(times, key=lambda time: abs(time - (times[0] + times[-1]) / 2))
    shown = sorted({times[0], middle, times[-1]})
    cells = []
    for _, _, errors in rows:
        known = {row["time"]: row[key] for row in errors.get(name, {}).get("by_time", [])}
        cells.append([*(known.get(time) for time in shown), errors.get(name, {}).get(key)])
    title = f"{METRIC_NAMES[key]} of {name}" + ", %" * (key in PERCENT)
    return _table(title, [*(f"t = {time:g}" for time in shown), "average"], rows, cells, key)


def _plain_table(rows: Rows, names: list[str], key: str, part: str = "") -> NumberTable:
    cells = []
    for _, _, errors in rows:
        found = [errors.get(name, {}) for name in names]
        cells.append([(each.get("parts", {}).get(part, {}) if part else each).get(key) for each in found])
    return _table(METRIC_NAMES[key] + f", {part}" * bool(part) + ", %" * (key in PERCENT), names, rows, cells, key)


def _table(title: str, columns: list[str], rows: Rows,
           cells: list[list[Statistic | None]], key: str) -> NumberTable:
    best = [_best(column) for column in zip(*cells)]
    texts = [[statistic_text(cell, 100.0 if key in PERCENT else 1.0) for cell in line] for line in cells]
    return NumberTable(title, columns, [
        (name, trivial, [Strong(text) if i in top else text for text, top in zip(line, best)])
        for i, ((name, trivial, _), line) in enumerate(zip(rows, texts))])


def _best(column: Sequence[Statistic | None]) -> list[int]:
    """Which have the smallest mean; those with an undefined value count only if all others have one too."""
    known = {i: cell for i, cell in enumerate(column) if cell is not None and cell["mean"] is not None}
    ranked = {i: cell for i, cell in known.items() if known_seeds(cell) == len(cell["values"])} or known
    least = min((cell["mean"] for cell in ranked.values()), default=None)
    return [i for i, cell in ranked.items() if cell["mean"] == least]


def _relative(rows: Rows, name: str) -> str:
    """MAPE if it is defined on average, or else WMAPE, or else the one that is defined at some time."""
    found = [errors[name] for _, _, errors in rows if name in errors]
    for rows_of in (found, [entry for row in found for entry in row.get("by_time", [])]):
        for key in ("mape", "wmape"):
            if any(row[key]["mean"] is not None for row in rows_of):
                return key
    return "wmape"


def cost_table(summary: Summary) -> NumberTable:
    """Violation of the conditions, residual, weights and seconds of each method."""
    columns = ["max |A q − g|", "residual", "weights", "seconds"]
    return NumberTable("Conditions and cost", columns, [
        (name, False, [statistic_text(found["boundary_violation"]), statistic_text(found["residual"]),
                       thousands(found["parameters"]), value_text(found["seconds"])])
        for name, found in summary.items()])


def thousands(number: int | None) -> str:
    """7,851; a dash where it is not known."""
    return UNDEFINED if number is None else f"{number:,}"


def headline(summary: Summary, baselines: Baselines | None = None, gradients: Sequence[str] = ()) -> str:
    """Which method is best in the first component, and by how much, in a sentence or two.

    Without a reference it is the one with the smallest residual.
    """
    name = next(iter(components_compared(summary, gradients)), "")
    what = f"MAE of {name}" if name else "residual"
    found = {method: each["errors"].get(name, {}).get("mae") if name else each["residual"]
             for method, each in summary.items()}
    order = ranking(found)
    if not order:
        return f"No method has a finite {what}."
    best = order[0]
    text = f"{best} has the smallest {what}: {statistic_text(found[best])}"
    if len(order) > 1:
        text += _margin(found[best], order[1], found[order[1]])
    trivial = {other: errors[name].get("mae") for other, errors in (baselines or {}).items() if name in errors}
    better = [f"{other} ({number_text(mae)})" for other, mae in trivial.items()
              if mae is not None and mae <= found[best]["mean"]]
    return f"{text}." + (f" No better than a trivial prediction: {', '.join(better)}." if better else "")


def _margin(best: Statistic, name: str, second: Statistic) -> str:
    """How far the second best is from the best."""
    low, high = best["mean"], second["mean"]
    text = f"; the next is {name} with {statistic_text(second)}"
    if low > 0 and high >= low:
        ratio = float(f"{high / low:.{3 if high < 2 * low else 2}g}")
        text += f", {ratio:,.10g} times as much"
    if best["half_width"] is not None and second["half_width"] is not None:
        apart = low + best["half_width"] < high - second["half_width"]
        text += ", and the intervals are apart" if apart else ", but the intervals overlap"
    return text


def markdown(summary: Summary, refused: Sequence[Mapping[str, str]] = (),
             baselines: Baselines | None = None, gradients: Sequence[str] = (), title: str = "") -> str:
    """All tables in Markdown, the best of each column bold, with what does not apply below them."""
    parts = [f"# {title}"] * bool(title) + [headline(summary, baselines, gradients)] * bool(summary)
    for each in [*error_tables(summary, baselines, gradients), *[cost_table(summary)] * bool(summary)]:
        lines = ([f"*{name}*" if trivial else name, *cells] for name, trivial, cells in each.rows)
        title = each.title.replace("|", r"\|")
        parts += [f"**{title}**", markdown_table(["", *each.columns], lines, aligned=True)]
    parts += ["\n".join(f"- {name} does not apply: {why}" for name, why in refusals(refused))] if refused else []
    return "\n\n".join([*parts, *notes(summary, baselines)]) + "\n"


def refusals(refused: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """(method, why it does not apply), each a sentence of one line."""
    return ((row["method"], " ".join(row["why"].split()).rstrip(".") + ".") for row in refused)


def notes(summary: Summary, baselines: Baselines | None = None) -> list[str]:
    """What a reader of the tables should know."""
    counts = sorted({len(found["seeds"]) for found in summary.values()})
    found = []
    if counts and counts[-1] > 1:
        seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        found.append(f"Mean over {seeds} seeds ± half the width of its {100 * CONFIDENCE:.0f} % confidence interval "
                     "(Student's t).")
    elif counts:
        found.append("One seed: there are no intervals.")
    errors = [row for each in summary.values() for row in each["errors"].values()]
    statistics = [row["mae"] for row in errors]
    statistics += [each[key] for each in summary.values() for key in ("boundary_violation", "residual", "held_out")]
    for each in [each for each in statistics if 0 < known_seeds(each) < len(each["values"])][:1]:
        found.append(f"A mean marked like ({known_seeds(each)} of {len(each['values'])} seeds) is over the seeds with "
                     "a finite value; it is the best of its column only if no other mean there is over all its seeds.")
    if any("by_time" in row for row in errors):
        found.append("An average is the mean over all times of the reference of the error at each.")
    if baselines:
        found.append("Trivial predictions, which need no training: " + ", ".join(baselines) + ".")
    return found


def in_short(record: Record, gradients: Sequence[str] = ()) -> str:
    """One method in a line: its first errors, or its residual where no reference is known."""
    summary = summarise([record])
    found = summary[record["method"]]
    errors = [f"MAE of {name} {statistic_text(found['errors'][name]['mae'])}"
              for name in components_compared(summary, gradients)[:SHOWN]]
    return ", ".join(errors or [f"residual {statistic_text(found['residual'])}"])


def endings(record: Record) -> list[tuple[str, str, str, str]]:
    """How stages ended: (stage, seeds, steps, why); seeds for which one ended for the same reason come together."""
    groups: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for run in record["runs"]:
        for number, ending in enumerate(run.get("endings") or []):
            key = (number, ending["stage"], ending["why"])
            groups.setdefault(key, []).append((run["seed"], ending["steps"]))
    return [(stage, seeds_text([seed for seed, _ in found]), ", ".join(dict.fromkeys(f"{n:,}" for _, n in found)), why)
            for (_, stage, why), found in sorted(groups.items(), key=lambda group: group[0][0])]


def seeds_text(seeds: Sequence[int]) -> str:
    """0, 1, 2, 4 as 0–2, 4."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in ranges)
