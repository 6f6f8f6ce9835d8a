"""Sidecars that are killed, paused and started again on one record, their clients, and what both are held to."""
