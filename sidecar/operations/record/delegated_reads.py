"""Delegates the reads of a record to another store: a base class for stores that change only the writes.

A subclass overrides the methods for appends and inherits the rest.
"""

from collections.abc import Sequence
from datetime import datetime

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, ListPage, StoredTurn, TurnQuery, TurnRow
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.listing.changes import Changes, Watermarks
from sidecar.operations.record.ports import RecordReads


class DelegatedReads:
    """`RecordReads` that delegates every call to `source`. See the port for results and errors."""

    def __init__(self, source: RecordReads) -> None:
        self._source = source

    @property
    def instance(self) -> InstanceId:
        """The id under which this process appends."""
        return self._source.instance

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        return await self._source.turn(turn_id)

    async def child_events(self, turn_id: TurnId, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        return await self._source.child_events(turn_id, child_id)

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        return await self._source.routing_record(turn_id)

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last turn that called any."""
        return await self._source.last_dispatching_turn(episode_id)

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId | None]]:
        """Return dispatches whose owner is dead."""
        return await self._source.left_behind(limit)

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns that have expired."""
        return await self._source.overdue_turns(now, limit)

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended."""
        return await self._source.open_turns(limit, before)

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list of turns."""
        return await self._source.turns(query)

    async def episodes(self, limit: int, before: EpisodeMark | None = None) -> ListPage[EpisodeRow]:
        """Return the episodes used last."""
        return await self._source.episodes(limit, before)

    async def changed(self, after: Watermarks, limit: int) -> Changes:
        """Return the turns of the next facts."""
        return await self._source.changed(after, limit)

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        return await self._source.facts(turn_id)

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn."""
        return await self._source.attempts(turn_id)
