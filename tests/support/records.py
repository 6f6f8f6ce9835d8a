"""What the store of a running sidecar holds, read back by a test; and a store that can be away."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import CallSettled, ChildOpened, Record
from sidecar.core.journal.entries import Draft
from tests.support.harness import SidecarForTests

Kind = TypeVar("Kind")


def records_of(sidecar: SidecarForTests) -> tuple[Record, ...]:
    """Return everything that was appended, in order."""
    assert isinstance(sidecar.store, MemoryStore)
    return sidecar.store.records()


def kept(sidecar: SidecarForTests, kind: type[Kind]) -> list[Kind]:
    """Return the records of one kind, in order."""
    return [record for record in records_of(sidecar) if isinstance(record, kind)]


def events_of(sidecar: SidecarForTests, child_id: str) -> list[ChildEvent]:
    """Return the events of one child, in order."""
    return [event for event in kept(sidecar, ChildEvent) if event.child_id == child_id]


def event_names(sidecar: SidecarForTests, child_id: str) -> list[str]:
    """Return the names of a child's events without `agent.` and `subagent_`: `created`, `started`, `attempt`..."""
    return [event.name.removeprefix("agent.").removeprefix("subagent_") for event in events_of(sidecar, child_id)]


def event_named(sidecar: SidecarForTests, child_id: str, name: str) -> ChildEvent:
    """Return the one event of a child with a short name."""
    (found,) = [event for event in events_of(sidecar, child_id) if event.name.endswith(name)]
    return found


def opened_children(sidecar: SidecarForTests) -> list[ChildOpened]:
    """Return the rows of all children, in order."""
    return kept(sidecar, ChildOpened)


def settled_calls(sidecar: SidecarForTests) -> list[CallSettled]:
    """Return the outcomes that are on record, in order."""
    return kept(sidecar, CallSettled)


def row_of(sidecar: SidecarForTests, child_id: str) -> ChildOpened:
    """Return the row of a child."""
    return next(row for row in kept(sidecar, ChildOpened) if row.child_id == child_id)


def contract_of(sidecar: SidecarForTests, child_id: str) -> dict[str, Any]:
    """Return the stored contract of a child."""
    contract: dict[str, Any] = msgspec.json.decode(row_of(sidecar, child_id).context_json)
    return contract


class StoreThatCanBeAway(MemoryStore):
    """Keeps nothing while it is `away`; keeps everything and does not get round to saying so while it `is_cut_off`."""

    waits = True
    shared = True
    away = False
    is_cut_off = False

    async def append(self, records: Sequence[Draft]) -> None:
        """Append, or say that it cannot be confirmed."""
        if not self.away:
            await super().append(records)
        if self.away or self.is_cut_off:
            raise StoreUnavailable("the store is away", retry_after=timedelta(seconds=1))
