"""PINNs with learning-rate annealing (Wang, Teng & Perdikaris, 2021)."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.base import Batch
from hardpde.formulation.formulation import Balance, Formulation, Model
from hardpde.methods.soft import filled, plain_network, soft
from hardpde.problem.problem import Problem


def pinn_la(problem: Problem, *, alpha: float = 0.1, layers: Sequence[int] = (50, 50, 50, 50), points: int = 8192,
            boundary: int = 512, initial: int = 512, gradients: str = "derivatives", dtype: str = "float32",
            chunk: int | None = None, devices: int = 1) -> Formulation:
    """pinn; the weights of conditions follow max |∇ L_equations| / mean |∇ λ L_condition|.

    alpha: the share of the new weight in the moving average, at every step of Adam.
    """
    problem = filled(problem, gradients)
    return soft(problem, plain_network(problem, layers, dtype), points=points, boundary=boundary, initial=initial,
                dtype=dtype, chunk=chunk, devices=devices, balance=annealing(alpha, jnp.max))


def annealing(alpha: float, size: Callable[[Array], Array]) -> Balance:
    """λ ← (1 − α) λ + α size(|∇L_equations|) / mean |∇ λ L| for every condition; the equations keep weight 1.

    A term whose gradient vanishes keeps its weight.
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it is a share between 0 and 1")

    def balance(weights: Array, gradients: Model, model: Model, batch: Batch) -> Array:
        flat = jnp.concatenate([jnp.abs(g).reshape(len(g), -1) for g in jax.tree.leaves(gradients)], axis=1)
        old, goal, own = weights[1:], size(flat[0]), weights[1:] * flat[1:].mean(1)
        felt = own > jnp.finfo(own.dtype).eps * goal
        wished = jnp.where(felt, goal / jnp.where(felt, own, 1.0), old)
        return weights.at[1:].set((1 - alpha) * old + alpha * wished)

    return balance
