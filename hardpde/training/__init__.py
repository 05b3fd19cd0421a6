"""Training: optimisers, the loop, checkpoints."""

from hardpde.training.fit import CHECKPOINT_SECONDS, Stage, Training, fit, fit_all, history_so_far
from hardpde.training.optimisers import adam, lbfgs, levenberg_marquardt, ssbroyden

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
