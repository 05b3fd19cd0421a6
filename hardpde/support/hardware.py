"""How functions are compiled: soon, where they run once or seldom, with all care, where they run often, and beside
other work, where they are needed later."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

_OPTION = "jax_disable_most_optimizations"  # one for all threads
_AT_ONCE = ("xla_gpu_command_buffer_scheduling_mode", "CONCURRENT")
_UNTRIED = ("xla_gpu_autotune_level", "0")
_turn = threading.Lock()
_brief: list[bool] = []  # what the option was, for everyone who compiles soon
_beside: list[Any] = []  # what is being compiled with all care in other threads


@contextmanager
def briefly() -> Iterator[None]:
    """For many small computations that run once or seldom: on the CPU, compiled soon rather than well.

    While others compile beside, with all care, they are compiled well too.
    """
    with _turn:
        alone = not _beside
        if alone:
            _brief.append(jax.config.read(_OPTION))
            jax.config.update(_OPTION, True)
    try:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            yield
    finally:
        if alone:
            with _turn:
                jax.config.update(_OPTION, _brief.pop())


def here() -> Any:
    """The device on which computations run: the one that was asked for, or the first."""
    wished = jax.config.jax_default_device  # type: ignore[attr-defined]
    return wished if isinstance(wished, jax.Device) else jax.local_devices(backend=wished)[0]


def often(function: Callable, **more: Any) -> Any:
    """`jax.jit` for what training does over and over: on a GPU, parts that need not wait for each other run at once."""
    return jax.jit(function, compiler_options=_on_gpu(_AT_ONCE), **more)


def seldom(function: Callable, **more: Any) -> Any:
    """`jax.jit` for what training does now and then: on a GPU, kernels are not tried out first, which takes seconds."""
    return jax.jit(function, compiler_options=_on_gpu(_UNTRIED), **more)


def _on_gpu(option: tuple[str, str]) -> dict[str, str] | None:
    return _known(option) if jax.default_backend() == "gpu" else None


@cache
def _known(option: tuple[str, str]) -> dict[str, str] | None:
    """The compiler's option; None where this version or this machine does not have it."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile(compiler_options=dict([option]))
    except (jax.errors.JaxRuntimeError, ValueError):
        return None
    return dict([option])


def compile_beside(calls: list[tuple[Any, tuple]]) -> list[Future]:
    """Compile functions for arguments like these, in threads of their own; who calls them later finds that done.

    What goes wrong here goes wrong again in the call, and is said there. Nothing is compiled where things are to
    be compiled soon rather than well.
    """
    calls = [(function, jax.tree.map(_like, arguments)) for function, arguments in calls]
    with _turn:
        if _brief:
            return []
        _beside.extend(calls)

    def one(function: Any, arguments: tuple) -> Any:
        try:
            return function.lower(*arguments).compile()
        finally:
            with _turn:
                _beside.pop()

    pool = ThreadPoolExecutor(max(1, min(len(calls), os.cpu_count() or 1)))  # what is needed first comes first
    found = [pool.submit(one, *call) for call in calls]
    pool.shutdown(wait=False)
    return found


def _like(array: Any) -> jax.ShapeDtypeStruct:
    """An array's type, and where it is if it is bound to that."""
    if isinstance(array, jax.ShapeDtypeStruct):
        return array
    where = array.sharding if array.committed else None
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=where, weak_type=getattr(array, "weak_type", False))
