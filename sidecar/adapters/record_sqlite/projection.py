"""The rows of lists in a separate SQLite file, so that writing them never delays an append to the record.

The record determines all contents: an unusable file is created again, and the projector fills it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import apsw

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem, load_migrations
from sidecar.adapters.record_sqlite import projected_rows as rows
from sidecar.adapters.sqlite import Schema, SqliteEngine
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import Newer, TurnLine
from sidecar.operations.record.ports import CommitUnknown

APPLICATION_ID: Final = 0x5343_5031
"""`SCP1`."""
AT_OFFSET: Final = slice(68, 72)
"""Position of the application id in SQLite's header."""
DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)
FILES: Final = ("", "-wal", "-shm")

Result = TypeVar("Result")


@cache
def projection_schema() -> Schema:
    """Return the schema of the file."""
    migrations = load_migrations("sidecar.adapters.record_sqlite.projection_migrations")
    return Schema("the rows of lists", APPLICATION_ID, migrations, _tuned)


def _tuned(connection: apsw.Connection) -> None:
    # A power cut may lose the newest commits. Each contains its watermarks, so the projector repeats exactly those.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")  # rows of an erased user are overwritten, not only unlinked


def projection_file(record: Path) -> Path:
    """Return the path of the lists that belong to a record's file."""
    return record.with_name(f"{record.name}.lists")


def discard_projection(record: Path) -> None:
    """Remove the lists of a record that no process has open; the next sidecar derives them again. Raises `OSError`."""
    for end in FILES:
        projection_file(record).with_name(f"{projection_file(record).name}{end}").unlink(missing_ok=True)


class SqliteProjection:
    """Implements the interface `Projection`. The file is opened when it is first needed: a start does not wait for it.

    Args:
        record: the file of the record, which this process holds.
        report: receives a failed operation and the name of the error, for a log.
    """

    def __init__(self, record: Path, report: Callable[[str, str], None]) -> None:
        """Begin without a file."""
        self._record = record
        self._path = projection_file(record)
        self._report = report
        self._opening = asyncio.Lock()
        self._engine: SqliteEngine | None = None
        self._damaged = False
        self._alterations: int | None = None

    async def mine(self) -> None:
        """Return None, which means all instances: no other process projects this journal."""

    async def watermarks(self) -> Watermarks:
        """Return the position up to which the journal was projected."""
        marks = await self._read(rows.watermarks)
        self._alterations = marks.alterations
        return marks

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Store lines and watermarks. See the port."""
        engine = await self._opened()
        if reached.alterations != self._alterations:
            # Before the new count of alterations is stored: it states that no erased text is left, in the log either.
            await engine.empty_log()

        def work(connection: apsw.Connection) -> None:
            if days or gone:
                rows.forget(connection, days, gone)
            rows.keep(connection, lines)
            rows.set_watermarks(connection, reached)

        try:
            await engine.write(lambda connection: self._watched(work, connection))
        except CommitUnknown:  # rows and watermarks are both stored or both not: the next pass reads the watermarks
            raise StoreUnavailable("the disk does not confirm the lists") from None
        self._alterations = reached.alterations

    async def clear(self) -> None:
        """Begin with a new file, because the old one may have further damage."""
        async with self._opening:
            await self._remove()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return the number of facts from which each line was derived."""
        return await self._read(lambda connection: rows.versions(connection, turn_ids))

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return await self._read(lambda connection: rows.turns(connection, query, newer))

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return await self._read(lambda connection: rows.episodes(connection, limit, newer, before))

    async def close(self) -> None:
        """Close the file."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    # --- the file

    async def _opened(self) -> SqliteEngine:
        async with self._opening:
            # Under the lock: two concurrent reads that find the damage must not both remove the file, of which the
            # first may be open again already.
            if self._damaged:
                self._report("read the lists, which are rebuilt", "damaged")
                await self._remove()
            if self._engine is None:
                self._engine = await self._open()
            return self._engine

    async def _open(self) -> SqliteEngine:
        try:
            try:
                return await SqliteEngine.open(self._path, projection_schema(), self._report)
            except DatabaseHeld:
                raise
            except DatabaseProblem as problem:
                self._refuse_foreign()
                self._report("use the lists, which are rebuilt", str(problem))
                await self._remove()
                return await SqliteEngine.open(self._path, projection_schema(), self._report)
        # Lists are not needed to serve turns: a caller gets an error, and the next call tries again.
        except (DatabaseProblem, OSError) as problem:
            raise StoreUnavailable(f"the lists are not available: {problem}") from None

    def _refuse_foreign(self) -> None:
        """Leave a database of another kind alone. Raises `DatabaseProblem`."""
        try:
            with self._path.open("rb") as file:
                header = file.read(AT_OFFSET.stop)
        except OSError:
            return
        found = int.from_bytes(header[AT_OFFSET])
        if header.startswith(b"SQLite format 3\0") and found not in {0, APPLICATION_ID}:
            raise DatabaseProblem(f"{self._path} is a database of another kind: move it away")

    async def _remove(self) -> None:
        await self.close()
        self._damaged, self._alterations = False, None
        try:
            await asyncio.to_thread(discard_projection, self._record)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be removed: {error.strerror}") from None

    async def _read(self, work: Callable[[apsw.Connection], Result]) -> Result:
        engine = await self._opened()
        return await engine.read(lambda connection: self._watched(work, connection))

    def _watched(self, work: Callable[[apsw.Connection], Result], connection: apsw.Connection) -> Result:
        """Run `work`, and detect a damaged file. In one of the engine's threads."""
        try:
            return work(connection)
        except DAMAGED:
            self._damaged = True
            raise
        except (ValueError, TypeError) as error:  # a row that no sidecar writes
            self._damaged = True
            raise apsw.CorruptError(str(error)) from None
