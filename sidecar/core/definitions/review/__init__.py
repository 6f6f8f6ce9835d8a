"""Checks a change of a configuration repository before it is merged."""
