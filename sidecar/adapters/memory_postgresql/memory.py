"""The episode memory port over PostgreSQL, and its tables. Writes are durable and visible to every replica."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.memory_postgresql import rows
from sidecar.adapters.migrations import load_migrations, pending
from sidecar.adapters.postgresql import Connections, ConnectionTimeouts, redacted_dsn
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
APPLIED: Final = "select number, checksum from history_migrations"


async def upgrade_history(connection: Any, dsn: str) -> None:
    """Apply the steps that the database lacks, in one transaction and one sidecar at a time.

    Raises:
        DatabaseProblem: it is of another version.
    """
    steps = load_migrations(PACKAGE)
    there = await connection.fetchval("select to_regclass('history_migrations')") is not None
    if there and not pending(steps, dict(await connection.fetch(APPLIED)), redacted_dsn(dsn)):
        return  # so that a user who may not change the schema can start
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(
            "create table if not exists history_migrations (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        for step in pending(steps, dict(await connection.fetch(APPLIED)), redacted_dsn(dsn)):
            await connection.execute(step.sql)
            await connection.execute(
                "insert into history_migrations (number, name, checksum) values ($1, $2, $3)",
                *(step.number, step.name, step.checksum),
            )


Result = TypeVar("Result")
Report = Callable[[str, str], None]

CONNECTIONS: Final = 2
SWEEP_SECONDS: Final = 3600.0
AT_ONCE: Final = 100
"""Episodes removed in one transaction: others write in between."""


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
        self._report = report
        self._now = now
        self._connections = Connections(dsn, CONNECTIONS, limits or ConnectionTimeouts(pooled=True))
        self._opening = asyncio.Lock()
        self._opened = False
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the tables, once. Raises `DatabaseProblem`, `StoreUnavailable`."""
        if self._opened:
            return
        async with self._opening:
            if not self._opened:
                await self._connections.run(lambda connection: upgrade_history(connection, self._dsn))
                self._opened = True
                if self._keep_idle is not None:
                    self._sweeping = asyncio.create_task(self._sweep(self._keep_idle), name="forget idle episodes")

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
        removed, before = 0, self._now() - idle
        while gone := await self._run(lambda connection: rows.forget_idle(connection, before, AT_ONCE)):
            removed += gone
        return removed

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user."""
        return await self._run(lambda connection: rows.forget_user(connection, principal))

    async def close(self) -> None:
        """Give the connections up; may be called twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
            self._sweeping = None
        self._connections.close()

    async def _run(self, work: Callable[[Any], Awaitable[Result]]) -> Result:
        """Do something in one transaction, on one state of the database."""
        await self.open()

        async def in_transaction(connection: Any) -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self._connections.run(in_transaction)

    async def _sweep(self, idle: timedelta) -> None:
        while True:
            try:
                await self.forget_idle(idle)
            except (StoreUnavailable, ConnectionLost, asyncpg.PostgresError) as error:
                self._report("forget idle episodes", type(error).__name__)
            await asyncio.sleep(SWEEP_SECONDS)
