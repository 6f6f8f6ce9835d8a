"""Reads and writes conversations in the episode memory."""
