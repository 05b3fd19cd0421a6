"""The problems that come with hardpde: statements, and finite-element references of some."""

from collections.abc import Callable

from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problems.airfoil import airfoil
from hardpde.problems.airfoil_printed import airfoil_printed
from hardpde.problems.battery_pack import battery_pack, battery_pack_family
from hardpde.problems.fem.airfoil import airfoil_reference
from hardpde.problems.fem.battery_pack import pack_reference
from hardpde.problems.heat_ball import heat_ball
from hardpde.problems.poisson import poisson
from hardpde.problems.schroedinger import schroedinger

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "battery-pack": battery_pack, "battery-pack-family": battery_pack_family, "airfoil": airfoil,
    "airfoil-printed": airfoil_printed, "heat-ball": heat_ball, "poisson": poisson, "schroedinger": schroedinger}

# By finite elements, at a level of refinement.
REFERENCES: dict[str, Callable[[int], Reference]] = {"battery-pack": pack_reference, "airfoil": airfoil_reference}
