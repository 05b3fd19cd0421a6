"""How functions are compiled: quickly, where they run once or now and then, for speed, where training runs them over
and over, and in the background, where they are needed later."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any

import jax
import jax.numpy as jnp

from hardpde.support.hardware import cores, cpu_device, current_device, on_cpu, on_gpu

_OPTION = "jax_disable_most_optimizations"  # one for all threads
_AT_ONCE = ("xla_gpu_command_buffer_scheduling_mode", "CONCURRENT")
_PLAIN = ("xla_cpu_use_fusion_emitters", False)
_UNTRIED = ("xla_gpu_autotune_level", "0")
_turn = threading.Lock()
_quick: list[bool] = []  # what the option was, for everyone who compiles quickly
_background: list[Any] = []  # what is being compiled for speed in other threads


@contextmanager
def compiled_quickly() -> Iterator[None]:
    """For many small computations that run once or now and then: on the CPU, compiled quickly rather than for speed.

    While others compile in the background, for speed, so are these.
    """
    with _turn:
        alone = not _background
        if alone:
            _quick.append(jax.config.read(_OPTION))
            jax.config.update(_OPTION, True)
    try:
        with jax.default_device(cpu_device()):
            yield
    finally:
        if alone:
            with _turn:
                jax.config.update(_OPTION, _quick.pop())


def runs_once() -> AbstractContextManager[None]:
    """For what runs once or twice: on the CPU it is compiled quickly; on a GPU nothing changes."""
    return compiled_quickly() if on_cpu() else nullcontext()


def run_on_cpu(function: Callable[[jax.Array], Any], argument: jax.Array) -> Any:
    """Run a function on the CPU, which compiles the many small steps of drawing points much sooner than a GPU.

    The result lies where computations run; inside a compiled function nothing changes.
    """
    if isinstance(argument, jax.core.Tracer):
        return function(argument)
    with compiled_quickly():
        if on_cpu():
            return function(argument)
        result = function(jax.device_put(argument, cpu_device()))
    return jax.device_put(result, current_device())


def jit_simply(function: Callable, **more: Any) -> Any:
    """`jax.jit` for what runs now and then, on the CPU: fused loops are written in the older, plainer way, which takes
    half the time to compile and no more to run. It may be called while a caller is being traced.
    """
    inside = jax.jit(function, **more)

    @cache
    def outside() -> Any:
        return jax.jit(function, compiler_options=_known(_PLAIN), **more)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return (inside if tracing() else outside())(*arguments, **named)

    return call


def tracing() -> bool:
    """Whether a function is being traced."""
    return traced(jnp.zeros(()))


def traced(array: Any) -> bool:
    """Whether an array stands for those that a compiled function will be given."""
    return isinstance(array, jax.core.Tracer)


def jit_for_speed(function: Callable, **more: Any) -> Any:
    """`jax.jit` for what training does over and over: on a GPU, parts that need not wait for each other run at once."""
    return jax.jit(function, compiler_options=_on_gpu(_AT_ONCE), **more)


def jit_quickly(function: Callable, **more: Any) -> Any:
    """`jax.jit` for what training does now and then: on a GPU, kernels are not tried out first, which takes seconds."""
    return jax.jit(function, compiler_options=_on_gpu(_UNTRIED), **more)


def _on_gpu(option: tuple[str, Any]) -> dict[str, Any] | None:
    return _known(option) if on_gpu() else None


@cache
def _known(option: tuple[str, Any]) -> dict[str, Any] | None:
    """The compiler's option; None where this version or this machine does not have it."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile(compiler_options=dict([option]))
    except (jax.errors.JaxRuntimeError, ValueError):
        return None
    return dict([option])


def compile_in_background(calls: list[tuple[Any, tuple]]) -> list[Future]:
    """Compile functions for arguments like these, in threads of their own; who calls them later finds that done.

    What goes wrong here goes wrong again in the call, and is said there. Nothing is compiled where all
    is to be compiled quickly.
    """
    calls = [(function, jax.tree.map(_like, arguments)) for function, arguments in calls]
    with _turn:
        if _quick:
            return []
        _background.extend(calls)

    def one(function: Any, arguments: tuple) -> Any:
        try:
            return function.lower(*arguments).compile()
        finally:
            with _turn:
                _background.pop()

    pool = ThreadPoolExecutor(max(1, min(len(calls), cores())))  # what is needed first comes first
    found = [pool.submit(one, *call) for call in calls]
    pool.shutdown(wait=False)
    return found


def _like(array: Any) -> jax.ShapeDtypeStruct:
    """An array's type, and where it is if it is bound to that."""
    if isinstance(array, jax.ShapeDtypeStruct):
        return array
    where = array.sharding if array.committed else None
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=where, weak_type=getattr(array, "weak_type", False))
