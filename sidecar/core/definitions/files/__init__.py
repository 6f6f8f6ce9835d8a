"""Reads parsed configuration files into registries and reports every problem with file and line."""
