"""Comparisons, timings, and the experiments of the paper."""
