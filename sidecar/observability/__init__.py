"""Metrics, logs and traces: what operations report, made visible."""
