"""The store port, in memory. "Durable" means here: as long as the process lives."""

from collections import OrderedDict
from collections.abc import Sequence

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened, Record
from sidecar.core.identifiers import EpisodeId, Slot


class MemoryStore:
    """Keeps records by id, in order of their first append; the oldest turns are forgotten first.

    Args:
        kept: most records kept.

    Attributes:
        waits: never, see the port.
    """

    waits = False

    def __init__(self, kept: int = 200_000) -> None:
        """Begin empty."""
        self._kept = kept
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._events: dict[str, list[ChildEvent]] = {}
        self._last_dispatched: OrderedDict[EpisodeId, tuple[Slot, ...]] = OrderedDict()

    async def append(self, records: Sequence[Record]) -> None:
        """Keep `records`; one that is kept already is left as it is."""
        for record in records:
            if self._records.setdefault(record.record_id, record) is not record:
                continue
            if isinstance(record, ChildEvent):
                self._events.setdefault(record.child_id, []).append(record)
            elif isinstance(record, RoutingRecord) and record.called:
                self._last_dispatched[record.episode_id] = record.called
        while len(self._records) > self._kept:
            self._forget(self._records.popitem(last=False)[1])

    async def child_events(self, child_id: str) -> Sequence[ChildEvent]:
        """Return the events of one child in order."""
        return tuple(self._events.get(child_id, ()))

    async def routing_record(self, turn_id: str) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        record = self._records.get(f"{turn_id}/routing")
        return record if isinstance(record, RoutingRecord) else None

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last turn that called any."""
        return self._last_dispatched.get(episode_id, ())

    def records(self) -> tuple[Record, ...]:
        """Return everything, in order of append; for tests and the demo's timelines."""
        return tuple(self._records.values())

    def _forget(self, record: Record) -> None:
        if isinstance(record, ChildOpened):
            self._events.pop(record.child_id, None)
        elif isinstance(record, RoutingRecord):
            self._last_dispatched.pop(record.episode_id, None)
