"""Finite-basis PINNs (Moseley, Markham & Nissen-Meyer, 2021): a network for each of many overlapping windows."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array

from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.formulation.objective import Model
from hardpde.methods.soft import filled, make_grid, soft
from hardpde.networks.windowed import windowed
from hardpde.problem.problem import Problem

NARROW = 0.1  # of the width of a block: how fast a window falls off


def fbpinn(problem: Problem, *, blocks: Sequence[int] = (), sigma: float = 0.0, layers: Sequence[int] = (30, 30, 30),
           boundary: int = 512, initial: int = 512, gradients: str = "derivatives",
           engine: Engine = Engine(8192, "float32")) -> Formulation:
    """pinn with a sum of networks, each times the window of its block, which falls off like a sigmoid.

    blocks: how many along each axis; nearly square ones, at most 24, unless stated. sigma: the scale of the sigmoids;
    0: a tenth of the smallest width of a block.
    """
    problem = filled(problem, gradients)
    network = windows(problem, blocks, sigma, layers, engine.dtype)
    schema = problem.schema
    return soft(problem, lambda key: network(key, schema.point, schema.size), boundary=boundary, initial=initial,
                engine=engine)


def windows(problem: Problem, blocks: Sequence[int], sigma: float, layers: Sequence[int],
            dtype: str) -> Callable[[Array, int, int], Model]:
    """What makes networks under windows over the domain, of inputs that begin with the coordinates."""
    grid = make_grid(problem, blocks)
    if not sigma >= 0:
        raise ValueError(f"sigma is {sigma}; it is a positive length, or 0 for a tenth of a block")
    scale = sigma or NARROW * float(min(grid.widths))
    return lambda key, i, o: windowed(key, [i, *layers, o], grid, scale, jnp.dtype(dtype))
