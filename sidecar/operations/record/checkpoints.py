"""Signs the running roots of this instance at an interval, and keeps the signed lines outside the database.

A running root is a hash over the facts of one instance and one day. Facts after the newest checkpoint are
protected only by the hash links of their turn: the interval limits how many of them can be cut off unseen. Source:
DESIGN section 10.
"""

import asyncio
from datetime import date, timedelta
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.verifying.audit_chain import AuditHead
from sidecar.core.verifying.checkpoint_lines import RootKey, audit_statement, checkpoint_of
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.record.checkpoint_ports import AuditChain, CheckpointStore, CheckpointStoreUnavailable
from sidecar.operations.record.ports import RecordArchive

CHECKPOINT_FAILED: Final = "checkpoint_failed"
ROOT_DIFFERS: Final = "checkpoint_root_differs"


class Checkpointing:
    """Writes a checkpoint for each running root that has grown since its last one. Failures are reported, never raised.

    Args:
        archive: reads the running roots.
        instance: owner of the roots to sign. The first round also signs those of other instances, which may have been
            killed before their last checkpoint.
        place: stores the checkpoints.
        interval: pause between two rounds.
        clock: gives the time of each checkpoint, and measures `waiting_seconds`.
        recorder: receives an anomaly for every failure.
        audit: the audit of rollouts; its newest link is signed, too.

    Attributes:
        written: number of signed lines.
        failures: number of rounds that could not sign, because the record or the place was unavailable.
    """

    def __init__(
        self,
        archive: RecordArchive,
        instance: InstanceId,
        place: CheckpointStore,
        interval: timedelta,
        clock: Clock,
        recorder: Recorder,
        audit: AuditChain | None = None,
    ) -> None:
        """Begin without a checkpoint."""
        self._audit = audit
        self._signed_audit = AuditHead()
        self._archive = archive
        self._instance = instance
        self._place = place
        self._interval = interval
        self._clock = clock
        self._recorder = recorder
        self._signed: dict[RootKey, RootState] = {}
        """The newest signed state of each root."""
        self._since: date | None = None
        """See `CheckpointHead.since`."""
        self._failing_since: float | None = None
        self._looking_since: float | None = None
        self._begun = False
        self.written = 0
        self.failures = 0

    @property
    def waiting_seconds(self) -> float:
        """Seconds since the first failed round or the start of a round that still runs; 0 between successful rounds."""
        since = self._looking_since if self._failing_since is None else self._failing_since
        return 0.0 if since is None else self._clock.monotonic() - since

    async def run(self) -> None:
        """Sign in rounds, without end."""
        while True:
            await self.look()
            await asyncio.sleep(self._interval.total_seconds())

    async def look(self) -> None:
        """Run one round; the first one also signs the roots of other instances."""
        # A disk that hangs raises nothing: without this time `waiting_seconds` would stay 0.
        self._looking_since = self._clock.monotonic()
        try:
            await self._look()
        finally:
            self._looking_since = None

    async def _look(self) -> None:
        try:
            # Until a round succeeds, and not only in the first one: the store may have been unavailable then.
            if not self._begun:
                newest = await self._place.standing()
                self._signed, self._since = dict(newest.roots), newest.since
                self._signed_audit = newest.audit
            # Roots are read before the time is taken, so a checkpoint never claims a later state than it signs.
            # Only roots with new facts: a line for an unchanged root would say nothing new and let the file grow.
            moved = [state for state in await self._archive.roots() if self._has_moved(state)]
            head = AuditHead() if self._audit is None else await self._audit.audit_head()
            now = self._clock.now()
            statements = [checkpoint_of(state, now) for state in moved]
            if self._audit_has_moved(head):
                statements.append(audit_statement(head, self._instance, now))
            if statements:
                await self._place.append(statements)
        except (StoreUnavailable, CheckpointStoreUnavailable) as problem:
            self.failures += 1
            if self._failing_since is None:
                self._failing_since = self._clock.monotonic()
            self._recorder.anomaly(CHECKPOINT_FAILED, str(problem))
            return
        # Only after the append: a round that failed must sign the same roots again, including those of other instances.
        self._begun, self._failing_since = True, None
        self.written += len(statements)
        if self._signed_audit.number < head.number:  # never back: an older head is a contradiction, not the new state
            self._signed_audit = head
        self._signed.update((RootKey(state.instance, state.day), state) for state in moved)

    def _audit_has_moved(self, head: AuditHead) -> bool:
        """Return whether to sign the audit's head. A head that contradicts the signed one is reported instead."""
        signed = self._signed_audit
        if head.number < signed.number or (head.number == signed.number and head.link != signed.link):
            if self._audit is not None:
                self._recorder.anomaly(ROOT_DIFFERS, f"audit: {signed.number} was signed, now {head.number}")
            return False
        return head.number > signed.number

    def _has_moved(self, state: RootState) -> bool:
        """Return whether to sign a root. A root that contradicts the signed one is reported, not signed."""
        if self._begun and state.instance != self._instance:
            return False  # that instance signs its own roots, or it ended and the first round signed them
        signed = self._signed.get(RootKey(state.instance, state.day))
        if signed is None:
            # Roots of earlier days count as signed: their lines were not read.
            return self._since is None or state.day >= self._since
        if state.number < signed.number or (state.number == signed.number and state.root != signed.root):
            where = f"{state.instance} of {state.day}"
            self._recorder.anomaly(ROOT_DIFFERS, f"{where}: {signed.number} was signed, now {state.number}")
            return False
        return state.number > signed.number
