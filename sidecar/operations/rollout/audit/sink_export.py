"""Sends audit events to one sink, with its own pace and back-off. Source: PF1-FR-10c, TN-85.

The loop that first sees that all sinks have accepted a row marks it as exported in the record.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.events import TransitionEvent
from sidecar.operations.ports import Clock
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rollout.store.ports import AuditRow, RolloutRecorder, RolloutStore
from sidecar.policy.audit import AuditEntry, AuditSink, SinkUnavailable

INTERVAL: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(minutes=1)
# One replica exports at a time. If its sink is broken, the others export rows of this age, possibly twice.
TAKEN_OVER_AFTER: Final = timedelta(minutes=1)
LONGEST_TAKE: Final = 10.0
"""Seconds for one batch."""
LONGEST_READ: Final = 5.0
"""Seconds for one access to the store."""
BATCH: Final = 200
"""Rows of one call of a sink."""
LONGEST_PROBLEM: Final = 300
"""The most characters of a sink's error that are stored."""
MOST: Final = 5_000
"""The most unexported rows that one search reads. Many may not be due: they wait for a bind, or for another sink."""


class SinkExport(Struct, kw_only=True):
    """The loop of one sink.

    Attributes:
        instance: of this replica.
        taken: by sink, the numbers of rows that it has accepted and that are not marked as exported yet; all loops
            share this mapping.
        handed_on: number of exported events.
        problem: why the sink has not accepted its last batch; empty: it has.
        longest_take: seconds for one batch.
    """

    name: str
    sink: AuditSink
    store: RolloutStore
    instance: InstanceId
    clock: Clock
    recorder: RolloutRecorder
    taken: Mapping[str, set[int]]
    handed_on: int = 0
    problem: str = ""
    longest_take: float = LONGEST_TAKE
    _waiting_since: datetime | None = None
    _failures: int = 0

    @property
    def waiting_seconds(self) -> float:
        """Age of the oldest event that this sink has not accepted; 0 if there is none."""
        since = self._waiting_since
        return 0.0 if since is None else max(0.0, (self.clock.now() - since).total_seconds())

    @property
    def pause(self) -> timedelta:
        """The time until the next pass; it doubles with each consecutive failure."""
        # The exponent is limited: a sink may fail for weeks, and the number would grow with each failure.
        return min(INTERVAL * (1 << min(self._failures, 10)), LONGEST_PAUSE)

    async def run(self) -> None:
        """Make passes periodically; the supervisor owns this loop."""
        while True:
            await self.look()
            await asyncio.sleep(self.pause.total_seconds())

    async def look(self) -> None:
        """Export the waiting rows, batch after batch, until none is left or the sink or the store fails."""
        while (finished := await self._export_some()) is None:
            pass
        self._failures = 0 if finished else self._failures + 1

    async def _export_some(self) -> bool | None:
        """Export some rows. None: there may be more; True: none is left; False: the sink or the store failed."""
        ready = await self._ready()
        if isinstance(ready, StoreUnavailable):
            return False
        fresh = self._fresh(ready)
        self._waiting_since = min((_due_since(row) for row in fresh), default=None)
        if not fresh:
            self.problem = ""  # another replica has exported the rows that this one could not
        # Without fresh rows, the replicas need not be read.
        all_due = not fresh or await self._exports_here()
        due = fresh if all_due else [row for row in fresh if self._is_old(row)]
        sent = await self._send_all(due)
        # Also after a failure: all sinks may have accepted other rows of these in the meantime.
        marked = await self._mark_exported(ready)
        if not sent or not marked:
            return False
        return None if due else True

    async def _ready(self) -> Sequence[AuditRow] | StoreUnavailable:
        """Return the rows that may be exported: transitions once they have taken effect, all other rows at once."""
        limit = BATCH
        while True:
            unexported = await read_within(self.store.unexported(limit), LONGEST_READ)
            if isinstance(unexported, StoreUnavailable):
                return unexported
            ready = [row for row in unexported if row.effective_at or not isinstance(row.body, TransitionEvent)]
            if len(unexported) < limit:
                # These are all rows that are not marked as exported. Numbers of marked rows are not needed any more.
                self.taken[self.name].intersection_update(row.number for row in unexported)
            if self._fresh(ready) or len(unexported) < limit or limit >= MOST:
                return ready
            limit = min(limit * 5, MOST)  # rows that wait for a bind or for another sink must not block the rest

    def _fresh(self, rows: Sequence[AuditRow]) -> Sequence[AuditRow]:
        """Return the rows that this sink has not accepted yet."""
        return [row for row in rows if row.number not in self.taken[self.name]]

    async def _send_all(self, rows: Sequence[AuditRow]) -> bool:
        """Send rows to the sink until it fails; return whether it has accepted all."""
        for batch in _batches(rows):
            if not await self._send(batch):
                return False
        return True

    async def _send(self, rows: Sequence[AuditRow]) -> bool:
        """Send one batch to the sink; return whether the sink has accepted it."""
        try:
            async with asyncio.timeout(self.longest_take):
                await self.sink.take([_entry(row) for row in rows])
        except SinkUnavailable as refused:
            return self._report_failure(str(refused)[:LONGEST_PROBLEM])
        except Exception as error:  # noqa: BLE001  the border to a plugin: whatever it raises, the rows stay
            return self._report_failure(type(error).__name__)
        self.problem = ""
        # After the sink has accepted: a row that counted before would be lost if the sink failed now.
        self.taken[self.name].update(row.number for row in rows)
        self.handed_on += len(rows)
        return True

    def _report_failure(self, why: str) -> bool:
        """Store and report why the sink failed. Returns False, the result of the send."""
        self.problem = why
        self.recorder.anomaly("audit_sink_failed", f"{self.name}: {why}")
        return False

    async def _mark_exported(self, rows: Sequence[AuditRow]) -> bool:
        """Mark the rows that all sinks have accepted as exported; return whether the store did so."""
        # All sinks: retention may remove exported rows, and a sink that was down would never get them.
        done = [row for row in rows if all(row.number in numbers for numbers in self.taken.values())]
        for batch in _batches(done):
            if isinstance(await read_within(self.store.exported(batch), LONGEST_READ), StoreUnavailable):
                return False
        return True

    async def _exports_here(self) -> bool:
        """Return whether this replica exports now: the living one with the smallest id."""
        # If the replicas are unknown, another one may be exporting, so rows wait until they are old.
        # The smallest id, because each replica can find it without an agreement with the others.
        replicas = await read_within(self.store.replicas(), LONGEST_READ)
        if isinstance(replicas, StoreUnavailable):
            return False
        instance = self.instance
        return instance <= min((each.instance for each in replicas if each.alive), default=instance)

    def _is_old(self, row: AuditRow) -> bool:
        return self.clock.now() - _due_since(row) >= TAKEN_OVER_AFTER


def _batches(rows: Sequence[AuditRow]) -> Iterator[Sequence[AuditRow]]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def _due_since(row: AuditRow) -> datetime:
    """Return the time from which a row may be exported."""
    return row.effective_at or row.body.at


def _entry(row: AuditRow) -> AuditEntry:
    body = row.body
    # The same at every attempt and replica, so that a sink can recognise an event that it gets twice.
    event_id = body.event_id if isinstance(body, TransitionEvent) else f"{row.slot}/{row.number}"
    return AuditEntry(event_id, row.number, body, row.effective_at)
