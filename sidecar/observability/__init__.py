"""Metrics, logs and traces of the operations."""
