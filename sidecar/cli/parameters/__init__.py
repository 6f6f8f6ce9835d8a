"""Parses the parameters of commands."""
