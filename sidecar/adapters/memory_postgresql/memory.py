"""The episode memory (store of conversations) in PostgreSQL. Writes are durable and visible to every replica."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.memory_tables import TabledMemory
from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.postgresql import Connection, Connections, ConnectionTimeouts, redacted_dsn, upgrade_tables
from sidecar.adapters.postgresql.failures import ConnectionLost
from sidecar.adapters.postgresql.statements import run
from sidecar.adapters.statements import Steps
from sidecar.core.errors import StoreUnavailable

PACKAGE: Final = "sidecar.adapters.memory_postgresql"
LOCK: Final = 0x53436869
"""The advisory lock that is held while the tables are created or changed."""
TABLE: Final = "history_migrations"
Result = TypeVar("Result")
Report = Callable[[str, str], None]

CONNECTIONS: Final = 2
"""Connections to the database: one is usually enough, the second serves while the first removes idle episodes."""


class PostgresMemory(TabledMemory):
    """Conversations in the database at `dsn`; the first call creates their tables.

    Args:
        keep_idle: an episode is removed if nothing was added to it for this time; None: no episode is removed.
        report: receives failures; for a log.
        limits: timeouts of connections and statements; the default works with a connection pooler.
        now: the wall clock.
    """

    # Each replica removes idle episodes. A locked one is just being used, or removed by another replica.
    skip_locked = "for update skip locked"

    def __init__(
        self,
        dsn: str,
        keep_idle: timedelta | None = None,
        report: Report = lambda doing, error: None,
        limits: ConnectionTimeouts | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Create without a connection; the first call connects."""
        super().__init__(now, report, (StoreUnavailable, ConnectionLost, asyncpg.PostgresError))
        self._dsn = dsn
        self._keep_idle = keep_idle
        self._connections = Connections(dsn, CONNECTIONS, limits or ConnectionTimeouts(pooled=True))
        # The first calls of several turns come at once; one of them creates the tables, and the others wait for it.
        self._opening = asyncio.Lock()
        self._opened = False

    async def open(self) -> None:
        """Create the tables, once. Raises `DatabaseProblem`, `StoreUnavailable`."""
        # Without the lock: this is the usual case, at each call.
        if self._opened:
            return
        async with self._opening:
            if not self._opened:
                await self._connections.run(self._upgrade)
                self._opened = True  # only now: after a failure the next call tries again
                if self._keep_idle is not None:
                    self._idle_remover.start(self._keep_idle)

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._idle_remover.close()
        self._connections.close()

    async def _upgrade(self, connection: Any) -> None:
        await upgrade_tables(connection, load_migrations(PACKAGE), redacted_dsn(self._dsn), TABLE, LOCK)

    async def _read(self, work: Callable[[], Steps[Result]]) -> Result:
        # A transaction of the isolation level `read committed` is enough, although each of its statements sees what was
        # committed before that statement. A turn is inserted in one transaction, and `TabledMemory` ignores the rows of
        # turns that the statement for the turns did not return. If the episode is removed between two statements, turns
        # are returned without their answers; the next read finds no episode.
        return await self._write(work)

    async def _write(self, work: Callable[[], Steps[Result]]) -> Result:
        await self.open()

        async def in_transaction(connection: Connection) -> Result:
            async with connection.transaction():
                return await run(connection.fetch, work())

        return await self._connections.run(in_transaction)

    def _time(self, value: Any) -> datetime:
        time: datetime = value
        return time
