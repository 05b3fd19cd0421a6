"""The exact ansatz: one network, every condition satisfied to rounding for any weights."""

import jax.numpy as jnp
from jax import Array

from hardpde.ansatz.inputs import standard_inputs
from hardpde.formulation.built_in import built_in
from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.networks.mlp import MLP, mlp
from hardpde.problem.condition_checks import check_conditions
from hardpde.problem.problem import Problem
from hardpde.problem.unfilled import without_gradients
from hardpde.support.checking import check_at_least, check_choice


def exact(problem: Problem, *, width: int = 40, depth: int = 4, adaptive: bool = False, sampling: str = "graded",
          gradients: str = "fields", engine: Engine = Engine(4096)) -> Formulation:
    """Conditions hold by construction; the network learns the smooth solution itself.

    Periodic conditions are built into the inputs, or are penalties where they are stated as soft. Gradient fields
    are outputs of the network, or filled by differentiation (gradients="derivatives"): then conditions hold for
    the true gradient, on boundaries that do not touch.
    """
    check_at_least(1, width=width, depth=depth, points=engine.points)
    check_choice("gradients", gradients, ("fields", "derivatives"))
    check_choice("sampling", sampling, ("graded", "uniform"))
    if gradients == "derivatives":
        problem = without_gradients(problem)
        check_conditions(problem)
    _check_periods(problem)

    def network(key: Array, inputs: int, outputs: int) -> MLP:
        return mlp(key, [inputs, *[width] * depth, outputs], jnp.dtype(engine.dtype))

    return built_in(problem, network, standard_inputs(problem), adaptive=adaptive, sampling=sampling,
                    engine=engine)


def _check_periods(problem: Problem) -> None:
    for period in problem.periods:
        if period.hard and len(period.values) < problem.schema.size:
            raise ValueError(f"method exact builds '{period.condition.name}' on '{period.condition.on}' into the "
                             f"inputs of all fields; leave the fields out, or give soft=WEIGHT")
