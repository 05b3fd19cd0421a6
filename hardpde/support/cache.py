"""Where JAX keeps what it has compiled, so that the next process need not compile it again."""

import hashlib
import os
import platform
import warnings
from contextlib import suppress
from pathlib import Path

import jax
import jaxlib

from hardpde.support.files import folder_of_user

VARIABLE = "HARDPDE_CACHE"  # names another folder, or switches it off
OFF = ("", "0", "off", "no", "false", "none")
MOST = 500_000_000  # bytes
OURS = "compiled-"  # begins the names of the folders in there, one for each kind of machine
LEFT = 0.8  # of these, once it is full
_FAILED = "Error (reading|writing) persistent compilation cache entry"  # it is compiled again, and nothing is lost


def keep_compiled(most: int = MOST) -> Path | None:
    """Let JAX keep what this process compiles in a folder of the user's; that folder, None where there is none.

    A cache that is set up in JAX already stays as it is. Nothing that goes wrong with the folder is an error.
    """
    config = jax.config
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:  # type: ignore[attr-defined]
        return None
    top = _stated()
    if top is None or not _reads_what_it_wrote():
        return None
    folder = top / f"{OURS}{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK | os.X_OK):
            return None
        make_room(top, most)
    except OSError:
        return None
    warnings.filterwarnings("ignore", _FAILED)
    config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # many small ones are most of it
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    config.update("jax_compilation_cache_dir", str(folder))
    return folder


def make_room(top: Path, most: int) -> None:
    """Where what was kept has more bytes than that, remove what was used last the longest ago."""
    found = []
    for path in top.glob(f"{OURS}*/**/*"):
        with suppress(OSError):  # another process may remove it
            if path.is_file():
                about = path.stat()
                found.append((max(about.st_atime, about.st_mtime), about.st_size, path))
    size = sum(bytes for _, bytes, _ in found)
    if size <= most:
        return
    for _, bytes, path in sorted(found):
        if size <= LEFT * most:
            return
        with suppress(OSError):
            path.unlink()
        size -= bytes


def _stated() -> Path | None:
    """The folder that HARDPDE_CACHE names, or the usual one of this system."""
    stated = os.environ.get(VARIABLE)
    if stated is not None:
        return None if stated.strip().lower() in OFF else Path(stated).expanduser()
    return folder_of_user("XDG_CACHE_HOME", (".cache",), ("Library", "Caches"))


def _machine() -> str:
    """A name for this processor and what it can do: code that was compiled for another one may not run here."""
    words = sorted(_processor().items())
    text = repr((platform.system(), platform.machine(), words or platform.processor()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _processor() -> dict[str, str]:
    """What Linux says of the first processor; nothing elsewhere."""
    found: dict[str, str] = {}
    with suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            name, _, value = line.partition(":")
            if not line.strip():
                break
            if name.strip() in ("vendor_id", "model name", "flags", "Features", "CPU implementer", "CPU part"):
                found[name.strip()] = value.strip()
    return found


def _reads_what_it_wrote() -> bool:
    """False where XLA compiles for features that it then does not find in the processor, and says so each time."""
    about = _processor()
    version = tuple(int(part) for part in jaxlib.__version__.split(".")[:2])
    flags = about.get("flags", "").split()
    slow_gather = "Intel" in about.get("vendor_id", "") and "avx512f" in flags and "avx512_fp16" not in flags
    return version >= (0, 11) or not slow_gather
