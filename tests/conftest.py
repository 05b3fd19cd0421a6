"""Fixtures that several files share."""

import atexit
import gc
import os
import shutil
import tempfile

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # what one process of this run has compiled serves all others
    _compiled = tempfile.mkdtemp(prefix="hardpde-compiled-")
    atexit.register(shutil.rmtree, _compiled, ignore_errors=True)
    os.environ.update(JAX_COMPILATION_CACHE_DIR=_compiled, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
                      JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1")

if "HARDPDE_STATE" not in os.environ:  # which files were run is no business of the user's
    _state = tempfile.mkdtemp(prefix="hardpde-state-")
    atexit.register(shutil.rmtree, _state, ignore_errors=True)
    os.environ["HARDPDE_STATE"] = _state

import jax
import pytest
from jaxtyping import install_import_hook

if jax.__version__.startswith("0.10."):  # compiles in half the time; other versions may not know the flags, and abort
    LOOPS = "simplify-while-loops,while-loop-invariant-code-motion,while-loop-constant-sinking,reshape-mover"
    os.environ["XLA_FLAGS"] = " ".join([
        os.environ.get("XLA_FLAGS", ""), "--xla_cpu_use_fusion_emitters=false", f"--xla_disable_hlo_passes={LOOPS}"])

install_import_hook(["hardpde.networks", "hardpde.ansatz.base"], "shapes.checked")  # what their signatures state

gc.set_threshold(100_000, 20, 100)  # tracing makes many small objects that live: looking through them took a tenth


@pytest.fixture(scope="module")
def quick_compilation():
    """For files in which almost everything runs once, so that compilation is all the time there is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # for the processes that tests start
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module", autouse=True)
def release_compiled_code():
    """Compiled code stays mapped while JAX keeps it, and a process may have 65,530 mappings: one file takes 26,000."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def chromium():
    """The system's browser, driven by Playwright."""
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install 'hardpde[dev]'")
    found = list(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))))
    if not found:
        pytest.skip("there is no Chromium")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=["--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A new page; in the end nothing has gone wrong on it, and it has asked for nothing but files and its own data."""
    page = chromium.new_page(viewport={"width": 1100, "height": 900})
    trouble, asked = [], []
    page.on("pageerror", lambda error: trouble.append(error))
    page.on("console", lambda said: said.type in ("error", "warning", "assert") and trouble.append(said.text))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert not trouble
    assert asked and not [address for address in asked if not address.startswith(("file:", "data:"))]
