"""Builds the operators' listener and its access rules."""
