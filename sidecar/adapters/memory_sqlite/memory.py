"""The episode memory port over a SQLite file. A write is durable when its call returns."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from sidecar.adapters.idle_episodes import IdleEpisodes
from sidecar.adapters.memory_sqlite import rows
from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.sqlite import Schema, SqliteEngine
from sidecar.adapters.sqlite.known_keys import KnownKeys
from sidecar.core.definitions.prompt_size import estimated_tokens
from sidecar.core.errors import StoreUnavailable
from sidecar.core.history.compaction import outdated
from sidecar.core.history.message_layers import check_bodies
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot
from sidecar.operations.record.ports import CommitUnknown

PACKAGE: Final = "sidecar.adapters.memory_sqlite"
APPLICATION_ID: Final = 0x53436869
EPISODES: Final = (
    "SELECT episode_no, principal || char(31) || episode_id FROM history_episodes"
    " WHERE episode_no > ? ORDER BY episode_no LIMIT ?"
)
Report = Callable[[str, str], None]


def schema() -> Schema:
    """Return the kind of a file of conversations."""
    return Schema("conversations", APPLICATION_ID, load_migrations(PACKAGE))


class SqliteMemory:
    """Conversations in one file, which this process alone has open. The file is opened by the first call.

    Args:
        path: of the file; made if it is not there.
        keep_idle: whole episodes that nothing was added to for so long are removed, within an hour; None: kept.
        report: told what the engine could not do; for a log.
        now: the wall clock.
    """

    def __init__(
        self,
        path: Path,
        keep_idle: timedelta | None = None,
        report: Report = lambda doing, error: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Open nothing yet."""
        self._path = path
        self._keep_idle = keep_idle
        self._report = report
        self._idle = IdleEpisodes(self._forget, now, report, (StoreUnavailable, CommitUnknown))
        self._opening = asyncio.Lock()
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
                self._loading = asyncio.create_task(self._known.load(self._engine), name="load known episodes")
                if self._keep_idle is not None:
                    self._idle.start(self._keep_idle)
            return self._engine

    @property
    def knows_episodes(self) -> bool:
        """Whether it is known of new episodes that they are new."""
        return self._known.loaded

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn; one that is kept already is left as it is."""
        check_bodies(turn)
        self._known.note(_key(turn.episode))

        def work(connection: apsw.Connection) -> EpisodeSize:
            rows.insert_turn(connection, turn)
            return rows.size_in(connection, turn.episode) or EpisodeSize()

        return await (await self.open()).write(work)

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, oldest first."""
        return await (await self.open()).read(partial(rows.contents_in, key=episode, most=most_turns))

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest answers of one sub-agent, oldest first."""
        return await (await self.open()).read(partial(rows.own_turns_in, key=episode, slot=slot, most=most))

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return how much the episode is."""
        if self._known.lacks(_key(episode)):
            return EpisodeSize()
        return await (await self.open()).read(partial(rows.size_in, key=episode)) or EpisodeSize()

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary if it is the next one."""
        self._known.note(_key(episode))

        def work(connection: apsw.Connection) -> EpisodeSize:
            present = rows.replace_summary(connection, episode, summary, estimated_tokens(summary.text))
            if present is not None:
                raise outdated(present)
            return rows.size_in(connection, episode) or EpisodeSize()

        return await (await self.open()).write(work)

    async def forget_idle(self, idle: timedelta) -> int:
        """Remove whole episodes that nothing was added to for so long; returns how many."""
        return await self._idle.forget(idle)

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user, and rewrite the file so that no part of them remains."""
        engine = await self.open()
        removed = await engine.write(partial(rows.forget_user, principal=principal))
        await engine.compact()
        return removed

    async def close(self) -> None:
        """Give the file back; may be called twice."""
        self._closed = True
        await self._idle.close()
        async with self._opening:
            engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
        if self._loading is not None:
            await self._loading  # which a closed file ends

    async def _forget(self, before: datetime, most: int) -> int:
        return await (await self.open()).write(partial(rows.forget_idle, before=before, most=most))


def _key(episode: EpisodeKey) -> str:
    return f"{episode.principal}\x1f{episode.episode_id}"
