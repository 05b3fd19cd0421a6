"""Finite-element references (NGSolve, imported only when used)."""
