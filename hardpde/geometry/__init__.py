"""Shapes by signed distance, combined with each other, with named boundaries made of smooth pieces."""

from hardpde.geometry.algorithms.gaps import distances, gap_matrix, stack, touching_points
from hardpde.geometry.algorithms.nearby import Nearby
from hardpde.geometry.algorithms.sampling import rejection_sample
from hardpde.geometry.algorithms.stacking import safe_norm
from hardpde.geometry.base import Boundary, Kind, Piece, Shape, TimeSlice, at_times
from hardpde.geometry.checks import check_shape, parts_of
from hardpde.geometry.csg import Difference, Intersection, Union, describe
from hardpde.geometry.inlay import Inlay
from hardpde.geometry.kinds import Arc, Face, Segment, Sphere, direction
from hardpde.geometry.moving import moving, moving_all
from hardpde.geometry.outlines import Loop, Spline
from hardpde.geometry.read.airfoils import airfoil, read_airfoil
from hardpde.geometry.read.drawings import read_outline
from hardpde.geometry.read.meshes import read_mesh
from hardpde.geometry.read.surfaces import read_surface
from hardpde.geometry.revolved import Cone, Cylinder, Revolved
from hardpde.geometry.shapes import Ball, Box, Interval, Polygon, Primitive
from hardpde.geometry.solids import Patch, Plate, Solid

__all__ = [
    "Arc",
    "Ball",
    "Boundary",
    "Box",
    "Cone",
    "Cylinder",
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
    "Primitive",
    "Revolved",
    "Segment",
    "Shape",
    "Solid",
    "Sphere",
    "Spline",
    "TimeSlice",
    "Union",
    "airfoil",
    "at_times",
    "check_shape",
    "describe",
    "direction",
    "distances",
    "gap_matrix",
    "moving",
    "moving_all",
    "parts_of",
    "read_airfoil",
    "read_mesh",
    "read_outline",
    "read_surface",
    "rejection_sample",
    "safe_norm",
    "stack",
    "touching_points",
]
