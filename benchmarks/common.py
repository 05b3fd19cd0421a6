"""What the benchmarks share: where things lie, their options, and how a result is written."""

import argparse
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
EXAMPLES = ROOT / "examples"


def options(doc: str | None) -> argparse.ArgumentParser:
    """A parser described by the first line of a program's docstring, with the option --out."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    return parser


def write_result(path: Path | None, result: dict[str, Any], versions: dict[str, str] | None = None) -> None:
    """Write a result as JSON with its provenance, if there is a file to write. versions: of more packages."""
    if path is None:
        return
    from hardpde.support.files import write_json  # other libraries are measured without hardpde
    from hardpde.support.provenance import provenance

    about = provenance()
    write_json(path, {**result, **about, "versions": {**about["versions"], **(versions or {})}})


def example(name: str) -> ModuleType:
    """A file of examples/, as a module."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
