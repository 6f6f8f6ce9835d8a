"""Removes old data once a day and leaves signed markers.

A marker is stored outside the database before its rows are removed; the verification of the record later accepts it
in their place. The supervisor owns the daily loop.

Source: SX-38, DESIGN section 10.
"""

import asyncio
from datetime import timedelta
from typing import Final

from msgspec import Struct

from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.journal.markers import removal_of
from sidecar.core.verifying.checkpoint_lines import retention_of
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.record.checkpoint_ports import CheckpointSigner, CheckpointStore, CheckpointStoreUnavailable
from sidecar.operations.record.ports import RecordArchive

DAY: Final = timedelta(days=1)
"""The pause between two rounds."""
LEAST_AUDIT: Final = timedelta(days=90)
"""The record of delegations is kept for at least this time, whatever the settings say."""
RETENTION_FAILED: Final = "retention_failed"


class RetentionRules(Struct, frozen=True):
    """How long each kind of data is kept.

    Attributes:
        audit: all turns of a day, counted from the end of the last of them; at least 90 days.
        frames: runners' messages, for replay, counted from the end of the turn.
    """

    audit: timedelta
    frames: timedelta

    def __post_init__(self) -> None:
        """Refuse a retention that is too short."""
        if self.audit < LEAST_AUDIT:
            raise ValueError(f"the audit record is kept for {LEAST_AUDIT.days} days or more, not {self.audit.days}")


class Retention:
    """Removes data that is older than the rules allow.

    Args:
        archive: the record.
        rules: how long each kind of data is kept.
        signer: signs the markers.
        place: receives every marker before data is removed.
        clock: the time that ages are computed from.
        recorder: receives every failure.

    Attributes:
        turns, attempts: how many have been removed.
    """

    def __init__(
        self,
        archive: RecordArchive,
        rules: RetentionRules,
        signer: CheckpointSigner,
        place: CheckpointStore,
        clock: Clock,
        recorder: Recorder,
    ) -> None:
        """Begin with nothing removed."""
        self._archive = archive
        self._rules = rules
        self._signer = signer
        self._place = place
        self._clock = clock
        self._recorder = recorder
        self.turns = 0
        self.attempts = 0

    async def run(self) -> None:
        """Remove old data at the start and then once a day."""
        while True:
            await self.remove()
            await asyncio.sleep(DAY.total_seconds())

    async def remove(self) -> None:
        """Remove the data that is old enough. A failure is an anomaly; the next day repeats it."""
        now = self._clock.now()
        try:
            before = now - self._rules.audit
            # Whole days only: the running root of a day can be verified or covered by a marker, but not cut.
            roots = await self._archive.removable(before)
            markers = [removal_of(root, before, now, self._signer) for root in roots]
            if markers:
                # The marker first: after a crash in between, a marker exists for facts that are still there, which is
                # harmless. Facts that are missing without a marker would be a finding of `verify-log`.
                await self._place.append([retention_of(marker) for marker in markers])
                self.turns += await self._archive.remove(markers)
            # Frames need no marker: no link covers them, so their absence is no finding.
            self.attempts += await self._archive.remove_frames(now - self._rules.frames)
        # A conflict: after the roots were read, a fact was appended to one of the days, or another sidecar removed a
        # day. Nothing was removed here, and the next round reads the roots again.
        except (StoreUnavailable, CheckpointStoreUnavailable, RecordConflict) as problem:
            self._recorder.anomaly(RETENTION_FAILED, str(problem))
