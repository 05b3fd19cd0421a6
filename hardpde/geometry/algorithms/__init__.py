"""Algorithms on pieces and points: stacks of pieces, closest ones, gaps between them, samples."""
