"""Methods: functions from a Problem to a Formulation."""

from hardpde.ansatz.inputs import standard_inputs
from hardpde.formulation.built_in import built_in
from hardpde.formulation.engine import Engine
from hardpde.methods.exact import exact
from hardpde.methods.fbpinn import fbpinn
from hardpde.methods.hc import hc
from hardpde.methods.options import Method, known_options, make
from hardpde.methods.pfnn import pfnn
from hardpde.methods.pfnn2 import pfnn2
from hardpde.methods.pinn import pinn, pinn_la, pinn_la2, pinn_ntk
from hardpde.methods.xpinn import xpinn

METHODS: dict[str, Method] = {
    "exact": exact, "hc": hc, "pinn": pinn, "pinn-la": pinn_la, "pinn-la2": pinn_la2, "pinn-ntk": pinn_ntk,
    "fbpinn": fbpinn, "xpinn": xpinn, "pfnn": pfnn, "pfnn2": pfnn2}

__all__ = ["METHODS", "Engine", "built_in", "exact", "fbpinn", "hc", "known_options", "make", "pfnn", "pfnn2", "pinn",
           "pinn_la", "pinn_la2", "pinn_ntk", "standard_inputs", "xpinn"]
