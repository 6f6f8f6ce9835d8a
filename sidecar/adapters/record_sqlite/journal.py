"""The journal (append-only log of facts) in a SQLite file, which one process at a time has open."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import apsw

from sidecar.adapters.record_sqlite import archive, changes_since, reading
from sidecar.adapters.record_sqlite.appending import Appending
from sidecar.adapters.record_sqlite.archive import SqliteArchiveReads
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.adapters.sqlite.known_keys import KnownKeys
from sidecar.core.identifiers import DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import RootState, TurnAppend, TurnFacts
from sidecar.core.journal.entries import AttemptFrames
from sidecar.core.journal.markers import Erasure, FactsRemoved
from sidecar.core.listing.changes import Changes, Watermarks

EPISODES: Final = """
SELECT episode_id, episode_id FROM turns WHERE called = 1 AND episode_id > ?
  GROUP BY episode_id ORDER BY episode_id LIMIT ?
"""
"""A page of the episodes with a turn that called a sub-agent. `KnownKeys` expects a position and a key in each row; an
episode's id is both."""
Result = TypeVar("Result")
Report = Callable[[str, str], None]
PAGE: Final = 50
"""Maximum number of turns that one read of `left_behind` loads."""


class SqliteJournal(SqliteArchiveReads):
    """Implements `Journal` in one file. This process has the lock of the file, so all earlier instances are dead.

    The base class adds the reads for verification.

    Create it with `open`, or directly with an open engine.

    Args:
        engine: a database with the schema `record_schema`.
        instance: the id of this run of the sidecar, which is new at each start.
    """

    waits = True  # an append waits for the writer's thread and the disk
    shared = False  # the lock of the file excludes other processes, so states in memory are always current

    def __init__(self, engine: SqliteEngine, instance: InstanceId) -> None:
        self._engine = engine
        self._instance = instance
        self._appending = Appending(instance)
        self._episodes = KnownKeys(EPISODES, "")
        self._newest_at_start = 0
        """Number of the newest turn at the start of this instance. Later turns have no work of earlier instances."""
        self._looked_up_to = 0
        """Number of the last turn that `left_behind` has loaded."""
        self._left: list[TurnId] = []
        """Open turns of earlier instances that may have unsettled dispatches."""

    @classmethod
    async def open(cls, path: Path, instance: InstanceId, report: Report) -> "SqliteJournal":
        """Open or create the file, and append to it as `instance`.

        `report` receives each failed disk operation and the name of its error, for the log.

        Raises:
            DatabaseProblem: the file cannot be used; the message says why and what to do.
            StoreUnavailable, CommitUnknown: the file cannot be written at the moment.
        """
        engine = await SqliteEngine.open(path, record_schema(), report)
        record = cls(engine, instance)
        try:
            await record.begin()
        except BaseException:  # also a cancellation: the lock of the file must not outlive it
            await engine.close()
            raise
        return record

    async def begin(self) -> None:
        """Record the instance. Raises `StoreUnavailable` and `CommitUnknown`."""
        self._newest_at_start = await self._engine.write(partial(_begin, instance=self._instance))

    async def load_episodes(self) -> None:
        """Load the ids of episodes with calls. Afterwards `last_called` of any other episode needs no read."""
        await self._episodes.load(self._engine)

    @property
    def engine(self) -> SqliteEngine:
        """The database engine, for other stores in the same file."""
        return self._engine

    @property
    def instance(self) -> InstanceId:
        """Id of the instance that appends."""
        return self._instance

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Append facts in one transaction; return for each turn whether its facts were stored."""
        for each in appends:
            # Before the write, which may fail: `_episodes` may have an episode too many, but must not lack one.
            if each.index is not None and each.index.called:
                self._episodes.note(each.index.episode_id)
        try:
            return await self._engine.write(lambda connection: self._append(connection, appends))
        except BaseException:  # also if the commit failed, which `_append` does not see
            self._appending.forget()  # the cache contains numbers and roots that were not stored
            raise

    def _append(self, connection: apsw.Connection, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        try:
            return self._appending.append(connection, appends)
        except BaseException:
            # Also here, in the writer's thread: if its caller was cancelled, `append` may have discarded the cache
            # before this method ran, and this method may have filled the cache again.
            self._appending.forget()
            raise

    async def renew_lease(self) -> None:
        """Do nothing: the lock on the file replaces the lease."""

    async def close(self) -> None:
        """Close the file and release its lock."""
        await self._engine.close()

    async def back_up(self, target: Path) -> None:
        """Copy the present record to a new file while writes continue. Raises `DatabaseProblem`."""
        await self._engine.back_up(target)

    # --- reads

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        facts = await self._read(lambda connection: reading.turn_facts(connection, turn_id))
        # No other instance is alive: each of them has lost the lock of the file.
        return TurnFacts(tuple(facts), frozenset({self._instance}))

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return the recorded runner frames of a turn."""
        return await self._read(lambda connection: reading.turn_frames(connection, turn_id))

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the episode's last turn with a sub-agent call."""
        if self._episodes.lacks(episode_id):
            return None
        return await self._read(lambda connection: reading.last_called(connection, episode_id))

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId | None]]:
        """Return dispatches without a living owner. None instead of a dispatch: the turn cannot be read.

        Only turns that were open before this start can have such dispatches.
        """
        while self._looked_up_to < self._newest_at_start:
            page = partial(reading.open_turns, after=self._looked_up_to, up_to=self._newest_at_start, limit=PAGE)
            # In pages, because the reader's thread also serves requests, which would wait for one long read.
            turns = await self._read(page)
            self._left += [turn_id for _, turn_id in turns]
            self._looked_up_to = turns[-1][0] if turns else self._newest_at_start
        dispatches: list[tuple[TurnId, DispatchId | None]] = []
        remaining: list[TurnId] = []
        for index, turn_id in enumerate(self._left):
            if len(dispatches) >= limit:
                remaining += self._left[index:]
                break
            unsettled = await self._read(partial(reading.unsettled_of_others, turn_id=turn_id, instance=self._instance))
            if unsettled:
                # A turn stays in the list until a read shows that nothing of it is left: a takeover may fail.
                dispatches += unsettled
                remaining.append(turn_id)
        # Only turns of earlier instances can be left behind, so no turn is ever added to the list.
        self._left = remaining
        return dispatches[:limit]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns that are past their deadline, because their consumer-agent did not end them."""
        return await self._read(lambda connection: reading.overdue(connection, now, limit))

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended."""
        return await self._read(lambda connection: reading.newest_open(connection, limit, before))

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return the turns of the next facts after these watermarks. See the port."""
        # `only` is for journals with a sequence for each instance; this one has a single sequence.
        return await self._read(lambda connection: changes_since.changed(connection, after, limit))

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns whose texts were erased."""
        return await self._read(changes_since.erased_turns)

    # --- retention, erasure and search

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of the days that retention may remove."""
        return await self._read(lambda connection: archive.removable(connection, ended_before))

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Store the markers and remove the facts of their days, in one transaction."""
        try:
            return await self._engine.write(lambda connection: archive.remove(connection, markers))
        finally:
            self._appending.forget()  # the cache may contain numbers and roots of removed turns and days

    async def turns_saying(self, text: str) -> AsyncIterator[TurnId]:
        """Iterate over the turns whose texts contain `text`."""
        after: int | None = 0
        while after is not None:
            after, turns = await self._read(partial(archive.page_saying, text=text, after=after))
            for turn_id in turns:
                yield turn_id

    async def erase(self, erasure: Erasure) -> None:
        """Store the marker and remove the texts, in one transaction."""
        # The cache of `Appending` stays valid: an erasure changes no number, link or root.
        await self._engine.write(lambda connection: archive.erase(connection, erasure))

    async def compact(self) -> None:
        """Rewrite the file without erased data, and truncate the write-ahead log."""
        await self._engine.compact()

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove the runner frames of turns that ended before this time."""
        return await self._engine.write(lambda connection: archive.remove_frames(connection, ended_before))

    async def _read(self, work: Callable[[apsw.Connection], Result], what: str = "") -> Result:
        # `what` is only for the messages of the offline reader, which has the same base class.
        return await self._engine.read(work)


def _begin(connection: apsw.Connection, instance: InstanceId) -> int:
    """Store the instance, if it is not stored yet, and return the number of the newest turn."""
    connection.execute(
        "INSERT OR IGNORE INTO instances (instance, began_at)"
        " VALUES (?, CAST(unixepoch('subsec') * 1000000 AS INTEGER))",
        (instance,),
    )
    newest: int = connection.execute("SELECT coalesce(max(number), 0) FROM turns").get
    return newest
