"""Corners of a plane domain, and inputs that know them: log distance and direction.

Near a corner, or where one condition gives way to another, solutions behave like r^a sin(bθ + c) and their derivatives
may be infinite, however smooth the data are.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hardpde.geometry import touching_points
from hardpde.problem.hints import Focus
from hardpde.problem.problem import Problem

MOST = 16  # corners that get inputs: those with the widest angles
SMOOTH = 0.05  # pieces that go on in a direction so close are one smooth curve
EPSILON = 1e-9  # of the size: closer to a corner it is all the same
CUT = 0.3  # radians about the ray away from the domain where the direction jumps
TRIED = 2048  # points of the domain that tell how far from a corner its direction is unique
INNER = 1e-5  # of the width of a corner: closer to it no points are drawn
SHARE = 0.4  # of the points are drawn about corners
INPUTS = 3  # of each corner: log of distance, direction, log of a window


class Corner(NamedTuple):
    """at (2,); inward: the unit vector halfway between the sides; angle: of the domain there; reach: how far from it
    the direction is unique, inf if everywhere."""

    at: np.ndarray
    inward: np.ndarray
    angle: float
    reach: float

    @property
    def exponent(self) -> float:
        """The least a of a harmonic function r^a sin(aθ + c) that is zero on one side and has no slope on the other;
        twice that, where it is zero on both."""
        return np.pi / (2 * self.angle)


def corners_of(problem: Problem) -> list[Corner]:
    """The corners of a plane domain, and places where conditions change; of many, those with the widest angles."""
    layout, domain = problem.layout, problem.domain
    if domain.dim != 2 or problem.mapping is not None or any(period.hard for period in problem.periods):
        return []
    found: list[Corner] = []
    inside = np.asarray(domain.sample(jax.random.key(2), TRIED))
    for i, j in np.argwhere(np.triu(layout.touching)).tolist():
        for at in touching_points(layout.pieces[i], layout.pieces[j], domain):
            one, two = (np.asarray(layout.pieces[k].normal(jnp.asarray(at))) for k in (i, j))
            known = any(np.linalg.norm(corner.at - at) < 1e-6 * domain.size for corner in found)
            smooth = one @ two > np.cos(SMOOTH)
            same = layout.conditions[i] == layout.conditions[j] and smooth
            if not known and not same and one @ two > -1 + 1e-6:
                found.append(_corner(at, one, two, inside, domain.size))
    return sorted(found, key=lambda corner: -corner.angle)[:MOST]


def _corner(at: np.ndarray, one: np.ndarray, two: np.ndarray, inside: np.ndarray, size: float) -> Corner:
    inward = -(one + two) / np.linalg.norm(one + two)
    away = inside - at
    r = np.linalg.norm(away, axis=1)
    direction = np.arctan2(inward[0] * away[:, 1] - inward[1] * away[:, 0], away @ inward)
    turn = float(np.arccos(np.clip(one @ two, -1.0, 1.0)))
    angle = np.pi - turn if np.abs(direction[np.argsort(r)[:64]]).max() < np.pi / 2 else np.pi + turn
    beyond = np.abs(direction) > np.pi - CUT
    reach = 0.8 * float(r[beyond].min()) if beyond.any() and angle < 2 * (np.pi - CUT) else np.inf
    return Corner(at, inward, angle, reach)


def with_points_about(problem: Problem, found: list[Corner]) -> Problem:
    """The problem with points about its corners, distances even in scale, unless it states places of its own."""
    hints = problem.hints
    if not found or hints.focus:
        return problem
    focus = tuple(Focus(tuple(corner.at.tolist()), INNER * outer, outer, SHARE / len(found))
                  for corner, outer in zip(found, widths(found, problem.domain.size)))
    return problem.derived(hints=replace(hints, focus=focus, near=min(hints.near, 1 - SHARE)), origin=problem.stated)


def widths(found: list[Corner], size: float) -> np.ndarray:
    """How far from each corner lies what is about it, (k,)."""
    at = np.array([corner.at for corner in found])
    apart = np.linalg.norm(at[:, None] - at, axis=-1) + np.where(np.eye(len(at)), np.inf, 0.0)
    return np.minimum(0.5 * apart.min(axis=1), np.minimum(0.25 * size, [corner.reach for corner in found]))


def nearness(found: list[Corner], size: float, x: np.ndarray) -> np.ndarray:
    """What the equations are multiplied by at points (n, c), (n,): distances to corners over their widths, at most 1,
    to such a power that second derivatives of the most singular solutions stay finite."""
    length = np.ones(len(x))
    for corner, width in zip(found, widths(found, size) if found else ()):
        ratio = np.minimum(np.linalg.norm(x[:, :2] - corner.at, axis=1) / width, 1.0)
        length = np.minimum(length, ratio ** (2 - min(corner.exponent, 1.0)))
    return length


def corner_inputs(found: list[Corner], size: float) -> Callable[[Array], Array]:
    """For each corner log(r/size), the direction θ from the inward one, and the log of a window (1 − r²/reach²)³."""

    def inputs(space: Array) -> Array:
        parts = []
        for corner in found:
            away = (space - corner.at) / size
            squared = (away**2).sum()
            there = squared > EPSILON**2
            safe = jnp.where(there, away, jnp.asarray(corner.inward))
            across = corner.inward[0] * safe[1] - corner.inward[1] * safe[0]
            parts += [0.5 * jnp.log(squared + EPSILON**2), jnp.arctan2(across, safe @ corner.inward)]
            window = 1 - squared * (size / corner.reach) ** 2
            parts.append(3 * jnp.log(jnp.maximum(window, 1e-12)) if np.isfinite(corner.reach) else 0.0 * squared)
        return jnp.stack(parts)

    return inputs
