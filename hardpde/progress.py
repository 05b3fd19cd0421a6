"""Progress on a terminal: one line that is rewritten, or a line now and then where there is no terminal."""

import sys
import time
from typing import TextIO


class Progress:
    """Shows records of `fit`: stage, steps, loss, held-out residual, time taken and left."""

    def __init__(self, stages: list[dict], stream: TextIO | None = None):
        self.stream = stream or sys.stderr
        self.total = sum(stage["steps"] for stage in stages)
        self.done_before, self.stage, self.last = 0, "", 0.0
        self.began: tuple[float, int] | None = None
        self.number, self.names = 0, [stage["optimiser"] for stage in stages]

    def __call__(self, record: dict) -> None:
        done = self._done(record)
        now = time.perf_counter()
        ended = record["step"] >= record["steps"]
        if self.began is None:
            self.began = (now, done)
        if not self.stream.isatty() and now - self.last < 10 and not ended:
            return
        self.last = now
        elapsed, steps = now - self.began[0], done - self.began[1]
        left = f"{_clock(elapsed / steps * (self.total - done))} left" if steps else "…"
        text = (f"{record['stage']:>10} {record['step']:>6}/{record['steps']} {_bar(done / self.total)} "
                f"loss {record['loss']:.2e}  held-out {record['held_out']:.2e}  "
                f"{_clock(record['seconds'])}, {left}")
        end = "\n" if ended or not self.stream.isatty() else ""
        self.stream.write(("\r\033[K" if self.stream.isatty() else "") + text + end)
        self.stream.flush()

    def _done(self, record: dict) -> int:
        """Steps of all stages so far."""
        if self.stage and (record["stage"] != self.stage or record["step"] <= self._step):
            self.done_before += self._steps
        self.stage, self._step, self._steps = record["stage"], record["step"], record["steps"]
        return self.done_before + record["step"]


def _bar(fraction: float, width: int = 20) -> str:
    full = round(width * min(fraction, 1.0))
    return "█" * full + "░" * (width - full)


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
