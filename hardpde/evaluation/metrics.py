"""How far a prediction is from a reference: the paper's metrics, and two more.

Every metric is a fraction (0.01 is one percent) or, where it is not defined, None: MAPE where the reference
is zero somewhere, WMAPE and relative L2 where it is zero everywhere, any of them if a value is not finite.
With weights (n,) each of the n values counts by its weight in means and sums; the largest error has none.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Weights = ArrayLike | None
Metric = Callable[[ArrayLike, ArrayLike, Weights], float | None]


def mae(prediction: ArrayLike, reference: ArrayLike, weights: Weights = None) -> float | None:
    """Mean absolute error."""
    p, r, w = _together(prediction, reference, weights)
    return _number(np.average(np.abs(p - r), weights=w))


def mape(prediction: ArrayLike, reference: ArrayLike, weights: Weights = None) -> float | None:
    """Mean absolute percentage error, as a fraction; None if the reference is zero somewhere."""
    p, r, w = _together(prediction, reference, weights)
    return None if np.any(r == 0) else _number(np.average(np.abs((p - r) / r), weights=w))


def wmape(prediction: ArrayLike, reference: ArrayLike, weights: Weights = None) -> float | None:
    """Weighted mean absolute percentage error: sum |p - r| / sum |r|, as a fraction."""
    p, r, w = _together(prediction, reference, weights)
    scale = np.sum(w * np.abs(r))
    return None if scale == 0 else _number(np.sum(w * np.abs(p - r)) / scale)


def relative_l2(prediction: ArrayLike, reference: ArrayLike, weights: Weights = None) -> float | None:
    """Euclidean norm of the error over that of the reference."""
    p, r, w = _together(prediction, reference, weights)
    root = np.sqrt(w)
    scale = np.linalg.norm((root * r).ravel())
    return None if scale == 0 else _number(np.linalg.norm((root * (p - r)).ravel()) / scale)


def largest(prediction: ArrayLike, reference: ArrayLike, weights: Weights = None) -> float | None:
    """The largest absolute error."""
    p, r, _ = _together(prediction, reference, weights)
    return _number(np.max(np.abs(p - r)))


METRICS: dict[str, Metric] = {
    "mae": mae,
    "mape": mape,
    "wmape": wmape,
    "relative_l2": relative_l2,
    "max": largest,
}
METRIC_NAMES = {
    "mae": "MAE",
    "mape": "MAPE",
    "wmape": "WMAPE",
    "relative_l2": "relative L²",
    "max": "max |error|",
}
PERCENT = ("mape", "wmape", "relative_l2")  # told in percent


def field_errors(
    prediction: ArrayLike, reference: ArrayLike, times: ArrayLike | None = None, weights: Weights = None
) -> dict[str, Any]:
    """All metrics of one field; with `times` (k,), of arrays (k, n, …), averaged over the times.

    The average is the paper's: the mean over the times of the metric at each time; where the reference is zero at one
    of them, WMAPE and relative L2 are those of all times together, and MAPE is None; "max" is the largest over all
    times. `by_time` lists the metrics at each "time".
    """
    p, r = _pair(prediction, reference)
    if times is None:
        return {name: metric(p, r, weights) for name, metric in METRICS.items()}
    instants = np.asarray(times, float)
    if instants.shape != p.shape[:1]:
        raise ValueError(
            f"times have shape {instants.shape}, values {p.shape}; pass one row of values per time"
        )
    by_time = [
        {"time": float(t), **{name: metric(p[i], r[i], weights) for name, metric in METRICS.items()}}
        for i, t in enumerate(instants)
    ]
    average: dict[str, Any] = {name: _mean([row[name] for row in by_time]) for name in METRICS}
    many = None if weights is None else np.tile(np.asarray(weights, float), len(instants))
    for name in ("wmape", "relative_l2"):  # over all times, where the reference is zero at one of them
        if average[name] is None:
            average[name] = METRICS[name](p.reshape(-1, *p.shape[2:]), r.reshape(-1, *r.shape[2:]), many)
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


def _together(
    prediction: ArrayLike, reference: ArrayLike, weights: Weights
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prediction, reference and a weight for every value, once their shapes are found to fit."""
    p, r = _pair(prediction, reference)
    w = np.ones(p.shape[:1]) if weights is None else np.asarray(weights, float)
    if w.shape != p.shape[:1] or not np.all(w >= 0) or not np.any(w > 0):
        raise ValueError(f"weights have shape {w.shape}, values {p.shape}; pass one weight, not negative, per value")
    return p, r, np.broadcast_to(w.reshape(*w.shape, *[1] * (p.ndim - w.ndim)), p.shape)


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
