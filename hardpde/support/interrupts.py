"""An interrupt that is sure to arrive: what is raised in a finaliser or in a callback is dropped, an interrupt too."""

import signal
import sys
import threading
from types import FrameType
from typing import Any

AGAIN = 1.0  # seconds


def insist() -> None:
    """From now on, Ctrl-C is repeated every second until the process has ended or ignores it.

    Where somebody else answers or ignores it already, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not hasattr(signal, "pthread_kill"):
        return
    sys.unraisablehook = _dropped
    signal.signal(signal.SIGINT, _interrupted)


def ignore() -> None:
    """From now on an interrupt that is repeated does nothing: the process is about to end."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupted(number: int, frame: FrameType | None) -> None:
    again = threading.Timer(AGAIN, signal.pthread_kill, [threading.main_thread().ident, number])
    again.daemon = True
    again.start()
    raise KeyboardInterrupt


def _dropped(what: Any) -> None:
    """Say what was dropped, unless it will be repeated."""
    if not issubclass(what.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(what)
