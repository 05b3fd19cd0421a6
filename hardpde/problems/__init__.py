"""The problems that come with hardpde: statements only."""

from collections.abc import Callable

from hardpde.problem import Problem
from hardpde.problems.airfoil_printed import airfoil_printed
from hardpde.problems.battery_pack import battery_pack

PROBLEMS: dict[str, Callable[..., Problem]] = {"battery-pack": battery_pack, "airfoil-printed": airfoil_printed}
