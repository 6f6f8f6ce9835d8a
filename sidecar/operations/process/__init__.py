"""Joins the operations to each other, and looks after the sidecar as a process."""
