"""Physics-informed neural networks (Raissi et al., 2019), and rules for the weights of their terms."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from hardpde.formulation.batch import Batch
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Balance, Formulation
from hardpde.formulation.jacobian import kernel_traces
from hardpde.formulation.objective import Model
from hardpde.methods.soft import filled, plain_network, soft
from hardpde.problem.problem import Problem


def pinn(problem: Problem, *, layers: Sequence[int] = (50, 50, 50, 50), boundary: int = 512, initial: int = 512,
         gradients: str = "derivatives", engine: Engine = Engine(8192, "float32")) -> Formulation:
    """A plain network; conditions are terms of the loss, all with weight 1.

    gradients: gradient fields of the problem are "derivatives" of the network, or "fields" that it puts out.
    """
    problem = filled(problem, gradients)
    return soft(problem, plain_network(problem, layers, engine.dtype), boundary=boundary, initial=initial,
                engine=engine)


def pinn_la(problem: Problem, *, alpha: float = 0.1, layers: Sequence[int] = (50, 50, 50, 50), boundary: int = 512,
            initial: int = 512, gradients: str = "derivatives",
            engine: Engine = Engine(8192, "float32")) -> Formulation:
    """pinn; the weights of conditions follow max |∇ L_equations| / mean |∇ λ L_condition|.

    alpha: the share of the new weight in the moving average, at every step of Adam.
    """
    plain = pinn(problem, layers=layers, boundary=boundary, initial=initial, gradients=gradients, engine=engine)
    return replace(plain, balance=annealing(alpha, jnp.max))


def pinn_la2(problem: Problem, *, alpha: float = 0.1, layers: Sequence[int] = (50, 50, 50, 50), boundary: int = 512,
             initial: int = 512, gradients: str = "derivatives",
             engine: Engine = Engine(8192, "float32")) -> Formulation:
    """pinn-la with mean |∇ L_equations| in place of the maximum, which keeps the weights steadier."""
    plain = pinn(problem, layers=layers, boundary=boundary, initial=initial, gradients=gradients, engine=engine)
    return replace(plain, balance=annealing(alpha, jnp.mean))


def pinn_ntk(problem: Problem, *, alpha: float = 0.1, sample: int = 64, layers: Sequence[int] = (50, 50, 50, 50),
             boundary: int = 512, initial: int = 512, gradients: str = "derivatives",
             engine: Engine = Engine(8192, "float32")) -> Formulation:
    """pinn; every term is weighted by tr K / tr K_term, so that all of them are learnt at the same rate.

    The traces of the neural tangent kernel are taken at `sample` places of each term, at every step of Adam; alpha
    is the share of the new weights in their moving average.
    """
    _check_share(alpha)
    plain = pinn(problem, layers=layers, boundary=boundary, initial=initial, gradients=gradients, engine=engine)

    def balance(weights: Array, gradients: Model, model: Model, batch: Batch) -> Array:
        traces = kernel_traces(plain.terms, model, batch, sample)
        return (1 - alpha) * weights + alpha * traces.sum() / traces

    return replace(plain, balance=balance)


def annealing(alpha: float, size: Callable[[Array], Array]) -> Balance:
    """λ ← (1 − α) λ + α size(|∇L_equations|) / mean |∇ λ L| for every condition; the equations keep weight 1.

    A term whose gradient vanishes keeps its weight.
    """
    _check_share(alpha)

    def balance(weights: Array, gradients: Model, model: Model, batch: Batch) -> Array:
        flat = jnp.concatenate([jnp.abs(g).reshape(len(g), -1) for g in jax.tree.leaves(gradients)], axis=1)
        old, goal, own = weights[1:], size(flat[0]), weights[1:] * flat[1:].mean(1)
        felt = own > jnp.finfo(own.dtype).eps * goal
        wished = jnp.where(felt, goal / jnp.where(felt, own, 1.0), old)
        return weights.at[1:].set((1 - alpha) * old + alpha * wished)

    return balance


def _check_share(alpha: float) -> None:
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it is a share between 0 and 1")
