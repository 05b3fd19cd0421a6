"""Ctrl-C: what Python drops comes again."""

import subprocess
import sys

import pytest

# The first interrupt comes while an object is deleted, where Python drops it.
DROPPED = """
import signal, sys, time
from hardpde.support import interrupts
signal.signal(signal.SIGINT, {before})
interrupts.insist()
class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
try:
    Deleted()
    print("dropped", flush=True)
    time.sleep({patience})
    print("nothing more came")
except KeyboardInterrupt:
    interrupts.ignore()
    signal.raise_signal(signal.SIGINT)
    print("came again")
"""


@pytest.mark.parametrize("before, patience, said", [
    ("signal.default_int_handler", 60, "dropped\ncame again\n"),
    ("signal.SIG_IGN", 1.5, "dropped\nnothing more came\n"),
])
def test_an_interrupt_that_was_dropped_comes_again_where_it_is_not_ignored(before, patience, said):
    done = subprocess.run([sys.executable, "-c", DROPPED.format(before=before, patience=patience)],
                          capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr, done.returncode) == (said, "", 0)
