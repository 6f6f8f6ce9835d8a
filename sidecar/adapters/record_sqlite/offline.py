"""Reads a SQLite record, or a copy of it, for `sidecar verify-log`, while a sidecar may have it open.

It takes no lock and changes nothing. Each page is read in its own transaction, and none is open between two pages, so
that the running sidecar can empty its write-ahead log.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from sidecar.adapters.migrations import DatabaseProblem, pending
from sidecar.adapters.record_sqlite import archive
from sidecar.adapters.record_sqlite.archive import SqliteArchiveReads
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite.opening import BUSY_MILLISECONDS
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnFacts

Result = TypeVar("Result")


class OfflineSqliteRecord(SqliteArchiveReads):
    """Reads a record for its verification. Create it with `opened`. Every method may raise `StoreUnavailable`."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        """Read from an open connection."""
        self._connection = connection
        self._path = path

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator["OfflineSqliteRecord"]:
        """Open a file for reading only.

        Raises:
            DatabaseProblem: the file does not exist, is not a record, or has another version.
        """
        if not path.is_file():
            raise DatabaseProblem(f"{path} does not exist, or is not a file")
        try:
            connection = _open(path)
        except apsw.Error as error:
            raise DatabaseProblem(f"{path} cannot be read as a SQLite database: {error}") from None
        try:
            yield cls(connection, path)
        finally:
            connection.close()

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn, with their derived values."""
        return await self._read(lambda connection: archive.turn_as_stored(connection, turn_id), f"turn {turn_id}")

    async def _read(self, work: Callable[[apsw.Connection], Result], what: str = "the record") -> Result:
        return self.read(work, what)

    def read(self, work: Callable[[apsw.Connection], Result], what: str = "the record") -> Result:
        """Run `work` on one state of the file, and return its result.

        Args:
            work: reads from the connection.
            what: the name of what it reads, for messages.

        Raises:
            StoreUnavailable: the file cannot be read, or contains a row that no sidecar writes.
        """
        try:
            self._connection.execute("BEGIN")  # all statements of `work` see the same state
            try:
                return work(self._connection)
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")  # nothing was written: it only ends the snapshot
        except apsw.Error as error:
            raise StoreUnavailable(f"{self._path}: {what} cannot be read: {error}") from None
        except (ValueError, TypeError) as error:
            raise StoreUnavailable(f"{self._path}: {what} contains a row that no sidecar writes: {error}") from None


def _open(path: Path) -> apsw.Connection:
    connection = _open_read_only(path, "mode=ro")
    try:
        connection.pragma("application_id")  # SQLite opens a file at the first statement
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        # The log may have facts that are not in the file yet. Without them an old state would be verified.
        if path.with_name(f"{path.name}-wal").exists():
            raise
        # The folder is read-only, and SQLite cannot create the log's index there. As no process can change the file
        # either, it is safe to read it without a log.
        connection = _open_read_only(path, "immutable=1")
    try:
        _check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_read_only(path: Path, how: str) -> apsw.Connection:
    # SQLite itself refuses writes, so that not even a defect of this code can change the evidence.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path.absolute()))}?{how}", flags=flags)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


def _check(connection: apsw.Connection, path: Path) -> None:
    schema = record_schema()
    # The file may come from elsewhere. Its schema must not call functions.
    connection.execute("PRAGMA trusted_schema = OFF")
    if connection.pragma("application_id") != schema.application_id:
        raise DatabaseProblem(f"{path} is a database of another kind, not {schema.what}")
    applied = {
        int(str(number)): str(checksum)
        for number, checksum in connection.execute("SELECT number, checksum FROM schema_migrations")
    }
    if pending(schema.migrations, applied, str(path)):
        raise DatabaseProblem(
            f"{path} was written by an older sidecar: verify it with that version, or start this version with it once"
        )
