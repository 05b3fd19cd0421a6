"""Curves for TensorBoard: the history of a training as event files, written by tensorboardX."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hardpde.support.progress import StepCount

FOLDER = "tensorboard"  # in a run folder
_FILES = "events.out.tfevents.*"


def check_tensorboard() -> None:
    """Whether event files can be written; asked before any training."""
    try:
        import tensorboardX  # noqa: F401
    except ImportError:
        raise ValueError("files for TensorBoard need the package tensorboardX, which is not installed; "
                         "pip install 'hardpde[tensorboard]'") from None


def has_events(folder: str | Path) -> bool:
    """Whether a folder holds event files."""
    return any(Path(folder).glob(_FILES))


@contextmanager
def event_writer(folder: str | Path, history: Iterable[dict] = ()) -> Iterator[Callable[[dict], None]]:
    """A function that writes records of a training into `folder`; earlier event files there are replaced.

    `history` are the records from before: a run that goes on states them again, so that its curves have every step
    once, also those that were written after its last checkpoint. Steps are counted through all stages.
    """
    check_tensorboard()
    from tensorboardX import SummaryWriter

    folder = Path(folder)
    for file in folder.glob(_FILES):
        file.unlink()
    writer = SummaryWriter(str(folder))
    count = StepCount()

    def write(record: dict, when: float | None = None) -> None:
        total = count(record["stage"], record["step"])
        for tag, value in (("loss/training", record["loss"]), ("loss/held_out", record["held_out"]),
                           ("time/seconds", record["seconds"]), ("time/stage", len(count.stages))):
            writer.add_scalar(tag, value, total, walltime=when)
        writer.flush()

    earlier, now = list(history), time.time()
    try:
        for record in earlier:
            write(record, now - (earlier[-1]["seconds"] - record["seconds"]))
        yield write
    finally:
        writer.close()
