"""The database port over a SQLite file."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from sidecar.adapters.record_sqlite import archive, listing, reading
from sidecar.adapters.record_sqlite.appending import Appending
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.chain import NOTHING
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, Record
from sidecar.core.executing.stored_record import (
    ClosedChild,
    ClosedState,
    EpisodeRow,
    RetentionMarker,
    StoredChild,
    StoredTurn,
    TurnQuery,
    TurnRow,
)
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId

Result = TypeVar("Result")
Report = Callable[[str, str], None]


class SqliteRecord:
    """The record in one file, which no other process has open: whoever appended before is dead.

    Made by `open`, or over an engine that is open already.

    Args:
        engine: of a file with `record_schema`.
        instance: who appends; a new one at each start.
    """

    def __init__(self, engine: SqliteEngine, instance: InstanceId) -> None:
        self._engine = engine
        self._instance = instance

    @classmethod
    async def open(cls, path: Path, instance: InstanceId, report: Report) -> "SqliteRecord":
        """Open the file, make it if it is not there, and go on with it as `instance`.

        `report` is told what the disk did not do, and the name of the error; for a log.

        Raises:
            DatabaseProblem: it cannot be used; says why and what to do.
            StoreUnavailable, CommitUnknown: it cannot be written just now.
        """
        engine = await SqliteEngine.open(path, record_schema(), report)
        record = cls(engine, instance)
        try:
            await record.begin()
        except BaseException:
            await engine.close()
            raise
        return record

    async def begin(self) -> None:
        """Put the instance on record. Raises `StoreUnavailable` and `CommitUnknown`."""
        await self._engine.write(partial(_begin, instance=self._instance))

    @property
    def engine(self) -> SqliteEngine:
        """The file, for what else is kept in it."""
        return self._engine

    @property
    def instance(self) -> InstanceId:
        """Who appends."""
        return self._instance

    async def commit(self, records: Sequence[Record]) -> None:
        """Append one group in one transaction. See the port."""
        await self._engine.write(lambda connection: Appending(connection, self._instance).append(records))

    async def renew_lease(self) -> None:
        """Do nothing: the lock on the file says who is alive."""

    async def close(self) -> None:
        """Give the file back."""
        await self._engine.close()

    async def back_up(self, target: Path) -> None:
        """Copy the record as it is now to a new file, while writing goes on. Raises `DatabaseProblem`."""
        await self._engine.back_up(target)

    # --- reads of running turns

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        return await self._read(lambda connection: reading.stored_turn(connection, turn_id, self._instance))

    async def child_events(self, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        return await self._read(lambda connection: reading.stored_events(connection, child_id))

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        return await self._read(lambda connection: reading.stored_routing(connection, turn_id))

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last ended turn that called any."""
        return await self._read(lambda connection: reading.last_called(connection, episode_id))

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches that nobody goes on with."""
        return await self._read(lambda connection: reading.left_behind(connection, self._instance, limit))

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        return await self._read(lambda connection: reading.overdue(connection, now, limit))

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return await self._read(lambda connection: listing.turn_rows(connection, query))

    async def episodes(self, limit: int) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return await self._read(lambda connection: listing.episode_rows(connection, limit))

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn."""
        return await self._read(lambda connection: reading.attempts(connection, turn_id))

    # --- archive: what is long is read in pages, each on one state

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running roots stand."""
        return await self._read(archive.closed_states)

    async def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of a running root that are kept."""
        after = 0
        while page := await self._read(partial(archive.closed_page, instance=instance, after=after)):
            for link in page:
                yield link
            after = page[-1].number

    async def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children."""
        after = ""
        while page := await self._read(partial(archive.child_page, after=after)):
            for child in page:
                yield child
            after = page[-1].opened.child_id

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker."""
        return await self._read(archive.stored_markers)

    async def purgeable(self, closed_before: datetime) -> Sequence[ClosedState]:
        """Return up to where everything is old enough."""
        found = []
        for state in await self.closed_states():
            at, last, more = ClosedState(state.instance, 0, NOTHING), None, True
            while more:
                step = partial(archive.purgeable_page, state=at, closed_before=closed_before)
                reached, more = await self._read(step)
                at = last = reached or last or at
            if last is not None and last.number > 0:
                found.append(last)
        return found

    async def purge(self, markers: Sequence[RetentionMarker]) -> int:
        """Keep the markers, and remove what they cover."""
        return await self._engine.write(lambda connection: archive.purge(connection, markers))

    async def purge_childless(self, before: datetime) -> int:
        """Remove some of the turns without children."""
        return await self._engine.write(lambda connection: archive.purge_childless(connection, before))

    async def purge_frames(self, before: datetime) -> int:
        """Remove what runners sent."""
        return await self._engine.write(lambda connection: archive.purge_frames(connection, before))

    async def _read(self, work: Callable[[apsw.Connection], Result]) -> Result:
        return await self._engine.read(work)


def _begin(connection: apsw.Connection, instance: InstanceId) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO instances (instance, began_at, closed_root)"
        " VALUES (?, CAST(unixepoch('subsec') * 1000000 AS INTEGER), ?)",
        (instance, NOTHING),
    )
