"""The plan of the house: which floor imports from which, and what belongs to one room alone; read from the source."""

import ast
import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "hardpde"
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if path.parent != ROOT)
# In the order of a solve: a floor imports from itself and from those before it.
FLOORS = ("support", "geometry", "problem", "networks", "ansatz", "formulation", "methods", "training", "direct",
          "problems", "evaluation", "bounds", "solving", "runs", "studies", "cli")
UPSTAIRS = {("problem/problem.py", "hardpde.evaluation.notebook")}  # a problem shows itself in a notebook
ONLY = {  # package: the modules that may import it
    "matplotlib": ("evaluation/figures/", "studies/reproduction/"),
    "ngsolve": ("problems/fem/",), "netgen": ("problems/fem/",), "tensorboardX": ("support/tensorboard.py",),
}
# What may load matplotlib or NGSolve as it is imported: what draws, and what calls that.
DRAW = ("evaluation/figures/", "evaluation/report/", "problems/fem/", "runs/show.py", "studies/reproduction/")
HARDWARE = ("support/hardware.py", "support/provenance.py", "formulation/sharded.py", "studies/bench.py")
BACKEND = {"default_backend", "devices", "local_devices", "device_count", "local_device_count", "process_count",
           "process_index", "cpu_count", "sched_getaffinity"}
TWICE = {"__init__.py", "base.py", "exact.py", "airfoil.py", "battery_pack.py"}
SAID_TWICE = {"airfoil"}  # the shape and the problem
INHERITED = {"Patch(Content)", "Solid(Content)"}  # told apart by what their arrays hold
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
    found = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    assert found == {"__init__.py", "__init__.pyi", "__main__.py", "py.typed", *FLOORS}


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
    asked = {f"{name}.{what}" for name in ("jax", "os") for what in BACKEND}
    for module in MODULES:
        if module not in HARDWARE:
            seen = {ast.unparse(node) for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)}
            assert not (seen | imports(module)) & asked, module
            assert not [name for name in seen if name.endswith(".platform")], module


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


def test_names_of_functions_are_found_once():
    names = Counter(node.name for module in MODULES for node in tree(module).body
                    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"))
    assert {name for name, times in names.items() if times > 1} <= SAID_TWICE


def test_every_function_states_its_types():
    assert tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["mypy"]["disallow_untyped_defs"]


# Imports every module, those that may draw or need NGSolve last; says what else came and which classes inherit what.
IMPORTER = """
import importlib, inspect, json, sys
import hardpde
from jax._src import xla_bridge
quiet, others = json.loads(sys.stdin.read())
modules = [importlib.import_module(name) for name in quiet]
heavy = [name for name in ("matplotlib", "ngsolve", "netgen", "tensorboardX") if name in sys.modules]
for name in others:
    try:
        modules.append(importlib.import_module(name))
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("ngsolve", "netgen"):
            raise
ours = {value for module in modules for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith("hardpde")}
concrete = {c for c in ours if not inspect.isabstract(c) and not getattr(c, "_is_protocol", False)}
print(json.dumps({"heavy": heavy, "initialised": xla_bridge.backends_are_initialized(), "classes": len(ours),
                  "inherited": sorted(f"{c.__qualname__}({b.__qualname__})"
                                      for c in ours for b in c.__bases__ if b in concrete)}))
"""


@pytest.fixture(scope="module")
def imported():
    names = [(module, f"hardpde.{module[:-3].replace('/', '.')}".removesuffix(".__init__")) for module in MODULES
             if not module.endswith("__main__.py")]
    split = [[name for module, name in names if module.startswith(DRAW) == last] for last in (False, True)]
    done = subprocess.run([sys.executable, "-c", IMPORTER], input=json.dumps(split), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_a_module_computes_nothing_and_those_that_do_not_draw_load_no_large_package(imported):
    assert not imported["initialised"] and imported["heavy"] == []


def test_what_is_inherited_is_a_contract(imported):
    assert imported["classes"] > 50 and set(imported["inherited"]) <= INHERITED
