"""The record in a SQLite file: the embedded default, with nothing to install."""

from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.record_sqlite.store import SqliteRecord

__all__ = ["SqliteRecord", "record_schema"]
