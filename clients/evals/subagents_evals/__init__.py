"""Measures routing: labelled conversations through the real orchestrator and a real sidecar, and results for gates."""
