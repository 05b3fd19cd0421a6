"""The public names and where they are; `__init__.py` reads this file."""

from hardpde.formulation.formulation import Formulation
from hardpde.geometry import (
    Ball,
    Boundary,
    Box,
    Cone,
    Cylinder,
    Inlay,
    Interval,
    Polygon,
    Revolved,
    Shape,
    Solid,
    Spline,
    airfoil,
    moving,
    moving_all,
    read_airfoil,
    read_mesh,
    read_outline,
    read_surface,
)
from hardpde.problem.conditions import (
    Condition,
    dirichlet,
    initial,
    interface,
    neumann,
    periodic,
    robin,
    slip,
    supported,
    traction,
)
from hardpde.problem.datum import mean, pin
from hardpde.problem.fields import bilaplacian, curl, div, dt, grad, hessian, laplacian
from hardpde.problem.hints import Focus, Hints, Mirror
from hardpde.problem.measurements import Measurement
from hardpde.problem.parameters import Parameter, parameters
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problem.well_posed import check_well_posed
from hardpde.problems.extension import Surrogate, extend, learned_distance
from hardpde.problems.fem.refined import finite_elements
from hardpde.solving.eigenpairs import Eigenpair, eigenpairs
from hardpde.solving.goals import flux, integral
from hardpde.solving.infer import Estimate, infer
from hardpde.solving.solution import Solution
from hardpde.solving.solve import solve
from hardpde.studies.compare import compare
from hardpde.training import Stage

__version__: str
__all__ = [
    "Ball", "Boundary", "Box", "Condition", "Cone", "Cylinder", "Eigenpair", "Estimate", "Focus", "Formulation",
    "Hints", "Inlay", "Interval", "Measurement", "Mirror", "Parameter", "Polygon", "Problem", "Reference", "Revolved",
    "Shape", "Solid", "Solution", "Spline", "Stage", "Surrogate", "airfoil", "bilaplacian", "check_well_posed",
    "compare", "curl", "dirichlet", "div", "dt", "eigenpairs", "extend", "finite_elements", "flux", "grad", "hessian",
    "infer", "initial", "integral", "interface", "laplacian", "learned_distance", "mean", "moving", "moving_all",
    "neumann", "parameters", "periodic", "pin", "read_airfoil", "read_mesh", "read_outline", "read_surface", "robin",
    "slip", "solve", "supported", "traction",
]
