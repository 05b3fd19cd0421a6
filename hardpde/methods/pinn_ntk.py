"""PINNs weighted by the neural tangent kernel (Wang, Yu & Perdikaris, 2022)."""

from collections.abc import Sequence
from dataclasses import replace

from jax import Array

from hardpde.ansatz.base import Batch
from hardpde.formulation.formulation import Formulation, Model
from hardpde.methods.pinn import pinn
from hardpde.problem.problem import Problem


def pinn_ntk(problem: Problem, *, alpha: float = 0.1, sample: int = 64, layers: Sequence[int] = (50, 50, 50, 50),
             points: int = 8192, boundary: int = 512, initial: int = 512, gradients: str = "derivatives",
             dtype: str = "float32", chunk: int | None = None, devices: int = 1) -> Formulation:
    """pinn; every term is weighted by tr K / tr K_term, so that all of them are learnt at the same rate.

    The traces of the neural tangent kernel are taken at `sample` places of each term, at every step of Adam; alpha
    is the share of the new weights in their moving average.
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it is a share between 0 and 1")
    formulation = pinn(problem, layers=layers, points=points, boundary=boundary, initial=initial, gradients=gradients,
                       dtype=dtype, chunk=chunk, devices=devices)

    def balance(weights: Array, terms: Model, model: Model, batch: Batch) -> Array:
        traces = formulation.term_traces(model, batch, sample)
        return (1 - alpha) * weights + alpha * traces.sum() / traces

    return replace(formulation, balance=balance)
