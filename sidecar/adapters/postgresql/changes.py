"""Informs subscribers when this or another sidecar has committed a change to the PostgreSQL database.

A notification of PostgreSQL is only a hint, because connection poolers and dead networks lose notifications. The
version number in the database decides. It is read after each hint, and once a second in any case. The read
once a second also detects a dead connection.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg

from sidecar.adapters.postgresql.connections import Connection, ConnectionTimeouts, connected
from sidecar.adapters.postgresql.failures import AGAIN, BROKEN
from sidecar.core.errors import StoreUnavailable

EVERY: Final = 1.0
"""Seconds between two reads of the version without a hint."""
SPACING: Final = 0.02
"""Minimum seconds between two notifications of this process. PostgreSQL sends the notifications of all connections one
after the other, so many of them would delay commits."""


class Changes:
    """One connection that listens for notifications and informs subscribers.

    Args:
        dsn: the address of the database, a URL.
        channel: the name of the notifications; lower-case letters and underscores.
        version: a statement that returns one number, which every commit increases.
        limits: time limits of the connection and its statements.
    """

    def __init__(self, dsn: str, channel: str, version: str, limits: ConnectionTimeouts) -> None:
        """Begin without listeners."""
        self._dsn = dsn
        self._channel = channel
        self._version_sql = version
        self._limits = limits
        self._woken = asyncio.Event()
        self._to_announce = False
        self._subscribers: list[Callable[[], None]] = []
        self._seen: Any = None
        """The last version that was read. Kept when the connection breaks, so that a commit meanwhile is noticed."""
        self._connection: Connection | None = None

    @contextmanager
    def subscribed(self, changed: Callable[[], None]) -> Iterator[None]:
        """While the context is open, call `changed` soon after each commit. It must neither raise nor wait."""
        self._subscribers.append(changed)
        try:
            yield
        finally:
            self._subscribers.remove(changed)

    def announce(self) -> None:
        """Notify the other sidecars of a commit. Several calls in quick succession become one notification."""
        self._to_announce = True
        self._woken.set()

    async def run(self) -> None:
        """Listen until the connection breaks, then raise `StoreUnavailable`. The caller calls it again later."""
        connection = self._connection = await connected(self._dsn, self._limits)
        try:
            await self._within_limit(connection.add_listener(self._channel, self._note_hint))
            while True:
                # Cleared before the version is read: a hint during the read sets the event again, for another read.
                self._woken.clear()
                # Notified here and not in the transaction of the change: all commits with a notification take one lock
                # of the database, so they would wait for each other.
                if self._to_announce:
                    # Before the notification: a commit during it needs another one. If the notification is lost, other
                    # sidecars see the change with their next read of the version.
                    self._to_announce = False
                    await self._within_limit(connection.execute("select pg_notify($1, '')", self._channel))
                await self._check_version(connection)
                await asyncio.sleep(SPACING)
                await self._until_woken()
        # A time limit counts, too: on a dead network, the read once a second is the only sign of it.
        except (*BROKEN, asyncpg.PostgresError):
            raise StoreUnavailable("the connection that listens for changes broke", retry_after=AGAIN) from None
        finally:
            self._connection = None
            connection.terminate()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.terminate()

    async def _check_version(self, connection: Connection) -> None:
        version = await self._within_limit(connection.fetchval(self._version_sql))
        if version != self._seen:
            self._seen = version
            # A copy of the list, because a subscriber may unsubscribe during the loop.
            for changed in list(self._subscribers):
                changed()

    async def _until_woken(self) -> None:
        try:
            async with asyncio.timeout(EVERY):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _within_limit(self, work: Any) -> Any:
        async with asyncio.timeout(self._limits.statement):
            return await work

    def _note_hint(self, *_: object) -> None:
        self._woken.set()
