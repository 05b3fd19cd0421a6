"""Errors against a reference or a known solution."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hardpde.evaluation.base import Solved
from hardpde.evaluation.metrics import field_errors
from hardpde.geometry.algorithms.sampling import depths
from hardpde.problem.parameters import append, middle
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference, node_weights
from hardpde.support.checking import finite_numbers
from hardpde.support.compiling import runs_once
from hardpde.support.messages import in_ones_words

WEIGHTED = "area-weighted"
OUTSIDE = 1e-2  # of the domain's size: nodes of a mesh of curved boundaries may lie beyond them by less


def predict_on(solution: Solved, x: np.ndarray, times: np.ndarray | None) -> dict[str, np.ndarray]:
    """All fields at nodes (n, d): (n, *shape), or (k, n, *shape) at k times.

    Those of a family are the ones in the middle of its ranges.
    """
    solution = typical_solution(solution)
    if times is None:
        return solution.anywhere(x)
    slices = [solution.anywhere(x, t) for t in times]
    return {name: np.stack([s[name] for s in slices]) for name in slices[0]}


def checked_reference(problem: Problem) -> Reference | None:
    """The problem's reference, if it has one, once its fields and shapes are found to be those of the problem."""
    try:
        with runs_once():
            reference = problem.make_reference()
    except Exception as error:
        raise ValueError(f"the known solution cannot be evaluated: {in_ones_words(error)}") from None
    if reference is None:
        return None
    if not isinstance(reference, Reference):
        raise ValueError(f"the function that makes the reference returns {reference!r}; it returns a Reference(x, "
                         f"values, …)")
    _check_nodes(problem, reference)
    shapes, lead = problem.schema.shapes, () if reference.times is None else (len(reference.times),)
    for name, values in reference.values.items():
        if name not in shapes:
            raise ValueError(f"the known solution has a field '{name}'; the fields are {', '.join(shapes)}")
        if np.shape(values) != (*lead, len(reference.x), *shapes[name]):
            raise ValueError(f"the known solution gives '{name}' the shape {np.shape(values)[len(lead) + 1:]}; "
                             f"the field has {shapes[name]}")
        if not np.isfinite(np.compress(problem.lives(name, reference.x), values, axis=len(lead))).all():
            raise ValueError(f"the known solution of '{name}' is not a finite number everywhere in the domain")
    for name, mask in reference.masks.items():
        if np.shape(mask) != reference.x.shape[:1] or np.asarray(mask).dtype != bool or not np.any(mask):
            raise ValueError(f"the mask '{name}' must be {len(reference.x)} truth values, one for each node, some true")
    for name, baseline in reference.baselines.items():
        for field, value in baseline.items():
            if field not in reference.values:
                raise ValueError(f"the baseline '{name}' has a field '{field}'; the known fields are "
                                 f"{', '.join(reference.values)}")
            try:
                np.broadcast_to(value, np.shape(reference.values[field]))
            except ValueError:
                raise ValueError(f"the baseline '{name}' gives '{field}' the shape {np.shape(value)}; the known "
                                 f"values have {np.shape(reference.values[field])}") from None
    if reference.weighted and reference.cells is None:
        raise ValueError("the reference asks for errors weighted by area but has no cells")
    return reference


def _check_nodes(problem: Problem, reference: Reference) -> None:
    """Nodes lie in the domain and times in the time of the problem, and cells are made of nodes that exist."""
    x, dim, size = finite_numbers(reference.x, "the nodes of the reference"), problem.schema.dim, problem.domain.size
    if x.ndim != 2 or x.shape[1] != dim or not len(x):
        raise ValueError(f"the nodes of the reference have the shape {x.shape}; it is (n, {dim})")
    if problem.mapping is None:
        depth = np.asarray(depths(problem.domain, x))
        if depth.max() > OUTSIDE * size:
            place = ", ".join(f"{c:.4g}" for c in x[int(depth.argmax())])
            raise ValueError(f"the node ({place}) of the reference lies outside the domain, by {depth.max():.2g}")
    if (reference.times is not None) != (problem.time is not None):
        raise ValueError(f"the reference has {'no ' * (reference.times is None)}times and the problem has "
                         f"{'no ' * (problem.time is None)}time")
    if reference.times is not None and problem.time is not None:
        times, (start, end) = finite_numbers(reference.times, "the times of the reference"), problem.time
        slack = 1e-9 * (end - start)
        if times.ndim != 1 or not ((times >= start - slack) & (times <= end + slack)).all():
            raise ValueError(f"the times of the reference, {np.ravel(times)[:5].tolist()}, are not instants from "
                             f"{start:g} to {end:g}")
    if reference.cells is not None:
        cells = np.asarray(reference.cells)
        whole = cells.ndim == 2 and cells.shape[1] == dim + 1 and np.issubdtype(cells.dtype, np.integer)
        if not whole or cells.min(initial=0) < 0 or cells.max(initial=0) >= len(x):
            raise ValueError(f"the cells of the reference are {dim + 1} numbers of its {len(x)} nodes each, from 0 on")


def measure_errors(solution: Solved, reference: Reference | None) -> dict[str, dict[str, Any]]:
    """Errors {component: metrics} of every scalar component that the reference knows, first fields first.

    Where the reference has parts, "parts" holds the metrics over each: its masks, and "area-weighted".
    """
    if reference is None:
        return {}
    return errors_of(solution.problem, predict_on(solution, reference.x, reference.times), reference)


def family_errors(solution: Solved, stated: Sequence[Mapping[str, float]] | None = None) -> list[dict[str, Any]]:
    """Errors of a family at values of its parameters: [{"at", "errors"}]; those stated, or eight spread evenly."""
    known = solution.problem.parameters
    if stated is None:
        rows = np.asarray(append(known, np.zeros((8, 0)))).tolist()
        stated = [dict(zip((p.name for p in known), row)) for row in rows]
    members = [solution.at(**row) for row in stated]
    return [{"at": dict(row), "errors": measure_errors(member, checked_reference(member.problem))}
            for row, member in zip(stated, members)]


def measure_baselines(problem: Problem, reference: Reference | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Errors of every baseline of the reference, {name: {component: metrics}}."""
    return {} if reference is None else {
        name: errors_of(problem, baseline, reference) for name, baseline in reference.baselines.items()}


def errors_of(problem: Problem, predicted: Mapping[str, Any], reference: Reference) -> dict[str, dict[str, Any]]:
    """Errors of predicted values {field: values}, which may be one value for all nodes."""
    result = {}
    weights = node_weights(reference) if reference.weighted else None
    for name, shape in problem.schema.fields:
        if name not in reference.values or name not in predicted:
            continue
        known = np.asarray(reference.values[name], float)
        values = np.broadcast_to(predicted[name], known.shape)
        keep = problem.lives(name, reference.x)
        for index in np.ndindex(shape):
            where = (..., *index) if shape else ...
            p, r = values[where][..., keep], known[where][..., keep]
            found = field_errors(p, r, reference.times)
            parts = {part: field_errors(p[..., mask[keep]], r[..., mask[keep]], reference.times)
                     for part, mask in reference.masks.items()}
            if weights is not None:
                parts[WEIGHTED] = field_errors(p, r, reference.times, weights[keep])
            if parts:
                found["parts"] = {part: {key: value for key, value in row.items() if key != "by_time"}
                                  for part, row in parts.items()}
            result[label_of(name, index)] = found
    return result


def label_of(name: str, index: tuple[int, ...]) -> str:
    """What a component of a field is called."""
    return f"{name}[{','.join(map(str, index))}]" if index else name


def typical(problem: Problem) -> Problem:
    """The problem, or of a family the one in the middle of its ranges."""
    return problem.at(**middle(problem.parameters)) if problem.parameters else problem


def typical_solution(solution: Solved) -> Solved:
    """The solution of the typical problem."""
    return solution.at(**middle(solution.problem.parameters)) if solution.problem.parameters else solution
