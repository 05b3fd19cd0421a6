"""Prisms: a polygon drawn out along the third axis."""

from __future__ import annotations

import numpy as np

from hardpde.geometry.algorithms.planar import ears
from hardpde.geometry.shapes import Polygon
from hardpde.geometry.solids import Solid
from hardpde.support.checking import check_word, one_number


def extruded(polygon: Polygon, low: float, high: float, bottom: str | None = None, top: str | None = None) -> Solid:
    """The prism over a polygon from z = low to z = high; edges name its sides, `bottom` and `top` its ends."""
    one, two = one_number(low, "low"), one_number(high, "high")
    if not one < two:
        raise ValueError(f"a prism needs low < high, got {low!r} and {high!r}")
    names = [polygon.name if name is None else name for name in (bottom, top)]
    for name in names:
        check_word(name, "an end of a prism")
    flat, n = np.array(polygon.points), len(polygon.points)
    points = np.concatenate([np.append(flat, np.full((n, 1), z), axis=1) for z in (one, two)])
    caps, after = ears(flat), (np.arange(n) + 1) % n
    sides = np.concatenate([np.stack([np.arange(n), after, after + n], axis=1),
                            np.stack([np.arange(n), after + n, np.arange(n) + n], axis=1)])
    faces = np.concatenate([caps[:, ::-1], caps + n, sides])
    named = (*[names[0]] * len(caps), *[names[1]] * len(caps), *(polygon.names or ()), *(polygon.names or ()))
    return Solid(points, faces, polygon.name, named, 1.0)
