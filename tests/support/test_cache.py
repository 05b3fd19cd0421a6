"""The folder of what was compiled: found, moved, switched off, bounded, shared by processes, and never in the way."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from hardpde.support import cache
from hardpde.support.cache import OURS, keep_compiled, make_room

# Compiles three functions and says how many of them were found in the cache.
PROGRAM = """
import sys
import jax, jax.numpy as jnp
import hardpde
from hardpde.support.cache import keep_compiled
found = []
jax.monitoring.register_event_listener(lambda event, **more: found.append(event.rsplit("/", 1)[1]))
folder = keep_compiled()
for k in range(1, 4):
    assert float(jax.jit(lambda x: (jnp.sin(x) ** k).sum())(jnp.zeros(7))) == 0
print(folder, found.count("cache_hits"))
"""


@pytest.fixture
def unset(monkeypatch):
    """JAX without a cache; what is set in here is forgotten."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs",
             "jax_persistent_cache_min_entry_size_bytes")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], None)
    monkeypatch.setattr(cache, "_reads_what_it_wrote", lambda: True)
    monkeypatch.delenv("HARDPDE_CACHE", raising=False)
    yield monkeypatch
    for name, value in before.items():
        jax.config.update(name, value)


def start(folder, **more):
    """A process that compiles a little; every warning is an error there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return subprocess.Popen([sys.executable, "-W", "error", "-c", PROGRAM], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**kept, "HARDPDE_CACHE": str(folder), **more})


def said(process):
    """The folder it named and how much it found there; it said nothing else."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and err == ""
    folder, hits = out.split()
    return folder, int(hits)


@pytest.mark.parametrize("system, stated, folder", [
    ("Linux", {}, "home/.cache/hardpde"),
    ("Linux", {"XDG_CACHE_HOME": "TMP/mine"}, "mine/hardpde"),
    ("Linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/hardpde"),
    ("Darwin", {"XDG_CACHE_HOME": "TMP/mine"}, "home/Library/Caches/hardpde"),
    ("Windows", {"LOCALAPPDATA": "TMP/local"}, "local/hardpde"),
    ("Linux", {"HARDPDE_CACHE": "TMP/other"}, "other"),
])
def test_the_usual_folder_of_each_system(unset, tmp_path, system, stated, folder):
    unset.setattr("platform.system", lambda: system)
    unset.setattr(Path, "home", lambda: tmp_path / "home")
    unset.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in stated.items():
        unset.setenv(name, value.replace("TMP", str(tmp_path)))
    found = keep_compiled()
    assert found.parent == tmp_path / folder and found.is_dir() and found.name.startswith(OURS)
    assert jax.config.jax_compilation_cache_dir == str(found)


@pytest.mark.parametrize("word", ["", "0", "off", "OFF", "no"])
def test_it_is_switched_off_by_a_word(unset, word):
    unset.setenv("HARDPDE_CACHE", word)
    assert keep_compiled() is None and jax.config.jax_compilation_cache_dir is None


def test_what_is_set_up_in_jax_stays(unset, tmp_path):
    unset.setenv("HARDPDE_CACHE", str(tmp_path / "ours"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert keep_compiled() is None and jax.config.jax_compilation_cache_dir == str(tmp_path / "theirs")
    assert not (tmp_path / "ours").exists()


def test_a_folder_that_cannot_be_made_is_no_error(unset, tmp_path):
    (tmp_path / "file").write_text("")
    unset.setenv("HARDPDE_CACHE", str(tmp_path / "file" / "below"))
    assert keep_compiled() is None
    unset.setattr("os.access", lambda *words: False)  # one that may only be read
    unset.setenv("HARDPDE_CACHE", str(tmp_path / "closed"))
    assert keep_compiled() is None


def test_another_processor_has_another_folder(unset, tmp_path):
    unset.setenv("HARDPDE_CACHE", str(tmp_path))
    found = set()
    for features in ("sse2 avx", "sse2 avx avx512f"):
        jax.config.update("jax_compilation_cache_dir", None)
        unset.setattr(cache, "_processor", lambda features=features: {"flags": features})
        found.add(keep_compiled())
    assert len(found) == 2


def test_what_was_used_long_ago_makes_room_and_nothing_else(tmp_path):
    folder = tmp_path / f"{OURS}abc"
    folder.mkdir()
    (tmp_path / "precious").write_bytes(bytes(10_000))
    for k in range(10):
        (folder / f"{k}").write_bytes(bytes(100))
        os.utime(folder / f"{k}", (1000 + k, 1000 + k))
    make_room(tmp_path, 1000)
    assert len(list(folder.iterdir())) == 10
    make_room(tmp_path, 999)
    assert sorted(path.name for path in folder.iterdir()) == [str(k) for k in range(3, 10)]
    assert (tmp_path / "precious").exists()


def test_processes_share_it_at_once_and_one_after_another_and_damage_is_mended_silently(tmp_path):
    first = [start(tmp_path), start(tmp_path)]
    folders = {said(process)[0] for process in first}
    assert len(folders) == 1
    folder = Path(folders.pop())
    if not folder.is_dir():
        pytest.skip("this processor has no cache")
    assert said(start(tmp_path)) == (str(folder), len(list(folder.glob("*-cache")))) and list(folder.glob("*-cache"))
    for path in folder.glob("*-cache"):
        path.write_bytes(path.read_bytes()[:100])  # as a full disk leaves it
    assert said(start(tmp_path))[1] == 0
    assert said(start(tmp_path, HARDPDE_CACHE="off")) == ("None", 0)
