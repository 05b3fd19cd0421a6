"""robin-holes of benchmarks/others, with the solution that errors are measured against."""

import dataclasses
import sys
from pathlib import Path

import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).resolve().parent / "others"))
import hardpde_robin_holes
from robin_holes import solution

problem = dataclasses.replace(hardpde_robin_holes.problem, exact=lambda x: {"u": solution(x[0], x[1], jnp)})
