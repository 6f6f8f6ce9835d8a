"""Reads and writes the record with a time limit, and reads lists that decide."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery, TurnRow
from sidecar.core.journal.entries import Draft
from sidecar.operations.deadlines import Deadlines, deadline_at
from sidecar.operations.ready_list import Refusal
from sidecar.operations.record.ports import RecordReads, Store

Found = TypeVar("Found")

LISTED_AGAIN: Final = timedelta(seconds=1)
"""The time after which a list that lagged behind the journal should be read again."""


async def append_within(
    store: Store, drafts: Sequence[Draft], until: float, deadlines: Deadlines | None = None
) -> Refusal:
    """Append `drafts`; return why they are not confirmed by `until` (event loop's clock), or None.

    The time limit is one of the caller's `deadlines`, or else a separate timer.
    """
    if not drafts:
        return None
    try:
        if store.waits:
            at = asyncio.get_running_loop().call_at if deadlines is None else deadlines.at
            # The time limit ends the wait and not the append, which may still succeed: callers keep the drafts and
            # append them again.
            await deadline_at(until, store.append(drafts), at)
        else:
            await store.append(drafts)  # a store in memory: a timer would cost more than the append
    except TimeoutError:
        return StoreUnavailable("the store did not answer in time", retry_after=timedelta(seconds=1))
    except (StoreUnavailable, RecordConflict) as refused:
        return refused
    return None


async def read_within(reading: Awaitable[Found], seconds: float) -> Found | StoreUnavailable:
    """Return the result of a read, or of a write that may be repeated; `StoreUnavailable`: none within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        return StoreUnavailable("the store did not answer in time", retry_after=timedelta(seconds=1))
    except StoreUnavailable as refused:
        return refused


async def complete_turns(reads: RecordReads, query: TurnQuery) -> tuple[TurnRow, ...]:
    """Return a page of turns that contains every acknowledged turn, for a decision.

    Raises `StoreUnavailable`, also if the lists lag behind the journal: recent turns may be missing then.
    """
    page = await reads.turns(query)
    # A list is complete only up to `as_of`. A budget or a limit that is computed from it could count too little.
    if page.as_of is not None:
        raise StoreUnavailable("the lists are behind: recent turns may be missing", retry_after=LISTED_AGAIN)
    return page.rows
