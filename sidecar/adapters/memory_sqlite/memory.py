"""The episode memory (store of conversations) in a SQLite file. A write is durable when its call returns."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from sidecar.adapters.memory_tables import TabledMemory
from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.sqlite import Schema, SqliteEngine
from sidecar.adapters.sqlite.known_keys import KnownKeys
from sidecar.adapters.sqlite.statements import run, time_of
from sidecar.adapters.statements import Steps
from sidecar.core.errors import StoreUnavailable
from sidecar.core.history.records import EpisodeKey, EpisodeSize, Summary, TurnHistory
from sidecar.core.identifiers import Principal
from sidecar.operations.record.ports import CommitUnknown

PACKAGE: Final = "sidecar.adapters.memory_sqlite"
APPLICATION_ID: Final = 0x53436869
"""The text `SChi` as a number."""
EPISODES: Final = (
    "SELECT episode_no, principal || char(31) || episode_id FROM history_episodes"
    " WHERE episode_no > ? ORDER BY episode_no LIMIT ?"
)
"""A page of episodes for `KnownKeys`, with the same keys as `_key`: character 31 is `\\x1f`."""
Result = TypeVar("Result")
Report = Callable[[str, str], None]


def schema() -> Schema:
    """Return the schema of a file of conversations."""
    return Schema("conversations", APPLICATION_ID, load_migrations(PACKAGE))


class SqliteMemory(TabledMemory):
    """Conversations in one file, which this process alone has open. The file is opened by the first call.

    Args:
        path: the file; created if it does not exist.
        keep_idle: an episode is removed if nothing was added to it for this time; None: no episode is removed.
        report: receives failures of the engine; for a log.
        now: the wall clock.
    """

    def __init__(
        self,
        path: Path,
        keep_idle: timedelta | None = None,
        report: Report = lambda doing, error: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Create without opening the file; the first call opens it."""
        super().__init__(now, report, (StoreUnavailable, CommitUnknown))
        self._path = path
        self._keep_idle = keep_idle
        self._report = report
        self._opening = asyncio.Lock()  # the first calls come at once, and only one of them may open the file
        self._engine: SqliteEngine | None = None
        self._known = KnownKeys(EPISODES, 0)
        self._loading: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> SqliteEngine:
        """Open the file, once. Raises `DatabaseProblem`."""
        async with self._opening:
            if self._closed:
                raise StoreUnavailable("the episode memory is closed")
            if self._engine is None:
                self._engine = await SqliteEngine.open(self._path, schema(), self._report)
                # In the background: reading all keys of a large file takes seconds, and calls work without them.
                self._loading = asyncio.create_task(self._known.load(self._engine), name="load known episodes")
                if self._keep_idle is not None:
                    self._idle_remover.start(self._keep_idle)
            return self._engine

    @property
    def knows_episodes(self) -> bool:
        """Whether the keys of all stored episodes are in memory, so that new episodes are recognised without a read."""
        return self._known.loaded

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Store a turn; a turn that is stored already is not changed."""
        # Before the write: a bind that runs while the write waits must read the file, and not take the episode for new.
        self._known.note(_key(turn.episode))
        return await super().append(turn)

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return the size of the episode."""
        # A bind asks for the size of its episode. For a new episode it need not wait for the disk.
        return EpisodeSize() if self._known.lacks(_key(episode)) else await super().size(episode)

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary if it is the next one."""
        self._known.note(_key(episode))
        return await super().write_summary(episode, summary)

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user, and rewrite the file so that no part of them remains."""
        removed = await super().erase(principal)
        # SQLite only marks deleted pages as free; their bytes stay in the file until it is rewritten. Also if nothing
        # was removed: an earlier call may have ended between the removal and the rewrite.
        await (await self.open()).compact()
        return removed

    async def close(self) -> None:
        """Close the file; may be called twice."""
        # First, so that no call reopens the file after this method has taken the engine.
        self._closed = True
        # Before the engine: a removal that is running would find it closed.
        await self._idle_remover.close()
        async with self._opening:
            engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        if self._loading is not None:
            await self._loading  # the closed file ends it

    async def _read(self, work: Callable[[], Steps[Result]]) -> Result:
        return await (await self.open()).read(lambda connection: run(connection, work()))

    async def _write(self, work: Callable[[], Steps[Result]]) -> Result:
        return await (await self.open()).write(lambda connection: run(connection, work()))

    def _time(self, value: Any) -> datetime:
        return time_of(value)


def _key(episode: EpisodeKey) -> str:
    return f"{episode.principal}\x1f{episode.episode_id}"
