"""Solving without training: features that stay, and the last layer by least squares."""
