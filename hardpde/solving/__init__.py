"""From a problem to its solution."""
