"""Reads and switches the flags of definitions."""
