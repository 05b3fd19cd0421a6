"""Airfoil coordinate files, in Selig's and Lednicer's formats."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from hardpde.geometry.algorithms.planar import signed_area
from hardpde.geometry.base import Shape
from hardpde.geometry.outlines import Loop, Spline
from hardpde.geometry.read.fitting import fit_airfoil
from hardpde.geometry.shapes import Polygon
from hardpde.support.files import as_path

Row = tuple[int, float, float]


def read_airfoil(path: str | Path) -> tuple[str, np.ndarray]:
    """Name and points (n, 2) of a `.dat` file in Selig order: trailing edge, upper side, leading edge, back.

    Reads Selig's format (one loop) and Lednicer's (a line of counts, then both sides from the leading edge).
    A repeated closing point is left out. ValueError names the file and the line of what is wrong.
    """
    name, points, _ = _load(as_path(path, "the airfoil file"))
    return name, points


def airfoil(path: str | Path, name: str = "airfoil", smooth: bool | str = True) -> Shape:
    """The solid of an airfoil file.

    smooth=True: a cubic Spline through every point; False: a Polygon; "fit": a quintic spline fitted to the points,
    C4 round the nose and symmetric if the points are, which has a smooth curvature.
    A blunt trailing edge has two corners and a straight piece between them, a sharp one has one corner.
    """
    path = as_path(path, "the airfoil file")
    _, points, blunt = _load(path)
    if smooth == "fit":
        try:
            return Loop(fit_airfoil(points, blunt), name)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
    if not isinstance(smooth, bool):
        raise ValueError(f"smooth is {smooth!r}; choose True, False or 'fit'")
    outline = tuple((float(x), float(y)) for x, y in points)
    if not smooth:
        return Polygon(outline, name)
    return Spline(outline, name, (0, len(outline) - 1) if blunt else (0,))


def _load(path: Path) -> tuple[str, np.ndarray, bool]:
    """Title, points (n, 2) in Selig order, and whether the trailing edge is blunt."""
    name, rows = _rows(path)
    if _is_counts(rows[0]):
        points = _lednicer(path, rows)
    else:
        _in_range(path, rows)
        points = np.array([row[1:] for row in rows])
    return name, *_closed_loop(path, points, rows[-1][0])


def _steps(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.diff(points, axis=0), axis=1)


def _fail(path: Path, line: int, what: str) -> ValueError:
    return ValueError(f"{path.name}, line {line}: {what}")


def _rows(path: Path) -> tuple[str, list[Row]]:
    """The title, and line number and two numbers of every other line that is not blank."""
    name = ""
    rows: list[Row] = []
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ValueError(f"the airfoil file '{path}' cannot be read: {error.strerror}") from None
    for k, line in enumerate(text.splitlines(), start=1):
        words = line.replace(",", " ").split()
        if not words:
            continue
        numbers = _numbers(words)
        if numbers is None and not rows and not name:
            name = line.strip()
        elif numbers is None:
            raise _fail(path, k, f"expected two numbers, found {line.strip()!r}; remove or repair the line")
        elif not all(map(math.isfinite, numbers)):
            raise _fail(path, k, f"the numbers must be finite, found {line.strip()!r}")
        else:
            rows.append((k, *numbers))
    if not rows:
        raise _fail(path, 1, "no coordinates found; an airfoil file has a title and lines of two numbers")
    return name or path.stem, rows


def _numbers(words: list[str]) -> tuple[float, float] | None:
    try:
        x, y = map(float, words)
    except ValueError:
        return None
    return x, y


def _is_counts(row: Row) -> bool:
    # Lednicer's counts are whole numbers of points; a coordinate of Selig's format is at most about 1.
    return min(row[1:]) >= 2 and all(v == int(v) for v in row[1:])


def _in_range(path: Path, rows: list[Row]) -> None:
    for k, x, y in rows:
        if not (-1 <= x <= 2 and -1 <= y <= 2):
            raise _fail(path, k, f"the point ({x:g}, {y:g}) is far outside a unit chord; divide by the chord")


def _lednicer(path: Path, rows: list[Row]) -> np.ndarray:
    line, above, below = rows[0][0], int(rows[0][1]), int(rows[0][2])
    rows = rows[1:]
    if len(rows) != above + below:
        raise _fail(path, line, f"announces {above} + {below} points, but {len(rows)} follow")
    _in_range(path, rows)
    points = np.array([row[1:] for row in rows])
    upper, lower = points[:above], points[above:]
    if np.linalg.norm(upper[0] - lower[0]) <= 1e-9:
        lower = lower[1:]
    return np.concatenate([upper[::-1], lower])


def _closed_loop(path: Path, points: np.ndarray, last: int) -> tuple[np.ndarray, bool]:
    """The loop in Selig order without repeated points, and whether its trailing edge is blunt."""
    points = points[np.append(True, _steps(points) > 1e-12)]
    if len(points) < 10:
        raise _fail(path, last, f"an airfoil needs at least 10 points, found {len(points)}")
    opening, chord = points[0] - points[-1], float(np.ptp(points[:, 0]))
    width = float(np.linalg.norm(opening))
    if not width <= 0.05 * chord:
        raise _fail(path, last, f"the curve is not closed: its ends are {width:.3g} apart; add points")
    if width <= 1e-9 * chord:
        points = points[:-1]
    elif signed_area(points) < 0:
        points = points[::-1]
    if signed_area(points) < 0:
        points = np.concatenate([points[:1], points[:0:-1]])
    # A blunt base stands across the chord; otherwise the file just leaves the closing point out.
    return points, width > 1e-9 * chord and bool(abs(opening[1]) > abs(opening[0]))
