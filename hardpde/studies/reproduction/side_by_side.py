"""The trainings of several experiments side by side, each in a process of its own.

One training leaves a GPU idle while it compiles, and seldom fills it. What is trained here is kept as `reproduce`
keeps it, so that the tables and figures only have to be put together afterwards.
"""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hardpde.studies.reproduction.base import Work
from hardpde.studies.reproduction.comparisons import table_trainings
from hardpde.studies.reproduction.extra_fields import oscillation_trainings
from hardpde.studies.reproduction.reproduce import EXPERIMENTS, reproduce

MOST_JOBS = 64
MEMORY = "XLA_PYTHON_CLIENT_PREALLOCATE"  # else the first process takes most of a GPU's memory


def train_side_by_side(names: Sequence[str], work: Work, jobs: int, loud: bool) -> dict[str, dict]:
    """Train what these experiments need, at most `jobs` at a time; what came of those that are made in one piece.

    loud: whether the processes tell of their trainings on stderr.
    """
    os.environ.setdefault(MEMORY, "false")
    pieces = _pieces(names, work.quick)
    done = {}
    with ProcessPoolExecutor(min(jobs, len(pieces)), get_context("spawn"), max_tasks_per_child=1) as pool:
        waiting = {pool.submit(_run, piece, work.folder, work.quick, loud): name for name, piece in pieces.items()}
        try:
            for number, future in enumerate(as_completed(waiting), 1):
                name, found = waiting[future], future.result()
                work.say(f"{number} of {len(pieces)} done: {name}")
                if name in EXPERIMENTS:
                    done[name] = found
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done


def _pieces(names: Sequence[str], quick: bool) -> dict[str, Callable[[Work], Any]]:
    """What can be done side by side, each thing once; whole experiments, which take longest, first."""
    whole: dict[str, Callable[[Work], Any]] = {}
    parts: dict[str, Callable[[Work], Any]] = {}
    for name in names:
        found = table_trainings(name, quick) or oscillation_trainings(name, quick)
        if found:
            parts |= found
        else:
            whole[name] = partial(reproduce, name)
    return whole | parts


def _run(piece: Callable[[Work], Any], folder: Path, quick: bool, loud: bool) -> Any:
    work = Work(folder, quick)
    return piece(replace(work, say=lambda text: print(text, file=sys.stderr, flush=True)) if loud else work)
