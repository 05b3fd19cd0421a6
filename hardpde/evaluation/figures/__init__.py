"""Figures of domains, solutions and trainings."""
