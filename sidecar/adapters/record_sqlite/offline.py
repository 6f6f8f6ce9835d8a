"""Reads the record of a file that a sidecar may have open, or of a copy of one: no lock, no thread, no change.

Every page is read on one state of the file; nothing is held between two pages, so that a running sidecar is not kept
from shortening its write-ahead log.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from sidecar.adapters.migrations import DatabaseProblem, pending
from sidecar.adapters.record_sqlite import archive, listing, reading
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite.opening import BUSY_MILLISECONDS
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import (
    ClosedChild,
    ClosedState,
    RetentionMarker,
    StoredChild,
    StoredTurn,
    TurnQuery,
    TurnRow,
)
from sidecar.core.identifiers import InstanceId, TurnId

Result = TypeVar("Result")
NOBODY = InstanceId("")


class OfflineSqliteRecord:
    """What verifying reads of a record. Made by `opened`. Every method raises `StoreUnavailable`."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        """Read from an open connection."""
        self._connection = connection
        self._path = path

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator["OfflineSqliteRecord"]:
        """Open a file for reading only.

        Raises:
            DatabaseProblem: it is not there, is no record, or is one of another version.
        """
        if not path.is_file():
            raise DatabaseProblem(f"{path} is not there, or is no file")
        try:
            connection = _connected(path)
        except apsw.Error as error:
            raise DatabaseProblem(f"{path} cannot be read as a SQLite database: {error}") from None
        try:
            yield cls(connection, path)
        finally:
            connection.close()

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running roots stand."""
        return self._read(archive.closed_states)

    async def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of a running root that are kept."""
        after = 0
        while page := self._closed_page(instance, after):
            for link in page:
                yield link
            after = page[-1].number

    async def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children."""
        after = ""
        while page := self._child_page(after):
            for child in page:
                yield child
            after = page[-1].opened.child_id

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker."""
        return self._read(archive.stored_markers)

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return self._read(lambda connection: listing.turn_rows(connection, query))

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        return self._read(lambda connection: reading.stored_turn(connection, turn_id, NOBODY))

    def _closed_page(self, instance: InstanceId, after: int) -> Sequence[ClosedChild]:
        return self._read(lambda connection: archive.closed_page(connection, instance, after))

    def _child_page(self, after: str) -> Sequence[StoredChild]:
        return self._read(lambda connection: archive.child_page(connection, after), f"the children after {after!r}")

    def _read(self, work: Callable[[apsw.Connection], Result], what: str = "the record") -> Result:
        try:
            self._connection.execute("BEGIN")  # one state for all of it
            try:
                return work(self._connection)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path}: {what} cannot be read: {error}") from None
        except (ValueError, TypeError) as error:
            raise StoreUnavailable(f"{self._path}: among {what} is a row that no sidecar writes: {error}") from None


def _connected(path: Path) -> apsw.Connection:
    connection = _reading(path, "mode=ro")
    try:
        connection.pragma("application_id")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        # A copy in a folder that nobody may write: there is nothing that could change it meanwhile.
        connection = _reading(path, "immutable=1")
    try:
        _check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _reading(path: Path, how: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?{how}", flags=flags)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    schema = record_schema()
    connection.execute("PRAGMA trusted_schema = OFF")
    if connection.pragma("application_id") != schema.application_id:
        raise DatabaseProblem(f"{path} is a database of something else than {schema.what}")
    applied = {
        int(str(number)): str(checksum)
        for number, checksum in connection.execute("SELECT number, checksum FROM schema_migrations")
    }
    if pending(schema.migrations, applied, str(path)):
        raise DatabaseProblem(
            f"{path} was written by an older sidecar: verify it with that one, or start this one on it"
        )
