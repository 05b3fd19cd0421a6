"""The exact ansatz: one network, every condition satisfied to rounding for any weights."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.corners import corner_inputs, corners_of
from hardpde.ansatz.inputs import standard_inputs, with_slopes
from hardpde.ansatz.layers import layer_inputs, layers_of
from hardpde.ansatz.space_inputs import space_inputs
from hardpde.formulation.built_in import built_in
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.networks.mlp import MLP, mlp
from hardpde.problem.condition_checks import check_conditions
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients
from hardpde.support.checking import check_at_least, check_choice


def exact(problem: Problem, *, width: int = 40, depth: int = 4, adaptive: bool = False, sampling: str = "graded",
          gradients: str = "fields", corners: bool = False, walls: bool = False, slopes: bool = False,
          marched: bool = False, fades: float = 0.0, engine: Engine = Engine(4096)) -> Formulation:
    """Conditions hold by construction; the network learns the smooth solution itself.

    Periodic conditions are built into the inputs, or are penalties where they are stated as soft. Gradient fields
    are outputs of the network, or filled by differentiation (gradients="derivatives"): then conditions hold for
    the true gradient, on boundaries that do not touch. With `corners` the network is also given the log distance and
    the direction from each corner of a plane domain; with `walls` exponentials of the distance from walls along which
    the equations have thin layers; with `slopes` the derivatives of all inputs by each coordinate of
    space. With `marched` the network is zero at the start of time, and given functions of the place, and the time;
    the initial state fades out of the ansatz in the time `fades`, or stays where that is 0.
    """
    check_at_least(1, width=width, depth=depth, points=engine.points)
    check_choice("gradients", gradients, ("fields", "derivatives"))
    check_choice("sampling", sampling, ("graded", "uniform"))
    problem = problem.completed
    if gradients == "derivatives":
        problem = without_gradients(problem)
        check_conditions(problem)
    _check_periods(problem)

    def network(key: Array, inputs: int, outputs: int) -> MLP:
        return mlp(key, [inputs, *[width] * depth, outputs], jnp.dtype(engine.dtype))

    inputs = space_inputs(problem).function if marched else standard_inputs(problem)
    if walls and (thin := layers_of(problem)):
        inputs = _joined(inputs, layer_inputs(thin), problem.schema.dim)
    if corners and (found := corners_of(problem)):
        inputs = _joined(inputs, corner_inputs(found, problem.domain.size), problem.schema.dim)
    if slopes:
        inputs = with_slopes(inputs, problem.schema.dim)
    return built_in(problem, network, inputs, adaptive=adaptive, sampling=sampling,
                    engine=engine, marched=marched, fades=fades)


def _joined(plain: Callable[[Array], Array], more: Callable[[Array], Array], dim: int) -> Callable[[Array], Array]:
    return lambda x: jnp.concatenate([plain(x), more(x[:dim])])


def _check_periods(problem: Problem) -> None:
    for period in problem.periods:
        if period.hard and len(period.values) < problem.schema.size:
            raise ValueError(f"method exact builds '{period.condition.name}' on '{period.condition.on}' into the "
                             f"inputs of all fields; leave the fields out, or give soft=WEIGHT")
