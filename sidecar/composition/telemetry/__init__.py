"""Connects metrics, logs and traces to collectors and background reports."""
