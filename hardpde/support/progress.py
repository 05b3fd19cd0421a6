"""How far a training is: its steps counted through all stages, and a line that says it on a terminal."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

import numpy as np


class StepCount:
    """Counts the steps of a training through its stages, record by record; stages: first step and name of each."""

    def __init__(self) -> None:
        self.total = self.last = 0
        self.seconds = float("nan")
        self.stages: list[tuple[int, str]] = []

    def __call__(self, stage: str, step: int, seconds: float = float("nan")) -> int:
        """All steps up to this one of its stage; where it is not a later one, another stage of that name has begun.

        A record of the same second as the one before tells of earlier weights that were kept: no step was taken.
        """
        if seconds == self.seconds:
            return self.total
        self.seconds = seconds
        if not self.stages or stage != self.stages[-1][1] or step <= self.last:
            self.stages.append((self.total, stage))
            self.last = 0
        self.total, self.last = self.total + step - self.last, step
        return self.total


def total_steps(history: Mapping[str, Sequence]) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Steps counted through all stages (n,), and the (first step, name) of each stage.

    `history` holds lists of equal length: "step" (counted within its stage) and, optionally, "stage" and "seconds".
    """
    count, steps = StepCount(), history.get("step", [])
    names, seconds = (history[key] if len(history.get(key, ())) else [other] * len(steps)
                      for key, other in (("stage", ""), ("seconds", np.nan)))
    rows = zip(names, steps, seconds)
    return np.array([count(str(name), int(step), when) for name, step, when in rows], int), count.stages


class Progress:
    """Shows records of `fit`: stage, steps, loss, held-out residual, time taken and left.

    One line is rewritten; where there is no terminal, a line is added now and then.
    """

    def __init__(self, stages: list[dict], stream: TextIO | None = None) -> None:
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
