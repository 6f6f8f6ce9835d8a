"""Audit sinks, each behind a boundary."""
