"""Typed progress reports: the known types, and the platform's policy for each (PC2 §5.7)."""
