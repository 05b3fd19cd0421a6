"""What several test files share: problems, and what is said of runs."""

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
from jax.flatten_util import ravel_pytree

from hardpde import Problem, div, dt
from hardpde.problems import PROBLEMS

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def built_in(name):
    """A problem that comes with hardpde; some take seconds to state."""
    return PROBLEMS[name]()


def stated(text):
    """The problem that the text of a user's file states."""
    names = {}
    exec(text, names)
    return names["problem"]


def poisson(domain, conditions, source=0.0, **more):
    """∇·∇u + source = 0, with the gradient as a field."""
    return Problem(domain=domain, fields="u", gradients={"grad_u": "u"}, conditions=conditions,
                   residual=lambda x, q, dq: div(dq.grad_u) + source, **more)


def heat(domain, conditions, time=(0.0, 1.0), **more):
    """∂u/∂t = ∇·∇u, with the gradient as a field."""
    return Problem(domain=domain, fields="u", gradients={"grad_u": "u"}, time=time, conditions=conditions,
                   residual=lambda x, q, dq: dt(dq.u) - div(dq.grad_u), **more)


def weights(model):
    """All numbers of a model (n,)."""
    return np.asarray(ravel_pytree(model)[0])


def last_json(out):
    """The object that --json prints last."""
    return json.loads(out.splitlines()[-1])


def refused(result, *words):
    """Exit 2 and one sentence that says these words."""
    code, _, err = result
    assert code == 2
    lines = err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("hardpde: "), err
    for word in words:
        assert word in lines[0]


def close(a, b, tolerance=1e-12):
    """Whether two arrays are the same up to rounding."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.abs(a - b).max() <= tolerance * max(1.0, np.abs(b).max())
