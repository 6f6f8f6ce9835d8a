"""Tells those who watch a turn that this process has put something of it on record.

Only a hint: what another process appends comes without one, so whoever watches looks from time to time, too.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, Record
from sidecar.core.executing.stored import EpisodeRow, StoredTurn, TurnQuery, TurnRow
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId
from sidecar.operations.record_ports import Store


class RecordHints:
    """Who watches which turn. Costs a look into an empty dictionary while nobody does."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._watchers: dict[TurnId, list[asyncio.Event]] = {}

    @property
    def watching(self) -> int:
        """How many watch."""
        return sum(len(wakers) for wakers in self._watchers.values())

    @contextmanager
    def watched(self, turn_id: TurnId) -> Iterator[asyncio.Event]:
        """Watch a turn; gives what is set whenever something of it was appended."""
        waker = asyncio.Event()
        wakers = self._watchers.setdefault(turn_id, [])
        wakers.append(waker)
        try:
            yield waker
        finally:
            wakers.remove(waker)
            if not wakers:
                del self._watchers[turn_id]

    def appended(self, records: Sequence[Record]) -> None:
        """Wake who watches the turns of `records`."""
        if not self._watchers:
            return
        for record in records:
            turn_id = record.run_id if isinstance(record, ChildEvent) else record.turn_id
            for waker in self._watchers.get(turn_id, ()):
                waker.set()


class HintingStore:
    """A store whose appends are followed by a hint."""

    def __init__(self, store: Store, hints: RecordHints) -> None:
        """Join the parts."""
        self._store = store
        self._hints = hints

    @property
    def waits(self) -> bool:
        """Say whether `append` may have to wait for anything."""
        return self._store.waits

    async def append(self, records: Sequence[Record]) -> None:
        """Append, then say so. See the port."""
        await self._store.append(records)
        self._hints.appended(records)

    # --- reading: the store's own

    @property
    def instance(self) -> InstanceId:
        """The id under which this process appends."""
        return self._store.instance

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""
        return await self._store.turn(turn_id)

    async def child_events(self, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        return await self._store.child_events(child_id)

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        return await self._store.routing_record(turn_id)

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last turn that called any."""
        return await self._store.last_dispatching_turn(episode_id)

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches whose owner is dead."""
        return await self._store.left_behind(limit)

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns whose parent is lost."""
        return await self._store.overdue_turns(now, limit)

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return await self._store.turns(query)

    async def episodes(self, limit: int) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return await self._store.episodes(limit)

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn."""
        return await self._store.attempts(turn_id)
