"""What a march has come to, kept in a file to which every step is added: a march that was stopped goes on from there.

A record is its length and its CRC-32, then a line of JSON and plain arrays. A record that is cut off or damaged is
forgotten, with all that follow it. Loading never executes code.
"""

import json
import os
import struct
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KEPT = "march.steps"  # in the folder of a run
HEAD = struct.Struct("<4sQI")
MARK = b"hpm1"


class Record:
    """Plain data under a kind, and arrays in double precision by name."""

    def __init__(self, kind: str, plain: dict[str, Any], arrays: dict[str, np.ndarray]):
        self.kind, self.plain, self.arrays = kind, plain, arrays

    def to_bytes(self) -> bytes:
        shapes = {name: np.shape(array) for name, array in self.arrays.items()}
        line = json.dumps({"kind": self.kind, "plain": self.plain, "shapes": shapes}).encode() + b"\n"
        body = line + b"".join(np.ascontiguousarray(array, "<f8").tobytes() for array in self.arrays.values())
        return HEAD.pack(MARK, len(body), zlib.crc32(body)) + body


def _read(body: bytes) -> Record:
    line, _, rest = body.partition(b"\n")
    about, arrays = json.loads(line), dict[str, np.ndarray]()
    for name, shape in about["shapes"].items():
        size = 8 * int(np.prod(shape))
        arrays[name], rest = np.frombuffer(rest[:size], "<f8").reshape(shape).astype(float), rest[size:]
    return Record(about["kind"], about["plain"], arrays)


class Kept:
    """The records of a march, those of before first, in the order in which it asks for them; None: nothing is kept.

    identity: what determines the march; with another one, or where it begins anew, what was kept is forgotten.
    """

    def __init__(self, path: Path | None, identity: str = "", resume: bool = False):
        self.path, self._before = path, deque[tuple[Record, int]]()
        self._good = 0  # bytes of what has been asked for
        if path is None:
            return
        if resume and path.exists():
            self._before.extend(_records(path))
        if self._before and (self._before[0][0].kind != "march" or self._before[0][0].plain != {"identity": identity}):
            self._before.clear()
        if self.next("march") is None:
            self.add(Record("march", {"identity": identity}, {}))

    def next(self, kind: str) -> Record | None:
        """The next record of before, if it is of this kind."""
        if not self._before or self._before[0][0].kind != kind:
            return None
        record, self._good = self._before.popleft()
        return record

    def once(self, kind: str, make: Callable[[], Record]) -> Record:
        """The record of this kind that is there, or else made and added."""
        found = self.next(kind)
        if found is None:
            found = make()
            self.add(found)
        return found

    def back_to(self, end: int) -> None:
        """Forget what lies after so many bytes."""
        self._good = end
        self._before.clear()

    @property
    def good(self) -> int:
        return self._good

    def add(self, record: Record) -> None:
        """Write a record after what has been asked for; what else was there is forgotten."""
        if self.path is None:
            return
        written = record.to_bytes()
        if self._before or not self.path.exists() or self.path.stat().st_size != self._good:
            self._before.clear()
            with open(self.path, "ab") as file:
                os.truncate(file.fileno(), self._good)
        with open(self.path, "ab") as file:
            file.write(written)
        self._good += len(written)


def _records(path: Path) -> list[tuple[Record, int]]:
    """The records that are whole, each with the byte at which it ends."""
    found, end = list[tuple[Record, int]](), 0
    with open(path, "rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            mark, length, check = HEAD.unpack(head)
            if mark != MARK or length > path.stat().st_size:
                break
            body = file.read(length)
            if len(body) != length or zlib.crc32(body) != check:
                break
            end += HEAD.size + length
            found.append((_read(body), end))
    return found
