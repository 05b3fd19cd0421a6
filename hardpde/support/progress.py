"""Progress on a terminal: one line that is rewritten, or a line now and then where there is no terminal."""

import sys
import time
from typing import TextIO


class Progress:
    """Shows records of `fit`: stage, steps, loss, held-out residual, time taken and left."""

    def __init__(self, stages: list[dict], stream: TextIO | None = None):
        self.stream = stream or sys.stderr
        self.plan = [(stage["optimiser"], stage["steps"]) for stage in stages]
        self.total = sum(steps for _, steps in self.plan)
        self.number, self.step, self.last, self.open = -1, 0, 0.0, False
        self.began: tuple[float, int] | None = None

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
        self.stream.write(("\r\033[K" if self.stream.isatty() else "") + text)
        self.open = True
        if ended or not self.stream.isatty():
            self.close()
        self.stream.flush()

    def close(self) -> None:
        """End a line that is still open."""
        if self.open:
            self.stream.write("\n")
        self.open = False

    def _done(self, record: dict) -> int:
        """Steps of all stages so far; a resumed run begins in any of them."""
        stage = (record["stage"], record["steps"])
        if self.number < 0 or stage != self.plan[self.number] or record["step"] < self.step:
            self.number = self.plan.index(stage, self.number + 1)
        self.step = record["step"]
        return sum(steps for _, steps in self.plan[: self.number]) + record["step"]


def _bar(fraction: float, width: int = 20) -> str:
    full = round(width * min(fraction, 1.0))
    return "█" * full + "░" * (width - full)


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"
