"""Which weights of a training are the best, by the held-out loss: they are kept, whatever came after them."""

import math
from dataclasses import dataclass
from typing import Any

from hardpde.training.base import Stage

DIVERGED = 1e4, 1e2  # times the held-out loss and the loss of the best: nothing is learnt from there on
RISEN = 4.0  # times the best, for a share of a stage's steps: what is learnt is the points alone
LONG = 0.3
WORSE = 10.0  # times the best at the end of a stage: the next one begins at the best


@dataclass
class Best:
    """Of each of several models: the record of the history with the least held-out loss so far, {} before there is
    one, and the number of records since that one."""

    records: list[dict[str, Any]]
    since: list[int]

    @classmethod
    def begun(cls, many: int) -> "Best":
        return cls([{} for _ in range(many)], [0] * many)

    def see(self, k: int, record: dict[str, Any]) -> bool:
        """Whether what model k has now is its best; a loss that is not a number is never."""
        better = record["held_out"] < self.records[k].get("held_out", math.inf)
        self.since[k] = 0 if better else self.since[k] + 1
        if better:
            self.records[k] = dict(record)
        return better

    def trouble(self, k: int, stage: Stage, history: list[dict[str, Any]]) -> str:
        """Why the stage should end for model k, in words; "" where it should not."""
        best, now = self.records[k], history[-1]
        if not best or not self.since[k]:
            return ""
        if now["held_out"] > DIVERGED[0] * best["held_out"] and now["loss"] > DIVERGED[1] * best["loss"]:
            return f"it diverged: the held-out loss rose from {best['held_out']:.2e} to {now['held_out']:.2e}"
        rows = history[-self.since[k] :]
        long = best["stage"] == stage.name and now["step"] - best["step"] >= LONG * stage.steps and len(rows) >= 5
        if stage.reweigh or not long or not now["loss"] < best["loss"]:
            return ""
        lowest = min(row["held_out"] for row in rows[len(rows) // 2 :])
        if lowest > RISEN * best["held_out"]:
            return (f"the held-out loss rose from {best['held_out']:.2e} to {now['held_out']:.2e} while that of the "
                    f"training's points fell; more points would help")
        return ""

    def kept(self, k: int) -> str:
        """Words on the weights that are kept."""
        best = self.records[k]
        return (f"the weights of step {best['step']} of {best['stage']} were kept, with the least held-out loss, "
                f"{best['held_out']:.2e}")
