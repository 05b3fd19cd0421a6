"""Compiling: quickly where things run once, for speed in the background, and never one by mistake for the other."""

import threading

import jax
import jax.numpy as jnp
import pytest

from hardpde.support import compiling
from hardpde.support.compiling import (
    compile_in_background,
    compiled_quickly,
    jit_for_speed,
    jit_quickly,
    jit_simply,
    tracing,
)

OPTION = "jax_disable_most_optimizations"


@pytest.fixture(autouse=True, params=[False, True], ids=["for speed", "quickly"])
def before(request):
    """What the option is outside; all of this leaves it as it was."""
    outside = jax.config.read(OPTION)
    jax.config.update(OPTION, request.param)
    yield request.param
    assert jax.config.read(OPTION) == request.param
    jax.config.update(OPTION, outside)


def test_quick_compilation_may_be_nested_and_ends(before):
    with compiled_quickly():
        with compiled_quickly():
            assert jax.config.read(OPTION)
        assert jax.config.read(OPTION)
    assert jax.config.read(OPTION) == before


def test_threads_that_compile_quickly_and_leave_in_any_order(before):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with compiled_quickly():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with compiled_quickly():
        thread.start()
        assert inside.wait(10)
    assert jax.config.read(OPTION)  # the other is still there
    leave.set()
    thread.join()
    assert jax.config.read(OPTION) == before


def test_nothing_is_turned_off_while_others_compile(before):
    started, go = threading.Event(), threading.Event()

    @jax.jit
    def slow(x):
        started.set()
        assert go.wait(10)
        return x + 1

    (job,) = compile_in_background([(slow, (jnp.ones(3),))])
    assert started.wait(10)
    with compiled_quickly():
        assert jax.config.read(OPTION) == before
        go.set()
        job.result()
    started.clear()
    assert slow(jnp.ones(3)).sum() == 6 and not started.is_set()  # it is traced and compiled already
    with compiled_quickly():
        assert jax.config.read(OPTION)


def test_nothing_is_compiled_in_the_background_where_all_is_quick():
    with compiled_quickly():
        assert compile_in_background([(jax.jit(lambda x: x), (jnp.ones(()),))]) == []


def test_a_fault_is_left_to_the_call():
    @jax.jit
    def wrong(x):
        return x @ jnp.ones(5)

    (job,) = compile_in_background([(wrong, (jnp.ones(3),))])
    assert isinstance(job.exception(), TypeError)
    with compiled_quickly():  # and nobody waits for it
        assert jax.config.read(OPTION)
    with pytest.raises(TypeError):
        wrong(jnp.ones(3))


def test_an_option_that_the_compiler_does_not_know_is_left_out(monkeypatch):
    """On a GPU of which this version of the compiler can do less."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    known = ("xla_cpu_enable_fast_math", "False")
    for option, expected in ((known, dict([known])), (("xla_gpu_no_such_option", "CONCURRENT"), None)):
        assert compiling._known(option) == expected
        for name, jit in (("_AT_ONCE", jit_for_speed), ("_UNTRIED", jit_quickly)):
            monkeypatch.setattr(compiling, name, option)
            assert jit(lambda x: x + 1)(jnp.ones(3)).sum() == 6


def test_a_function_compiled_simply_is_called_anywhere():
    calls = []

    def function(x, k):
        calls.append(k)
        return jnp.sin(x) ** k

    simple, x = jit_simply(function, static_argnums=1), jnp.linspace(0.1, 1, 5)
    wanted = jnp.sin(x) ** 2
    for found in (simple(x, 2), jax.jit(lambda x: simple(x, 2))(x), jax.vmap(lambda x: simple(x, 2))(x)):
        assert jnp.allclose(found, wanted, rtol=1e-15)
    slope = jax.jit(jax.grad(lambda x: simple(x, 2).sum()))(x)
    assert jnp.allclose(slope, 2 * jnp.sin(x) * jnp.cos(x), rtol=1e-15)
    before = len(calls)
    simple(x, 2)
    assert len(calls) == before


def test_a_traced_function_knows_that_it_is():
    seen = []
    jax.jit(lambda x: seen.append(tracing()) or x)(1.0)
    assert seen == [True] and not tracing()
