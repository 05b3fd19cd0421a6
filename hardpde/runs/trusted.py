"""Which files of problems a user has run: what a run folder names is executed only if its own user has run it before.

A file holds one SHA-256 in each line; HARDPDE_STATE names another folder for it. Where nothing can be kept, every file
must be stated.
"""

import os
from contextlib import suppress
from pathlib import Path

from hardpde.support.files import folder_of_user

VARIABLE = "HARDPDE_STATE"


def remember(digest: str) -> None:
    """Keep that the user has run the file with this SHA-256; nothing that goes wrong is an error."""
    path = _path()
    if path is None or is_known(digest):
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(path, "a") as file:
            file.write(digest + "\n")


def is_known(digest: str) -> bool:
    """Whether the user has run a file with this SHA-256."""
    path = _path()
    with suppress(OSError, UnicodeDecodeError):
        return path is not None and digest in path.read_text().split()
    return False


def _path() -> Path | None:
    if stated := os.environ.get(VARIABLE):
        return Path(stated).expanduser() / "files"
    usual = folder_of_user("XDG_STATE_HOME", (".local", "state"), ("Library", "Application Support"))
    return None if usual is None else usual / "files"
