"""Training: optimisers, the loop, checkpoints."""

from hardpde.training.fit import Stage, Training, fit
from hardpde.training.optimisers import adam, lbfgs, levenberg_marquardt, ssbroyden

OPTIMISERS = {
    "adam": adam,
    "lbfgs": lbfgs,
    "ssbroyden": ssbroyden,
    "levenberg_marquardt": levenberg_marquardt,
}

__all__ = ["OPTIMISERS", "Stage", "Training", "adam", "fit", "lbfgs", "levenberg_marquardt", "ssbroyden"]
