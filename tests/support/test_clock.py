"""The age of the process."""

import builtins
import subprocess
import sys
import time

from hardpde.support import clock
from hardpde.support.clock import seconds_since_start


def test_the_time_before_the_import_counts():
    program = "import time; time.sleep(0.5); from hardpde.support.clock import *; print(seconds_since_start())"
    begun = time.perf_counter()
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    least = 0.45 if sys.platform == "linux" else 0.0
    assert least <= float(said) <= time.perf_counter() - begun + 0.05


def test_it_runs_on_and_does_without_what_linux_says(monkeypatch):
    def refuse(*words):
        raise OSError

    first = seconds_since_start()
    time.sleep(0.02)
    assert seconds_since_start() > first
    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(clock, "_SEEN", time.perf_counter() - 3)
    assert 3 <= seconds_since_start() < 4
