"""Exports spans, log records and metrics over OTLP."""
