"""Training: optimisers, the loop, checkpoints."""

from hardpde.training.adam import adam
from hardpde.training.base import Stage, Training
from hardpde.training.fit import CHECKPOINT_SECONDS, fit, fit_all, history_so_far
from hardpde.training.lbfgs import lbfgs
from hardpde.training.levenberg_marquardt import levenberg_marquardt
from hardpde.training.ssbroyden import ssbroyden

OPTIMISERS = {
    "adam": adam,
    "lbfgs": lbfgs,
    "ssbroyden": ssbroyden,
    "levenberg_marquardt": levenberg_marquardt,
}

__all__ = [
    "CHECKPOINT_SECONDS", "OPTIMISERS", "Stage", "Training", "adam", "fit", "fit_all", "history_so_far", "lbfgs",
    "levenberg_marquardt", "ssbroyden",
]
