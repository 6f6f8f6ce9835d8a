"""Builds the plugins that the settings choose."""
