"""Counts the calls that users have left today for sub-agents with a daily limit.

The count is read from the record each time, so it holds across restarts and replicas. In this process, dispatches of
one user are counted one after the other: the calls of one are recorded before the next one is counted. Two replicas
may count at the same moment and together admit too many calls: for each further replica at most the calls of one
dispatch.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from sidecar.core.dispatching.daily_limits import CallsLeft, day_of
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery, TurnRow
from sidecar.core.identifiers import DispatchId, Principal, Slot
from sidecar.operations.ports import Clock
from sidecar.operations.record.ports import RecordReads

MOST_ROWS = 1000
"""Turns that are read for one count; a user with more of them in a day has no calls left."""


class CallCounts(Protocol):
    """Returns how many calls of a slot a user has made today."""

    async def left(self, principal: Principal, dispatch_id: DispatchId, slot: Slot, limit: int) -> int | None:
        """Return how many of `limit` calls are left; None if that is unknown."""


class RecordedCallCounts:
    """Counts the children that are on record.

    A turn counts for the day on which it began, and a child once it is on record: calls that wait for others to end do
    not count before they begin.
    """

    def __init__(self, reads: RecordReads, clock: Clock, patience: timedelta) -> None:
        self._reads, self._clock, self._patience = reads, clock, patience

    async def left(self, principal: Principal, dispatch_id: DispatchId, slot: Slot, limit: int) -> int | None:
        """Return how many calls are left; None if the record cannot be read, or lists are behind it."""
        query = TurnQuery(principal=principal, slot=slot, since=day_of(self._clock.now()), limit=min(limit, MOST_ROWS))
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                found = await self._reads.turns(query)  # each has one call of the slot at least
        except (StoreUnavailable, TimeoutError):
            return None
        if found.as_of is not None:
            return None
        full = len(found.rows) >= query.limit
        return 0 if full else max(0, limit - _calls_of(slot, found.rows))


class DailyCalls:
    """Returns the remaining calls of a user, to one dispatch of that user at a time."""

    def __init__(self, counts: CallCounts) -> None:
        self._counts = counts
        self._turns: WeakValueDictionary[Principal, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def counted(
        self, principal: Principal, dispatch_id: DispatchId, limits: Mapping[Slot, int]
    ) -> AsyncIterator[CallsLeft]:
        """Yield the calls that are left of some slots; to be left once the children of the dispatch are on record."""
        lock = self._turns.get(principal)
        if lock is None:
            lock = self._turns[principal] = asyncio.Lock()
        async with lock:
            yield {slot: await self._counts.left(principal, dispatch_id, slot, limit) for slot, limit in limits.items()}


def _calls_of(slot: Slot, rows: Iterable[TurnRow]) -> int:
    """Return how many children of a slot there are in some turns."""
    return sum(calls for row in rows for each, calls in zip(row.slots, row.calls, strict=True) if each == slot)
