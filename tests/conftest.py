"""Fixtures that several files share."""

import gc
import os

import jax
import pytest

if jax.__version__.startswith("0.10."):  # compiles a third faster; other versions may not know the flag, and abort
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

gc.set_threshold(100_000, 20, 100)  # tracing makes many small objects that live: looking through them took a tenth


@pytest.fixture(scope="module")
def quick_compilation():
    """For files in which almost everything runs once, so that compilation is all the time there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # for the processes that tests start
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """For files that start several processes, which would all compile the same: they keep it in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path_factory.mktemp("compiled")))
        patch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.02")
        yield


@pytest.fixture(scope="module", autouse=True)
def release_compiled_code():
    """Compiled code stays mapped while JAX keeps it, and a process may have 65,530 mappings: one file takes 26,000."""
    yield
    jax.clear_caches()
