"""Statistics over the seeds of each method of a comparison, and numbers in words.

A record holds what is known of one method, as plain data:

method, settings, parameters; seconds (training of all seeds together, compilation included), seconds_first_step,
step_ms {stage: milliseconds of a step of all seeds at once}; runs, one for each seed: seed, errors {component:
metrics}, boundary_violation, loss, held_out, residual, endings [{stage, steps, why}] and history [{stage, step,
steps, loss, held_out, seconds}].

Numbers may be None or not finite where a seed diverged or a metric is not defined. Every number told is the mean
over the seeds where it is finite, which is said where these are not all.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hardpde.evaluation.metrics import METRICS

CONFIDENCE = 0.95
UNDEFINED = "–"
SHOWN = 4  # components that are told in a line, and drawn
Record = Mapping[str, Any]
Baselines = Mapping[str, Mapping[str, Mapping[str, Any]]]
Statistic = dict[str, Any]  # {"mean", "half_width", "values"}, the values by seed
Summary = Mapping[str, Mapping[str, Any]]  # what `summarise` returns


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
    from scipy.stats import t as student  # takes a third of a second

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
            "errors": error_statistics([run.get("errors") or {} for run in runs]),
            **{key: statistic([run.get(key) for run in runs])
               for key in ("boundary_violation", "residual", "loss", "held_out")},
        }
    return summary


def error_statistics(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Statistics {component: …} over runs, each with its {component: metrics}."""
    return {name: _metric_statistics([run.get(name) or {} for run in runs]) for name in union(runs)}


def _metric_statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Statistics over the metrics of several runs, also at each time and over each part."""
    found: dict[str, Any] = {key: statistic([row.get(key) for row in rows]) for key in METRICS}
    timed = [{entry["time"]: entry for entry in row.get("by_time") or []} for row in rows]
    parted = [row.get("parts") or {} for row in rows]
    if any(timed):
        found["by_time"] = [{"time": time, **_metric_statistics([row.get(time, {}) for row in timed])}
                            for time in sorted(union(timed))]
    if any(parted):
        found["parts"] = {part: _metric_statistics([row.get(part) or {} for row in parted]) for part in union(parted)}
    return found


def union(many: Iterable[Iterable[Any]]) -> list[Any]:
    """Everything that is in one of them (keys of mappings), once, in the order in which it comes."""
    return list(dict.fromkeys(key for keys in many for key in keys))


def components_compared(summary: Summary, gradients: Sequence[str] = ()) -> list[str]:
    """The components with errors, those of the fields named in `gradients` left out."""
    names = union(found["errors"] for found in summary.values())
    return [name for name in names if name.split("[")[0] not in gradients]


def error_rows(summary: Summary, baselines: Baselines | None) -> list[tuple[str, bool, dict[str, Any]]]:
    """(name, whether a trivial prediction, statistics of its errors by component), the methods first."""
    rows = [(name, False, found["errors"]) for name, found in summary.items()]
    return rows + [(name, True, error_statistics([found])) for name, found in (baselines or {}).items()]


def known_seeds(found: Statistic) -> int:
    """Of how many seeds the value is known."""
    return sum(value is not None for value in found["values"])


def ranking(found: Mapping[str, Statistic | None]) -> list[str]:
    """Methods from the best to the worst; those with undefined values after the others."""
    known = {name: each for name, each in found.items() if each is not None and each["mean"] is not None}
    return sorted(known, key=lambda name: (known_seeds(known[name]) < len(known[name]["values"]), known[name]["mean"]))


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
    """That of ten in the value as it is printed."""
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
    half_width, known = found["half_width"], known_seeds(found)
    text = number_text(scale * found["mean"], None if half_width is None else scale * half_width)
    return text if known == len(found["values"]) else f"{text} ({known} of {len(found['values'])} seeds)"


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


def count_text(count: int, noun: str) -> str:
    """1 step, 2,000 steps."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
