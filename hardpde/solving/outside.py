"""Where nothing is known: outside the domain, the time and the ranges of the parameters."""

import warnings
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from hardpde.geometry.algorithms.sampling import depths
from hardpde.problem.problem import Problem

SLACK = 1e-6  # of the size: what a rounded point of the boundary may be off
FEWEST, MOST = 64, 8192  # points that are looked at together


def known_at(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Whether points (n, c) of the domain, as it was stated, lie in it, its time and the ranges of its parameters."""
    d, size = problem.schema.dim, problem.domain.size
    lo, hi = (np.array(b) for b in problem.domain.bounds)
    good = np.all((x[:, :d] >= lo - SLACK * size) & (x[:, :d] <= hi + SLACK * size), axis=1)
    places = np.where(good[:, None], x[:, :d], lo)
    for start in range(0, len(x), MOST):
        part = places[start : start + MOST]
        block = min(max(1 << (len(part) - 1).bit_length(), FEWEST), MOST)  # few sizes are compiled
        padded = np.concatenate([part, np.repeat(part[-1:], block - len(part), 0)])
        depth = np.asarray(depths(problem.domain, jnp.asarray(padded)))
        good[start : start + MOST] &= depth[: len(part)] <= SLACK * size
    ranges = ([] if problem.time is None else [problem.time]) + [(p.low, p.high) for p in problem.parameters]
    for k, (low, high) in enumerate(ranges, d):
        slack = SLACK * (high - low)
        good &= (x[:, k] >= low - slack) & (x[:, k] <= high + slack)
    return good


def without_unknown(problem: Problem, values: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """Values of fields (n, *shape) at points (n, c), NaN where nothing is known; a warning says so."""
    good = known_at(problem, x)
    if good.all():
        return dict(values)
    at = ", ".join(f"{c:.4g}" for c in x[~good][0])
    what = "the domain" + (" and its time" if problem.time is not None else "") + (
        " and the ranges of the parameters" if problem.parameters else "")
    warnings.warn(f"{(~good).sum()} of {len(x)} points lie outside {what}, the first at ({at}); the solution is NaN "
                  f"there", stacklevel=3)
    return {name: np.where(good.reshape(-1, *[1] * (np.ndim(part) - 1)), part, np.nan) for name, part in values.items()}
