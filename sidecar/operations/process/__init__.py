"""Connects the operations to each other, and administers the sidecar as a process."""
