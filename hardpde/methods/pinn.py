"""Physics-informed neural networks (Raissi et al., 2019)."""

from collections.abc import Sequence

from hardpde.formulation.formulation import Formulation
from hardpde.methods.soft import filled, plain_network, soft
from hardpde.problem.problem import Problem


def pinn(problem: Problem, *, layers: Sequence[int] = (50, 50, 50, 50), points: int = 8192, boundary: int = 512,
         initial: int = 512, gradients: str = "derivatives", dtype: str = "float32",
         chunk: int | None = None, devices: int = 1) -> Formulation:
    """A plain network; conditions are terms of the loss, all with weight 1.

    gradients: gradient fields of the problem are "derivatives" of the network, or "fields" that it puts out.
    """
    problem = filled(problem, gradients)
    return soft(problem, plain_network(problem, layers, dtype), points=points, boundary=boundary, initial=initial,
                dtype=dtype, chunk=chunk, devices=devices)
