"""Numbered SQL files that make and change the tables of a database; the same code for every dialect."""

from sidecar.adapters.migrations.files import DatabaseHeld, DatabaseProblem, Migration, load_migrations
from sidecar.adapters.migrations.pending import pending

__all__ = ["DatabaseHeld", "DatabaseProblem", "Migration", "load_migrations", "pending"]
