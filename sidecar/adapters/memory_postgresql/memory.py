"""The episode memory port over PostgreSQL, and its tables. Writes are durable and visible to every replica."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.idle_episodes import IdleEpisodes
from sidecar.adapters.memory_postgresql import rows
from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.postgresql import Connections, ConnectionTimeouts, redacted_dsn, upgrade_tables
from sidecar.adapters.postgresql.failures import ConnectionLost
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.errors import StoreUnavailable
from sidecar.core.history.compaction import outdated
from sidecar.core.history.message_layers import check_bodies
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot

PACKAGE: Final = "sidecar.adapters.memory_postgresql"
LOCK: Final = 0x53436869
"""Of the advisory lock under which they are made."""
TABLE: Final = "history_migrations"
Result = TypeVar("Result")
Report = Callable[[str, str], None]

CONNECTIONS: Final = 2


class PostgresMemory:
    """Conversations in the database at `dsn`; the first call makes their tables.

    Args:
        keep_idle: whole episodes that nothing was added to for so long are removed, within an hour; None: kept.
        report: told what could not be done; for a log.
        limits: of connections and statements; by default such that a pooler may stand between.
        now: the wall clock.
    """

    def __init__(
        self,
        dsn: str,
        keep_idle: timedelta | None = None,
        report: Report = lambda doing, error: None,
        limits: ConnectionTimeouts | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Connect to nothing yet."""
        self._dsn = dsn
        self._keep_idle = keep_idle
        self._connections = Connections(dsn, CONNECTIONS, limits or ConnectionTimeouts(pooled=True))
        self._idle = IdleEpisodes(self._forget, now, report, (StoreUnavailable, ConnectionLost, asyncpg.PostgresError))
        self._opening = asyncio.Lock()
        self._opened = False

    async def open(self) -> None:
        """Make the tables, once. Raises `DatabaseProblem`, `StoreUnavailable`."""
        if self._opened:
            return
        async with self._opening:
            if not self._opened:
                await self._connections.run(self._upgrade)
                self._opened = True
                if self._keep_idle is not None:
                    self._idle.start(self._keep_idle)

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn; one that is kept already is left as it is."""
        check_bodies(turn)
        return await self._run(lambda connection: rows.insert_turn(connection, turn))

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, oldest first."""
        return await self._run(lambda connection: rows.contents_of(connection, episode, most_turns))

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest answers of one sub-agent, oldest first."""
        return await self._run(lambda connection: rows.own_turns_of_one(connection, episode, slot, most))

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return how much the episode is."""
        return await self._run(lambda connection: rows.size_of_episode(connection, episode))

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary if it is the next one."""

        async def work(connection: Any) -> EpisodeSize:
            written = await rows.replace_summary(connection, episode, summary, estimated_tokens(summary.text))
            if isinstance(written, int):
                raise outdated(written)
            return written

        return await self._run(work)

    async def forget_idle(self, idle: timedelta) -> int:
        """Remove whole episodes that nothing was added to for so long; returns how many."""
        return await self._idle.forget(idle)

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user."""
        return await self._run(lambda connection: rows.forget_user(connection, principal))

    async def close(self) -> None:
        """Give the connections up; may be called twice."""
        await self._idle.close()
        self._connections.close()

    async def _upgrade(self, connection: Any) -> None:
        await upgrade_tables(connection, load_migrations(PACKAGE), redacted_dsn(self._dsn), TABLE, LOCK)

    async def _run(self, work: Callable[[Any], Awaitable[Result]]) -> Result:
        """Do something in one transaction, on one state of the database."""
        await self.open()

        async def in_transaction(connection: Any) -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self._connections.run(in_transaction)

    async def _forget(self, before: datetime, most: int) -> int:
        return await self._run(lambda connection: rows.forget_idle(connection, before, most))
