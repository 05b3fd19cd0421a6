"""Networks, and their values and derivatives at many points."""

from hardpde.networks.mlp import MLP, mlp

__all__ = ["MLP", "mlp"]
