"""Builds the plugins that the settings select."""
