"""Removes a definition permanently, in five steps."""
