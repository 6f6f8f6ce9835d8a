"""Flags and cohort decide the surface of a turn."""
