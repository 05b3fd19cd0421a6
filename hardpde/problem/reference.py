"""A reference: what the solution is known to be, at the nodes of a mesh and at chosen times."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from hardpde.geometry import at_times
from hardpde.support.files import as_path, replacing

if TYPE_CHECKING:
    from hardpde.problem.problem import Problem


@dataclass(frozen=True)
class Reference:
    """Known values of named fields.

    `x` (n, d) are the nodes; `times` (k,) the instants, or None for a stationary problem;
    `values[name]` has shape (n, *field) or, with times, (k, n, *field);
    `cells` (c, d+1) are simplices over the nodes, for pictures and VTU files; `about` says how it was made.
    `masks[name]` (n,) marks a part of the nodes over which errors are told too, and with `weighted` they are told
    with every node counted by the area of its cells; `baselines[name]` is a trivial prediction to compare with,
    {field: value}, each one value for all nodes or an array of the shape of the known values.
    """

    x: np.ndarray
    values: dict[str, np.ndarray]
    times: np.ndarray | None = None
    cells: np.ndarray | None = None
    about: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, np.ndarray] = field(default_factory=dict)
    baselines: dict[str, dict[str, Any]] = field(default_factory=dict)
    weighted: bool = False

    def save(self, path: str | Path) -> None:
        """Write a compressed `.npz`; numbers and text only."""
        arrays = {f"value:{name}": value for name, value in self.values.items()}
        arrays["x"] = self.x
        if self.times is not None:
            arrays["times"] = self.times
        if self.cells is not None:
            arrays["cells"] = self.cells
        # What it is compared over and with: arrays in order, their names as text.
        arrays |= {f"mask:{k}": mask for k, mask in enumerate(self.masks.values())}
        arrays |= {f"baseline:{k}:{name}": np.asarray(value)
                   for k, baseline in enumerate(self.baselines.values()) for name, value in baseline.items()}
        compared = {"masks": list(self.masks), "baselines": list(self.baselines), "weighted": self.weighted}
        arrays["compared"] = np.frombuffer(json.dumps(compared).encode(), np.uint8)
        arrays["about"] = np.frombuffer(json.dumps(self.about).encode(), np.uint8)
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> "Reference":
        path = as_path(path, "the reference file")
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(arrays.pop("about").tobytes())
            values = {name[6:]: arrays[name] for name in arrays if name.startswith("value:")}
            compared = json.loads(arrays["compared"].tobytes()) if "compared" in arrays else {}
            masks = {name: arrays[f"mask:{k}"] for k, name in enumerate(compared.get("masks", []))}
            baselines = {name: {key[len(f"baseline:{k}:"):]: arrays[key] for key in arrays
                                if key.startswith(f"baseline:{k}:")}
                         for k, name in enumerate(compared.get("baselines", []))}
            return cls(arrays["x"], values, arrays.get("times"), arrays.get("cells"), about, masks, baselines,
                       compared.get("weighted", False))
        except Exception as error:  # whatever the readers of archives and arrays find in a damaged one
            raise ValueError(
                f"'{path}' is not a reference file ({error}); make one with `hardpde reference PROBLEM`"
            ) from None


def node_weights(reference: Reference) -> np.ndarray:
    """The area (length, volume) that each node stands for (n,): its share of the cells it belongs to."""
    if reference.cells is None:
        raise ValueError("the reference has no cells, so its nodes have no areas")
    return shares(reference.x, reference.cells)


def shares(x: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The area (length, volume) of nodes (n, d) of simplices (c, d+1): their equal shares of each, (n,)."""
    corners, count = x[cells], cells.shape[1]
    sizes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / math.factorial(count - 1)
    return np.bincount(cells.ravel(), np.repeat(sizes / count, count), len(x))


def known_values(problem: "Problem", x: np.ndarray, times: np.ndarray | None) -> dict[str, np.ndarray]:
    """The known solution at nodes x (n, d): (n, *shape) or, at k times, (k, n, *shape); NaN where a field does not
    live."""
    evaluate = problem.known_everywhere
    if times is None:
        return problem.masked(evaluate(x), x)
    slices = [evaluate(at_times(x, t)) for t in times]
    return problem.masked({name: np.stack([np.asarray(s[name]) for s in slices]) for name in slices[0]}, x)


def exact_reference(problem: "Problem", points: int | None = None, times: int = 11) -> Reference:
    """The known solution at points drawn in the domain (4,000, or 10,000 in more than three dimensions), at
    equally spaced times."""
    points = points or (4_000 if problem.schema.dim <= 3 else 10_000)
    x = np.asarray(problem.domain.sample(jax.random.key(7), points))
    if problem.mapping is not None:
        x = problem.places(x)
    instants = None if problem.time is None else np.linspace(*problem.time, times)
    return Reference(x, known_values(problem, x, instants), instants,
                     about={"kind": "known solution", "points": points})
