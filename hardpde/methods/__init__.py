"""Methods: functions from a Problem to a Formulation."""

from hardpde.methods.exact import exact
from hardpde.methods.hc import hc

METHODS = {"exact": exact, "hc": hc}

__all__ = ["METHODS", "exact", "hc"]
