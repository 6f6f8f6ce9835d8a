"""The rows of lists in a separate SQLite file, so that writing them never holds the lock of the record.

All contents follow from the record: an unusable file is created again, and the projector fills it.
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
"""Where SQLite's header has it."""
DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)
FILES: Final = ("", "-wal", "-shm")

Result = TypeVar("Result")


@cache
def projection_schema() -> Schema:
    """Return what kind of file it is."""
    migrations = load_migrations("sidecar.adapters.record_sqlite.projection_migrations")
    return Schema("the rows of lists", APPLICATION_ID, migrations, _tuned)


def _tuned(connection: apsw.Connection) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may take the newest rows, with their watermarks
    connection.execute("PRAGMA secure_delete = ON")  # what names an erased user is overwritten


def projection_file(record: Path) -> Path:
    """Return where the rows are that belong to a record's file."""
    return record.with_name(f"{record.name}.lists")


def discard_projection(record: Path) -> None:
    """Remove the rows of a record that no process has open; the next sidecar derives them again. Raises `OSError`."""
    for end in FILES:
        projection_file(record).with_name(f"{projection_file(record).name}{end}").unlink(missing_ok=True)


class SqliteProjection:
    """The projection port. The file is opened when it is first needed: a start does not wait for it.

    Args:
        record: the file of the record, which this process holds.
        report: told what the disk did not do, and the name of the error; for a log.
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
        """Leave nothing to others: there are none."""

    async def watermarks(self) -> Watermarks:
        """Return up to where the journal was projected."""
        marks = await self._read(rows.watermarks)
        self._alterations = marks.alterations
        return marks

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Keep lines."""
        engine = await self._opened()
        if reached.alterations != self._alterations:
            await engine.empty_log()  # before it is said that nothing of what was erased is left

        def work(connection: apsw.Connection) -> None:
            if days or gone:
                rows.forget(connection, days, gone)
            rows.keep(connection, lines)
            rows.set_watermarks(connection, reached)

        try:
            await engine.write(lambda connection: self._watched(work, connection))
        except CommitUnknown:  # rows and watermarks are there, or neither: the next pass sees which
            raise StoreUnavailable("the disk does not confirm the rows of lists") from None
        self._alterations = reached.alterations

    async def clear(self) -> None:
        """Begin with a new file, so that it has no other fault than this one either."""
        async with self._opening:
            await self._remove()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return from how many facts lines were derived."""
        return await self._read(lambda connection: rows.versions(connection, turn_ids))

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return await self._read(lambda connection: rows.turns(connection, query, newer))

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return await self._read(lambda connection: rows.episodes(connection, limit, newer, before))

    async def close(self) -> None:
        """Give the file back."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    # --- the file

    async def _opened(self) -> SqliteEngine:
        async with self._opening:
            if self._damaged:
                self._report("read the rows of lists, which are made again", "damaged")
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
                self._report("use the rows of lists, which are made again", str(problem))
                await self._remove()
                return await SqliteEngine.open(self._path, projection_schema(), self._report)
        except (DatabaseProblem, OSError) as problem:
            raise StoreUnavailable(f"there are no lists: {problem}") from None

    def _refuse_foreign(self) -> None:
        """Leave a database of another kind alone. Raises `DatabaseProblem`."""
        try:
            with self._path.open("rb") as file:
                header = file.read(AT_OFFSET.stop)
        except OSError:
            return
        found = int.from_bytes(header[AT_OFFSET])
        if header.startswith(b"SQLite format 3\0") and found not in {0, APPLICATION_ID}:
            raise DatabaseProblem(f"{self._path} is a database of something else: take it away")

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
        """Run it, and detect a damaged file. In the engine's threads."""
        try:
            return work(connection)
        except DAMAGED:
            self._damaged = True
            raise
        except (ValueError, TypeError) as error:  # a row that no sidecar writes
            self._damaged = True
            raise apsw.CorruptError(str(error)) from None
