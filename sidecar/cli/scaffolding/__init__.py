"""Writes new projects from templates."""
