"""How a formulation is computed: points, precision, chunks and devices as one value."""

from dataclasses import asdict, dataclass
from typing import Any

from hardpde.support.hardware import default_chunks

UNCUT = 0


@dataclass(frozen=True)
class Engine:
    """How many points the equations are asked at, in which precision, and how these are shared.

    chunk: points that are worked on at a time; None: as many as suit the machine; `UNCUT` in the defaults of a method
    that takes all at once. devices: how many share the points evenly.
    """

    points: int
    dtype: str = "float64"
    chunk: int | None = None
    devices: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """The options of a method that has this engine as its default."""
        return {name: value for name, value in asdict(self).items() if value != UNCUT or name != "chunk"}

    def chunks(self, for_cpu: int) -> int:
        """Into how many parts a batch is cut, as many for each device; `for_cpu`: points of a part on a CPU."""
        return default_chunks(self.points, self.chunk, for_cpu, self.devices)

    def rounded(self, chunks: int) -> int:
        """The number of points of which each chunk gets as many."""
        return max(1, round(self.points / chunks)) * chunks
