"""A reference: what the solution is known to be, at the nodes of a mesh and at chosen times."""

import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hardpde.files import replacing


@dataclass(frozen=True)
class Reference:
    """Known values of named fields.

    `x` (n, d) are the nodes; `times` (k,) the instants, or None for a stationary problem;
    `values[name]` has shape (n, *field) or, with times, (k, n, *field);
    `cells` (c, d+1) are simplices over the nodes, for pictures and VTU files; `about` says how it was made.
    """

    x: np.ndarray
    values: dict[str, np.ndarray]
    times: np.ndarray | None = None
    cells: np.ndarray | None = None
    about: dict = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write a compressed `.npz`; numbers and text only."""
        arrays = {f"value:{name}": value for name, value in self.values.items()}
        arrays["x"] = self.x
        if self.times is not None:
            arrays["times"] = self.times
        if self.cells is not None:
            arrays["cells"] = self.cells
        arrays["about"] = np.frombuffer(json.dumps(self.about).encode(), np.uint8)
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> "Reference":
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = json.loads(arrays.pop("about").tobytes())
            values = {name[6:]: arrays[name] for name in arrays if name.startswith("value:")}
            return cls(arrays["x"], values, arrays.get("times"), arrays.get("cells"), about)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"'{path}' is not a reference file ({error}); make one with `hardpde reference PROBLEM`"
            ) from None
