"""Several methods on one problem, each trained with several seeds: tables, figures and a page to look at.

A record holds what is known of one method, as plain data:

method, settings, parameters; seconds (training of all seeds together, compilation included), seconds_first_step,
step_ms {stage: milliseconds of a step of all seeds at once}; runs, one for each seed: seed, errors {component:
metrics}, boundary_violation, loss, held_out, residual, endings [{stage, steps, why}] and history [{stage, step,
steps, loss, held_out, seconds}].

Numbers may be None or not finite where a seed diverged or a metric is not defined. Every number told is the mean
over the seeds where it is finite, which is said where these are not all.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.stats import t as student

from hardpde.evaluation.figures.base import COLOURS, FAINT, GREY, INK, new_figure
from hardpde.evaluation.figures.history import total_steps
from hardpde.evaluation.metrics import METRICS
from hardpde.evaluation.report.report import (
    EXACT,
    METRIC_NAMES,
    PERCENT,
    Strong,
    captioned,
    cards,
    count_text,
    section,
    settings_tables,
    table,
    tags,
    value_text,
    write_page,
)
from hardpde.support.files import replacing, write_json

CONFIDENCE = 0.95
UNDEFINED = "–"
SHOWN = 4  # components in the chart of errors
HUGE = 1e100  # a loss or an error beyond it is not drawn
Record = Mapping[str, Any]
Baselines = Mapping[str, Mapping[str, Mapping[str, Any]]]
Statistic = dict[str, Any]  # {"mean", "half_width", "values"}, the values by seed


class Table(NamedTuple):
    """A table of numbers: rows (name, whether a trivial prediction, cells), a cell (text, whether the best)."""

    title: str
    columns: list[str]
    rows: list[tuple[str, bool, list[tuple[str, bool]]]]


# --- Statistics ------------------------------------------------------------------------------------------------


def interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and half-width of its 95 % confidence interval by Student's t; None for the half-width of one value."""
    v = np.asarray(values, float)
    if v.ndim != 1 or not len(v) or not np.isfinite(v).all():
        raise ValueError("an interval is that of finite numbers; pass a list of at least one")
    scale = float(np.abs(v).max()) or 1.0  # squares of large numbers are not finite
    mean = float(np.mean(v / scale) * scale)
    if len(v) == 1:
        return mean, None
    spread = float(np.std(v / scale, ddof=1)) / len(v) ** 0.5
    return mean, float(student.ppf((1 + CONFIDENCE) / 2, len(v) - 1)) * spread * scale


def statistic(values: Iterable[float | None]) -> Statistic:
    """Mean and half-width over the values that are finite; the others become None."""
    known = [None if value is None or not np.isfinite(value) else float(value) for value in values]
    some = [value for value in known if value is not None]
    mean, half_width = interval(some) if some else (None, None)
    if half_width is not None and not np.isfinite(half_width):
        half_width = None
    return {"mean": mean, "half_width": half_width, "values": known}


def summarise(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Statistics over the seeds of each method, {method: …}.

    "errors" has one for each component and metric, at each time ("by_time") and over each part of the nodes
    ("parts") where these are known; "boundary_violation", "residual", "loss" and "held_out" are others; "seeds",
    "parameters", "seconds", "seconds_first_step" and "step_ms" are as recorded.
    """
    summary: dict[str, dict[str, Any]] = {}
    for record in records:
        if record["method"] in summary:
            raise ValueError(f"method '{record['method']}' comes twice; pass one record for each method")
        runs = record["runs"]
        summary[record["method"]] = {
            "seeds": [run["seed"] for run in runs],
            **{key: record.get(key) for key in ("parameters", "seconds", "seconds_first_step")},
            "step_ms": dict(record.get("step_ms") or {}),
            "errors": _errors([run.get("errors") or {} for run in runs]),
            **{key: statistic([run.get(key) for run in runs])
               for key in ("boundary_violation", "residual", "loss", "held_out")},
        }
    return summary


def _errors(runs: Sequence[Mapping[str, Mapping]]) -> dict[str, dict[str, Any]]:
    """Statistics {component: …} over runs, each with its {component: metrics}."""
    return {name: _metrics([run.get(name) or {} for run in runs]) for name in _union(runs)}


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Statistics over the metrics of several runs, also at each time and over each part."""
    found: dict[str, Any] = {key: statistic([row.get(key) for row in rows]) for key in METRICS}
    timed = [{entry["time"]: entry for entry in row.get("by_time") or []} for row in rows]
    parted = [row.get("parts") or {} for row in rows]
    if any(timed):
        found["by_time"] = [{"time": time, **_metrics([row.get(time, {}) for row in timed])}
                            for time in sorted(_union(timed))]
    if any(parted):
        found["parts"] = {part: _metrics([row.get(part) or {} for row in parted]) for part in _union(parted)}
    return found


def _union(mappings: Iterable[Mapping]) -> list:
    """All keys, in the order in which they come."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


# --- Numbers in words ------------------------------------------------------------------------------------------


def number_text(mean: float, half_width: float | None = None) -> str:
    """A mean with as many digits as its interval warrants, and the interval: 0.0244 ± 0.0010, 1.4e-6 ± 2e-7.

    The half-width has one digit, or two if the first is 1; the mean has two digits at least and six at most.
    """
    if not np.isfinite(mean):
        return "not finite"
    if not half_width:
        text = "0" if mean == 0 else _digits(mean, _exponent(mean) - 2, abs(mean))
        return text if half_width is None else f"{text} ± 0"
    exponent = _exponent(half_width)
    last = exponent - 1 if f"{half_width:.1e}".startswith("1") else exponent
    if mean:
        last = max(min(last, _exponent(mean) - 1), _exponent(mean) - 5)
    size = max(abs(mean), half_width)
    if exponent < last:  # an interval far below the digits of the mean
        return f"{_digits(mean, last, size)} ± {_digits(half_width, exponent, half_width)}"
    return f"{_digits(mean, last, size)} ± {_digits(half_width, last, size)}"


def _exponent(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def _digits(value: float, last: int, size: float) -> str:
    """A value to the digit of 10^last; with an exponent if numbers of that size are better written so."""
    if 1e-3 <= size < 1e5 and last >= -8:
        return f"{value:.{max(0, -last)}f}"
    text = f"{value:.{max(0, _exponent(value) - last)}e}" if value else "0"
    return re.sub(r"e([+-])0*(\d+)", lambda found: f"e{found[1].strip('+')}{found[2]}", text)


def statistic_text(found: Statistic | None, scale: float = 1.0) -> str:
    """Mean and interval in words, with how many seeds they are of if not all."""
    if found is None or found["mean"] is None:
        return UNDEFINED
    half_width, known = found["half_width"], _known(found)
    text = number_text(scale * found["mean"], None if half_width is None else scale * half_width)
    return text if known == len(found["values"]) else f"{text} ({known} of {len(found['values'])} seeds)"


def _known(found: Statistic) -> int:
    return sum(value is not None for value in found["values"])


# --- Tables ----------------------------------------------------------------------------------------------------


def components(summary: Mapping[str, Mapping], gradients: Sequence[str] = ()) -> list[str]:
    """The components with errors, those of the fields named in `gradients` left out."""
    names = _union(found["errors"] for found in summary.values())
    return [name for name in names if name.split("[")[0] not in gradients]


def error_tables(summary: Mapping[str, Mapping], baselines: Baselines | None = None,
                 gradients: Sequence[str] = ()) -> list[Table]:
    """Tables of errors, methods and trivial predictions in rows.

    With times: for each component MAE and MAPE at the first, middle and last of them and on average. Without: MAE
    and WMAPE, a column for each component. WMAPE stands in where MAPE is not defined. Errors over parts of the
    nodes come last. The best mean of a column is marked, among those with a finite value for every seed.
    """
    rows = [(name, False, found["errors"]) for name, found in summary.items()]
    rows += [(name, True, _errors([found])) for name, found in (baselines or {}).items()]
    names = components(summary, gradients)
    found = [errors[name] for _, _, errors in rows for name in names if name in errors]
    times = sorted({row["time"] for errors in found for row in errors.get("by_time", [])})
    if times:
        made = [_time_table(rows, name, key, times) for name in names for key in ("mae", _relative(rows, name))]
    else:
        made = [_plain_table(rows, names, key) for key in ("mae", "wmape")]
    made += [_plain_table(rows, names, "mae", part) for part in _union(errors.get("parts", {}) for errors in found)]
    return [each for each in made if any(text != UNDEFINED for *_, cells in each.rows for text, _ in cells)]


def _time_table(rows: list[tuple[str, bool, dict]], name: str, key: str, times: list[float]) -> Table:
    middle = min(times, key=lambda time: abs(time - (times[0] + times[-1]) / 2))
    shown = sorted({times[0], middle, times[-1]})
    cells = []
    for _, _, errors in rows:
        known = {row["time"]: row[key] for row in errors.get(name, {}).get("by_time", [])}
        cells.append([*(known.get(time) for time in shown), errors.get(name, {}).get(key)])
    title = f"{METRIC_NAMES[key]} of {name}" + ", %" * (key in PERCENT)
    return _table(title, [*(f"t = {time:g}" for time in shown), "average"], rows, cells, key)


def _plain_table(rows: list[tuple[str, bool, dict]], names: list[str], key: str, part: str = "") -> Table:
    cells = []
    for _, _, errors in rows:
        found = [errors.get(name, {}) for name in names]
        cells.append([(each.get("parts", {}).get(part, {}) if part else each).get(key) for each in found])
    return _table(METRIC_NAMES[key] + f", {part}" * bool(part) + ", %" * (key in PERCENT), names, rows, cells, key)


def _table(title: str, columns: list[str], rows: list[tuple[str, bool, dict]],
           cells: list[list[Statistic | None]], key: str) -> Table:
    best = [_best(column) for column in zip(*cells)]
    scale = 100.0 if key in PERCENT else 1.0
    return Table(title, columns, [
        (name, trivial, [(statistic_text(cell, scale), i in top) for cell, top in zip(line, best)])
        for i, ((name, trivial, _), line) in enumerate(zip(rows, cells))])


def _best(column: Sequence[Statistic | None]) -> list[int]:
    """Which have the smallest mean; those with an undefined value count only if all others have one too."""
    known = {i: cell for i, cell in enumerate(column) if cell is not None and cell["mean"] is not None}
    whole = {i: cell for i, cell in known.items() if _known(cell) == len(cell["values"])} or known
    least = min((cell["mean"] for cell in whole.values()), default=None)
    return [i for i, cell in whole.items() if cell["mean"] == least]


def _relative(rows: list[tuple[str, bool, dict]], name: str) -> str:
    """MAPE if it is defined on average, or else WMAPE, or else the one that is defined at some time."""
    found = [errors[name] for _, _, errors in rows if name in errors]
    for rows_of in (found, [entry for row in found for entry in row.get("by_time", [])]):
        for key in ("mape", "wmape"):
            if any(row[key]["mean"] is not None for row in rows_of):
                return key
    return "wmape"


def cost_table(summary: Mapping[str, Mapping]) -> Table:
    """Violation of the conditions, residual, weights and seconds of each method."""
    columns = ["max |A q − g|", "residual", "weights", "seconds"]
    return Table("Conditions and cost", columns, [
        (name, False, [(text, False) for text in (
            statistic_text(found["boundary_violation"]), statistic_text(found["residual"]),
            _whole(found["parameters"]), value_text(found["seconds"]))])
        for name, found in summary.items()])


def _whole(number: int | None) -> str:
    return UNDEFINED if number is None else f"{number:,}"


def headline(summary: Mapping[str, Mapping], baselines: Baselines | None = None, gradients: Sequence[str] = (),
             name: str = "") -> str:
    """Which method is best in a component (the first, if none is named), and by how much, in a sentence or two.

    Without a reference it is the one with the smallest residual.
    """
    name = name or next(iter(components(summary, gradients)), "")
    what = f"MAE of {name}" if name else "residual"
    found = {method: each["errors"].get(name, {}).get("mae") if name else each["residual"]
             for method, each in summary.items()}
    order = _ranking(found)
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


def _ranking(found: Mapping[str, Statistic | None]) -> list[str]:
    """Methods from the best to the worst; those with undefined values after the others."""
    known = {name: each for name, each in found.items() if each is not None and each["mean"] is not None}
    return sorted(known, key=lambda name: (_known(known[name]) < len(known[name]["values"]), known[name]["mean"]))


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


def markdown(summary: Mapping[str, Mapping], refused: Sequence[Mapping[str, str]] = (),
             baselines: Baselines | None = None, gradients: Sequence[str] = (), title: str = "") -> str:
    """All tables in Markdown, the best of each column bold, with what does not apply below them."""
    parts = [f"# {title}"] * bool(title) + [headline(summary, baselines, gradients)] * bool(summary)
    for each in [*error_tables(summary, baselines, gradients), *[cost_table(summary)] * bool(summary)]:
        lines = [["", *each.columns]]
        lines += [[f"*{name}*" if trivial else name, *(f"**{text}**" if best else text for text, best in cells)]
                  for name, trivial, cells in each.rows]
        parts += [f"**{_bare(each.title)}**", _grid([list(map(_bare, line)) for line in lines])]
    parts += ["\n".join(f"- {name} does not apply: {why}" for name, why in _refusals(refused))] if refused else []
    return "\n\n".join([*parts, *notes(summary, baselines)]) + "\n"


def _grid(lines: list[list[str]]) -> str:
    """A Markdown table of a head and rows, its columns aligned for those who read the text itself."""
    widths = [max(4, *map(len, column)) for column in zip(*lines)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    rows = [[line[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(line[1:], widths[1:]))]
            for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:]))


def _bare(text: str) -> str:
    return text.replace("|", r"\|")


def _refusals(refused: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    return ((row["method"], " ".join(row["why"].split()).rstrip(".") + ".") for row in refused)


def notes(summary: Mapping[str, Mapping], baselines: Baselines | None = None) -> list[str]:
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
    for each in [each for each in statistics if 0 < _known(each) < len(each["values"])][:1]:
        found.append(f"A mean marked like ({_known(each)} of {len(each['values'])} seeds) is over the seeds with a "
                     "finite value; it is the best of its column only if no other mean there is over all its seeds.")
    if any("by_time" in row for row in errors):
        found.append("An average is the mean over all times of the reference of the error at each.")
    if baselines:
        found.append("Trivial predictions, which need no training: " + ", ".join(baselines) + ".")
    return found


# --- Figures ---------------------------------------------------------------------------------------------------


def convergence(records: Sequence[Record]) -> Figure:
    """Held-out loss of each method over the steps and, below, over the seconds: median of the seeds, with a band from
    the smallest to the largest.

    A loss that is zero or negative somewhere is taken for an energy; such methods have panels of their own, with a
    linear axis.
    """
    energies = [bool((_column(record, "held_out") <= 0).any()) for record in records]
    titles = {False: "held-out loss", True: "held-out energy (may be negative; linear axis)"}
    groups = [(titles[kind], [i for i, energy in enumerate(energies) if energy == kind])
              for kind in sorted(set(energies))] or [(titles[False], [])]
    rows = -(-len(records) // 5)
    figure = new_figure(9.0 if len(groups) == 1 else 12.0, 7.2 + 0.25 * rows)
    axes = figure.subplots(2, len(groups), squeeze=False, width_ratios=[5, 3][: len(groups)])
    lines: dict[int, Any] = {}
    for column, (title, members) in enumerate(groups):
        for axis, key in zip(axes[:, column], ("step", "seconds")):
            medians = [_draw_seeds(axis, records[i], key, _style(i)) for i in members]
            _limit(axis, medians, linear=title == titles[True])
            _tidy(axis, "step, through all stages" if key == "step" else "seconds of training, all seeds together")
        lines |= dict(zip(members, axes[0, column].lines))
        axes[0, column].set_title(title, color=INK, pad=28)
        _mark_changes(axes[0, column], [records[i] for i in members])
    for i, line in lines.items():
        line.set_label(_label(records[i]))
    if lines:
        figure.legend(handles=[lines[i] for i in sorted(lines)], loc="outside lower center",
                      ncols=min(5, len(lines)), frameon=False)
    return figure


def _style(number: int) -> dict[str, Any]:
    """A colour that all eyes tell from the others; after the last one the same, dashed."""
    again, place = divmod(number, len(COLOURS))
    return {"color": COLOURS[place], "ls": ("-", (0, (5, 2)), (0, (1, 1.5)))[again % 3]}


def _draw_seeds(axis: Axes, record: Record, key: str, style: dict[str, Any]) -> np.ndarray:
    """The median over the seeds and the band round it; returns the medians."""
    curves = [_curve(run, key) for run in record["runs"]]
    grid = np.unique(np.concatenate([x for x, _, _ in curves])) if curves else np.zeros(0)
    lines = np.full((len(curves), len(grid)), np.nan)
    for line, (x, y, ended) in zip(lines, curves):
        if len(x):  # a seed that ended early stays where it ended, one that diverged is drawn no further
            line[:] = np.interp(grid, x, y, left=np.nan, right=y[-1] if ended else np.nan)
    known = np.isfinite(lines).any(axis=0) if len(lines) else np.zeros(0, bool)
    grid, lines = grid[known], lines[:, known]
    middle = np.nanmedian(lines, axis=0) if len(grid) else grid
    axis.plot(grid, middle, lw=1.8, zorder=3, marker="o" if len(grid) == 1 else "", **style)
    if len(grid) and len(lines) > 1:
        low, high = np.nanmin(lines, axis=0), np.nanmax(lines, axis=0)
        axis.fill_between(grid, low, high, color=style["color"], alpha=0.15, lw=0)
    return middle


def _curve(run: Record, key: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Where the held-out loss is finite, its values there, and whether the last value is one of them."""
    history = run.get("history") or []
    y = _numbers(row["held_out"] for row in history)
    x = _steps(run)[0].astype(float) if key == "step" else _numbers(row[key] for row in history)
    known = np.isfinite(x) & (np.abs(y) < HUGE)
    return x[known], y[known], bool(len(y)) and bool(np.abs(y[-1]) < HUGE)


def _steps(run: Record) -> tuple[np.ndarray, list[tuple[int, str]]]:
    history = run.get("history") or []
    return total_steps({key: [row[key] for row in history] for key in ("step", "stage")})


def _numbers(values: Iterable[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], float)


def _column(record: Record, key: str) -> np.ndarray:
    """The finite values of a column of the history, of all seeds."""
    values = _numbers(row[key] for run in record["runs"] for row in run.get("history") or [])
    return values[np.isfinite(values)]


def _limit(axis: Axes, medians: Sequence[np.ndarray], linear: bool) -> None:
    """An axis that follows the medians, a linear one the last two thirds of them: a seed that went astray or the
    first steps do not flatten everything else."""
    values = np.concatenate([each[len(each) // 3 if linear else 0 :] for each in medians] or [np.zeros(0)])
    if linear and len(values):
        pad = 0.1 * float(np.ptp(values)) or 1.0
        axis.set_ylim(values.min() - pad, values.max() + pad)
    elif len(values):
        axis.set_yscale("log")
        axis.set_ylim(values.min() / 3, values.max() * 3)


def _mark_changes(axis: Axes, records: Sequence[Record]) -> None:
    """A dotted line where a stage begins, if it is the same step for all methods."""
    borders = [max((_steps(run)[1] for run in record["runs"]), key=len, default=[]) for record in records]
    borders = [each for each in borders if each]
    if len({tuple(start for start, _ in each) for each in borders}) != 1 or len(borders[0]) < 2:
        return
    raised, before, width = False, -np.inf, axis.get_xlim()[1]
    for number, starts in enumerate(zip(*borders)):
        start, names = starts[0][0], _union({name: None} for _, name in starts)
        if number:
            axis.axvline(start, color=GREY, lw=1.0, ls=":")
        raised = not raised and start - before < 0.12 * width  # names too close to each other take two lines
        before = start
        axis.annotate(" / ".join(names), (start, 1.0), xycoords=("data", "axes fraction"),
                      xytext=(2, 14 if raised else 3), textcoords="offset points", color=GREY, size=9)


def _label(record: Record) -> str:
    lost = sum(not _curve(run, "step")[2] for run in record["runs"])
    return record["method"] + (f" ({lost} of {len(record['runs'])} diverged)" if lost else "")


def _tidy(axis: Axes, label: str) -> None:
    axis.set_xlabel(label)
    axis.set_xlim(left=0)
    axis.grid(True, color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def error_bars(summary: Mapping[str, Mapping], baselines: Baselines | None = None,
               gradients: Sequence[str] = ()) -> Figure:
    """MAE of each method in the first few components: mean, its interval, and each seed as a small dot."""
    names = components(summary, gradients)[:SHOWN]
    rows = [(method, False, found["errors"]) for method, found in summary.items()]
    rows += [(name, True, _errors([found])) for name, found in (baselines or {}).items()]
    figure = new_figure(10.0, 1.2 + 0.3 * max(2, len(rows)))
    axes = figure.subplots(1, max(1, len(names)), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, names):
        _draw_errors(axis, [(trivial, errors.get(name, {}).get("mae")) for _, trivial, errors in rows],
                     ticks=max(4, 10 // len(names)))
        axis.set_title(name, color=INK)
        axis.set_xlabel("MAE")
    if not names:
        axes[0].set_title("no reference is known", color=GREY)
        axes[0].set_xticks([])
    axes[0].set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes[0].set_ylim(max(1, len(rows)) - 0.5, -0.5)
    return figure


def _draw_errors(axis: Axes, rows: Sequence[tuple[bool, Statistic | None]], ticks: int) -> None:
    """Dots and intervals, one row each, on a logarithmic axis; what it cannot show is said."""
    drawn = [value for _, found in rows if found for value in (found["mean"], *found["values"])
             if value and value < HUGE]
    left, right = (min(drawn) / 2.5, max(drawn) * 2.5) if drawn else (0.1, 1.0)
    axis.set_xscale("log")
    axis.set_xlim(left, right)
    for place, (trivial, found) in enumerate(rows):
        mean = None if found is None else found["mean"]
        if found is None or not mean or mean > HUGE:
            text = "not known" if found is None else "not finite" if mean is None else number_text(mean)
            axis.annotate(text, (0.02, place), xycoords=("axes fraction", "data"), color=GREY, size=9, va="center")
            continue
        colour = GREY if trivial else COLOURS[0]
        if found["half_width"] is not None:
            low, high = max(mean - found["half_width"], left / 10), mean + found["half_width"]
            axis.plot([low, high], [place, place], color=colour, lw=2, solid_capstyle="butt", alpha=0.6)
        dots = [value for value in found["values"] if value]
        if len(found["values"]) > 1:
            axis.scatter(dots, [place + 0.28] * len(dots), s=6, color=GREY, lw=0, alpha=0.8)
        axis.scatter([mean], [place], s=24, marker="D" if trivial else "o", color=colour, lw=0, zorder=3)
    axis.grid(True, axis="x", color=FAINT, lw=0.6)
    axis.xaxis.set_major_locator(LogLocator(numticks=ticks))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)


# --- Files -----------------------------------------------------------------------------------------------------


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
    figures = {"errors": error_bars(summary, baselines, gradients), "convergence": convergence(records)}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    write_json(folder / "comparison.json", {
        "problem": problem, "summary": summary, "refused": list(refused), "baselines": dict(baselines or {}),
        "records": list(records), "provenance": dict(provenance or {})})
    with replacing(folder / "table.md") as temporary:
        temporary.write_text(markdown(summary, refused, baselines, gradients, title), encoding="utf-8")
    for name, figure in figures.items():
        with replacing(folder / "figures" / f"{name}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=130)
    _write_report(folder / "report.html", title, records, summary, refused, baselines or {}, provenance or {},
                  gradients, figures)
    return summary


def _write_report(path: Path, title: str, records: Sequence[Record], summary: dict, refused: Sequence[Mapping],
                  baselines: Baselines, provenance: Mapping, gradients: Sequence[str], figures: dict) -> None:
    seeds = {seed for found in summary.values() for seed in found["seeds"]}
    presets = _union({str(record["settings"].get("preset")): None} for record in records)
    schedules = _union({str(record["settings"].get("schedule", "fair")): None} for record in records)
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


def _error_parts(summary: Mapping[str, Mapping], baselines: Baselines, gradients: Sequence[str],
                 chart: Figure) -> list[str]:
    """Tables, notes and the chart; or a sentence why there are none."""
    tables, names = error_tables(summary, baselines, gradients), components(summary, gradients)
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


def _html(each: Table) -> str:
    rows = (([name, *(Strong(_broken(text)) if best else _broken(text) for text, best in cells)],
             "trivial" if trivial else "") for name, trivial, cells in each.rows)
    return table(["method", *each.columns], rows)


def _broken(text: str) -> str:
    """How many seeds on a line of its own."""
    return text.replace(" (", "\n(")


def in_short(record: Record, gradients: Sequence[str] = ()) -> str:
    """One method in a line: its first errors, or its residual where no reference is known."""
    summary = summarise([record])
    found = summary[record["method"]]
    errors = [f"MAE of {name} {statistic_text(found['errors'][name]['mae'])}"
              for name in components(summary, gradients)[:SHOWN]]
    return ", ".join(errors or [f"residual {statistic_text(found['residual'])}"])


def _headline_cards(summary: Mapping[str, Mapping], baselines: Baselines, gradients: Sequence[str]) -> str:
    rows = []
    for name in components(summary, gradients)[:2]:
        found = {method: each["errors"].get(name, {}).get("mae") for method, each in summary.items()}
        for best in _ranking(found)[:1]:
            mean, plus_minus, rest = statistic_text(found[best]).partition(" ± ")
            rows.append((f"Smallest MAE of {name}", mean, f"{plus_minus}{rest} by {best}".strip()))
    exact = [method for method, found in summary.items() if _exact(found["boundary_violation"])]
    note = f"by {', '.join(exact)}" if exact else "by no method"
    rows.append(("Conditions hold exactly", f"{len(exact)} of {len(summary)}", note))
    seconds = _numbers(found["seconds"] for found in summary.values())
    runs = sum(len(found["seeds"]) for found in summary.values())
    rows.append(("Training time", f"{np.nansum(seconds):.4g} s", f"{count_text(runs, 'run')} together"))
    sentence = headline(summary, baselines, gradients).replace(" ± ", "\u00a0±\u00a0")
    return f"<p class='lead'>{escape(sentence)}</p>{cards(rows)}"


def _worst(found: Statistic) -> float | None:
    """The largest value; None if a seed has none."""
    return None if None in found["values"] else max(found["values"], default=None)


def _exact(found: Statistic) -> bool:
    worst = _worst(found)
    return worst is not None and worst <= EXACT


def _conditions(summary: Mapping[str, Mapping]) -> str:
    rows = []
    for method, found in summary.items():
        worst, exact = _worst(found["boundary_violation"]), _exact(found["boundary_violation"])
        cells = [_broken(statistic_text(found["boundary_violation"])),
                 "not finite" if worst is None else number_text(worst), _broken(statistic_text(found["residual"]))]
        rows.append(([method, *cells, "exact" if exact else "approximate"], "good" if exact else "weak"))
    note = (f"<p class='small'>Exact: max |A q − g| on the boundary is at most {EXACT:g} for every seed, that is, "
            "rounding.</p>")
    head = ["method", "max |A q − g|, mean", "worst seed", "residual of the equations", "conditions"]
    return table(head, rows) + note


def _cost(summary: Mapping[str, Mapping]) -> str:
    stages = _union(found["step_ms"] for found in summary.values())
    rows = []
    for method, found in summary.items():
        times = [found["seconds"], found["seconds_first_step"], *(found["step_ms"].get(stage) for stage in stages)]
        rows.append(([method, _whole(found["parameters"]), *map(value_text, times)], ""))
    note = ("<p class='small'>Seconds are those of all seeds together, compilation included; a step is one of all "
            "seeds at once.</p>")
    head = ["method", "weights", "seconds", "until the first step, s", *(f"{stage}, ms per step" for stage in stages)]
    return table(head, rows) + note


def endings(record: Record) -> list[tuple[str, str, str, str]]:
    """How stages ended: (stage, seeds, steps, why); seeds for which one ended for the same reason come together."""
    groups: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for run in record["runs"]:
        for number, ending in enumerate(run.get("endings") or []):
            key = (number, ending["stage"], ending["why"])
            groups.setdefault(key, []).append((run["seed"], ending["steps"]))
    return [(stage, _seeds([seed for seed, _ in found]), ", ".join(_union({f"{n:,}": None} for _, n in found)), why)
            for (_, stage, why), found in sorted(groups.items(), key=lambda group: group[0][0])]


def _endings(records: Sequence[Record]) -> str:
    rows = [([record["method"] if not i else "", *found], "") for record in records
            for i, found in enumerate(endings(record))]
    words = ("why it ended",)
    return table(["method", "stage", "seeds", "steps", *words], rows, words=words) if rows else ""


def _seeds(seeds: Sequence[int]) -> str:
    """0, 1, 2, 4 as 0–2, 4."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _refused(refused: Sequence[Mapping[str, str]]) -> str:
    rows = [([name, why], "") for name, why in _refusals(refused)]
    return table(["method", "why it does not apply"], rows, words=("why",)) if rows else ""


def _settings(record: Record) -> str:
    """The settings of a method, folded until asked for."""
    settings = {key: value for key, value in record["settings"].items() if key not in ("seed", "stages")}
    settings["seeds"] = _seeds([run["seed"] for run in record["runs"]])
    stages = record["settings"].get("stages") or []
    settings |= {f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    return f"<details><summary>{escape(record['method'])}</summary>{settings_tables(settings)}</details>"
