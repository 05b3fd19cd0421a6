"""Parameters from measurements: the member of a solved family that agrees best with them, and how sure that is."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from hardpde.problem.parameters import append, as_points, single
from hardpde.problem.problem import Problem
from hardpde.solving.solution import Solution
from hardpde.support.checking import is_number, is_positive, numbers


@dataclass(frozen=True)
class Estimate:
    """Parameters found from measurements.

    values: {name: best value}; interval: {name: (low, high)}, where it lies with the stated confidence if the noise
    is independent and normal (Laplace's approximation); covariance (p, p) in the order of the values; noise: the
    standard deviation of the measurements, stated or estimated from the misfit; at_end: parameters whose best value is
    an end of their range, so that the true one may lie beyond, and nothing is known of how far; undetermined: those
    whose interval is wider than their range.
    """

    values: dict[str, float]
    interval: dict[str, tuple[float, float]]
    covariance: np.ndarray
    noise: float
    confidence: float
    at_end: tuple[str, ...]
    undetermined: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{name} = {value:.6g} ({self.interval[name][0]:.6g} to {self.interval[name][1]:.6g}, "
                 f"{100 * self.confidence:g} %)" + ", at the end of its range" * (name in self.at_end)
                 for name, value in self.values.items()]
        return "\n".join([*lines, *self.remarks, f"noise of the measurements: {self.noise:.3g}"])

    @property
    def remarks(self) -> tuple[str, ...]:
        """What makes the values doubtful, in sentences."""
        found = [f"{name} is at the end of its range: the true value may lie beyond, solve the family with a wider one"
                 for name in self.at_end]
        return (*found, *(f"these measurements do not determine {name}: its interval is wider than its range"
                          for name in self.undetermined if name not in self.at_end))


def infer(solution: Solution, field: str, x: Any, measured: Any, t: Any = None, *, noise: float | None = None,
          confidence: float = 0.95, fixed: Mapping[str, float] | None = None) -> Estimate:
    """The parameters of a solved family for which `field` at points x (n, d) and times t comes closest to `measured`.

    The conditions hold for every value that is tried. measured: (n, *shape of the field); what is not known is NaN.
    noise: the standard deviation of the measurements, if it is known. fixed: parameters that are known, {name: value}.
    What makes the values doubtful is also warned of.
    """
    if not isinstance(getattr(solution, "problem", None), Problem):
        raise ValueError(f"infer is given {type(solution).__name__} in place of a solution; give it what solve(…) "
                         f"returns for a family")
    known, shapes = solution.problem.parameters, solution.problem.schema.shapes
    if not known:
        raise ValueError("the problem has no parameters to find; state parameters=parameters(h=(low, high)), solve it")
    if field not in tuple(shapes):
        raise ValueError(f"there is no field '{field}'; the fields are {', '.join(shapes)}")
    given = dict(fixed or {})
    if unknown := [name for name in given if name not in {p.name for p in known}]:
        raise ValueError(f"there is no parameter '{unknown[0]}' to keep fixed; the parameters are "
                         f"{', '.join(p.name for p in known)}")
    stated_values = single([p for p in known if p.name in given], given)
    given = dict(zip((p.name for p in known if p.name in given), stated_values))
    known = tuple(p for p in known if p.name not in given)
    if not known:
        raise ValueError("all parameters are fixed; leave one open to be found")
    x, wanted = as_points(x), numbers(measured, "measured")
    if wanted.shape != (len(x), *shapes[field]):
        raise ValueError(f"measured has the shape {wanted.shape}; at {len(x)} points it must be "
                         f"{(len(x), *shapes[field])}")
    there = np.isfinite(wanted)
    if there.sum() <= len(known):
        raise ValueError(f"{there.sum()} measured numbers do not determine {len(known)} parameters and their noise; "
                         f"give more")
    if noise is not None and not is_positive(noise):
        raise ValueError(f"the noise is {noise!r}; it is a positive standard deviation")
    if not (is_number(confidence) and 0 < confidence < 1):
        raise ValueError(f"the confidence is {confidence!r}; it lies between 0 and 1")
    names, low = [p.name for p in known], np.array([p.low for p in known])
    span = np.array([p.high for p in known]) - low

    def misfit(unit: np.ndarray) -> np.ndarray:
        stated = dict(zip(names, low + span * np.clip(unit, 0, 1)))
        return (solution.anywhere(x, t, **stated, **given)[field] - wanted)[there]

    from scipy.stats import t as student  # takes a third of a second

    starts = (np.asarray(append(known, np.zeros((10, 0))))[2:] - low) / span
    best = _fit(misfit, starts[np.argmin([(misfit(start) ** 2).sum() for start in starts])])
    freedom = there.sum() - len(known)
    size = noise if noise is not None else float(np.sqrt((best.fun**2).sum() / freedom))
    covariance = size**2 * np.linalg.pinv(best.jac.T @ best.jac) * np.outer(span, span)
    values = low + span * best.x
    reach = float(student.ppf((1 + confidence) / 2, freedom)) * np.sqrt(np.diag(covariance))
    ends = tuple(name for name, at in zip(names, best.x) if min(at, 1 - at) < 1e-6)
    wide = tuple(name for name, r, s in zip(names, reach, span) if not 2 * r <= s)
    found = Estimate(dict(zip(names, values.tolist())),
                     {name: (float(v - r), float(v + r)) for name, v, r in zip(names, values, reach)},
                     covariance, size, confidence, ends, wide)
    for remark in found.remarks:
        warnings.warn(remark, stacklevel=2)
    return found


def _fit(misfit: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> Any:
    """Least squares in the unit cube; slopes by central differences, which a smooth solution allows."""
    return least_squares(misfit, np.clip(start, 1e-3, 1 - 1e-3), "3-point", (0.0, 1.0), diff_step=1e-4, xtol=1e-12,
                         ftol=1e-12, gtol=1e-12)
