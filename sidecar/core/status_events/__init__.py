"""Typed progress reports: which are known, and what the orchestrator's policy makes of each (PC2 §5.7)."""
