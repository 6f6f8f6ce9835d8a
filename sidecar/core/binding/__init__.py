"""Decides the surface of a turn from flags and cohort."""
