"""Functions that are known on a plane curve only, made functions of the whole plane (paper, appendix A.5).

A curve is a boundary or a solid; points are seen in polar coordinates about reference points inside it. The
results go into `Hints(distances=…, normals=…)`. They are plain functions: nothing in them is ever trained again.
"""

import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.interpolate import PchipInterpolator
from scipy.optimize import linprog

from hardpde.geometry import Boundary, Box, Shape, distances
from hardpde.geometry.algorithms.stacking import place, safe_norm
from hardpde.networks.mlp import MLP, mlp
from hardpde.support.checking import check_at_least, check_choice
from hardpde.support.files import replacing
from hardpde.training import Stage, adam, fit
from hardpde.training.base import Objective

Points = Sequence[Sequence[float]]
Bounds = tuple[tuple[float, ...], tuple[float, ...]]

_FLOOR = 1e-3  # of the curve's extent: below it r is blurred, so that derivatives at a reference stay finite
_MARGIN = 0.1  # of the curve's extent, by which its bounding box is enlarged
_LOOK = 100  # steps between two looks of the plateau rule at the loss
_BLOCK = 500  # steps that are taken at once


@dataclass(frozen=True, eq=False)
class PolarNetwork:
    """A tanh network in polar coordinates (r, cos θ, sin θ) about each reference point; lengths in units of `scale`."""

    references: np.ndarray  # (k, 2)
    scale: float
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def __call__(self, x: Array) -> Array:
        """The outputs (o,) at one point."""
        value = polar(x, self.references, self.scale)
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            value = jnp.tanh(value @ w + b)
        return value @ self.weights[-1] + self.biases[-1]


class Error(NamedTuple):
    """Of a learned distance: mean and largest at points not trained on, and the largest on the curve itself."""

    mean: float
    max: float
    curve: float


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A learned distance: a cheap, smooth function of one point, with its measured error."""

    network: PolarNetwork
    error: Error
    about: dict[str, Any] = field(default_factory=dict)

    def __call__(self, x: Array) -> Array:
        return self.network.scale * self.network(x)[0]

    def save(self, path: str | Path) -> None:
        """Write a `.npz`; numbers and text only."""
        net = self.network
        arrays = {f"weight{k}": w for k, w in enumerate(net.weights)}
        arrays |= {f"bias{k}": b for k, b in enumerate(net.biases)}
        text = json.dumps({"scale": net.scale, "error": self.error._asdict(), "about": self.about})
        arrays |= {"references": net.references, "text": np.frombuffer(text.encode(), np.uint8)}
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> "Surrogate":
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            text = json.loads(arrays["text"].tobytes())
            layers = range(sum(name.startswith("weight") for name in arrays))
            weights, biases = (tuple(arrays[f"{what}{k}"] for k in layers) for what in ("weight", "bias"))
            network = PolarNetwork(arrays["references"], text["scale"], weights, biases)
            return cls(network, Error(**text["error"]), text["about"])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(f"'{path}' is not a learned distance ({error}); make one with learned_distance") from None


def learned_distance(
    curve: Boundary | Shape, domain: Shape | Bounds, *, references: Points | None = None, width: int = 30,
    depth: int = 3, points: int = 6144, steps: int = 10_000, learning_rate: float = 1e-3, seed: int = 0,
) -> Surrogate:
    """A network that stands for the distance to a plane curve, for points of a domain.

    Trained as in appendix A.8.2: 5/6 of the points lie in the curve's bounding box (a little enlarged), the
    others anywhere in the domain; ℓ1 loss, Adam with PyTorch's plateau rule. `domain` is a shape, or its bounds
    (lo, hi) (then without the inside of `curve`, if that is a solid). By default there are two reference points,
    in the front and the rear half of the curve.
    """
    outline, _ = _outline(curve, 2000)
    check_at_least(1, width=width, depth=depth, points=points, steps=steps)
    if not isinstance(domain, Shape):
        box = Box(*domain)
        domain = box - curve if isinstance(curve, Shape) else box
    scale = _extent(outline)
    centres = _two_references(outline) if references is None else _references(references)
    truth = jax.jit(jax.vmap(lambda x: distances(curve.pieces, x).min()))
    keys = jax.random.split(jax.random.key(seed), 3)
    x, held_out = _training_points(domain, outline, keys[0], points), _training_points(domain, outline, keys[1], points)
    network = _train(keys[2], centres, scale, x, np.asarray(truth(x))[:, None] / scale, width, depth, steps,
                     learning_rate)
    learned = jax.jit(jax.vmap(lambda x: scale * network(x)[0]))
    miss = np.abs(np.asarray(learned(held_out)) - np.asarray(truth(held_out)))
    error = Error(float(miss.mean()), float(miss.max()), float(np.abs(learned(outline)).max()))
    about = {"points": points, "steps": steps, "learning_rate": learning_rate, "seed": seed}
    return Surrogate(network, error, about)


def extend(
    curve: Boundary | Shape, values: Callable[[Array], Any], *, references: Points | None = None, points: int = 2000,
    method: str = "interpolation", unit: bool = False, steps: int = 10_000, seed: int = 0,
) -> Callable[[Array], Array]:
    """`values`, a function of a point of a plane curve (a number or a vector), as a function of any point.

    "interpolation": in the angle about a reference point, constant along rays, once continuously differentiable;
    the curve must be star-shaped about the reference (found if not given). Several references are averaged with
    weights 1/r². "network": 3 × 30 tanh units in polar coordinates, for any curve, not exact on it.
    unit: scale vectors to length one, for normals: `extend(boundary, boundary.normal, unit=True)`.
    """
    check_choice("method", method, ("interpolation", "network"))
    if points < 16:
        raise ValueError(f"points is {points}; a curve needs at least 16")
    outline, normals = _outline(curve, points)
    data = np.asarray(jax.jit(jax.vmap(lambda x: jnp.asarray(values(x), float)))(outline))
    if data.ndim > 2 or not np.isfinite(data).all():
        raise ValueError("the values on the curve must be finite numbers or vectors; check the function given")
    if unit and data.ndim != 2:
        raise ValueError("unit=True scales vectors to length one, and the values given are numbers; leave it out")
    table = data.reshape(len(data), -1)
    function: Callable[[Array], Array]
    if method == "network":
        centres = _two_references(outline) if references is None else _references(references)
        function = _train(jax.random.key(seed), centres, _extent(outline), outline, table, 30, 3, steps, 1e-3)
    else:
        centres = _kernel(outline, normals)[None] if references is None else _references(references)
        _check_star(outline, normals, centres)
        function = _by_angle(outline, table, centres)

    def extended(x: Array) -> Array:
        value = function(x)
        value = value / jnp.maximum(safe_norm(value), 1e-12) if unit else value
        return value.reshape(data.shape[1:])

    return extended


# ---------------------------------------------------------------- polar coordinates


def polar(x: Array, references: np.ndarray, scale: float) -> Array:
    """(r, cos θ, sin θ) about each reference, (3 k,): no angle jumps, and r has a floor."""
    d = (x[:2] - references) / scale
    r = jnp.sqrt((d**2).sum(1) + _FLOOR**2)
    return jnp.concatenate([r[:, None], d / r[:, None]], axis=1).ravel()


def _references(points: Points) -> np.ndarray:
    array = np.asarray(points, float)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array) or not np.isfinite(array).all():
        raise ValueError("references are points of the plane, like [(0.3, 0.0), (0.7, 0.0)]")
    return array


def _two_references(outline: np.ndarray) -> np.ndarray:
    """In the middle of the curve's front and rear half."""
    low, span = outline.min(0), np.ptp(outline, axis=0)
    along = int(np.argmax(span))
    centres = []
    for part in (0.25, 0.75):
        at = low[along] + part * span[along]
        across = outline[np.abs(outline[:, along] - at) < 0.05 * span[along], 1 - along]
        centre = np.full(2, at)
        centre[1 - along] = (across.min() + across.max()) / 2 if len(across) else low[1 - along] + span[1 - along] / 2
        centres.append(centre)
    return np.array(centres)


# ---------------------------------------------------------------- points


def _outline(curve: Boundary | Shape, n: int) -> tuple[np.ndarray, np.ndarray]:
    """About n points along the curve's pieces, never at their ends, and the normals there."""
    if not isinstance(curve, Boundary | Shape):
        raise ValueError(f"{curve!r} is not a curve; give a boundary like domain.boundaries['name'], or a solid")
    if not curve.pieces or curve.pieces[0].kind.dim != 2:
        raise ValueError("only plane curves can be extended; this boundary is not in two dimensions")
    lengths = np.array([piece.measure for piece in curve.pieces])
    counts = np.maximum(np.round(n * lengths / lengths.sum()).astype(int), 16)
    u = np.concatenate([(np.arange(m) + 0.5) / m for m in counts])
    which = np.repeat(np.arange(len(counts)), counts)
    points, normals = jax.jit(place, static_argnums=0)(tuple(curve.pieces), which, np.stack([u, u], axis=1))
    return np.asarray(points), np.asarray(normals)


def _extent(outline: np.ndarray) -> float:
    return float(np.ptp(outline, axis=0).max())


def _training_points(domain: Shape, outline: np.ndarray, key: Array, n: int) -> np.ndarray:
    """n points of the domain: 5/6 in the curve's bounding box, the rest anywhere."""
    margin = _MARGIN * _extent(outline)
    low, high = outline.min(0) - margin, outline.max(0) + margin
    inside = jax.jit(jax.vmap(lambda x: domain.sdf(x) < 0))
    near = round(n * 5 / 6)
    found, kept = [np.zeros((0, 2))], 0
    for k in jax.random.split(key, 50):
        x = np.asarray(jax.random.uniform(k, (2 * n, 2), minval=low, maxval=high))
        found.append(x[np.asarray(inside(x))])
        kept += len(found[-1])
        if kept >= near:
            break
    else:
        raise ValueError("hardly any point around the curve lies in the domain; check that the two belong together")
    return np.concatenate([np.concatenate(found)[:near], np.asarray(domain.sample(key, n - near))])


# ---------------------------------------------------------------- the network


class _Data(NamedTuple):
    """Inputs (n, i) and targets (n, o)."""

    inputs: Any
    targets: Any
    weights: Any = None


@dataclass(frozen=True, eq=False)
class _AbsoluteError(Objective):
    """The mean absolute error of a network at points that stay."""

    start: MLP
    data: _Data

    def init(self, key: Array, /) -> MLP:
        return self.start

    def draw(self, key: Array, model: MLP | None, /) -> _Data:
        return self.data

    draw_held_out = draw

    def loss(self, model: MLP, batch: _Data, /) -> Array:
        return jnp.abs(model.jet(batch.inputs.T[:, None])[:, 0].T - batch.targets).mean()


def _train(key: Array, references: np.ndarray, scale: float, x: np.ndarray, targets: np.ndarray, width: int,
           depth: int, steps: int, learning_rate: float) -> PolarNetwork:
    """A network fitted to targets (n, o) in the mean absolute value, in single precision."""
    inputs = np.asarray(jax.vmap(lambda x: polar(x, references, scale))(jnp.asarray(x)), np.float32)
    start = mlp(key, [inputs.shape[1], *[width] * depth, targets.shape[1]], jnp.float32)
    objective = _AbsoluteError(start, _Data(inputs, targets.astype(np.float32)))
    model = fit(objective, [Stage("adam", adam(learning_rate, every=_LOOK), steps, block=_BLOCK)], key).model
    return PolarNetwork(references, scale, *(tuple(np.asarray(a, float) for a in part)
                                             for part in (model.weights, model.biases)))


# ---------------------------------------------------------------- interpolation in the angle


def _kernel(points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """The point from which the whole curve is seen best: it lies deepest behind all tangents."""
    best, depth = points.mean(0), 0.0
    for sign in (1.0, -1.0):
        away = sign * normals
        found = linprog([0, 0, -1], np.c_[away, np.ones(len(away))], (away * points).sum(1), bounds=[(None, None)] * 3)
        if found.status == 0 and found.x[2] > depth:
            best, depth = found.x[:2], found.x[2]
    if depth <= 0:
        raise ValueError("the curve is not star-shaped: from no point is all of it seen; use method='network'")
    return best


def _check_star(points: np.ndarray, normals: np.ndarray, references: np.ndarray) -> None:
    for centre in references:
        facing = ((points - centre) * normals).sum(1)
        if facing.min() <= 0 <= facing.max():
            raise ValueError(f"the curve is not star-shaped about ({centre[0]:g}, {centre[1]:g}): a ray from there can "
                             f"meet it twice; choose another reference point or method='network'")


def _by_angle(outline: np.ndarray, data: np.ndarray, references: np.ndarray) -> Callable[[Array], Array]:
    """Monotone cubic interpolation, periodic in the angle; several references are averaged."""
    tables = []
    for centre in references:
        angle = np.arctan2(*(outline - centre).T[::-1])
        order = np.argsort(angle)
        order = order[np.append(True, np.diff(angle[order]) > 1e-12)]
        wrapped = np.concatenate([order[-3:], order, order[:3]])
        turns = np.repeat([-1, 0, 1], [3, len(order), 3])
        curve = PchipInterpolator(angle[wrapped] + 2 * np.pi * turns, data[wrapped])
        tables.append((centre, np.asarray(curve.x), np.asarray(curve.c)))
    tiny = (_FLOOR * _extent(outline)) ** 2

    def function(x: Array) -> Array:
        total, value = jnp.array(0.0), jnp.zeros(data.shape[1])
        for centre, knots, coefficients in tables:
            d = x[:2] - centre
            square = (d**2).sum()
            d = jnp.where(square < 1e-12 * tiny, jnp.array([1.0, 0.0]), d)  # no direction has an angle there
            angle = jnp.arctan2(d[1], d[0])
            i = jnp.clip(jnp.searchsorted(knots, angle, side="right") - 1, 0, len(knots) - 2)
            h, (a3, a2, a1, a0) = angle - jnp.asarray(knots)[i], jnp.asarray(coefficients)[:, i]
            weight = 1 / (square + tiny)
            total, value = total + weight, value + weight * (((a3 * h + a2) * h + a1) * h + a0)
        return value / total

    return function
