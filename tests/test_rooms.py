"""What may import what: the rooms of the house, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "hardpde"
MODULES = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.py"))
CORE = {"errors", "fields", "geometry", "conditions", "layout", "parameters", "reference", "files", "compiling"}
SOLVING = {"problem", "networks", "lists", "ansatz", "inputs", "sampling", "blocks", "penalties", "formulation",
           "energy", "soft"}

# room: the rooms it may import from, itself aside; a room is a folder or a module.
MAY = {
    "errors": set(),
    "fields": set(), "networks": {"compiling"}, "geometry": {"compiling", "files"}, "files": set(), "compiling": set(),
    "parameters": {"geometry"}, "reference": {"files"},
    "conditions": {"fields"},
    "layout": {"conditions", "fields", "geometry", "parameters"},
    "problem": {"compiling", "conditions", "errors", "fields", "geometry", "layout", "parameters", "reference"},
    "lists": {"networks"},
    "ansatz": {"conditions", "errors", "fields", "geometry", "layout", "lists"},
    "blocks": {"geometry"},
    "inputs": {"geometry", "problem"},
    "sampling": {"geometry", "parameters", "problem"},
    "penalties": {"conditions", "geometry", "parameters", "problem", "sampling"},
    "soft": {"ansatz", "blocks", "fields", "formulation", "networks", "penalties", "problem", "sampling"},
    "energy": {"compiling", "conditions", "geometry", "layout", "problem", "sampling"},
    "formulation": {"ansatz", "geometry", "lists", "penalties", "problem"},
    "devices": {"ansatz", "formulation"},
    "methods": CORE | SOLVING,
    "training": {"compiling", "files"},
    "inference": {"geometry", "parameters", "problem"},
    "extension": {"files", "geometry", "networks", "training"},
    "problems": CORE | {"extension", "problem"},
    "fem": CORE | {"problem", "problems"},
    "evaluation": CORE | SOLVING,
    "experiments": CORE | SOLVING | {"compare", "evaluation", "extension", "methods", "networks", "presets", "problems",
                                     "provenance", "runs", "solve", "training"},
    "bench": SOLVING | {"compare", "compiling", "devices", "provenance", "solve"},
    "display": {"evaluation"}, "tensorboard": set(),
}
# What a room may ask for at the point of use alone, inside a function: a problem shows itself in a notebook.
LATE = {"problem": {"display"}}


def imports(module: str) -> list[tuple[str, bool]]:
    """(full name, whether inside a function) of everything a module imports, relative names made absolute."""
    found = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ("hardpde", *module.split("/"))[: -node.level] if node.level else ()
            base = ".".join([*package, *([node.module] if node.module else [])])
            found.extend((f"{base}.{alias.name}", inside) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, inside or isinstance(node, ast.FunctionDef | ast.Lambda))

    visit(ast.parse((ROOT / f"{module}.py").read_text()), False)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_what_it_may(module):
    room = module.split("/")[0]
    for name, inside in imports(module):
        top, *rest = name.split(".")
        if top == "hardpde" and room in MAY:
            late = LATE.get(room, set()) if inside else set()
            assert rest and rest[0] in MAY[room] | late | {room}, f"{module} imports {name}"
        if top == "matplotlib":
            assert room == "evaluation", f"{module} imports {name}"
        if top in ("ngsolve", "netgen"):
            assert room == "fem" and inside, f"{module} imports {name}"
        if top == "tensorboardX":
            assert room == "tensorboard" and inside, f"{module} imports {name}"


def test_every_room_exists():
    assert {module.split("/")[0] for module in MODULES} >= set(MAY)
