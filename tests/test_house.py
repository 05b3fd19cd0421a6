"""The plan of the house: which floor imports from which, and what belongs to one room alone; read from the source."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1] / "hardpde"
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if path.parent != ROOT)
# In the order of a solve: a floor imports from itself and from those before it.
FLOORS = ("support", "geometry", "problem", "networks", "ansatz", "formulation", "methods", "training", "problems",
          "evaluation", "solving", "runs", "studies", "cli")
UPSTAIRS = {("problem/problem.py", "hardpde.evaluation.notebook")}  # a problem shows itself in a notebook
ONLY = {  # package: the modules that may import it
    "matplotlib": ("evaluation/figures/", "evaluation/report/", "studies/reproduction/"),
    "ngsolve": ("problems/fem/",), "netgen": ("problems/fem/",), "tensorboardX": ("support/tensorboard.py",),
}
HARDWARE = ("support/hardware.py", "support/provenance.py", "formulation/sharded.py", "studies/bench.py")
BACKEND = {"default_backend", "devices", "local_devices", "device_count", "local_device_count", "process_count",
           "process_index", "cpu_count", "sched_getaffinity"}
TWICE = {"__init__.py", "base.py", "exact.py", "airfoil.py", "battery_pack.py"}
LONGEST = 460  # lines of a file


def tree(module: str) -> ast.Module:
    return ast.parse((ROOT / module).read_text())


def imports(module: str) -> set[str]:
    """Full names of everything a module imports, inside functions too."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports a relative name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_the_hall_holds_floors_alone():
    assert {path.name for path in ROOT.iterdir() if path.name != "__pycache__"} == {"__init__.py", "py.typed", *FLOORS}


def test_no_floor_imports_from_a_later_one():
    wrong = []
    for module in MODULES:
        floor = FLOORS.index(module.split("/")[0])
        for name in imports(module):
            top, *rest = name.split(".")
            if top == "hardpde" and not any(module == m and name.startswith(n) for m, n in UPSTAIRS):
                if not rest or FLOORS.index(rest[0]) > floor:
                    wrong.append(f"{module} imports {name}")
    assert not wrong


def test_some_packages_belong_to_one_room():
    assert not [f"{module} imports {name}" for module in MODULES for name in imports(module)
                if not module.startswith(ONLY.get(name.split(".")[0], ""))]


def test_questions_about_the_machine_are_asked_in_one_room():
    assert not [f"{module} asks {ast.unparse(node)}" for module in MODULES if module not in HARDWARE
                for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute) and node.attr in BACKEND
                and ast.unparse(node.value) in ("jax", "os")]


def test_names_of_files_are_found_once():
    names = Counter(Path(module).name for module in MODULES)
    assert {name for name, times in names.items() if times > 1} <= TWICE | {"__main__.py"}


def test_a_file_can_be_read_in_one_sitting():
    lengths = {module: len((ROOT / module).read_text().splitlines()) for module in MODULES}
    assert not {module: length for module, length in lengths.items() if length > LONGEST}


def test_frozen_objects_change_nothing_but_themselves():
    assert not [f"{module}: {ast.unparse(node)}" for module in MODULES for node in ast.walk(tree(module))
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "object.__setattr__"
                and ast.unparse(node.args[0]) != "self"]


def test_importing_computes_and_draws_nothing():
    script = """
import sys
import jax, jax.numpy
from jax._src import xla_bridge
import hardpde
assert not xla_bridge.backends_are_initialized()
print(*[name for name in sys.modules if name.split(".")[0] in ("matplotlib", "ngsolve", "netgen", "tensorboardX")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
