"""What a solution is worth: errors against the reference, the certificate, and everything people look at."""

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.spatial import Delaunay

from hardpde.evaluation.certificate import boundary_points, certify, profiles, violation
from hardpde.evaluation.export import write_series, write_vtu
from hardpde.evaluation.figures import plots
from hardpde.evaluation.figures.outlines import Run, collars, runs
from hardpde.evaluation.metrics import errors
from hardpde.evaluation.report.report import write_report
from hardpde.problem.parameters import append, middle
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference, node_weights
from hardpde.support.files import replacing
from hardpde.support.messages import first_line

# What a picture needs: nodes, cells, times, values, known values.
Drawn = tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray, np.ndarray | None]
WEIGHTED = "area-weighted"
AGREEMENT = ", prediction against known values"
HISTORY = ("stage", "step", "steps", "loss", "held_out", "seconds")


def predict_on(solution, x: np.ndarray, times: np.ndarray | None) -> dict[str, np.ndarray]:
    """All fields at nodes (n, d): (n, *shape), or (k, n, *shape) at k times.

    Those of a family are the ones in the middle of its ranges.
    """
    solution = typical_solution(solution)
    if times is None:
        return solution(x)
    slices = [solution(x, t) for t in times]
    return {name: np.stack([s[name] for s in slices]) for name in slices[0]}


def make_reference(problem: Problem) -> Reference | None:
    """The problem's reference, if it has one, once its fields and shapes are found to be those of the problem."""
    try:
        reference = problem.make_reference()
    except Exception as error:
        raise ValueError(f"the known solution cannot be evaluated: {type(error).__name__}: {first_line(error)}"
                         ) from None
    if reference is None:
        return None
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


def measure(solution, reference: Reference | None) -> dict[str, dict[str, Any]]:
    """Errors {component: metrics} of every scalar component that the reference knows, first fields first.

    Where the reference has parts, "parts" holds the metrics over each: its masks, and "area-weighted".
    """
    if reference is None:
        return {}
    return compare(solution.problem, predict_on(solution, reference.x, reference.times), reference)


def family_errors(solution, stated: Sequence[Mapping[str, float]] | None = None) -> list[dict[str, Any]]:
    """Errors of a family at values of its parameters: [{"at", "errors"}]; those stated, or eight spread evenly."""
    known = solution.problem.parameters
    if stated is None:
        rows = np.asarray(append(known, np.zeros((8, 0)))).tolist()
        stated = [dict(zip((p.name for p in known), row)) for row in rows]
    members = [solution.at(**row) for row in stated]
    return [{"at": dict(row), "errors": measure(member, make_reference(member.problem))}
            for row, member in zip(stated, members)]


def measure_baselines(problem: Problem, reference: Reference | None) -> dict[str, dict[str, dict[str, Any]]]:
    """The same of every baseline of the reference, {name: {component: metrics}}."""
    return {} if reference is None else {
        name: compare(problem, baseline, reference) for name, baseline in reference.baselines.items()}


def compare(problem: Problem, predicted: Mapping[str, Any], reference: Reference) -> dict[str, dict[str, Any]]:
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
            found = errors(p, r, reference.times)
            parts = {part: errors(p[..., mask[keep]], r[..., mask[keep]], reference.times)
                     for part, mask in reference.masks.items()}
            if weights is not None:
                parts[WEIGHTED] = errors(p, r, reference.times, weights[keep])
            if parts:
                found["parts"] = {part: {key: value for key, value in row.items() if key != "by_time"}
                                  for part, row in parts.items()}
            result[_label(name, index)] = found
    return result


def _label(name: str, index: tuple[int, ...]) -> str:
    """What a component of a field is called."""
    return f"{name}[{','.join(map(str, index))}]" if index else name


def nodes(problem: Problem, reference: Reference | None, points: int = 4000) -> Reference:
    """Where to look at a solution: the reference's mesh, or one of the domain, with the known solution on it."""
    dim = problem.schema.dim
    if reference is not None and (reference.cells is not None or dim > 2 or (dim == 1 and problem.exact is None)):
        return reference
    times = None if problem.time is None else np.linspace(*problem.time, 11)
    cells = None
    if dim > 2:
        x = np.asarray(problem.domain.sample(jax.random.key(21), points))
    elif dim == 1:
        (lo,), (hi,) = problem.domain.bounds
        x, cells = np.linspace(lo, hi, 401)[:, None], np.stack([np.arange(400), np.arange(1, 401)], axis=1)
    else:
        edge = [boundary_points(problem, name, 600)[0] for name in problem.domain.boundaries]
        x = np.concatenate([np.asarray(problem.domain.sample(jax.random.key(21), points)), *edge])
        x = x[np.unique(np.round(x, 9), axis=0, return_index=True)[1]]
        cells = Delaunay(x).simplices
        inside = np.asarray(jax.jit(jax.vmap(problem.domain.sdf))(x[cells].mean(axis=1))) < 1e-9
        cells = cells[inside]
    if problem.mapping is not None:
        x = typical(problem).places(x)
    return Reference(x, known(problem, x, times), times, cells)


class Seen(NamedTuple):
    """A solution at nodes, with what is known there."""

    grid: Reference
    values: dict[str, np.ndarray]


def look(solution, grid: Reference) -> Seen:
    """All fields of a solution at the nodes of a grid."""
    return Seen(grid, predict_on(solution, grid.x, grid.times))


def typical(problem: Problem) -> Problem:
    """The problem, or of a family the one in the middle of its ranges."""
    return problem.at(**middle(problem.parameters)) if problem.parameters else problem


def typical_solution(solution: Any) -> Any:
    """The solution of the typical problem."""
    return solution.at(**middle(solution.problem.parameters)) if solution.problem.parameters else solution


def known(problem: Problem, x: np.ndarray, times: np.ndarray | None) -> dict[str, np.ndarray]:
    """The known solution, if there is one, at nodes (n, d): shapes as in `predict_on`."""
    if problem.exact is None:
        return {}
    problem = typical(problem)
    assert problem.exact is not None
    evaluate = jax.jit(jax.vmap(problem.exact))
    if times is None:
        return problem.masked(evaluate(x), x)
    slices = [evaluate(np.concatenate([x, np.full((len(x), 1), t)], axis=1)) for t in times]
    return problem.masked({name: np.stack([np.asarray(s[name]) for s in slices]) for name in slices[0]}, x)


def pictures(solution, reference: Reference | None,
             seen: Seen | None = None) -> tuple[dict[str, Drawn], dict[str, Any]]:
    """What the report's slider moves, {field: what a picture needs}, and figures {name: figure} to save."""
    figures = {"history": plots.history_plot(columns(solution.training.history))}
    drawn = components(solution, reference, seen)
    x, cells, *_ = next(iter(drawn.values()))
    window = plots.hole_window(x, cells)
    for label, data in drawn.items():
        figures[label] = plots.field_grid(*data, label)
        if window is not None:
            figures[f"{label}, close-up"] = plots.field_grid(*data, label, window=window)
    if solution.problem.schema.dim > 3 and reference is not None:
        for label, (_, _, times, values, truth) in _components(solution, seen or look(solution, reference)).items():
            if truth is not None:
                figures[f"{label}{AGREEMENT}"] = plots.agreement_plot(times, values, truth, label)
    figures["domain"] = draw_domain(solution.problem)
    return drawn, figures


def components(solution, reference: Reference | None, seen: Seen | None = None) -> dict[str, Drawn]:
    """What there is to draw, by label: every component of every field that is not a gradient.

    In more than three dimensions it is drawn in a plane through the centre of the domain. seen: the solution at
    `nodes`, where it is known already.
    """
    problem = solution.problem
    grid = plane(problem) if problem.schema.dim > 3 else None
    if grid is not None:
        seen = look(solution, grid)
    return _components(solution, seen or look(solution, nodes(problem, reference)))


def plane(problem: Problem, points: int = 81) -> Reference | None:
    """Nodes in the plane of the first two axes through the middle of the domain, with triangles and the known
    solution; None where the domain has no part there."""
    low, high = (np.asarray(bound, float) for bound in problem.domain.bounds)
    first, second = (np.linspace(low[k], high[k], points) for k in range(2))
    flat = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)

    def lifted(y: np.ndarray) -> np.ndarray:
        return np.concatenate([y, np.broadcast_to((low + high)[2:] / 2, (len(y), len(low) - 2))], axis=1)

    def sdf(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = jax.jit(jax.vmap(jax.value_and_grad(problem.domain.sdf)))(lifted(y))
        return np.asarray(value), np.asarray(slope)[:, :2]

    value, _ = sdf(flat)
    rim = flat[(value > 0) & (value < max(first[1] - first[0], second[1] - second[0]))]
    for _ in range(3 if len(rim) else 0):  # outside points near the boundary move onto it
        value_there, slope = sdf(rim)
        rim = rim - value_there[:, None] * slope / np.maximum((slope**2).sum(1, keepdims=True), 1e-12)
    rim = rim[np.abs(sdf(rim)[0]) < 1e-9] if len(rim) else rim
    flat = np.concatenate([flat[value <= 0], rim])
    flat = flat[np.unique(np.round(flat, 9), axis=0, return_index=True)[1]]
    if len(flat) < 100:
        return None
    cells = Delaunay(flat).simplices
    cells = cells[sdf(flat[cells].mean(axis=1))[0] <= 0]
    times = None if problem.time is None else np.linspace(*problem.time, 11)
    return Reference(lifted(flat), known(problem, lifted(flat), times), times, cells)


def _components(solution, seen: Seen) -> dict[str, Drawn]:
    grid, predicted = seen
    gradients = dict(solution.problem.schema.gradients)
    found: dict[str, Drawn] = {}
    for name, shape in solution.problem.schema.fields:
        if name in gradients:
            continue
        for index in np.ndindex(shape):
            where = (..., *index) if shape else ...
            truth = np.asarray(grid.values[name], float)[where] if name in grid.values else None
            found[_label(name, index)] = (grid.x, grid.cells, grid.times, predicted[name][where], truth)
    return found


def draw_domain(problem: Problem):
    """The domain with its named boundaries, their conditions, normals and collars."""
    dim = problem.schema.dim
    drawn: dict[str, list] = {"x": [], "normal": [], "collar": []}
    names = list(problem.domain.boundaries)
    found = {name: runs(problem, name, 1200 if dim < 3 else 5000, 33 if dim < 3 else 600) for name in names}
    for name in names:
        gap = [np.full((1, dim), np.nan)] if dim == 2 else []  # parts curves that do not touch
        widths = collars(problem, found[name])
        drawn["x"].append(np.concatenate([part for run in found[name] for part in (run.x, *gap)]))
        drawn["normal"].append(np.concatenate([part for run in found[name] for part in (run.normal, *gap)]))
        drawn["collar"].append(None if widths[0] is None else np.concatenate(
            [part for width in widths for part in (width, *(np.full(1, np.nan) for _ in gap))]))
    x, normal, width = (dict(zip(names, part)) for part in drawn.values())
    both = [name for name in names if all(p.two_sided for p in problem.domain.boundaries[name].pieces)]
    return plots.domain_plot(x, normal, {name: w for name, w in width.items() if w is not None}, problem.name,
                             {name: f"{name}: {conditions_on(problem, name)}" for name in names},
                             _close_up([run for part in found.values() for run in part], problem.domain.size), both)


def conditions_on(problem: Problem, name: str) -> str:
    """The conditions on a boundary in words."""
    stated = [c.name for c in problem.conditions if name in (c.on, getattr(c, "to", None))]
    return " and ".join(stated) or "free"


def _close_up(found: list[Run], size: float) -> np.ndarray | None:
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


def columns(history: list[dict]) -> dict[str, list]:
    """History by column."""
    return {key: [record[key] for record in history] for key in HISTORY}


def finish(solution, folder: Path, provenance: dict) -> dict[str, Any]:
    """Measure a solution and write everything about it into its run folder; returns the figures of merit."""
    problem = solution.problem
    reference = make_reference(problem)
    seen = look(solution, nodes(problem, reference))
    found = compare(problem, seen.values, reference) if seen.grid is reference else measure(solution, reference)
    certificate = certify(solution.formulation, [solution.training.model])
    settings, training = solution.settings, solution.training
    first = next(iter(found.values()), {})
    result = {
        "problem": problem.name, "method": settings["method_name"], "preset": settings["preset"],
        "seed": settings["seed"], "parameters": solution.parameters, "mae": first.get("mae"), "errors": found,
        "boundary_violation": violation(certificate), "certificate": certificate, "endings": training.endings,
        "seconds": training.seconds, "first_step_seconds": training.first_step,
        "loss": training.history[-1]["loss"], "held_out": training.history[-1]["held_out"],
    }
    if baselines := measure_baselines(problem, reference):
        result["baselines"] = baselines
    if problem.parameters:
        result["at"] = middle(problem.parameters)
        result["family"] = family_errors(solution) if problem.exact is not None else []
    solution.save(folder / "model.eqx")
    write_history(folder / "history.csv", training.history)
    write_json(folder / "metrics.json", {**result, **provenance})
    if problem.schema.dim <= 3:
        export(solution, folder / "solution", reference, seen)
    show(solution, folder, result, certificate, reference, provenance, seen)
    return result


def show(solution, folder: Path, result: dict, certificate: list, reference, provenance: dict,
         seen: Seen | None = None) -> None:
    """Pictures and the report."""
    drawn, figures = pictures(solution, reference, seen)
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in figures.items():
        with replacing(folder / "figures" / f"{_safe(name)}.png") as temporary:
            figure.savefig(temporary, format="png", dpi=130)
    settings = solution.settings
    write_report(
        folder / "report.html", f"{settings['problem']} by {settings['method_name']}",
        {"preset": settings["preset"], "seed": settings["seed"], "weights": solution.parameters,
         "seconds": round(solution.training.seconds, 1), **_said(settings, provenance),
         **({"shown at": result["at"]} if result.get("at") else {}), "method": settings["method"],
         **{f"stage {k + 1}": stage for k, stage in enumerate(settings["stages"])}, "provenance": provenance},
        result["errors"], certificate, columns(solution.training.history), drawn,
        {**{name: figure for name, figure in figures.items() if name.endswith(AGREEMENT)},
         "The domain, its boundaries, normals and collars": figures["domain"]},
        solution.training.endings, result.get("baselines"),
        profiles(typical_solution(solution).formulation, solution.training.model))


def _said(settings: dict, provenance: dict) -> dict[str, Any]:
    """What the first line of a report says beside the figures, as far as it is known."""
    known = {"schedule": settings.get("schedule"), "device": provenance.get("device"),
             "commit": provenance.get("commit")}
    return {key: value for key, value in known.items() if value}


def export(solution, stem: Path, reference: Reference | None, seen: Seen | None = None) -> Path:
    """VTU files of all fields (and the reference's), with a collection over time; returns the file to open."""
    if (dim := solution.problem.schema.dim) > 3:
        raise ValueError(f"VTU files hold at most three dimensions; the problem has {dim}")
    grid, predicted = seen or look(solution, nodes(solution.problem, reference))
    data = {name: _flat(values, grid.times is not None) for name, values in predicted.items()}
    data |= {f"{name}_reference": _flat(np.asarray(values, float), grid.times is not None)
             for name, values in grid.values.items()}
    if grid.times is None:
        path = stem.with_name(stem.name + ".vtu")
        write_vtu(path, grid.x, grid.cells, data)
        return path
    return write_series(stem, grid.x, grid.times, grid.cells,
                        [{name: values[k] for name, values in data.items()} for k in range(len(grid.times))])


def _flat(values: np.ndarray, timed: bool) -> np.ndarray:
    """Components of a field in one axis."""
    lead = 2 if timed else 1
    return values if values.ndim == lead else values.reshape(*values.shape[:lead], -1)


def write_history(path: Path, history: list[dict]) -> None:
    with replacing(path) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, HISTORY)
        writer.writeheader()
        writer.writerows(history)


def write_json(path: Path, data: Any) -> None:
    """JSON without NaN or infinity: they become null."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(finite(data), indent=1) + "\n")


def finite(data: Any) -> Any:
    """The same data with numbers that JSON has."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(value) for value in data]
    if isinstance(data, (float, np.floating)):
        return float(data) if math.isfinite(data) else None
    return data


def _safe(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
