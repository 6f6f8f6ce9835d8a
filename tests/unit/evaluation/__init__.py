"""Scores, and the statistics of ramps."""
