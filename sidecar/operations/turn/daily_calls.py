"""Counts the calls that a user has left today for sub-agents with a daily limit.

The count is read from the record for every dispatch, so it holds across restarts and replicas. Within this process, the
dispatches of one user are counted one after the other: the calls of one are recorded before the next is counted. Two
replicas may count at the same moment and admit too many calls together: for each further replica at most the calls of
one dispatch.
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
from sidecar.operations.record.timed_access import complete_turns

MOST_ROWS = 1000
"""The most turns that one count reads. A user with more turns in a day has no calls left."""


class CallCounts(Protocol):
    """Counts the calls of a slot that a user has left today."""

    async def left(self, principal: Principal, dispatch_id: DispatchId, slot: Slot, limit: int) -> int | None:
        """Return how many of `limit` calls a user has left today for a slot; None if that is unknown.

        `dispatch_id` is the dispatch that asks.
        """


class RecordedCallCounts:
    """Counts the recorded children.

    A turn belongs to the day on which it began. A call counts once its child is recorded; a call that waits in a queue
    has no child yet and does not count.
    """

    def __init__(self, reads: RecordReads, clock: Clock, patience: timedelta) -> None:
        self._reads, self._clock, self._patience = reads, clock, patience

    async def left(self, principal: Principal, dispatch_id: DispatchId, slot: Slot, limit: int) -> int | None:
        """Return how many calls are left; None if the record cannot be read, or its lists lag behind the journal."""
        query = TurnQuery(principal=principal, slot=slot, since=day_of(self._clock.now()), limit=min(limit, MOST_ROWS))
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                # Each returned turn has at least one call of the slot. A full page therefore means that the limit is
                # reached, whatever further pages contain.
                rows = await complete_turns(self._reads, query)
        except (StoreUnavailable, TimeoutError):
            return None
        full = len(rows) >= query.limit
        return 0 if full else max(0, limit - _calls_of(slot, rows))


class DailyCalls:
    """Returns the remaining calls of a user to one dispatch at a time."""

    def __init__(self, counts: CallCounts) -> None:
        self._counts = counts
        # Weak values: the lock of a user exists only while a dispatch holds or awaits it, so the dictionary does not
        # grow with the number of users.
        self._locks: WeakValueDictionary[Principal, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def counted(
        self, principal: Principal, dispatch_id: DispatchId, limits: Mapping[Slot, int]
    ) -> AsyncIterator[CallsLeft]:
        """Yield the remaining calls of some slots. Leave the context once the dispatch's children are recorded."""
        # There is no await between the lookup and the insertion: two dispatches of one user always get the same lock.
        # The local name keeps the lock alive, which the dictionary does not.
        lock = self._locks.get(principal)
        if lock is None:
            lock = self._locks[principal] = asyncio.Lock()
        # The lock covers the count and, because the caller keeps the context open, the append of the children. If it
        # were released after the count, two dispatches could both be admitted with the last call.
        async with lock:
            yield {slot: await self._counts.left(principal, dispatch_id, slot, limit) for slot, limit in limits.items()}


def _calls_of(slot: Slot, rows: Iterable[TurnRow]) -> int:
    """Return how many children of `slot` the turns have."""
    # `calls` has one number for each entry of `slots`, in the same order.
    return sum(calls for row in rows for called, calls in zip(row.slots, row.calls, strict=True) if called == slot)
