"""Run folders: one folder holds everything about one solve, and is enough to go on with it."""

import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardpde.direct.kept import KEPT
from hardpde.runs.trusted import remember
from hardpde.support.files import finite_or_none, is_temporary, replacing, sha256_of, sweep, write_json

CHECKPOINT, REFERENCE = "checkpoint.npz", "reference.npz"
_OURS = ("run.json", "model.eqx", "history.csv", "metrics.json", "report.html", "problem.py", CHECKPOINT, KEPT,
         REFERENCE, "comparison.json", "table.md")
_FOLDERS = ("figures", "models", "records", "tensorboard")
SEALED = ("model.eqx", "history.csv", "metrics.json")  # what a finished run has found
_EARLIER = ".earlier"  # where a run waits until the one that replaces it is finished


def check_folder(folder: Path, force: bool) -> None:
    """A run may go into a new or empty folder and, if told so, into the folder of an earlier run."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"'{folder}' is a file; choose another folder with --out")
    recover(folder)
    # A process that was killed as it began leaves an unfinished run.json.
    contents = [path for path in folder.iterdir() if not is_temporary(path)]
    if contents and not force:
        raise ValueError(f"'{folder}' exists; choose another folder with --out, or --force to replace it")
    if contents and not (folder / "run.json").exists():
        raise ValueError(f"'{folder}' is not a run folder, so --force does not touch it; choose another")


def prepare_folder(folder: Path) -> None:
    """Make the folder, or set an earlier run in it aside until this one is finished; files that are not the run's stay.

    run.json moves first and comes back last: where it is missing and a run is set aside, that one is put back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / _EARLIER
    if aside.is_dir() and _finished(folder):
        settle(folder)
    if aside.is_dir():  # the run in the folder was never finished: what it was to replace still waits
        _clear(folder)
    elif earlier := _ours(folder):
        aside.mkdir()
        for path in earlier:
            path.rename(aside / path.name)


def put_back(folder: Path) -> bool:
    """Put the run that was set aside back in its place, and say whether there was one."""
    aside = folder / _EARLIER
    if not aside.is_dir():
        return False
    if (folder / "run.json").exists():
        _clear(folder)
    for path in reversed(_ours(aside)):
        path.rename(folder / path.name)
    aside.rmdir()
    return True


def settle(folder: Path) -> None:
    """Leave nothing in the folder of a finished run but the run."""
    for name in (CHECKPOINT, KEPT):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / _EARLIER, ignore_errors=True)
    sweep(folder)


def _ours(folder: Path) -> list[Path]:
    """What is the run's in a folder, run.json first."""
    drawn = [file for file in folder.glob("solution*") if file.suffix in (".vtu", ".pvd")]
    return [path for path in (*(folder / name for name in (*_OURS, *_FOLDERS)), *drawn) if path.exists()]


def _clear(folder: Path) -> None:
    for path in reversed(_ours(folder)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _finished(folder: Path) -> bool:
    try:
        return json.loads((folder / "run.json").read_text())["status"] == "finished"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def recover(folder: Path) -> None:
    """Put back what a process was killed at while it set it aside."""
    if not (folder / "run.json").exists():
        put_back(folder)


def write_run(folder: Path, settings: dict[str, Any], source: dict[str, Any], provenance: dict[str, Any],
              status: str) -> None:
    """run.json, which makes a folder that of a run; then a user's problem and reference are copied beside it.

    It holds a checksum of what determines the result and, once the run is finished, of the files that hold it.
    """
    written = {name: sha256_of(folder / name) for name in SEALED if status == "finished" and (folder / name).exists()}
    write_json(folder / "run.json", {"status": status, "settings": settings, "source": source,
                                     "provenance": provenance, "sha256": seal(settings, source), "files": written})
    if "path" in source:
        remember(source["sha256"])
    if "path" in source and not (folder / "problem.py").exists():
        with replacing(folder / "problem.py") as temporary:
            shutil.copyfile(source["path"], temporary)
    if "reference" in source and not (folder / REFERENCE).exists():
        with replacing(folder / REFERENCE) as temporary:
            shutil.copyfile(source["reference"]["path"], temporary)


def seal(settings: dict[str, Any], source: dict[str, Any]) -> str:
    """A checksum of settings and source, whatever the order of their entries."""
    text = json.dumps(finite_or_none([settings, source]), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def what_is_left(folder: Path) -> str:
    """Words on a folder in which a run broke off; without a checkpoint of it, the earlier run is put back."""
    with suppress(OSError):
        if (folder / CHECKPOINT).exists():
            return f"; `hardpde resume {folder}` goes on from the last checkpoint"
        if (folder / KEPT).exists():
            return f"; `hardpde resume {folder}` goes on from the last step that was kept"
        if put_back(folder):
            return "; the earlier run is back in its place"
        if (folder / "run.json").exists():
            return f"; `hardpde resume {folder}` starts it again"
    return ""
