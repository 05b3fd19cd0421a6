"""How far a prediction is from a reference: the paper's metrics, and two more.

Every metric is a fraction (0.01 is one percent) or, where it is not defined, None: MAPE where the reference
is zero somewhere, WMAPE and relative L2 where it is zero everywhere, any of them if a value is not finite.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Metric = Callable[[ArrayLike, ArrayLike], float | None]


def mae(prediction: ArrayLike, reference: ArrayLike) -> float | None:
    """Mean absolute error."""
    p, r = _pair(prediction, reference)
    return _number(np.mean(np.abs(p - r)))


def mape(prediction: ArrayLike, reference: ArrayLike) -> float | None:
    """Mean absolute percentage error, as a fraction; None if the reference is zero somewhere."""
    p, r = _pair(prediction, reference)
    return None if np.any(r == 0) else _number(np.mean(np.abs((p - r) / r)))


def wmape(prediction: ArrayLike, reference: ArrayLike) -> float | None:
    """Weighted mean absolute percentage error: sum |p - r| / sum |r|, as a fraction."""
    p, r = _pair(prediction, reference)
    scale = np.sum(np.abs(r))
    return None if scale == 0 else _number(np.sum(np.abs(p - r)) / scale)


def relative_l2(prediction: ArrayLike, reference: ArrayLike) -> float | None:
    """Euclidean norm of the error over that of the reference."""
    p, r = _pair(prediction, reference)
    scale = np.linalg.norm(r.ravel())
    return None if scale == 0 else _number(np.linalg.norm((p - r).ravel()) / scale)


def largest(prediction: ArrayLike, reference: ArrayLike) -> float | None:
    """The largest absolute error."""
    p, r = _pair(prediction, reference)
    return _number(np.max(np.abs(p - r)))


METRICS: dict[str, Metric] = {
    "mae": mae,
    "mape": mape,
    "wmape": wmape,
    "relative_l2": relative_l2,
    "max": largest,
}


def errors(prediction: ArrayLike, reference: ArrayLike, times: ArrayLike | None = None) -> dict[str, Any]:
    """All metrics of one field; with `times` (k,), of arrays (k, n, …), averaged over the times.

    The average is the paper's: the mean over the times of the metric at each time, None if it is not defined
    at one of them; "max" is the largest over all times. `by_time` lists the metrics at each "time".
    """
    p, r = _pair(prediction, reference)
    if times is None:
        return {name: metric(p, r) for name, metric in METRICS.items()}
    instants = np.asarray(times, float)
    if instants.shape != p.shape[:1]:
        raise ValueError(
            f"times have shape {instants.shape}, values {p.shape}; pass one row of values per time"
        )
    by_time = [
        {"time": float(t), **{name: metric(p[i], r[i]) for name, metric in METRICS.items()}}
        for i, t in enumerate(instants)
    ]
    average: dict[str, Any] = {name: _mean([row[name] for row in by_time]) for name in METRICS}
    return {**average, "max": largest(p, r), "by_time": by_time}


def _pair(prediction: ArrayLike, reference: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, r = np.asarray(prediction, float), np.asarray(reference, float)
    if p.shape != r.shape:
        raise ValueError(
            f"prediction has shape {p.shape}, reference {r.shape}; evaluate at the reference's nodes"
        )
    if p.size == 0:
        raise ValueError("there are no values to compare; pass at least one node")
    return p, r


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
