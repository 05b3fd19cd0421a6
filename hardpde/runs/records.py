"""The records of a comparison, one for each method, from which it can go on."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hardpde.evaluation.base import Solved
from hardpde.runs.load import read_json
from hardpde.support.files import write_json


def is_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison of methods, not a run."""
    try:
        return "plans" in json.loads((folder / "run.json").read_text())["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def save_record(folder: Path, record: dict[str, Any], solutions: Sequence[Solved]) -> None:
    """Keep the models and the record of one method of a comparison, so that it can go on from there."""
    (folder / "models").mkdir(exist_ok=True)
    for solution in solutions:
        solution.save(folder / "models" / f"{record['method']}-{solution.settings['seed']}.eqx")
    (folder / "records").mkdir(exist_ok=True)
    write_json(folder / "records" / f"{record['method']}.json", record)


def read_records(folder: Path, asked: dict[str, Any], source: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The records of a comparison that has begun, by method; it must have been asked for in the same way."""
    if not folder.exists():
        return {}
    if not is_comparison(folder):
        raise ValueError(f"'{folder}' is not a comparison, so --resume cannot go on with it; choose another folder "
                         f"with --out")
    run = read_json(folder / "run.json")
    stated, asked = run["settings"], json.loads(json.dumps(asked))
    again = "give the same, or --force to start again"
    before = run.get("source", {})
    if any(before.get(key) != source.get(key) for key in ("name", "sha256", "options")):
        raise ValueError(f"'{folder}' was begun with another problem, or its file has changed; {again}")
    if before.get("reference", {}).get("sha256") != source.get("reference", {}).get("sha256"):
        raise ValueError(f"'{folder}' was begun with another reference; {again}")
    different = [name for name, plan in asked["plans"].items() if stated["plans"].get(name, plan) != plan]
    if stated.get("seeds") != asked["seeds"]:
        raise ValueError(f"'{folder}' was begun with {stated.get('seeds')} seeds, not {asked['seeds']}; {again}")
    if different:
        raise ValueError(f"'{folder}' was begun with other settings of {', '.join(different)}; {again}")
    files = {name: folder / "records" / f"{name}.json" for name in asked["plans"] if name in stated["plans"]}
    return {name: read_record(path) for name, path in files.items() if path.exists()}


def plans_begun(folder: Path) -> dict[str, Any]:
    """The settings of all methods that a comparison was asked for so far."""
    return read_json(folder / "run.json")["settings"]["plans"] if is_comparison(folder) else {}


def read_record(path: Path) -> dict[str, Any]:
    """What is known of one method of a comparison."""
    try:
        record = json.loads(path.read_text())
        return {**record, **{key: record[key] for key in ("method", "settings", "runs")}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"'{path}' is damaged ({error}); delete it, and the method is trained again") from None
