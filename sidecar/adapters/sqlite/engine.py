"""Runs transactions on one SQLite file that only this process has open. Errors contain no text of SQLite."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Final, TypeVar

import apsw
from msgspec import Struct

from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.sqlite.checkpoints import PAGES, Checkpoints
from sidecar.adapters.sqlite.opening import Schema, check_version, close_failed, connect, held, rewrite_log, upgrade
from sidecar.adapters.sqlite.worker import Worker
from sidecar.core.errors import StoreUnavailable
from sidecar.operations.record.ports import CommitUnknown

AGAIN: Final = timedelta(seconds=1)  # the delay before a retry that callers are told

MEANING: Final[Mapping[type[apsw.Error], str]] = MappingProxyType(
    {
        apsw.FullError: "the disk is full: free space, and the sidecar resumes by itself",
        apsw.IOError: "the disk does not read or write",
        apsw.BusyError: "another process holds the database file",
        apsw.LockedError: "another process holds the database file",
        apsw.InterruptError: "it took too long",
        apsw.CorruptError: "the database file is damaged: stop the sidecar and restore a backup",
        apsw.NotADBError: "the database file is damaged: stop the sidecar and restore a backup",
        apsw.ReadOnlyError: "the database file cannot be written",
        apsw.CantOpenError: "the database file cannot be opened",
        apsw.PermissionsError: "the database file cannot be opened",
        apsw.NoMemError: "there is no memory left",
    }
)
"""Errors of the environment. Any other error is a defect of the statement, and is propagated unchanged."""

HARMLESS: Final = (apsw.FullError, apsw.BusyError, apsw.LockedError, apsw.InterruptError)
"""Errors after which a connection stays usable. After a failed fsync, the next one would falsely succeed."""


def unavailable(error: apsw.Error, doing: str) -> StoreUnavailable | None:
    """Return the error for the caller; None if the error is a defect of the sidecar."""
    meaning = next((text for kind, text in MEANING.items() if isinstance(error, kind)), None)
    return None if meaning is None else StoreUnavailable(f"cannot {doing}: {meaning}", retry_after=AGAIN)


Result = TypeVar("Result")
Work = Callable[[apsw.Connection], Result]
Report = Callable[[str, str], None]
"""Receives a failed operation and the name of the error. Called on the event loop; for a log."""

READ_SECONDS: Final = 1.0
"""The longest time for one read: the write-ahead log grows while it runs."""
STEPS: Final = 10_000
"""Steps of SQLite's virtual machine between two checks of the time."""
CLOSE_SECONDS: Final = 10.0  # a hung disk must not prevent the process from ending
TRIES: Final = 5
"""Attempts to empty the log. Each waits a second for readers, which pin the log."""


class Tuning(Struct, frozen=True):
    """Parameters that only tests change, to simulate a broken disk.

    Attributes:
        vfs: name of the file system that SQLite uses; None: its own.
        checkpoint_pages: a write-ahead log of this many pages is moved into the database file.
    """

    vfs: str | None = None
    checkpoint_pages: int = PAGES


DEFAULT: Final = Tuning()


class SqliteEngine:
    """Runs all write transactions in one thread and all reads in another. Created by `open`.

    One writer thread makes the order of commits the order of the queue, and avoids `SQLITE_BUSY` within the process. A
    separate reader keeps slow queries from delaying commits: in WAL mode readers do not block the writer.

    Args:
        path: of the file, whose lock `opened` holds.
    """

    def __init__(self, path: Path, schema: Schema, report: Report, tuning: Tuning, opened: ExitStack) -> None:
        """Start the threads."""
        self._path = path
        self._schema = schema
        self._vfs = tuning.vfs
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._log_failure = report
        self._writer = Worker(f"{path.name} writer")
        self._reader = Worker(f"{path.name} reader")
        self._writing: apsw.Connection | None = None
        self._reading: apsw.Connection | None = None
        self._index_keeper: apsw.Connection | None = None
        """Keeps the log's index alive, and does nothing else.

        Without an open connection the next one rebuilds the index from the log, and would treat the pages of a failed
        commit as committed. A repeated append would then find them and confirm facts that were never synced.
        """
        self._read_until = 0.0  # time of `monotonic` at which the present read is interrupted
        self._checkpoints = Checkpoints(path, self._connect, self._report, tuning.checkpoint_pages)

    @classmethod
    async def open(cls, path: Path, schema: Schema, report: Report, tuning: Tuning = DEFAULT) -> "SqliteEngine":
        """Open `path`, create it if it is absent, and upgrade its schema.

        Raises:
            DatabaseProblem: the file cannot be used; the message names cause and remedy.
        """
        check_version()
        with ExitStack() as opening:
            opening.enter_context(held(path))
            engine = cls(path, schema, report, tuning, opening.pop_all())  # `close` now releases the lock
        try:
            await engine._writer.run(engine._begin)
        except BaseException:  # also a cancellation: threads and lock must not outlive it
            await engine.close()
            raise
        return engine

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` in one transaction, which is durable on return. An exception of `work` rolls it back.

        Raises:
            StoreUnavailable: nothing was stored.
            CommitUnknown: the commit failed in a way that leaves open whether it was stored.
        """
        return await self._writer.run(lambda: self._write(work))

    async def read(self, work: Work[Result]) -> Result:
        """Run the read-only `work` on one snapshot. Raises `StoreUnavailable`, also after a second."""
        return await self._reader.run(lambda: self._read(work))

    async def empty_log(self) -> None:
        """Move all committed pages into the file and truncate the log. Raises `StoreUnavailable`."""
        await self._writer.run(self._empty_log)

    async def back_up(self, target: Path) -> None:
        """Copy the database as it is now to a new file, while writes continue.

        Raises:
            DatabaseProblem: the target exists already, or cannot be written.
        """
        from sidecar.adapters.sqlite.backup import back_up  # noqa: PLC0415  no start needs it

        worker = Worker(f"{self._path.name} backup")
        try:
            await worker.run(lambda: back_up(self._path, target))
        finally:
            worker.stop()

    async def compact(self) -> None:
        """Rewrite the file, so that neither file nor log keep deleted content. Raises `StoreUnavailable`."""
        await self._writer.run(self._compact)

    async def close(self) -> None:
        """Complete the queued work and release the file. Never raises."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                # Readers first: an open read transaction pins the log, and the last checkpoint could not empty it.
                await self._reader.run(self._drop_reading)
                await self._checkpoints.close()
                await self._writer.run(self._drop_all_writing)
        except Exception as error:  # noqa: BLE001 - the process stops in any case
            self._log_failure("close the database", type(error).__name__)
        finally:
            self._reader.stop()
            self._writer.stop()
            self._opened.close()

    # --- in the writer's thread

    def _begin(self) -> None:
        try:
            rewrite_log(self._path, self._vfs)
            upgrade(self._writing_connection(), self._schema, str(self._path))
            self._index_keeper = self._connect()
            # A connection opens the log lazily; only after a read does it keep the index alive.
            self._index_keeper.execute("SELECT count(*) FROM schema_migrations").fetchall()
        except (apsw.NotADBError, apsw.CorruptError):
            raise DatabaseProblem(f"{self._path} is damaged, or not a SQLite database: restore a backup") from None
        except apsw.Error as error:
            problem = unavailable(error, f"open {self._path}")
            if problem is None:
                raise
            raise DatabaseProblem(str(problem)) from None

    def _writing_connection(self) -> apsw.Connection:
        if self._writing is None:
            self._writing = self._connect()
            self._writing.set_wal_hook(self._note_commit)  # `_connect` has turned SQLite's own checkpoints off
        return self._writing

    def _connect(self) -> apsw.Connection:
        return connect(self._path, self._schema, self._vfs)

    def _write(self, work: Work[Result]) -> Result:
        try:
            writing = self._writing_connection()
            writing.execute("BEGIN IMMEDIATE")  # a deferred transaction could read first, and then fail to lock
            result = work(writing)
        except BaseException as error:
            self._undo(error)
            if isinstance(error, apsw.Error) and (problem := unavailable(error, "write")) is not None:
                self._report("write", error)
                raise problem from None
            raise
        try:
            writing.execute("COMMIT")
        except apsw.Error as error:
            self._undo(error)
            self._report("commit", error)
            if isinstance(error, HARMLESS):  # they occur before the commit's last frame is whole: nothing is kept
                raise unavailable(error, "write") or error from None
            # It is unknown whether the pages reached the disk; `_undo` has closed the connection for the same reason.
            raise CommitUnknown(type(error).__name__) from None
        return result

    def _compact(self) -> None:
        try:
            self._writing_connection().execute("VACUUM")
        except apsw.Error as error:
            self._undo(error)
            self._report("compact", error)
            raise unavailable(error, "compact") or error from None
        for _ in range(TRIES - 1):
            with suppress(StoreUnavailable):  # a read in the way ends within `READ_SECONDS`
                return self._empty_log()
        return self._empty_log()

    def _empty_log(self) -> None:
        try:
            self._writing_connection().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            self._report("empty the write-ahead log", error)
            raise unavailable(error, "empty the write-ahead log") or error from None

    def _undo(self, error: BaseException) -> None:
        """Roll back the rest of the transaction; close a connection that can no longer be trusted."""
        connection, trusted = self._writing, not isinstance(error, apsw.Error) or isinstance(error, HARMLESS)
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            trusted = False
        if not trusted:
            self._drop_writing()

    def _note_commit(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._checkpoints.committed(pages)
        return apsw.SQLITE_OK

    def _drop_all_writing(self) -> None:
        self._drop_writing()
        close_failed(self._index_keeper)

    def _drop_writing(self) -> None:
        connection, self._writing = self._writing, None
        close_failed(connection)

    # --- in the reader's thread

    def _read(self, work: Work[Result]) -> Result:
        self._read_until = monotonic() + READ_SECONDS
        try:
            if self._reading is None:
                self._reading = connect(self._path, self._schema, self._vfs, read_only=True)
                self._reading.set_progress_handler(lambda: monotonic() > self._read_until, STEPS)
            self._reading.execute("BEGIN")  # one snapshot for all statements of `work`
            result = work(self._reading)
            self._reading.execute("COMMIT")
        except BaseException as error:
            self._drop_reading()  # ends the snapshot, which would pin the log; the next read connects again
            if isinstance(error, apsw.Error) and (problem := unavailable(error, "read")) is not None:
                self._report("read", error)
                raise problem from None
            raise
        return result

    def _drop_reading(self) -> None:
        connection, self._reading = self._reading, None
        close_failed(connection)

    # --- in any thread

    def _report(self, doing: str, error: Exception) -> None:
        try:
            self._loop.call_soon_threadsafe(self._log_failure, doing, type(error).__name__)
        except RuntimeError:
            return  # the loop has closed, so no caller waits any more
