"""The record in a SQLite file of one process."""

from sidecar.adapters.record_sqlite.journal import SqliteJournal
from sidecar.adapters.record_sqlite.projection import SqliteProjection, discard_projection, projection_file
from sidecar.adapters.record_sqlite.schema import record_schema

__all__ = ["SqliteJournal", "SqliteProjection", "discard_projection", "projection_file", "record_schema"]
