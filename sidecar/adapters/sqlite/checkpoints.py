"""Moves the contents of SQLite's write-ahead log into the database file (a checkpoint), in a separate thread.

No commit waits for a checkpoint, except while a log that has become very large is emptied.
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
"""Pages of the log (4 MB) from which its contents are moved into the file."""
LARGEST: Final = 64 * 1024 * 1024
"""Bytes of the log above which writers wait briefly while it is emptied."""
PATIENCE_MILLISECONDS: Final = 100
"""The longest time for which emptying the log waits for readers. Writers wait meanwhile, and wait for a second at
most."""


class Checkpoints:
    """Moves pages when there are enough of them. A failure is reported, and the next commit tries again.

    Args:
        path: of the database file.
        connect: opens a connection; called in the thread.
        report: receives failures; called in the thread.
        pages: a log of this many pages is moved.
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
        self._asked = Lock()

    def committed(self, pages: int) -> None:
        """Start a checkpoint if the log has enough pages. Called in the writer's thread after each commit."""
        # The lock is held from here until the checkpoint ends, so that commits do not queue one each.
        if pages >= self._pages and self._asked.acquire(blocking=False):
            self._worker.submit(self._asked_for)

    async def close(self) -> None:
        """Empty the log, and end the thread."""
        await self._worker.run(partial(self._checkpoint, last=True))
        self._worker.stop()

    def _asked_for(self) -> None:
        try:
            self._checkpoint()
        finally:
            self._asked.release()

    def _checkpoint(self, *, last: bool = False) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._connection.set_busy_timeout(PATIENCE_MILLISECONDS)
            whole = last or self._log.stat().st_size > LARGEST
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if whole else apsw.SQLITE_CHECKPOINT_PASSIVE
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.Error, OSError) as error:
            self._drop()  # after a failed fsync, another fsync of the same handle would falsely succeed
            self._report("move the write-ahead log into the database file", error)
        if last:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        close_failed(connection)
