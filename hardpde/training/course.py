"""How far each of several models is in a stage."""

from dataclasses import dataclass

from hardpde.training.base import Stage
from hardpde.training.status import STALLED, describe_status


@dataclass
class Course:
    """How far each model is in a stage, why it ended there ("": it did not), and whether it waits for new points."""

    steps: list[int]
    why: list[str]
    resting: list[bool]

    @classmethod
    def begun(cls, many: int) -> "Course":
        return cls([0] * many, [""] * many, [False] * many)

    @property
    def active(self) -> list[int]:
        return [k for k, (why, resting) in enumerate(zip(self.why, self.resting)) if not why and not resting]

    @property
    def over(self) -> bool:
        """Whether the stage has ended for all models, before its last step."""
        return all(self.why)

    def stop(self, why: str) -> None:
        """End the stage for all models that it has not ended for."""
        self.why = [known or why for known in self.why]

    def advance(self, k: int, stage: Stage, step: int, count: int, length: int, code: int) -> None:
        """Of a block of this length, begun at this step, the first `count` losses of model k were finite; then its
        optimiser reported this code."""
        self.steps[k] = step + count
        if count < length:
            self.why[k] = f"the loss was not finite at step {step + count + 1}; the last good weights were kept"
        elif code == STALLED and stage.redraw and not stage.inside:  # on to new points at once
            self.steps[k] = min(-(-self.steps[k] // stage.redraw) * stage.redraw, stage.steps)
            self.resting[k] = True
            self.why[k] = describe_status(STALLED) if self.steps[k] == stage.steps else ""
        elif code:
            self.why[k] = describe_status(code)

    def next(self, took: list[int]) -> int:
        """The step to go on from: that of the model that is least far of those that go on; took: who was active."""
        going = [steps for steps, why in zip(self.steps, self.why) if not why]
        return min(going, default=max(self.steps[k] for k in took))

    def ending(self, k: int, stage: Stage) -> dict[str, str | int]:
        """How the stage ended for model k, as plain data."""
        return {"stage": stage.name, "steps": self.steps[k],
                "why": self.why[k] or f"all {stage.steps} steps were taken"}
