"""Hands audit events to every sink, and forgets none. Source: PF1-FR-10c, TN-85, DESIGN section 8.

The rows are on record before anything is exported. One replica at a time hands them on, the first of those alive by its
id; another one takes over what has waited for long. What a replica handed on just before it died may come twice: sinks
know it by its `event_id`. Sinks are handed rows side by side: one that is away, or hangs, keeps no row from the others,
up to `MOST` of them.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.events import TransitionEvent
from sidecar.operations.ports import Clock
from sidecar.operations.recording import in_time
from sidecar.operations.rollout.ports import AuditRow, RolloutRecorder, RolloutStore
from sidecar.policy.audit import AuditEntry, AuditSink

INTERVAL: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)
TAKEN_OVER_AFTER: Final = timedelta(minutes=1)
LONGEST_TAKE: Final = 10.0
"""Seconds for one sink and one batch."""
LONGEST_READ: Final = 5.0
BATCH: Final = 200
MOST: Final = 5_000
"""Rows that are looked through for some that may be exported, and that wait for a sink while the others have them."""


class AuditExport:
    """The loop.

    Args:
        sinks: by name; without any, rows wait.
        instance: of this replica.

    Attributes:
        handed_on: events, by sink.
    """

    def __init__(
        self,
        store: RolloutStore,
        sinks: Mapping[str, AuditSink],
        instance: InstanceId,
        clock: Clock,
        recorder: RolloutRecorder,
    ) -> None:
        """Begin with nothing handed on."""
        self._store = store
        self._sinks = dict(sinks)
        self._instance = instance
        self._clock = clock
        self._recorder = recorder
        self._taken: dict[str, set[int]] = {name: set() for name in self._sinks}
        self._waiting_since: datetime | None = None
        self._failures = 0
        self.handed_on = dict.fromkeys(self._sinks, 0)

    @property
    def waiting_seconds(self) -> float:
        """Age of the oldest event that could not be handed to every sink; 0 while all is well."""
        since = self._waiting_since
        return 0.0 if since is None else max(0.0, (self._clock.now() - since).total_seconds())

    @property
    def pause(self) -> timedelta:
        """How long to wait before the next look: longer with each failure in a row."""
        return min(INTERVAL * (1 << min(self._failures, 10)), LONGEST_PAUSE)

    async def run(self) -> None:
        """Look for ever; owned by the supervisor."""
        while True:
            await self.look()
            await asyncio.sleep(self.pause.total_seconds())

    async def look(self) -> None:
        """Hand on what waits, batch after batch, until nothing does or a sink or the store fails."""
        while True:
            rows = await self._ready()
            if isinstance(rows, StoreUnavailable):
                self._failures += 1
                return
            self._waiting_since = min((_since(row) for row in rows), default=None)
            mine = rows if await self._is_mine() else [row for row in rows if self._is_old(row)]
            if not mine or not self._sinks:
                self._failures = 0
                return
            if not await self._hand_on(mine):
                self._failures += 1
                return

    async def _ready(self) -> Sequence[AuditRow] | StoreUnavailable:
        """Return rows that may be exported: transitions from when they took effect, everything else at once."""
        limit = MOST if self._failures else BATCH  # the sinks that are there get on while one is away
        while True:
            found = await in_time(self._store.unexported(limit), LONGEST_READ)
            if isinstance(found, StoreUnavailable):
                return found
            ready = [row for row in found if row.effective_at or not isinstance(row.body, TransitionEvent)]
            if ready or len(found) < limit or limit >= MOST:
                return ready
            limit = min(limit * 5, MOST)  # a wall of transitions that no turn has met must not hold up the others

    async def _hand_on(self, rows: Sequence[AuditRow]) -> bool:
        """Hand rows to every sink that has not taken them yet; returns whether all have now, and it is noted."""
        whole = await asyncio.gather(*(self._given_all(name, sink, rows) for name, sink in self._sinks.items()))
        done = [row for row in rows if all(row.number in numbers for numbers in self._taken.values())]
        for batch in _batches(done):
            noted = await in_time(self._store.exported(batch), LONGEST_READ)
            if isinstance(noted, StoreUnavailable):
                return False
            for numbers in self._taken.values():
                numbers.difference_update(row.number for row in batch)
        return all(whole)

    async def _given_all(self, name: str, sink: AuditSink, rows: Sequence[AuditRow]) -> bool:
        """Hand a sink what it has not taken yet, until it fails."""
        fresh = [row for row in rows if row.number not in self._taken[name]]
        for batch in _batches(fresh):
            if not await self._given(name, sink, batch):
                return False
        return True

    async def _given(self, name: str, sink: AuditSink, fresh: Sequence[AuditRow]) -> bool:
        try:
            async with asyncio.timeout(LONGEST_TAKE):
                await sink.take([_entry(row) for row in fresh])
        except Exception as error:  # noqa: BLE001  the border to a plugin: whatever it raises, the rows stay
            self._recorder.anomaly("audit_sink_failed", f"{name}: {type(error).__name__}")
            return False
        self._taken[name].update(row.number for row in fresh)
        self.handed_on[name] += len(fresh)
        return True

    async def _is_mine(self) -> bool:
        """Say whether it is this replica that exports."""
        replicas = await in_time(self._store.replicas(), LONGEST_READ)
        if isinstance(replicas, StoreUnavailable):
            return False
        return self._instance <= min((each.instance for each in replicas if each.alive), default=self._instance)

    def _is_old(self, row: AuditRow) -> bool:
        return self._clock.now() - _since(row) >= TAKEN_OVER_AFTER


def _batches(rows: Sequence[AuditRow]) -> Iterator[Sequence[AuditRow]]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def _since(row: AuditRow) -> datetime:
    return row.effective_at or row.body.at


def _entry(row: AuditRow) -> AuditEntry:
    body = row.body
    event_id = body.event_id if isinstance(body, TransitionEvent) else f"{row.slot}/{row.number}"
    return AuditEntry(event_id, row.number, body, row.effective_at)
