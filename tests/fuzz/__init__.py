"""Fuzz targets: one for each parser that takes bytes from outside. See docs/torture.md."""
