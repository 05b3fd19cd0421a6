"""What several test files share: problems, and what is said of runs."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
