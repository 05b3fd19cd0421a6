"""How long this process has been running."""

import os
import time
from contextlib import suppress

_SEEN = time.perf_counter()


def seconds_since_start() -> float:
    """Seconds since the process was started; where the system does not say when, since this was imported."""
    seen = time.perf_counter() - _SEEN
    with suppress(OSError, ValueError, IndexError, AttributeError):  # only Linux has these
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        if age >= seen:
            return age
    return seen
