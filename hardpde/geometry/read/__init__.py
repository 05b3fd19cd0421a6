"""Shapes from files: airfoils, drawings, meshes, surfaces."""
