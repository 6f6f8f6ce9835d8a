"""A store that is slow, refuses, or does not say what it did. It never loses what it confirmed."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from sidecar.adapters.virtual_time import Trace, VirtualLoop
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened, Record
from sidecar.core.identifiers import EpisodeId, Slot


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """How often, as a share of the appends."""

    refuses: float = 0.0
    forgets_to_answer: float = 0.0
    slow: float = 0.0
    slow_reads: float = 0.0


@dataclass(slots=True)
class Append:
    """One request to append; `committed_at` None while it is not durable."""

    records: Sequence[Record]
    submitted_at: float
    committed_at: float | None = None
    waiting: asyncio.Future[None] | None = field(default=None, repr=False)


class FaultyStore:
    """One writer that commits in the order of the requests, whatever became of those who asked."""

    waits = True

    def __init__(self, loop: VirtualLoop, chance: Random, faults: StoreFaults, counted: Counter[str]) -> None:
        """Begin empty."""
        self._loop = loop
        self._chance = chance
        self._faults = faults
        self._counted = counted
        self._trace: Trace = loop._trace
        self._queue: deque[Append] = deque()
        self.appends: list[Append] = []
        self.records: dict[str, Record] = {}
        self.durable_at: dict[str, float] = {}
        self.last_called: dict[EpisodeId, tuple[Slot, ...]] = {}

    def heal(self) -> None:
        """Work well from now on."""
        self._faults = StoreFaults()

    async def append(self, records: Sequence[Record]) -> None:
        """Keep `records`, sooner or later, or refuse."""
        append = Append(tuple(records), self._loop.time())
        self.appends.append(append)
        draw = self._chance.random()
        faults = self._faults
        if draw < faults.refuses:
            self._counted["store refuses"] += 1
            raise StoreUnavailable("the store is away")
        slow = draw > 1.0 - faults.slow
        self._counted["store slow"] += slow
        self._queue.append(append)
        self._loop.call_later(self._chance.uniform(0.3, 4.0) if slow else self._chance.uniform(0, 0.004), self._commit)
        append.waiting = self._loop.create_future()
        await append.waiting
        if draw < faults.refuses + faults.forgets_to_answer:
            self._counted["store commits and says it did not"] += 1
            raise StoreUnavailable("the answer was lost")

    def _commit(self) -> None:
        """Commit the oldest request."""
        append = self._queue.popleft()
        append.committed_at = self._loop.time()
        for record in append.records:
            if record.record_id not in self.records:
                self.records[record.record_id] = record
                self.durable_at[record.record_id] = append.committed_at
                self._trace.add(append.committed_at, f"durable {record.record_id}")
            if isinstance(record, RoutingRecord) and record.called:
                self.last_called[record.episode_id] = record.called
        if append.waiting is None or append.waiting.done():
            self._counted["store commits after the asker left"] += 1
        else:
            append.waiting.set_result(None)

    def children_opened(self) -> list[ChildOpened]:
        """Return the children that are on record."""
        return [record for record in self.records.values() if isinstance(record, ChildOpened)]

    async def child_events(self, child_id: str) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        return [each for each in self.records.values() if isinstance(each, ChildEvent) and each.child_id == child_id]

    async def routing_record(self, turn_id: str) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        record = self.records.get(f"{turn_id}/routing")
        return record if isinstance(record, RoutingRecord) else None

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return what the last turn called, perhaps too late."""
        if self._chance.random() < self._faults.slow_reads:
            self._counted["store slow to read"] += 1
            await asyncio.sleep(1.0)
        return self.last_called.get(episode_id, ())
