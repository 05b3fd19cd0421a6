"""Figures of a solution and of the domain of a problem."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hardpde.evaluation.base import Solved, history_columns
from hardpde.evaluation.boundaries import Stretch, collars, stretches
from hardpde.evaluation.errors import label_of
from hardpde.evaluation.figures.domain import domain_plot
from hardpde.evaluation.figures.history import history_plot
from hardpde.evaluation.figures.maps import agreement_plot, field_grid, hole_window
from hardpde.evaluation.figures.sizes import sizes_plot
from hardpde.evaluation.members import Members, members
from hardpde.evaluation.nodes import Seen, nodes, plane, seen_at
from hardpde.evaluation.untrained import residual_at, rows_solved, singular_values
from hardpde.geometry import at_times
from hardpde.problem.free_modes import Mode
from hardpde.problem.parameters import append
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference

# What a picture needs: nodes, cells, times, values, known values.
Drawn = tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray, np.ndarray | None]
AGREEMENT = ", prediction against known values"
SIZES, RESIDUAL = "sizes", "residual"
LEAST = 1e-17  # a residual that is drawn


def pictures(solution: Solved, reference: Reference | None,
             seen: Seen | None = None) -> tuple[dict[str, Drawn], dict[str, Figure]]:
    """What the report's slider moves, {field: what a picture needs}, and figures {name: figure} to save."""
    figures = {"history": history_plot(history_columns(solution.training.history))}
    drawn = drawn_components(solution, reference, seen)
    if sizes := rows_solved(solution.training.history):
        figures[SIZES] = sizes_plot(sizes, singular_values(solution))
        if len(sizes) == len(solution.training.history):
            del figures["history"]
    x, cells, *_ = next(iter(drawn.values()))
    window = hole_window(x, cells)
    for label, data in drawn.items():
        figures[label] = field_grid(*data, label)
        if window is not None:
            figures[f"{label}, close-up"] = field_grid(*data, label, window=window)
    if solution.problem.schema.dim > 3 and reference is not None:
        for label, (_, _, times, values, truth) in _components(solution, seen or seen_at(solution, reference)).items():
            if truth is not None:
                figures[f"{label}{AGREEMENT}"] = agreement_plot(times, values, truth, label)
    if sizes and (left := _residual(solution, reference)) is not None:
        figures[RESIDUAL] = field_grid(*left, "log₁₀ of the residual")
    figures["domain"] = draw_domain(solution.problem)
    return drawn, figures


def drawn_components(solution: Solved, reference: Reference | None, seen: Seen | None = None) -> dict[str, Drawn]:
    """What there is to draw, by label: every component of every field that is not a gradient.

    In more than two dimensions it is drawn in a plane through the centre of the domain, but in three where it is known
    at other nodes alone. seen: the solution at
    `nodes`, where it is known already.
    """
    problem = solution.problem
    dim, known_there = problem.schema.dim, reference is None or problem.exact is not None
    cut = dim > 3 or (dim == 3 and problem.mapping is None and known_there)
    grid = plane(problem) if cut else None
    if grid is not None:
        seen = seen_at(solution, grid)
    return _components(solution, seen or seen_at(solution, nodes(problem, reference)))


def drawn_members(solution: Solved, drawn: dict[str, Drawn]) -> tuple[dict[str, Drawn], Members | None]:
    """The same components of all members of a family, one member after the other, each at all times; and the members.

    Where the solution is known in the middle of the ranges alone, it is not a number elsewhere.
    """
    x, cells, times, *_ = next(iter(drawn.values()))
    found = members(solution, x, times)
    if found is None:
        return drawn, None
    at = slice(None) if times is None or found.times is None else np.searchsorted(times, found.times)
    shown: dict[str, Drawn] = {}
    for label, part, where in _labels(solution.problem):
        values, known = found.predicted[part][where], None
        if part in found.known:
            known = found.known[part][where]
        elif (middle := drawn[label][4]) is not None and found.typical is not None:
            known = np.full(values.shape, np.nan)
            known[found.typical] = np.atleast_2d(middle)[at]
        shown[label] = (x, cells, found.times, values.reshape(-1, len(x)),
                        None if known is None else known.reshape(-1, len(x)))
    return shown, found


def drawn_inside(solution: Solved, reference: Reference | None, seen: Seen | None) -> dict[str, Drawn]:
    """The components in three dimensions at nodes of tetrahedra; {} in others."""
    if solution.problem.schema.dim != 3:
        return {}
    return _components(solution, seen or seen_at(solution, nodes(solution.problem, reference)))


def _residual(solution: Solved, reference: Reference | None) -> Drawn | None:
    """The logarithm of the residual at nodes as what a picture needs."""
    problem = solution.problem
    grid = (plane(problem) if problem.schema.dim > 3 else None) or nodes(problem, reference)
    values = residual_at(solution, grid)
    if values is None:
        return None
    return grid.x, grid.cells, grid.times, np.log10(np.maximum(values, LEAST)), None


def _components(solution: Solved, seen: Seen) -> dict[str, Drawn]:
    grid, predicted = seen
    found: dict[str, Drawn] = {}
    for label, name, where in _labels(solution.problem):
        truth = np.asarray(grid.values[name], float)[where] if name in grid.values else None
        found[label] = (grid.x, grid.cells, grid.times, predicted[name][where], truth)
    return found


def _labels(problem: Problem) -> list[tuple[str, str, tuple[Any, ...]]]:
    """What there is to draw: label, field and place in it of every component that is of no gradient."""
    gradients = dict(problem.schema.gradients)
    return [(label_of(name, index), name, (..., *index)) for name, shape in problem.schema.fields
            if name not in gradients for index in np.ndindex(shape)]


def draw_domain(problem: Problem) -> Figure:
    """The domain with its named boundaries, their conditions, normals and collars."""
    dim = problem.schema.dim
    drawn: dict[str, list] = {"x": [], "normal": [], "collar": []}
    names = list(problem.domain.boundaries)
    found = {name: stretches(problem, name, 1200 if dim < 3 else 5000, 33 if dim < 3 else 600) for name in names}
    for name in names:
        gap = [np.full((1, dim), np.nan)] if dim == 2 else []  # parts curves that do not touch
        widths = collars(problem, found[name])
        drawn["x"].append(np.concatenate([part for run in found[name] for part in (run.x, *gap)]))
        drawn["normal"].append(np.concatenate([part for run in found[name] for part in (run.normal, *gap)]))
        drawn["collar"].append(None if widths[0] is None else np.concatenate(
            [part for width in widths for part in (width, *(np.full(1, np.nan) for _ in gap))]))
    x, normal, width = (dict(zip(names, part)) for part in drawn.values())
    both = [name for name in names if all(p.two_sided for p in problem.domain.boundaries[name].pieces)]
    return domain_plot(x, normal, {name: w for name, w in width.items() if w is not None}, problem.name,
                             {name: f"{name}: {conditions_on(problem, name)}" for name in names},
                             _close_up([run for part in found.values() for run in part], problem.domain.size), both)


def draw_mode(problem: Problem, mode: Mode) -> Figure:
    """What may be added to any solution: the component that it changes most, at most 1."""
    dim = problem.schema.dim
    grid = (plane(problem) if dim > 2 else None) or nodes(problem.derived(exact=None), None)
    instants = [None] if grid.times is None else list(grid.times)
    places = [append(problem.parameters, grid.x if t is None else at_times(grid.x, t)) for t in instants]
    values = np.stack([mode(np.asarray(x)) for x in places])  # (k, n, m)
    changed = [k for name in mode.fields for k in range(*problem.schema.slices[name].indices(problem.schema.size))]
    most = max(changed, key=lambda k: float(np.abs(values[..., k]).max()))
    drawn = values[..., most] / np.abs(values[..., most]).max()
    label = f"{problem.schema.labels()[most]}, free"
    return field_grid(grid.x, grid.cells, grid.times, drawn[0] if grid.times is None else drawn, None, label)


def conditions_on(problem: Problem, name: str) -> str:
    """The conditions on a boundary in words."""
    stated = [c.name for c in problem.conditions if name in (c.on, getattr(c, "to", None))]
    return " and ".join(stated) or "free"


def _close_up(found: list[Stretch], size: float) -> np.ndarray | None:
    """A window round bodies that are small against the domain: all, if they lie together, or else a few."""
    if found[0].x.shape[1] != 2:
        return None
    bodies: dict[int, list[np.ndarray]] = {}
    for run in found:
        bodies.setdefault(run.piece.body, []).append(run.x)
    boxes = np.array([[np.concatenate(part).min(axis=0), np.concatenate(part).max(axis=0)] for part in bodies.values()])
    boxes = boxes[np.ptp(boxes, axis=1).max(axis=1) < size / 6]
    if not len(boxes):
        return None
    low, high = boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)
    largest = float(np.ptp(boxes, axis=1).max())
    if (high - low).max() < size / 3:
        pad = 0.3 * (high - low).max()
        return np.stack([low - pad, high + pad])
    if largest > size / 25:
        return None
    centres = boxes.mean(axis=1)
    centre = centres[np.linalg.norm(centres - (low + high) / 2, axis=1).argmin()]
    return np.stack([centre - 4 * largest, centre + 4 * largest])
