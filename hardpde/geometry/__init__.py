"""Shapes by signed distance, built with `| & -`, with named boundaries made of smooth pieces."""

from .base import Boundary, Kind, Piece, Shape, TimeSlice
from .checks import check_shape
from .csg import Difference, Intersection, Union
from .distance import distances, gap_matrix, stack, touching_points
from .drawings import read_outline
from .facets import Patch, Plate, Solid
from .files import airfoil, read_airfoil
from .inlay import Inlay
from .kinds import Arc, Face, Segment, Sphere
from .meshes import read_mesh
from .moving import moving, moving_all
from .nearby import Nearby
from .outlines import Loop, Spline
from .shapes import Ball, Box, Interval, Polygon
from .surfaces import read_surface

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
    "Patch",
    "Piece",
    "Plate",
    "Polygon",
    "Segment",
    "Shape",
    "Solid",
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
    "read_mesh",
    "read_outline",
    "read_surface",
    "stack",
    "touching_points",
]
