"""What several figures share."""

from matplotlib.axes import Axes

from hardpde.evaluation.figures.base import FAINT, GREY


def tidy(axis: Axes) -> None:
    """Lines across only, small numbers, no frame above and on the right."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, axis="y", color=FAINT, lw=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", labelsize=9, labelcolor=GREY, color=GREY)
