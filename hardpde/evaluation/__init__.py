"""What an answer is worth: errors, the certificate of its conditions; figures, reports and files of it."""

from hardpde.evaluation.certificate import certify, random_models, violation

__all__ = ["certify", "random_models", "violation"]
