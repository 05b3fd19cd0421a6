"""PFNN-2 (Sheng & Yang, 2022) as the paper runs it: PFNN with networks under overlapping windows (A.8)."""

from collections.abc import Sequence

from hardpde.formulation.engine import Engine
from hardpde.formulation.formulation import Formulation
from hardpde.methods.fbpinn import windows
from hardpde.methods.pfnn import ritz
from hardpde.problem.problem import Problem


def pfnn2(problem: Problem, *, blocks: Sequence[int] = (), sigma: float = 0.0, layers: Sequence[int] = (30, 30, 30),
          boundary: int = 512, engine: Engine = Engine(8192, "float32")) -> Formulation:
    """pfnn with the networks of fbpinn."""
    return ritz(problem, windows(problem, blocks, sigma, layers, engine.dtype), boundary=boundary, engine=engine)
