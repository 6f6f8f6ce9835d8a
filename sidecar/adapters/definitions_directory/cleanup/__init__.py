"""Reads a checkout of the configuration repository, and writes patches for it; never changes it."""
