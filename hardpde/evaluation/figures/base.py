"""What figures share: colours, frames, scales; and how one gets into a page."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from hardpde.support.files import replacing

FIELD, ERROR = "viridis", "magma_r"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#444444")
INK, GREY, FAINT = "#1f2933", "#6b7785", "#d9dee4"
Cells = np.ndarray | None


def new_figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", dpi=110, facecolor="white")


def data_uri(figure: Figure, kind: str, dpi: int, **options: Any) -> str:
    """A figure as text that stands in a page in place of the address of a picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi, **options)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def save_figure(figure: Figure, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def colour_table(name: str) -> np.ndarray:
    """256 colours from the least to the largest value, (256, 3) bytes."""
    return np.asarray(255 * colormaps[name](np.linspace(0, 1, 256))[:, :3], np.uint8)


def colourbar(figure: Figure, drawn: Any, axes: list[Axes], values: np.ndarray, label: str = "") -> None:
    """The scale of all `values`; arrows and their range say that some lie beyond it."""
    low, high = drawn.get_clim()
    finite = values[np.isfinite(values)]
    least, most = (finite.min(), finite.max()) if finite.size else (low, high)
    slack = 0.02 * (high - low)
    below, above = bool(least < low - slack), bool(most > high + slack)
    words = {(False, False): ("neither", ""), (True, False): ("min", f"down to {least:.3g}"),
             (False, True): ("max", f"up to {most:.3g}"), (True, True): ("both", f"from {least:.3g} to {most:.3g}")}
    extend, beyond = words[below, above]
    bar = figure.colorbar(drawn, ax=axes, label=label, fraction=0.05, pad=0.02, aspect=30, extend=extend)
    if beyond:
        bar.set_label(f"{label}  {beyond}".strip(), color=GREY, size=8)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(length=2, labelsize=8, color=GREY)


def frame(axis: Axes, x: np.ndarray) -> None:
    """Equal scales, and limits at the domain's own."""
    (left, bottom), (right, top) = x[:, :2].min(axis=0), x[:, :2].max(axis=0)
    if left < right and bottom < top:
        axis.set(xlim=(left, right), ylim=(bottom, top))
    axis.set_aspect("equal")
    axis.locator_params(nbins=5)
    quiet(axis)


def quiet(axis: Axes) -> None:
    """Leave the field alone on the page: no frame, small ticks."""
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.tick_params(length=2, labelsize=8, color=FAINT, labelcolor=GREY)


def as_nodes(x: ArrayLike) -> np.ndarray:
    nodes = np.asarray(x, float)
    if nodes.ndim != 2 or not nodes.shape[1] or not len(nodes):
        raise ValueError(f"points have shape {nodes.shape}; pass an array (n, d)")
    return nodes


def as_cells(cells: ArrayLike | None) -> Cells:
    return None if cells is None else np.asarray(cells)
