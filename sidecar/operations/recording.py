"""Putting things on record within a time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.operations.record_ports import Store


async def put_on_record(store: Store, records: Sequence[Record], until: float) -> StoreUnavailable | None:
    """Append `records`; return why not if that is not confirmed by `until` (of the loop's clock)."""
    if not records:
        return None
    try:
        if store.waits:
            async with asyncio.timeout_at(until):
                await store.append(records)
        else:
            await store.append(records)
    except TimeoutError:
        return StoreUnavailable("the store did not answer in time", retry_after=timedelta(seconds=1))
    except StoreUnavailable as refused:
        return refused
    return None
