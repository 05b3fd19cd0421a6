"""hardpde: PDEs solved by neural networks whose conditions hold by construction.

Importing it switches JAX to double precision: conditions exact to rounding need it. Where JAX computes nothing yet, it
also makes every core of the CPU a device of JAX's, so that they can share the points of a training.
"""

import os
from contextlib import suppress

import jax

jax.config.update("jax_enable_x64", True)
_stated = (getattr(jax.config, "jax_num_cpu_devices", 0) >= 0
           or "host_platform_device_count" in os.environ.get("XLA_FLAGS", ""))
if not _stated:
    with suppress(RuntimeError):  # devices are known already, and stay
        _cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        jax.config.update("jax_num_cpu_devices", len(_cores))

from hardpde.formulation.formulation import Formulation  # noqa: E402
from hardpde.geometry import (  # noqa: E402
    Ball,
    Boundary,
    Box,
    Inlay,
    Interval,
    Polygon,
    Shape,
    Solid,
    Spline,
    airfoil,
    moving,
    moving_all,
    read_airfoil,
    read_mesh,
    read_outline,
    read_surface,
)
from hardpde.problem.conditions import (  # noqa: E402
    Condition,
    dirichlet,
    initial,
    interface,
    neumann,
    periodic,
    robin,
    slip,
    traction,
)
from hardpde.problem.fields import curl, div, dt, grad, laplacian  # noqa: E402
from hardpde.problem.hints import Focus, Hints, Mirror  # noqa: E402
from hardpde.problem.measurements import Measurement  # noqa: E402
from hardpde.problem.parameters import Parameter, parameters  # noqa: E402
from hardpde.problem.problem import Problem  # noqa: E402
from hardpde.problem.reference import Reference  # noqa: E402
from hardpde.problems.extension import Surrogate, extend, learned_distance  # noqa: E402
from hardpde.solving.infer import Estimate, infer  # noqa: E402
from hardpde.solving.solution import Solution  # noqa: E402
from hardpde.solving.solve import solve  # noqa: E402
from hardpde.studies.compare import compare  # noqa: E402
from hardpde.training import Stage  # noqa: E402

__all__ = [
    "Ball", "Boundary", "Box", "Condition", "Estimate", "Focus", "Formulation", "Hints", "Inlay", "Interval",
    "Measurement", "Mirror", "Parameter", "Polygon", "Problem", "Reference", "Shape", "Solid", "Solution", "Spline",
    "Stage", "Surrogate", "airfoil", "compare", "curl", "dirichlet", "div", "dt", "extend", "grad", "infer",
    "initial", "interface", "laplacian", "learned_distance", "moving", "moving_all", "neumann", "parameters",
    "periodic", "read_airfoil", "read_mesh", "read_outline", "read_surface", "robin", "slip", "solve", "traction",
]
