"""PINN-LA-2: the paper's variant of learning-rate annealing, with a mean in place of the maximum (A.8)."""

from collections.abc import Sequence

import jax.numpy as jnp

from hardpde.formulation.formulation import Formulation
from hardpde.methods.pinn_la import annealing
from hardpde.methods.soft import filled, plain_network, soft
from hardpde.problem.problem import Problem


def pinn_la2(problem: Problem, *, alpha: float = 0.1, layers: Sequence[int] = (50, 50, 50, 50), points: int = 8192,
             boundary: int = 512, initial: int = 512, gradients: str = "derivatives", dtype: str = "float32",
             chunk: int | None = None, devices: int = 1) -> Formulation:
    """pinn-la with mean |∇ L_equations| in place of the maximum, which keeps the weights steadier."""
    problem = filled(problem, gradients)
    return soft(problem, plain_network(problem, layers, dtype), points=points, boundary=boundary, initial=initial,
                dtype=dtype, chunk=chunk, devices=devices, balance=annealing(alpha, jnp.mean))
