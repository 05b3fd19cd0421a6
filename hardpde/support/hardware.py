"""The machine: its devices, how many share a batch and in how many parts, and the processes that compute together."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from threadpoolctl import ThreadpoolController

from hardpde.support.checking import check_at_least


def on_cpu() -> bool:
    """Whether computations run on the CPU unless it is said otherwise."""
    return jax.default_backend() == "cpu"


def on_gpu() -> bool:
    """Whether computations run on a GPU unless it is said otherwise."""
    return jax.default_backend() == "gpu"


def cpu_device() -> jax.Device:
    """The first CPU of this process."""
    return jax.local_devices(backend="cpu")[0]


def current_device() -> jax.Device:
    """The device on which computations run: the one that was asked for, or the first."""
    wished = jax.config.jax_default_device  # type: ignore[attr-defined]
    return wished if isinstance(wished, jax.Device) else jax.local_devices(backend=wished)[0]


def has_tensor_cores_for_bfloat16() -> bool:
    """Whether computations run on a GPU of NVIDIA's, from Ampere on."""
    found = re.fullmatch(r"(\d+)\.\d+", getattr(current_device(), "compute_capability", ""))
    return found is not None and int(found[1]) >= 8


def cores() -> int:
    """How many cores the machine has."""
    return os.cpu_count() or 1


_rows_shared_by: ContextVar[int | None] = ContextVar("_rows_shared_by", default=None)


@contextmanager
def sharing_rows(devices: int | None) -> Iterator[None]:
    """In here so many devices share the rows of a least-squares problem, GPUs or cores of the CPU; None: one GPU, or
    all cores."""
    token = _rows_shared_by.set(devices)
    try:
        yield
    finally:
        _rows_shared_by.reset(token)


def cores_for_rows() -> int:
    """How many cores factor blocks of rows at once."""
    stated = _rows_shared_by.get()
    return stated if stated is not None and on_cpu() else cores()


def gpus_for_rows() -> int:
    """How many GPUs share the rows of a matrix."""
    return _rows_shared_by.get() or 1


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread_in_libraries() -> AbstractContextManager[Any]:
    """As long as it lasts, BLAS and LAPACK compute in the thread that calls them: the cores have work of their own."""
    return _libraries().limit(limits=1, user_api="blas")


def available_memory() -> int:
    """Bytes that can be taken without anything being moved out of memory."""
    with suppress(OSError, ValueError):  # Linux
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        if found:
            return 1024 * int(found[1])
    with suppress(AttributeError, OSError, ValueError):  # other Unix: half of what there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 2**32


def several_processes() -> bool:
    """Whether other processes compute with this one."""
    return jax.process_count() > 1


def default_chunks(points: int, chunk: int | None, for_cpu: int, devices: int) -> int:
    """Into how many parts a batch is cut: of `chunk` points if stated, else of `for_cpu` on a CPU, else one; as many
    for each device."""
    if chunk is None:
        chunk = for_cpu if on_cpu() else points
    check_at_least(1, chunk=chunk)
    return max(1, round(points / devices / chunk)) * devices


ENOUGH = 512  # points of a core


def check_devices(number: int) -> None:
    """Refuse a number of devices that cannot be had."""
    if number == 1 and not several_processes():
        return
    there, where = len(jax.devices()), jax.default_backend()
    if number < 1:
        raise ValueError(f"{number} devices are asked for; it is a positive whole number")
    if number > there:
        found = f"there {'are' if there > 1 else 'is'} {there} ({where})"
        hint = f"; JAX_NUM_CPU_DEVICES={number} in the environment simulates them" if where == "cpu" else ""
        raise ValueError(f"{number} devices are asked for and {found}{hint}")
    if number < there and several_processes():
        raise ValueError(f"several processes share the points between all their {there} devices, not {number}; "
                         f"leave --devices out")


def usual_devices(points: int) -> int:
    """How many devices share so many points unless it is stated: all of several processes, the cores of a CPU as long
    as each has points enough, one GPU."""
    if several_processes():
        return len(jax.devices())
    return max(1, min(len(jax.devices()), points // ENOUGH)) if on_cpu() else 1


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


def agreed(yes: bool) -> bool:
    """What the first process says, of several."""
    return bool(multihost_utils.broadcast_one_to_all(np.asarray(yes))) if several_processes() else yes


def in_first_process(function: Callable[..., None], *arguments: Any) -> None:
    """Do something in the first process alone; where it refuses, all stop."""
    refusal: Exception | None = None
    if first_process():
        try:
            function(*arguments)
        except (ValueError, OSError) as error:
            refusal = error
    if agreed(refusal is not None):
        refusal = refusal or ValueError("the first process stopped, and says why")
    if refusal is not None:
        raise refusal
