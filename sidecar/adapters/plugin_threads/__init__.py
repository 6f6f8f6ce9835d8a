"""Keeps each instance of an installed plugin in a thread of its own."""
