"""The kind of database file that holds the record."""

from functools import cache
from typing import Final

from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.sqlite import Schema

APPLICATION_ID: Final = 0x5343_5231
"""The text `SCR1` as a number."""


@cache
def record_schema() -> Schema:
    """Return the schema of the record. The SQL files are read once."""
    return Schema("the record", APPLICATION_ID, load_migrations("sidecar.adapters.record_sqlite.migrations"))
