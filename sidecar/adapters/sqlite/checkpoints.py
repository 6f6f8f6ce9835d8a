"""Moves the contents of SQLite's write-ahead log into the database file, in a separate thread.

SQLite calls this a checkpoint; it has nothing to do with the signed checkpoints of the record. No commit waits for a
checkpoint, except while a very large log is emptied.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

import apsw

from sidecar.adapters.sqlite.opening import close_failed
from sidecar.adapters.sqlite.worker import Worker

PAGES: Final = 4000
"""Pages in the log (about 4 MB) from which a checkpoint begins."""
LARGEST: Final = 64 * 1024 * 1024
"""Size of the log in bytes above which the checkpoint also empties it. Writers wait meanwhile."""
PATIENCE_MILLISECONDS: Final = 100
"""Maximum time for which emptying the log waits for readers. Writers wait meanwhile, and give up after a second."""


class Checkpoints:
    """Makes a checkpoint when the log has enough pages. A failure is reported, and the next commit tries again.

    Args:
        path: the database file.
        connect: opens a connection; called in the thread.
        report: receives failures; called in the thread.
        pages: the number of pages in the log from which a checkpoint begins.
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], apsw.Connection],
        report: Callable[[str, Exception], None],
        pages: int = PAGES,
    ) -> None:
        """Start the thread."""
        self._log = path.with_name(path.name + "-wal")
        self._connect = connect
        self._report = report
        self._pages = pages
        self._connection: apsw.Connection | None = None
        self._worker = Worker(f"{path.name} checkpoints")
        # A flag that one thread sets and another one clears, so no `with` can be used.
        self._requested = Lock()

    def committed(self, pages: int) -> None:
        """Start a checkpoint if the log has enough pages. Called in the writer's thread after each commit."""
        # The lock is held until the checkpoint ends. Otherwise each commit in the meantime would queue another one.
        if pages >= self._pages and self._requested.acquire(blocking=False):
            self._worker.submit(self._requested_checkpoint)

    async def close(self) -> None:
        """Empty the log, and end the thread."""
        # In the thread of the checkpoints, so the last one begins only after a running one has ended.
        await self._worker.run(partial(self._checkpoint, last=True))
        self._worker.stop()

    def _requested_checkpoint(self) -> None:
        try:
            self._checkpoint()
        finally:
            self._requested.release()

    def _checkpoint(self, *, last: bool = False) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
                # Shorter than for other connections, because commits wait as long as this connection waits for readers.
                self._connection.set_busy_timeout(PATIENCE_MILLISECONDS)
            # PASSIVE moves as many pages as possible without blocking a connection. TRUNCATE also empties the log.
            empties = last or self._log.stat().st_size > LARGEST
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if empties else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.Error, OSError) as error:
            # After a failed fsync, another fsync of the same file handle would falsely succeed.
            self._drop()
            self._report("move the write-ahead log into the database file", error)
        if last:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        close_failed(connection)
