"""What a solve without training leaves to be looked at: its features, the singular values of its matrix, and where its
residual is."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from hardpde.ansatz.corners import corners_of
from hardpde.direct.groups import Drawn, asked
from hardpde.direct.newton import Balance, Equations
from hardpde.direct.system import matrix
from hardpde.evaluation.base import Solved, is_size
from hardpde.evaluation.errors import typical_solution
from hardpde.geometry import at_times
from hardpde.networks.features import LOCAL, RandomFeatures, each_its_own, number, of_kind
from hardpde.problem.reference import Reference
from hardpde.support.compiling import jit_simply

MOST = 1600  # unknowns of which singular values are shown
RATIO = 3  # points for each of them


def singular_values(solution: Solved) -> np.ndarray | None:
    """Those of the equations' matrix at fresh points, its columns scaled to length one, the largest first, (h c,).

    None where the model is not of features alone and all over the domain, or where there are too many.
    """
    model, formulation = solution.training.model, solution.formulation
    if not isinstance(model, RandomFeatures) or model.base is not None or LOCAL in model.kinds:
        return None
    if model.last.size > MOST:
        return None
    problem = formulation.problem
    corners = corners_of(problem) if solution.settings["method"].get("corners") else []
    sources = model.sources or each_its_own(model.last.shape[1])
    made = asked(formulation, corners, sources, problem.schema.dim if model.sources else 0)
    draws = [Drawn(formulation.draw(jax.random.key(k))) for k in range(-(-RATIO * number(model.units) //
                                                                        formulation.points))]
    equations = Equations(made.groups(draws), problem.schema.dim if problem.order == 2 else 0)
    sizes = equations.sizes(equations.offsets)
    balance = Balance(np.where(sizes > 0, sizes, 1.0), np.ones(equations.columns))
    units = tuple(of_kind(kind, *map(np.asarray, arrays)) for kind, arrays in zip(model.kinds, model.arrays))
    found = matrix(equations.about(equations.jets(units, np.asarray(model.last)), balance), units)
    lengths = np.linalg.norm(found, axis=0)
    r = np.linalg.qr(found / np.where(lengths > 0, lengths, 1.0), mode="r")
    return np.linalg.svd(r, compute_uv=False)


def residual_at(solution: Solved, grid: Reference) -> np.ndarray | None:
    """The root of the sum of all squared equations at nodes, (n,) or (k, n) at k times, in units of their terms; None
    where the equations are stated on another domain."""
    one = typical_solution(solution)
    problem, model = one.formulation.problem, one.training.model
    if problem.mapping is not None or solution.problem.mapping is not None:
        return None

    def terms(x: Array, jet: Array) -> tuple[Array, Array]:
        q, dq = jet[:, 0], jet[:, 1:].T
        value = problem.residuals(x, q, dq)
        by_q, by_dq = jax.jacfwd(problem.residuals, (1, 2))(x, q, dq)
        known = value - by_q @ q - (by_dq * dq).sum((1, 2))
        return value, (abs(by_q) * abs(q)).sum(1) + (abs(by_dq) * abs(dq)).sum((1, 2)) + abs(known)

    every = jit_simply(jax.vmap(terms))
    places = [np.asarray(grid.x if t is None else at_times(grid.x, t))
              for t in ([None] if grid.times is None else grid.times)]
    values, sizes = (np.stack(part) for part in zip(*(map(np.asarray, every(x, one.formulation.jet(model, x)))
                                                      for x in places)))
    scale = np.sqrt(np.nanmean(np.where(np.isfinite(sizes), sizes, np.nan) ** 2, axis=(0, 1)))
    found = np.sqrt(((values / np.where(scale > 0, scale, 1.0)) ** 2).sum(-1))
    return found[0] if grid.times is None else found


def features_in_words(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the features are, as rows (what, how)."""
    stated = settings.get("features") or {}
    windows = stated.get("windows", [1] * len(stated.get("sizes", [])))
    rows = []
    for kind, size, many in zip(stated.get("kinds", []), stated.get("sizes", []), windows):
        where = f"{size} in each of {many} windows" if kind == LOCAL else f"{size} all over the domain"
        rows.append((_UNITS.get(kind, kind), where))
    scales = np.array(stated.get("scales", []), float)
    if (scales > 0).any():
        used = np.unique(scales[scales > 0])
        text = " to ".join(f"{scale:.3g}" for scale in dict.fromkeys((used[0], used[-1])))
        left = int((scales == 0).sum())
        rows.append(("steepness, over half the range of an input", text + f"; {left} of {len(scales)} inputs left out" *
                     bool(left)))
    if any(source[1] for source in stated.get("sources", [])):
        rows.append(("gradients", "derivatives of the other outputs"))
    if stated.get("on_trained"):
        rows.append(("inputs", "with the last hidden layer of the trained network, to which they add"))
    return rows


_UNITS = {"tanh": "tanh of a plane", "sine": "sine of a plane", "power": "powers about corners",
          LOCAL: "tanh of a plane, in windows"}


def rows_solved(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of a history that are sizes which were solved."""
    return [row for row in history if is_size(row["stage"])]
