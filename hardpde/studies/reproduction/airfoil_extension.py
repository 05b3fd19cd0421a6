"""Figure 5: functions known on the airfoil alone, extended to the whole domain (appendix A.5 and A.8.2).

Normals are extended by interpolation in the angles about one or two reference points and by a network in polar
coordinates; the distance to the wall is learned by such a network. How good each is on the wall, and off it.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from hardpde.geometry import Boundary
from hardpde.problems.airfoil import data_file, flow_domain
from hardpde.problems.airfoil_printed import make_distance
from hardpde.problems.extension import Surrogate, extend
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.figures.normals import extension_figure
from hardpde.support.tables import markdown_table

STEPS, QUICK_STEPS = 10_000, 600
PLACES = 4000  # where errors are measured: held-out points of the wall, or of the domain
TRAILING = 0.01  # of the chord: nearer to the trailing edge, where two corners turn the normal by 90°, is told apart
WINDOW = ((-0.5, -0.5), (1.5, 0.5))
SAMPLE = (0.62, 0.34)  # the point whose polar coordinates are drawn

Field = Callable[[Array], Array]


def figure5(work: Work) -> Outcome:
    """The extension off the airfoil: its reference points, the normals it yields, and the learned distance."""
    domain = flow_domain()
    wall = domain.boundaries["airfoil"]
    steps = QUICK_STEPS if work.quick else STEPS
    work.say("the distance to the wall")
    distance, seconds = _timed(lambda: Surrogate.load(data_file("w1015_distance.npz")) if work.quick
                               else make_distance(steps=steps))
    references = distance.network.references
    normals: dict[str, Field] = {}
    times = {}
    for name, options in _ways(references, steps).items():
        work.say(f"normals by {name}")
        normals[name], times[name] = _timed(partial(extend, wall, wall.normal, unit=True, **options))
    places = wall.sample(jax.random.key(1), PLACES)
    found = {"references": references.tolist(), "steps": steps, "full": not work.quick,
             "normals": {name: {**angle_errors(field, wall, places), "seconds": times[name]}
                         for name, field in normals.items()},
             "distance": {**distance_errors(distance, wall, domain.sample(jax.random.key(2), PLACES), places),
                          "training": distance.about, "as_shipped": work.quick,
                          "seconds": None if work.quick else seconds}}
    figure = extension_figure(
        references=references, sample=np.array(SAMPLE), window=WINDOW, **_along(wall, normals, references[0]),
        **_around(domain, wall, normals, distance))
    return Outcome("Figure 5: extension off the airfoil", _text(found), found, {"": figure})


def angle_errors(field: Field, wall: Boundary, places: Array) -> dict[str, float]:
    """Angles in degrees between an extended normal and the true one at points of the wall."""
    got, true = (np.asarray(jax.jit(jax.vmap(f))(places)) for f in (field, wall.normal))
    cross = got[:, 0] * true[:, 1] - got[:, 1] * true[:, 0]
    angles = np.degrees(np.abs(np.arctan2(cross, (got * true).sum(1))))
    away = angles[np.asarray(places)[:, 0] < np.asarray(places)[:, 0].max() - TRAILING]
    return {"mean": float(angles.mean()), "max": float(angles.max()), "mean_away": float(away.mean()),
            "max_away": float(away.max())}


def distance_errors(learned: Field, wall: Boundary, inside: Array, places: Array) -> dict[str, float]:
    """Errors of a learned distance at points of the domain and near the wall, and what it is on the wall."""
    evaluate, truth = jax.jit(jax.vmap(learned)), jax.jit(jax.vmap(wall.distance))
    miss = np.abs(np.asarray(evaluate(inside)) - np.asarray(truth(inside)))
    on = np.asarray(evaluate(places))
    return {"mean": float(miss.mean()), "max": float(miss.max()), "wall_mean": float(np.abs(on).mean()),
            "wall_max": float(np.abs(on).max()), "wall_lowest": float(on.min()), "wall_highest": float(on.max())}


def _ways(references: np.ndarray, steps: int) -> dict[str, dict[str, Any]]:
    """The options of `extend` for each way to extend a normal."""
    return {"interpolation, one point": {},
            "interpolation, two points": {"references": references.tolist()},
            "network": {"method": "network", "references": references.tolist(), "steps": steps}}


def _timed(make: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return make(), time.perf_counter() - started


def _along(wall: Boundary, normals: dict[str, Field], centre: np.ndarray) -> dict[str, Any]:
    """Points of the wall by their angle about a reference point, and all normals there."""
    x = np.asarray(wall.sample(jax.random.key(3), PLACES))
    angle = np.degrees(np.arctan2(*(x - centre).T[::-1]))
    order = np.argsort(angle)
    x, angle = x[order], angle[order]
    return {"outline": x, "angle": angle, "true_normal": np.asarray(jax.jit(jax.vmap(wall.normal))(x)),
            "normal_along": {name: np.asarray(jax.jit(jax.vmap(field))(x)) for name, field in normals.items()}}


def _around(domain: Any, wall: Boundary, normals: dict[str, Field], distance: Field) -> dict[str, Any]:
    """Normals on a coarse grid of the window, distances on a fine one; NaN inside the airfoil."""
    inside = jax.jit(jax.vmap(lambda x: domain.sdf(x) < 0))

    def grid(nx: int, ny: int) -> tuple[np.ndarray, np.ndarray]:
        (left, bottom), (right, top) = WINDOW
        x = np.stack(np.meshgrid(np.linspace(left, right, nx), np.linspace(bottom, top, ny)), axis=-1)
        return x, np.asarray(inside(x.reshape(-1, 2))).reshape(ny, nx)

    def on(field: Field, x: np.ndarray) -> np.ndarray:
        values = np.asarray(jax.jit(jax.vmap(field))(x.reshape(-1, 2)))
        return values.reshape(*x.shape[:2], *values.shape[1:])

    coarse, kept = grid(33, 17)
    fine, shown = grid(321, 161)
    return {"arrows_at": coarse[kept],
            "arrows": {name: on(field, coarse)[kept] for name, field in normals.items() if "one" not in name},
            "grid": fine, "true_distance": np.where(shown, on(wall.distance, fine), np.nan),
            "learned_distance": np.where(shown, on(distance, fine), np.nan)}


def _text(found: dict[str, Any]) -> str:
    rows = [[name, *(f"{row[key]:.2g}°" for key in ("mean", "max", "mean_away", "max_away")), f"{row['seconds']:.1f}"]
            for name, row in found["normals"].items()]
    columns = ["normals by", "mean error", "largest", f"mean beyond {TRAILING:g} of the trailing edge", "largest there",
               "seconds"]
    distance = found["distance"]
    made = ("The file that ships with the package was used" if distance["as_shipped"]
            else f"It was trained in {distance['seconds']:.0f} s")
    best = min(found["normals"], key=lambda name: found["normals"][name]["mean"])
    return "\n\n".join([
        "The paper draws the two reference points and prints no numbers; it says that one reference point is enough "
        "for interpolation. The normals are those of the fluid's boundary and point into the airfoil. Angles between "
        "extended and true normals at held-out points of the wall:",
        markdown_table(columns, rows),
        f"The smallest mean error is that of {best}. The network took {found['steps']} steps of Adam and is not exact "
        "on the wall. At the two corners of the blunt trailing edge the normal jumps, and every continuous extension "
        "misses it there.",
        f"The learned distance misses the true one by {distance['mean']:.2g} in the mean and {distance['max']:.2g} at "
        f"most over the domain. On the wall, where a distance is 0, it is {distance['wall_mean']:.2g} in the mean of "
        f"its size and lies between {distance['wall_lowest']:.2g} and {distance['wall_highest']:.2g} (the chord is 1): "
        "an ansatz that multiplies by it keeps its condition no better than that. "
        f"{made} ({distance['training']['steps']} steps of Adam, {distance['training']['points']} points)."])
