"""Replays recorded turns."""
