"""Reads, exports and retains the audit of rollouts."""
