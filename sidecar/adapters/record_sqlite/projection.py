"""Stores the rows of the lists of turns in a SQLite file of their own, so that their writes do not delay the record.

All contents are derived from the record. A damaged file is therefore removed and created again, and the projector fills
it.
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
"""The text `SCP1` as a number."""
AT_OFFSET: Final = slice(68, 72)
"""The position of the application id in the header of a SQLite file."""
DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)
FILES: Final = ("", "-wal", "-shm")
"""Ends of the names of a database file, its write-ahead log, and the log's index."""

Result = TypeVar("Result")


@cache
def projection_schema() -> Schema:
    """Return the schema of the file."""
    migrations = load_migrations("sidecar.adapters.record_sqlite.projection_migrations")
    return Schema("the rows of lists", APPLICATION_ID, migrations, _set_options)


def _set_options(connection: apsw.Connection) -> None:
    # NORMAL, which is faster: a power cut may lose the newest commits. Each commit contains its watermarks, so the
    # projector repeats exactly the lost ones.
    connection.execute("PRAGMA synchronous = NORMAL")
    # Deleted rows are overwritten, so that the file keeps nothing of an erased user.
    connection.execute("PRAGMA secure_delete = ON")


def projection_file(record: Path) -> Path:
    """Return the path of the lists that belong to a record's file."""
    return record.with_name(f"{record.name}.lists")


def discard_projection(record: Path) -> None:
    """Remove the lists of a record that no process has open. The next sidecar derives them again. Raises `OSError`."""
    # All files: a log without its database file, or beside another database file, would be damage.
    for end in FILES:
        projection_file(record).with_name(f"{projection_file(record).name}{end}").unlink(missing_ok=True)


class SqliteProjection:
    """Implements `Projection`. The file is opened when it is first needed, so that a start does not wait for it.

    Args:
        record: the file of the record, whose lock this process has.
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
        """Set by the engine's threads; the event loop then replaces the file at the next call."""
        self._alterations: int | None = None
        """The count in the file, as of the last read or write; None: unknown."""

    async def mine(self) -> None:
        """Return None, which means the facts of all instances: no other process projects this journal."""

    async def watermarks(self) -> Watermarks:
        """Return the positions up to which the journal was projected."""
        marks = await self._read(rows.watermarks)
        self._alterations = marks.alterations
        return marks

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Store lines and watermarks in one transaction, after removing the lines of `days` and of the turns `gone`."""
        engine = await self._open_once()
        if reached.alterations != self._alterations:
            # The new count of alterations states that no erased text is left. The erased rows were overwritten by
            # earlier calls, but the log still has older copies of their pages. It is therefore emptied before the count
            # is stored.
            await engine.empty_log()

        def work(connection: apsw.Connection) -> None:
            if days or gone:
                rows.forget(connection, days, gone)
            rows.keep(connection, lines)
            rows.set_watermarks(connection, reached)

        try:
            await engine.write(lambda connection: self._run_noting_damage(work, connection))
        # Either both lines and watermarks are stored or neither. The next pass reads the watermarks.
        except CommitUnknown:
            raise StoreUnavailable("the disk does not confirm the lists") from None
        self._alterations = reached.alterations

    async def clear(self) -> None:
        """Remove the file and begin with a new one."""
        async with self._opening:
            await self._remove()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return the version of each stored line, by turn."""
        return await self._read(lambda connection: rows.versions(connection, turn_ids))

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns, newest first."""
        return await self._read(lambda connection: rows.turns(connection, query, newer))

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes that were used last."""
        return await self._read(lambda connection: rows.episodes(connection, limit, newer, before))

    async def close(self) -> None:
        """Close the file."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    # --- the file

    async def _open_once(self) -> SqliteEngine:
        async with self._opening:
            # Under the lock: of two reads that find the damage, the second must not remove the new file of the first.
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
                raise  # the file is intact, and another process uses it: it must not be removed
            except DatabaseProblem as problem:
                self._refuse_foreign()
                self._report("use the lists, which are rebuilt", str(problem))
                await self._remove()
                return await SqliteEngine.open(self._path, projection_schema(), self._report)
        # Turns are served without lists, so only the caller gets an error. The next call tries again.
        except (DatabaseProblem, OSError) as problem:
            raise StoreUnavailable(f"the lists are not available: {problem}") from None

    def _refuse_foreign(self) -> None:
        """Raise `DatabaseProblem` if the file is a database of another kind, which must not be removed."""
        try:
            with self._path.open("rb") as file:
                header = file.read(AT_OFFSET.stop)
        except OSError:  # absent or not readable: nothing proves that the file is foreign
            return
        application_id = int.from_bytes(header[AT_OFFSET])
        # 0 is the id of a file whose creation was interrupted.
        if header.startswith(b"SQLite format 3\0") and application_id not in {0, APPLICATION_ID}:
            raise DatabaseProblem(f"{self._path} is a database of another kind: move it away")

    async def _remove(self) -> None:
        await self.close()
        self._damaged, self._alterations = False, None
        try:
            await asyncio.to_thread(discard_projection, self._record)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be removed: {error.strerror}") from None

    async def _read(self, work: Callable[[apsw.Connection], Result]) -> Result:
        engine = await self._open_once()
        return await engine.read(lambda connection: self._run_noting_damage(work, connection))

    def _run_noting_damage(self, work: Callable[[apsw.Connection], Result], connection: apsw.Connection) -> Result:
        """Run `work` in one of the engine's threads, and note that the file is damaged if it proves to be."""
        try:
            return work(connection)
        except DAMAGED:
            self._damaged = True
            raise
        # The row was not written by a sidecar, or was changed since.
        except (ValueError, TypeError) as error:
            self._damaged = True
            raise apsw.CorruptError(str(error)) from None
