"""Shapes by signed distance, built with `| & -`, with named boundaries made of smooth pieces."""

from .base import Boundary, Kind, Piece, Shape, TimeSlice
from .checks import check_shape
from .csg import Difference, Intersection, Union
from .distance import distances, gap_matrix, stack, touching_points
from .files import airfoil, read_airfoil
from .inlay import Inlay
from .kinds import Arc, Face, Segment, Sphere
from .moving import moving, moving_all
from .nearby import Nearby
from .outlines import Loop, Spline
from .shapes import Ball, Box, Interval, Polygon

__all__ = [
    "Arc",
    "Ball",
    "Boundary",
    "Box",
    "Difference",
    "Face",
    "Inlay",
    "Intersection",
    "Interval",
    "Kind",
    "Loop",
    "Nearby",
    "Piece",
    "Polygon",
    "Segment",
    "Shape",
    "Sphere",
    "Spline",
    "TimeSlice",
    "Union",
    "airfoil",
    "check_shape",
    "distances",
    "gap_matrix",
    "moving",
    "moving_all",
    "read_airfoil",
    "stack",
    "touching_points",
]
