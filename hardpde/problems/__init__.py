"""The problems that come with hardpde: statements only."""

from collections.abc import Callable

from hardpde.problem import Problem
from hardpde.problems.battery_pack import battery_pack
from hardpde.problems.poisson import poisson
from hardpde.problems.schroedinger import schroedinger

PROBLEMS: dict[str, Callable[..., Problem]] = {
    "battery-pack": battery_pack, "poisson": poisson, "schroedinger": schroedinger}
