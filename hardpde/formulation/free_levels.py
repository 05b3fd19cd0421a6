"""The level of fields that have a datum: a constant is added, so that their mean or their value at a point is stated.

The equations and the conditions do not change with it, which is checked when the problem is stated; so models are
trained and solved for without it, and have it wherever they are evaluated.
"""

from collections.abc import Callable

import numpy as np

from hardpde.problem.datum import Datum
from hardpde.problem.problem import Problem

AT_ONCE = 2**17  # points of means


def levelled(problem: Problem, evaluate: Callable[[np.ndarray], np.ndarray], x: np.ndarray,
             found: np.ndarray) -> np.ndarray:
    """States with their derivatives (n, m, slots) at points (n, c), from those without data; evaluate(x) gives these.
    """
    for datum in problem.levels:
        found = _levelled(problem, datum, evaluate, x, found)
    return found


def _levelled(problem: Problem, datum: Datum, evaluate: Callable[[np.ndarray], np.ndarray], x: np.ndarray,
              found: np.ndarray) -> np.ndarray:
    d, k = problem.schema.dim, datum.component(problem)
    others, which = np.unique(x[:, d:], axis=0, return_inverse=True)
    each = max(1, AT_ONCE // len(datum.rule(problem)[0]))
    parts = [_means(problem, datum, evaluate, others[i : i + each]) for i in range(0, len(others), each)]
    mean = np.concatenate(parts)  # (k, slots)
    value, change = datum.values(problem, others)
    found = found.copy()
    found[:, k, 0] += (value - mean[:, 0])[which.ravel()]
    if problem.time is not None and found.shape[-1] > 1:
        found[:, k, 1 + d] += (change - mean[:, 1 + d])[which.ravel()]
    return found


def _means(problem: Problem, datum: Datum, evaluate: Callable[[np.ndarray], np.ndarray],
           others: np.ndarray) -> np.ndarray:
    """The means of a field and its derivatives (k, slots) at times and parameters (k, c − d)."""
    found = evaluate(datum.points(problem, others))[:, datum.component(problem)]
    return datum.average(problem, found, len(others))
