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
import numpy as np
from jax.experimental import multihost_utils

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


def default_chunks(points: int, chunk: int | None, on_cpu: int, devices: int) -> int:
    """Into how many parts a batch is cut: of `chunk` points if stated, else of `on_cpu` on a CPU, else one; as many
    for each device."""
    if chunk is None:
        chunk = on_cpu if jax.default_backend() == "cpu" else points
    if chunk < 1:
        raise ValueError(f"chunk is {chunk}; it must be at least 1")
    return max(1, round(points / devices / chunk)) * devices


ENOUGH = 512  # points of a core


def check_devices(number: int) -> None:
    """Refuse a number of devices that cannot be had."""
    if number == 1 and jax.process_count() == 1:
        return
    there, where = len(jax.devices()), jax.default_backend()
    if number < 1:
        raise ValueError(f"{number} devices are asked for; it is a positive whole number")
    if number > there:
        found = f"there {'are' if there > 1 else 'is'} {there} ({where})"
        hint = f"; JAX_NUM_CPU_DEVICES={number} in the environment simulates them" if where == "cpu" else ""
        raise ValueError(f"{number} devices are asked for and {found}{hint}")
    if number < there and jax.process_count() > 1:
        raise ValueError(f"several processes share the points between all their {there} devices, not {number}; "
                         f"leave --devices out")


def usual_devices(points: int) -> int:
    """How many devices share so many points unless it is stated: all of several processes, the cores of a CPU as long
    as each has points enough, one GPU."""
    if jax.process_count() > 1:
        return len(jax.devices())
    return max(1, min(len(jax.devices()), points // ENOUGH)) if jax.default_backend() == "cpu" else 1


def join_processes(coordinator: str, processes: int, process: int) -> None:
    """Make this process one of several that compute together; before anything is computed."""
    if ":" not in coordinator:
        raise ValueError(f"the coordinator is '{coordinator}'; it is HOST:PORT, like localhost:1234")
    if not 0 <= process < processes:
        raise ValueError(f"process {process} of {processes} is asked for; they are numbered from 0")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, processes, process)


def first_process() -> bool:
    """Whether this is the process that writes files and speaks."""
    return jax.process_index() == 0


def in_first_process(function: Callable[..., None], *arguments: Any) -> None:
    """Do something in the first process alone; where it refuses, all stop."""
    refusal: Exception | None = None
    if first_process():
        try:
            function(*arguments)
        except (ValueError, OSError) as error:
            refusal = error
    if jax.process_count() > 1 and multihost_utils.broadcast_one_to_all(np.asarray(refusal is not None)):
        refusal = refusal or ValueError("the first process stopped, and says why")
    if refusal is not None:
        raise refusal
