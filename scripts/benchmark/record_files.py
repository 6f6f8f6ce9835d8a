"""What the files of a record in SQLite say while a sidecar has them open."""

from pathlib import Path
from typing import Final

import apsw

RECORD: Final = "record.sqlite"
LISTS: Final = f"{RECORD}.lists"


def facts_not_listed(folder: Path) -> int:
    """Return how many facts on record the projector has not taken yet."""
    taken = _number(folder / LISTS, "SELECT coalesce(max(number), 0) FROM watermarks")
    return _number(folder / RECORD, "SELECT coalesce(max(number), 0) FROM facts") - taken


def _number(database: Path, sql: str) -> int:
    """Ask a database that a sidecar has open; 0 if it is not there yet."""
    if not database.exists():
        return 0
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        number: int = connection.execute(sql).get
        return number
    finally:
        connection.close()
